//! The traits that the outside implements: journal, artifact store, tools, devices, models, judges, logs of attempts. Only here do functions of
//! this crate wait, as boxed futures.

mod artifact;
mod attempt;
mod cage;
mod clearance;
mod device;
mod journal;
mod journal_layer;
mod judge;
mod model;
mod named_file;
mod operator;
mod output;
mod templates;
mod tool;
mod workspace_writes;

use std::future::Future;
use std::pin::Pin;

pub use artifact::{Artifact, ArtifactError, ArtifactStore};
pub use attempt::{
    AttemptLog, AttemptLogError, CallGrant, ChildRunResult, ChildRunSpec, NoLog, PricedCall, StepStart,
    TOKEN_BYTES_MAX,
};
pub use cage::CageRung;
pub use clearance::ClearanceAuthority;
pub use device::{Device, DeviceEnd};
pub use journal::{
    AccountRow, Journal, JournalError, PARTITIONS, Position, Recorded, RunPlace, RunRow, RunRowStatus,
    RunsPage, Seq, StreamBatch, StreamId, StreamKind,
};
pub use journal_layer::JournalLayer;
pub use judge::{Judge, JudgedRun, Opinion, RUN_JUDGE};
pub use model::{
    AnswerForm, CallOrigin, Completion, Delta, Finish, Message, Model, ModelCall, ModelError,
    ModelErrorClass, ModelRequest, ModelTerms, ModelTurn, ModelTurnEnd, Sampling, ToolCall, ToolChoice,
    ToolOffer, Usage,
};
pub use named_file::{NAMED_TEXT_BYTES_MAX, NamedFile, line_difference};
pub use operator::{LockdownStore, PolicySource};
pub use output::{
    OUTPUT_CHUNK_BYTES_MAX, OUTPUT_RUN_BYTES_MAX, OUTPUT_RUN_NOTES_BYTES_MAX, OutputChunk, OutputStore,
    OutputStream,
};
pub use templates::TemplateStore;
pub use tool::{
    CALL_MARK, CallContext, MCP_PREFIX, OPERATOR_KEY, ParamProblem, PermittedTool, Tool, ToolResult,
    ToolSpec, WorkspaceTurn, WorkspaceUse,
};
pub use workspace_writes::WorkspaceWrites;

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Media type of JSON results.
pub const JSON: &str = "application/json";
