//! The traits the outside implements. The only place of this crate where anything waits.

mod attempt;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::evaluation::Reputation;
use crate::event::{Accounts, Evaluated, Event, Failure, RunOpened};
use crate::gate::{CallClass, Permit};
use crate::id::{AgentId, ClientId, Digest, PipelineId, RunId, Ticks};
use crate::plan::Rule;
use crate::run::RunOutcome;

pub use attempt::{
    AttemptLog, AttemptLogError, ChildRunResult, ChildRunSpec, NoLog, StepStart, TOKEN_BYTES_MAX,
};

/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Place of a record within its stream: 1 for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Seq(pub u64);

/// Place of a batch in the order of the whole journal. Only compared; may have gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// A stream of the journal. Its partition is a hash of the client, so that a client's streams move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// 0..1,024, of the client.
    pub partition: u16,
    /// What kind of stream.
    pub kind: StreamKind,
    /// The run's id, or the first half of the digest of the name of the client or the pipeline.
    pub key: [u8; 16],
}

/// What a stream is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StreamKind {
    /// One run: owns its attempts and their costs.
    Run = 1,
    /// One client: owns its agents, weight, tier, deposits.
    Client = 2,
    /// The attempts of one run: what they note for themselves while they run. Goes with its run in everything.
    Attempts = 3,
    /// One pipeline: its stages, and how far each of them has come.
    Pipeline = 4,
    /// The events of one pipeline, and nothing else: the number of an event is its place in this stream.
    PipelineLog = 5,
}

/// Partitions of the journal.
pub const PARTITIONS: u16 = 1_024;

impl StreamId {
    /// The stream of a run of `client`.
    pub fn run(client: &ClientId, run: RunId) -> StreamId {
        StreamId { partition: partition(client), kind: StreamKind::Run, key: *run.0.as_bytes() }
    }

    /// The stream of what the attempts of a run of `client` note.
    pub fn attempts(client: &ClientId, run: RunId) -> StreamId {
        StreamId::run(client, run).attempts_stream()
    }

    /// The stream of what the attempts of the run note whose stream this is.
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

    /// The stream of what becomes of a pipeline; its events stand in [`StreamId::log`] of it.
    pub fn pipeline(pipeline: &PipelineId) -> StreamId {
        let digest = crate::lineage::hash("aos/pipeline/1", &[pipeline.as_str().as_bytes()]);
        let mut key = [0; 16];
        key.copy_from_slice(&digest.0[..16]);
        let partition = u16::from_le_bytes([digest.0[16], digest.0[17]]) % PARTITIONS;
        StreamId { partition, kind: StreamKind::Pipeline, key }
    }

    /// The stream of the events of the pipeline whose stream this is: in the same partition, so that both can be appended to
    /// at once.
    pub fn log(self) -> StreamId {
        StreamId { kind: StreamKind::PipelineLog, ..self }
    }
}

fn partition(client: &ClientId) -> u16 {
    let digest = crate::lineage::hash("aos/client/1", &[client.as_str().as_bytes()]);
    u16::from_le_bytes([digest.0[16], digest.0[17]]) % PARTITIONS
}

/// Records for one stream, to be appended together.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamBatch {
    /// Where to.
    pub stream: StreamId,
    /// Sequence number of the last record of the stream, as the writer knows it (0: none).
    pub expected: Seq,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// The records.
    pub events: Vec<Event>,
}

/// A record as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its place in its stream.
    pub seq: Seq,
    /// The batch it came with; durable when that is.
    pub position: Position,
    /// When it was appended, in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// What happened.
    pub event: Event,
}

/// One line of the table of runs, derived from the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// Who pays.
    pub client: ClientId,
    /// Who runs it.
    pub agent: AgentId,
    /// Id of its plan.
    pub plan: String,
    /// Nodes of its plan.
    pub nodes: u32,
    /// When it was opened, in milliseconds since the Unix epoch.
    pub opened_ms: Ticks,
    /// When it was closed or last changed its standing.
    pub closed_ms: Option<Ticks>,
    /// How it stands.
    #[serde(rename = "standing")]
    pub status: RunRowStatus,
    /// How well it was done, by its records or by a person's verdict since.
    #[serde(default)]
    pub evaluated: Option<Evaluated>,
    /// Times that a person did something about it: answered, cancelled, skipped, settled what was in doubt.
    #[serde(default)]
    pub acts: u32,
    /// Where the record stands that this was last derived from; the beginning, if that is durable for long.
    #[serde(skip)]
    pub position: Position,
}

impl RunRow {
    /// The line of a run as it is opened: with the id and the nodes of its plan, and where that is recorded.
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
            position,
        }
    }

    /// Its agent, if that has a name of its own; `None`: one that is there for this run alone.
    pub fn named_agent(&self) -> Option<&AgentId> {
        Some(&self.agent).filter(|agent| agent.as_str() != self.run.to_string())
    }
}

