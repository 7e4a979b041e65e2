//! The event journal: streams, records, the tables derived from them, and the trait [`Journal`].

use serde::{Deserialize, Serialize};

use super::BoxFuture;
use crate::evaluation::Reputation;
use crate::event::{Accounts, Evaluated, Event, RecordPlace, RunOpened};
use crate::id::{AgentId, ClientId, Digest, PipelineId, RunId, Ticks};
use crate::ledger::Amounts;
use crate::run::RunOutcome;

/// Sequence number of a record within its stream, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Seq(pub u64);

/// Position of a batch in the order of the whole journal. Positions only compare; there may be gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// A stream of the journal. The partition is a hash of the client's name, so all streams of a client move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Partition, 0..[`PARTITIONS`].
    pub partition: u16,
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Id of the run, or the first half of the digest of the client's or pipeline's name.
    pub key: [u8; 16],
}

/// Kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StreamKind {
    /// One run: owns its attempts and their costs.
    Run = 1,
    /// One client: owns its agents, weight, tier and deposits.
    Client = 2,
    /// Progress and steps of one run's attempts. Kept, collected and quarantined together with the run.
    Attempts = 3,
    /// Stages and cursors of one pipeline.
    Pipeline = 4,
    /// The events of one pipeline: the sequence number of a record is the number of the event.
    PipelineLog = 5,
}

/// Partitions of the journal.
pub const PARTITIONS: u16 = 1_024;

impl StreamId {
    /// The stream of a run of `client`.
    pub fn run(client: &ClientId, run: RunId) -> StreamId {
        StreamId { partition: partition(client), kind: StreamKind::Run, key: *run.0.as_bytes() }
    }

    /// The stream of the attempts of a run of `client`.
    pub fn attempts(client: &ClientId, run: RunId) -> StreamId {
        StreamId::run(client, run).attempts_stream()
    }

    /// The stream of the attempts of the run with this stream.
    pub fn attempts_stream(self) -> StreamId {
        StreamId { kind: StreamKind::Attempts, ..self }
    }

    /// The stream of `client` itself.
    pub fn client(client: &ClientId) -> StreamId {
        let digest = crate::lineage::hash("aos/client/1", &[client.as_str().as_bytes()]);
        let mut key = [0; 16];
        key.copy_from_slice(&digest.0[..16]);
        StreamId { partition: partition(client), kind: StreamKind::Client, key }
    }

    /// The stream of a pipeline's stages and cursors. The events are in [`StreamId::log`].
    pub fn pipeline(pipeline: &PipelineId) -> StreamId {
        let digest = crate::lineage::hash("aos/pipeline/1", &[pipeline.as_str().as_bytes()]);
        let mut key = [0; 16];
        key.copy_from_slice(&digest.0[..16]);
        let partition = u16::from_le_bytes([digest.0[16], digest.0[17]]) % PARTITIONS;
        StreamId { partition, kind: StreamKind::Pipeline, key }
    }

    /// The stream of the events of the pipeline with this stream. Both have the same partition: one append can cover both.
    pub fn log(self) -> StreamId {
        StreamId { kind: StreamKind::PipelineLog, ..self }
    }
}

fn partition(client: &ClientId) -> u16 {
    let digest = crate::lineage::hash("aos/client/1", &[client.as_str().as_bytes()]);
    u16::from_le_bytes([digest.0[16], digest.0[17]]) % PARTITIONS
}

/// Records to append to one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamBatch {
    /// The stream.
    pub stream: StreamId,
    /// Sequence number of the stream's last record as the writer knows it; 0 for an empty stream.
    pub expected: Seq,
    /// Time of the append, in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// The records.
    pub events: Vec<Event>,
}

/// A record read from the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Number of the record in its stream.
    pub seq: Seq,
    /// Position of the record's batch; the record is durable when the batch is.
    pub position: Position,
    /// Time of the append, in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// The record.
    pub event: Event,
}

/// A row of the table of runs, derived from the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Id of the run.
    pub run: RunId,
    /// The client that pays.
    pub client: ClientId,
    /// The agent that executes the run.
    pub agent: AgentId,
    /// Id of the plan.
    pub plan: String,
    /// Number of nodes of the plan.
    pub nodes: u32,
    /// Time of opening, in milliseconds since the Unix epoch.
    pub opened_ms: Ticks,
    /// Time of the last change of `status`.
    pub closed_ms: Option<Ticks>,
    /// Status of the run.
    #[serde(rename = "standing")]
    pub status: RunRowStatus,
    /// Scores by the run's records, or by a person's later verdict.
    #[serde(default)]
    pub evaluated: Option<Evaluated>,
    /// Acts of people: answers, cancels, skips, resolutions.
    #[serde(default)]
    pub acts: u32,
    /// Nodes that failed.
    #[serde(default)]
    pub failed: u32,
    /// Position of the last record behind this row; the default if the record has long been durable.
    #[serde(skip)]
    pub position: Position,
}

impl RunRow {
    /// The row of a run just opened; `plan` and `nodes` are id and size of its plan.
    pub fn opened(opened: &RunOpened, plan: String, nodes: u32, at_ms: Ticks, position: Position) -> RunRow {
        RunRow {
            run: opened.run,
            client: opened.client.clone(),
            agent: opened.agent.clone(),
            plan,
            nodes,
            opened_ms: at_ms,
            closed_ms: None,
            status: RunRowStatus::Open,
            evaluated: None,
            acts: 0,
            failed: 0,
            position,
        }
    }

    /// The place of the run in the table.
    pub fn place(&self) -> RunPlace {
        (self.opened_ms, self.run)
    }

