//! The public surface of a running system: the handle `System` and the operations it offers.

pub(crate) mod approval;
pub(crate) mod assembly;
pub(crate) mod call_account;
pub(crate) mod call_audit;
pub(crate) mod child_runs;
pub(crate) mod clients;
pub(crate) mod devices;
pub(crate) mod earlier;
pub(crate) mod evaluations;
pub(crate) mod exchanges;
pub(crate) mod grants;
pub(crate) mod market;
pub(crate) mod outcome;
pub(crate) mod pipeline_handle;
pub(crate) mod pipelines;
pub(crate) mod publisher;
pub(crate) mod resolve;
pub(crate) mod run_control;
pub(crate) mod spawn;
pub(crate) mod status;
pub(crate) mod submission;
pub(crate) mod supervision;
pub(crate) mod system;
pub(crate) mod templates;
pub(crate) mod tree;
pub(crate) mod view;
