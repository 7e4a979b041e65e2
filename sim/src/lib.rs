//! ostler-sim
pub mod queue;
