//! ostler-scheduler