/// What a client was charged for one of its agents, derived from the journal: how the accounts stood when an attempt of that
/// agent ended last. Checkpoints of the journal hold it as bytes: another field is another version of theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    /// Who pays.
    pub client: ClientId,
    /// For which of its agents; `None`: all those without a name of their own.
    pub agent: Option<AgentId>,
    /// Absolute values after the last settlement; `None` if nothing was settled yet.
    pub accounts: Option<Accounts>,
    /// Credits that its attempts cost, all together.
    pub spent: u64,
    /// What the scores of its runs add up to.
    pub reputation: Reputation,
    /// Where the settlement is recorded that the accounts are of: which of two lines of a client is the later one.
    pub settled: u64,
    /// Where what changed this line last is recorded.
    pub position: u64,
}

/// How a run stands, as far as the table of runs tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRowStatus {
    /// It has work left.
    Open,
    /// It was set aside; the reason.
    Parked(String),
    /// It is over.
    Closed(RunOutcome),
    /// Something of it is damaged: it is kept as far as it can be, and never goes on; what is damaged.
    Quarantined(String),
}

/// Why the journal did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Somebody else appended to the stream.
    #[error("stream {stream:?} is at {actual:?}, not at {expected:?}: somebody else wrote to it")]
    Conflict {
        /// Which stream.
        stream: StreamId,
        /// What the writer believed.
        expected: Seq,
        /// What is so.
        actual: Seq,
    },
    /// Nothing is acknowledged any more; what was durable stays.
    #[error("the journal cannot write: {0}")]
    Poisoned(String),
    /// There is no room. Reading goes on; appending does again when there is room.
    #[error("the disk is full: {0}")]
    Full(String),
    /// Bytes that were once durable are no longer what they were.
    #[error("the journal is damaged at {place}: {what}")]
    Damaged {
        /// Segment and offset.
        place: String,
        /// What was found.
        what: String,
    },
    /// A batch that breaks a limit; the limit is named.
    #[error("refused: {0}")]
    Refused(String),
}

/// The event journal: the truth that everything else is a cache of.
pub trait Journal: Send + Sync + 'static {
    /// Orders the batches, all or none, and answers at once. Nothing is durable yet.
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError>;

    /// Waits until everything up to `position` would survive the loss of power. Dropping the future loses
    /// nothing but the answer.
    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Waits until what was ordered and not durable was undone for want of room more than `seen` times; gives how often that was. It
    /// is to be read again then. Dropping the future loses nothing. A journal that undoes nothing waits for ever.
    fn rollbacks(&self, seen: u64) -> BoxFuture<'_, u64> {
        let _ = seen;
        Box::pin(std::future::pending())
    }

    /// Whether there is room for what is appended, as far as it is known; one that was full looks.
    fn has_room(&self) -> bool {
        true
    }

    /// Reads up to `limit` records of a stream after `after`, ordered ones included that are not durable yet. Fewer where the stream
    /// ends, or where they are large; none only at its end.
    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError>;

    /// Waits until the stream has a record after `after`. Dropping the future loses nothing.
    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()>;

    /// The runs, newest first; with `open_only`, those with work left.
    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError>;

    /// One line of the table of runs; `None` if there is no such run.
    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError>;

    /// What clients were charged, in no order: a line for each client and agent whose attempts ended.
    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError>;

    /// One line of what clients were charged; `None` if nothing was yet.
    fn account(&self, client: &ClientId, agent: Option<&AgentId>)
    -> Result<Option<AccountRow>, JournalError>;

    /// The streams of clients that have any record.
    fn clients(&self) -> Result<Vec<StreamId>, JournalError> {
        self.streams(StreamKind::Client)
    }

    /// The streams of a kind that have any record, sorted.
    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError>;
}

/// The media type of nearly every result.
pub const JSON: &str = "application/json";

/// A run that is done, as a judge gets to see it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRun {
    /// The run.
    pub run: RunId,
    /// Who did it.
    pub agent: AgentId,
    /// Id of its plan.
    pub plan: String,
    /// What the plan is for, in its author's words.
    pub title: Option<String>,
    /// Rules that its outputs have to keep, as the plan states them.
    pub contract: Vec<Rule>,
    /// How it ends.
    pub outcome: RunOutcome,
    /// What came of it: the outputs that there are.
    pub outputs: Map<String, Value>,
}

/// What a judge says of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// How good it is, in thousandths.
    pub quality_pm: u16,
    /// Why, in a line.
    pub note: String,
}

