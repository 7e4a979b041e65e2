//! What is said over the API, as both sides read and write it.

mod agents;
mod approvals;
mod clients;
mod evaluation;
mod graph;
mod market;
mod pipelines;
mod problem;
mod runs;

use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::CLIENT_DEFAULT;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use agents::*;
pub use approvals::*;
pub use clients::*;
pub use evaluation::*;
pub use graph::*;
pub use market::*;
pub use pipelines::*;
pub use problem::*;
pub use runs::*;

/// The answer to `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The process that answers.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Runs it drives.
    pub active: usize,
    /// Why what has no room waits for some; absent: there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_full: Option<String>,
    /// It lets go of the data folder, and waits no longer than so for what acts on the world; until then it takes looks and
    /// cancels runs, and nothing else. Absent: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving_within_ms: Option<u64>,
}

/// Who pays, where a request does not say.
fn local() -> String {
    CLIENT_DEFAULT.to_owned()
}

/// The most impact, where a request does not say.
fn operate() -> u8 {
    1
}

/// The scope, where a request does not say.
fn default_scope() -> String {
    SCOPE_DEFAULT.to_owned()
}

/// The word of plan files and journals for a variant.
pub(crate) fn word(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).ok();
    value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}
