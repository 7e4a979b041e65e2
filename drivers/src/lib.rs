//! ostler-drivers
