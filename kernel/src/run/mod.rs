//! One execution of a plan: what happens next, as pure decisions.

mod state;

pub use state::{Category, NodeState, Reason, RunOutcome};
