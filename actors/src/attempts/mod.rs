//! Attempts: what executes outside the actors, the journal that each keeps, and agents written as code.

pub(crate) mod approval_request;
pub(crate) mod attempt;
pub(crate) mod attempt_journal;
pub(crate) mod call_bill;
pub(crate) mod call_budget;
pub(crate) mod child_runs;
pub(crate) mod children;
pub(crate) mod executor;
pub(crate) mod gated_call;
mod model_judge;
pub(crate) mod model_turns;
pub(crate) mod program;