    /// The agent of the run; `None` if the agent exists for this run alone.
    pub fn named_agent(&self) -> Option<&AgentId> {
        Some(&self.agent).filter(|agent| agent.as_str() != self.run.to_string())
    }
}

/// Charges of a client for one of its agents, derived from the journal: the accounts after the last attempt. Checkpoints of
/// the journal hold this struct as bytes, so a new field needs a new version of the checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    /// The client that pays.
    pub client: ClientId,
    /// The agent; `None` combines all agents without a name of their own.
    pub agent: Option<AgentId>,
    /// Accounts after the last settlement; `None` before the first.
    pub accounts: Option<Accounts>,
    /// Cost of all attempts, in credits.
    pub spent: u64,
    /// Sum of the scores of the agent's runs.
    pub reputation: Reputation,
    /// Position of the record behind `accounts`. Of two rows of a client, the later one holds.
    pub settled: u64,
    /// Position of the last record behind this row.
    pub position: u64,
    /// Tokens and money that calls of models used or reserved under a limit. A reservation without a settlement counts.
    pub calls: Amounts,
}

/// Place of a run in the table of runs: time of opening, in milliseconds since the Unix epoch, and id. Newer runs have
/// higher places.
pub type RunPlace = (Ticks, RunId);

/// What [`Journal::runs_page`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunsPage {
    /// Returns only runs with work left.
    pub open_only: bool,
    /// Returns only runs with a lower place; `None` starts with the newest run.
    pub before: Option<RunPlace>,
    /// Maximum number of rows.
    pub limit: usize,
}

/// Status of a run in the table of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRowStatus {
    /// The run has work left.
    Open,
    /// The run is parked, for this reason.
    Parked(String),
    /// The run is closed.
    Closed(RunOutcome),
    /// A record of the run is damaged, as described. The run is kept as far as possible and never goes on.
    Quarantined(String),
}

/// A failed operation of the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another writer appended to the stream.
    #[error("stream {stream:?} is at {actual:?}, expected {expected:?}: another writer has appended")]
    Conflict {
        /// The stream.
        stream: StreamId,
        /// Last sequence number by the writer.
        expected: Seq,
        /// Last sequence number of the stream.
        actual: Seq,
    },
    /// Writing failed: the journal acknowledges nothing any more. Durable records stay.
    #[error("the journal cannot write: {0}")]
    Poisoned(String),
    /// The disk is full. Reading still works; appending works again as soon as the disk has space.
    #[error("the disk is full: {0}")]
    Full(String),
    /// Durable bytes have changed on disk.
    #[error("the journal is damaged at {place}: {what}")]
    Damaged {
        /// Segment and offset.
        place: String,
        /// Description of the damage.
        what: String,
    },
    /// A batch exceeds the named limit.
    #[error("refused: {0}")]
    Refused(String),
}

/// The event journal. Every other state of the system is a cache of the journal.
///
/// An append orders records and returns at once; [`Journal::durable`] waits until they survive a loss of power. Nothing may
/// leave the process before its records are durable.
pub trait Journal: Send + Sync + 'static {
    /// Orders the batches, all or none, and returns the position of the last one. Nothing is durable yet.
    ///
    /// # Errors
    ///
    /// A conflict, a full disk, a poisoned journal, or a batch over a limit. Nothing is appended then.
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError>;

    /// Waits until all records up to `position` survive a loss of power. Dropping the future loses nothing.
    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Waits until the journal has rolled back ordered records for lack of disk space more than `seen` times, and returns
    /// the number of rollbacks. Readers must read those records again. Dropping the future loses nothing. The default never
    /// resolves: most journals roll nothing back.
    fn rollbacks(&self, seen: u64) -> BoxFuture<'_, u64> {
        let _ = seen;
        Box::pin(std::future::pending())
    }

    /// True if the disk has space for appends, as far as known. A journal that was full checks.
    fn has_room(&self) -> bool {
        true
    }

    /// Reads up to `limit` records of a stream after `after`, including ordered records that are not durable yet. Returns
    /// fewer at the end of the stream and for large records; an empty list only at the end.
    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError>;

    /// Waits until the stream has a record after `after`. Dropping the future loses nothing.
    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()>;

    /// All runs, newest first; with `open_only`, the runs with work left.
    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError>;

    /// A page of the table of runs, newest first. The default sorts the whole table; a journal with an index reads the page
    /// alone.
    fn runs_page(&self, page: RunsPage) -> Result<Vec<RunRow>, JournalError> {
        let mut rows = self.runs(page.open_only)?;
        rows.retain(|row| page.before.is_none_or(|before| row.place() < before));
        rows.truncate(page.limit);
        Ok(rows)
    }

    /// The row of a run; `None` if the journal has no such run.
    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError>;

    /// The charges of all clients, in no order: one row per client and agent with an ended attempt.
    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError>;

    /// The charges of a client for an agent; `None` before the first.
    fn account(&self, client: &ClientId, agent: Option<&AgentId>)
    -> Result<Option<AccountRow>, JournalError>;

    /// Place of the newest record under a [`record_key`](crate::lineage::record_key) or a
    /// [`last_record_key`](crate::lineage::last_record_key); `None` without one. The run may have been collected since. The default
    /// finds nothing: then nothing is reused.
    fn record(&self, key: Digest) -> Result<Option<RecordPlace>, JournalError> {
        let _ = key;
        Ok(None)
    }

    /// The streams of all clients with a record.
    fn clients(&self) -> Result<Vec<StreamId>, JournalError> {
        self.streams(StreamKind::Client)
    }

    /// The streams of a kind with a record, sorted.
    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError>;
}
