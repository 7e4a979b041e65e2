//! Findings of an examination of the journal.

use ostler_kernel::id::ClientId;

use crate::format::damage::Damage;
use crate::format::quarantine_list::Quarantined;

/// Damage of a journal, and the runs, pipelines and clients affected.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// All damage.
    pub damages: Vec<Damage>,
    /// Unreadable bytes.
    pub bytes_lost: u64,
    /// Affected runs not quarantined before.
    pub runs: Vec<Quarantined>,
    /// Affected pipelines. Events are numbered by their place in the log, so none may be missing: repairing moves the remaining
    /// records out of the journal.
    pub pipelines: Vec<PipelineLoss>,
    /// Clients with lost records: terms, credits or agents.
    pub clients: Vec<ClientLoss>,
    /// True if the index still knows all charges in lost records.
    pub charges_known: bool,
    /// True if clients other than [`Findings::clients`] may have lost records.
    pub clients_unsure: bool,
    /// True if the list of quarantined runs is damaged.
    pub list_damaged: bool,
    /// Files in the journal's folder with unchanged copies of the damaged segments.
    pub kept: Vec<String>,
}

impl Findings {
    /// Returns whether a repair would change nothing.
    pub fn is_empty(&self) -> bool {
        self.is_whole() && self.runs.is_empty() && self.pipelines.is_empty() && !self.list_damaged
    }

    pub(super) fn is_whole(&self) -> bool {
        self.damages.iter().all(|damage| damage.torn)
    }
}

/// A client with lost records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLoss {
    /// The client's name; `None` if no remaining record has the name.
    pub client: Option<ClientId>,
    /// Description of the loss.
    pub what: String,
}

/// A pipeline with lost records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineLoss {
    /// The pipeline's name; `None` if the record with the name is lost.
    pub pipeline: Option<String>,
    /// Description of the loss.
    pub what: String,
    /// Number of readable records.
    pub moved: u64,
    /// Name of the file for the readable records, in the journal's folder: one JSON line per record.
    pub remains: String,
}
