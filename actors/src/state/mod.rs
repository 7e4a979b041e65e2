//! In-memory state rebuilt from the journal.

pub(crate) mod active_runs;
pub(crate) mod contracts;
pub(crate) mod estimates;
pub(crate) mod ledger;
pub(crate) mod market;
pub(crate) mod plans;
pub(crate) mod profiles;
pub(crate) mod run_budgets;
pub(crate) mod toolbox;
