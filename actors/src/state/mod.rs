//! State of the process: caches of the journal, and the tables of what runs.

pub(crate) mod active_runs;
pub(crate) mod attempt_slot;
pub(crate) mod attempt_table;
pub(crate) mod call_accounts;
pub(crate) mod call_totals;
pub(crate) mod callbacks;
pub(crate) mod caller;
pub(crate) mod clearance;
pub(crate) mod contracts;
pub(crate) mod estimates;
pub(crate) mod evaluation;
pub(crate) mod exposures;
pub(crate) mod gatekeeper;
pub(crate) mod goal_tools;
pub(crate) mod grants;
pub(crate) mod holds;
pub(crate) mod kernel_context;
pub(crate) mod ledger;
pub(crate) mod live_text;
pub(crate) mod market;
pub(crate) mod profiles;
pub(crate) mod rates;
pub(crate) mod retractions;
pub(crate) mod run_budgets;
pub(crate) mod toolbox;
pub(crate) mod verdicts;