/// Somebody who says how good what came of a run is: code, a model, a service. Asked once a run is over, before that is written
/// down.
pub trait Judge: Send + Sync + 'static {
    /// Its name, as evaluations show it.
    fn name(&self) -> &str;

    /// Judges a run. Its process may die meanwhile: then it is asked again. A failure, in words, leaves the quality unknown.
    /// Dropping the future loses the opinion.
    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>>;
}

impl fmt::Debug for dyn Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Judge({})", self.name())
    }
}

/// Content that is addressed by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What it is.
    pub media: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// Why an artifact could not be stored or given back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// It is not there.
    #[error("no artifact {0}")]
    Missing(Digest),
    /// Its bytes do not give its digest.
    #[error("artifact {digest} is damaged: {what}")]
    Damaged {
        /// Which.
        digest: Digest,
        /// What was found.
        what: String,
    },
    /// There is no room. Reading goes on; storing does again when there is room.
    #[error("artifact store: the disk is full: {0}")]
    Full(String),
    /// The disk said no.
    #[error("artifact store: {0}")]
    Io(String),
}

/// Results that are too large for a record.
pub trait ArtifactStore: Send + Sync + 'static {
    /// Stores content; durable when the future is done. Storing it twice is storing it once. Dropping the
    /// future may or may not have stored it.
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>>;

    /// Gives content back, verified against its digest.
    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>>;
}

/// What a tool says of itself, once.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name, such as `fs.read`.
    pub name: String,
    /// Its version: part of the identity of every result.
    pub version: String,
    /// One line for people and models.
    pub description: String,
    /// JSON Schema of its parameters. Whatever it says `format: path` of at any depth, the gate judges as a path beneath the
    /// workspace, and what it says `format: uri` of, as a URL that the egress list must have: texts, or lists of them.
    pub params: Value,
    /// JSON Schema of its result.
    pub result: Value,
}

/// What came of calling a tool: a JSON value, or a failure.
pub type ToolResult = Result<Value, Failure>;

/// What a call gets to know of its surroundings.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The folder it may touch.
    pub workspace: Arc<std::path::Path>,
    /// When it will be given up, as a span from its start.
    pub timeout_ms: u64,
    /// What it keeps of itself while it runs.
    pub attempt: Arc<dyn AttemptLog>,
}

impl CallContext {
    /// That of a call that is no attempt of a node: it keeps no log.
    pub fn without_log(workspace: Arc<std::path::Path>, timeout_ms: u64) -> CallContext {
        CallContext { workspace, timeout_ms, attempt: Arc::new(NoLog) }
    }
}

/// A parameter that a tool cannot work with, though its schema allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamProblem {
    /// Its name.
    pub name: String,
    /// What is wrong with its value, as a sentence without a full stop.
    pub what: String,
    /// What would mend it, as a sentence without a full stop.
    pub help: String,
    /// The line of its text where that is, from 1, if it is known.
    pub line: Option<usize>,
}

/// A device: something that acts on the world.
pub trait Tool: Send + Sync + 'static {
    /// What it says of itself.
    fn spec(&self) -> &ToolSpec;

    /// What a call with these parameters would do. Pure. Parameters that are not known yet are absent: the
    /// answer must then be the worst they could make of it.
    fn class(&self, params: &Map<String, Value>) -> CallClass;

    /// What is wrong with parameters before any call, as far as its schema cannot say it: a pattern that does not
    /// compile, a template that is none. Pure, and bounded in time. Parameters that are to come are absent; those
    /// that are there may break the schema. Values are not repeated in what is said. Unless overridden: nothing.
    fn check(&self, _params: &Map<String, Value>) -> Vec<ParamProblem> {
        Vec::new()
    }

    /// Whether its calls are nothing but waiting. Such a call is a durable timer and holds no slot;
    /// [`Tool::call`] is never reached.
    fn is_timer(&self) -> bool {
        false
    }

    /// For how many milliseconds a call waits, if it is nothing but waiting.
    fn timer_ms(&self, _params: &Map<String, Value>) -> Option<u64> {
        None
    }

    /// Whether a call with these parameters only computes, takes microseconds and waits for nothing. Such a call is made where its run is
    /// driven, which costs no change of tasks, and written down together with its result; so nothing tells of one that ends its process.
    /// Unless overridden: no.
    fn is_quick(&self, _params: &Map<String, Value>) -> bool {
        false
    }

    /// Does it. Dropping the future stops it as far as that is possible (a process group is killed, a
    /// connection closed); what it did to the world until then stands.
    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult>;
}

impl fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.spec().name)
    }
}

/// The environment variable that marks whatever a tool started: the id of the process that drives the run, a dash, what
/// tells its calls apart, an `@`, and what tells the data folder from others. Who bears the mark acts for a plan: it may
/// not steer the runs of that process, and it is ended when another process takes the data folder up.
pub const CALL_MARK: &str = "OSTLER_CALL";
