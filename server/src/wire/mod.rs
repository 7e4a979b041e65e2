//! Requests and responses of the API, serialised by the server and deserialised by the command line.
//!
//! Rows of lists are the types of `ostler_actors` themselves; the other types exist only here.

mod again;
mod agents;
pub(crate) mod amounts;
mod approvals;
mod candidates;
mod clients;
mod estimates;
mod evaluation;
mod gate_controls;
mod goals;
mod grants;
mod graph;
mod market;
mod operators;
mod output;
mod pipelines;
mod problem;
mod recall;
mod run_requests;
mod run_summary;
mod runs;
mod templates;
mod text;
mod verdicts;
mod waits;

use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::CLIENT_DEFAULT;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use again::*;
pub use agents::*;
pub use amounts::*;
pub use approvals::*;
pub use candidates::*;
pub use clients::*;
pub use estimates::*;
pub use evaluation::*;
pub use gate_controls::*;
pub use goals::*;
pub use grants::*;
pub use graph::*;
pub use market::*;
pub use operators::*;
pub use ostler_actors::{
    AgentRow, BalanceRow, ClientRow, ClientTier, DeadLetterRow, Gap, JobRow, ModelExchange, ModelExchanges,
    PipelineRow, ProposalRow, QueueRow, StageRow, TextPart, TextPosition, TreeRow,
};
pub use output::*;
pub use pipelines::*;
pub use problem::*;
pub use recall::*;
pub use run_requests::*;
pub use run_summary::*;
pub use runs::*;
pub use templates::{LearntPlan, TemplateRecords};
pub use text::*;
pub use verdicts::*;
pub use waits::*;

/// The answer to `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// Process id.
    pub pid: u32,
    /// Version of the process.
    pub version: String,
    /// Number of active runs.
    pub active: usize,
    /// The reason why appends wait for disk space; `None`: there is space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_full: Option<String>,
    /// The process is shutting down: it reads and cancels runs and refuses other requests, and waits at most the long for
    /// attempts with effects. `None`: no shutdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving_within_ms: Option<u64>,
}

fn default_client() -> String {
    CLIENT_DEFAULT.to_owned()
}

fn default_scope() -> String {
    SCOPE_DEFAULT.to_owned()
}

/// The serialised word of a variant, as in plan files and journals.
pub(crate) fn word(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).ok();
    value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}
