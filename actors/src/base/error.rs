//! Errors of operations on a run.

use ostler_kernel::agent::InvalidState;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::policy::InterjectionError;
use ostler_kernel::port::{ArtifactError, JournalError};
use ostler_kernel::run::{AnswerError, NodeState, OperationError, ResolutionError, RunFoldError, UndoError};

/// The reason why an operation on a run failed. Nothing has changed then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// No run has the id.
    #[error("no run {0}")]
    Unknown(RunId),
    /// The run has no such node.
    #[error("no node {0} in this run; `ostler show RUN` lists its nodes")]
    UnknownNode(NodeId),
    /// The run is over.
    #[error("the run is over")]
    Over,
    /// The state of the run does not accept the request.
    #[error(transparent)]
    InvalidState(#[from] InvalidState),
    /// The run is quarantined because of damage.
    #[error("the run is quarantined and never goes on: {0}")]
    Quarantined(String),
    /// The process lacks a model or a tool of the run; the text names the missing part and the remedy.
    #[error("{0}")]
    Missing(String),
    /// The node is not in doubt.
    #[error(transparent)]
    Resolution(#[from] ResolutionError),
    /// The node has no result.
    #[error("node {node} is {state} and has no result")]
    NoResult {
        /// The node.
        node: NodeId,
        /// The state.
        state: NodeState,
    },
    /// The answer does not fit the question.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The answer of an operator to an interjection cannot be used.
    #[error(transparent)]
    Interjection(#[from] InterjectionError),
    /// The text of the answer cannot be recorded.
    #[error("{0}")]
    Said(String),
    /// The node has ended already.
    #[error("node {node} is {state} already: it cannot be stopped any more")]
    NodeOver {
        /// The node.
        node: NodeId,
        /// The terminal state.
        state: NodeState,
    },
    /// The requested change of the plan is refused.
    #[error("{0}")]
    Change(String),
    /// The run does not wait for this answer of its planner.
    #[error(
        "the run does not wait for this answer of the planner: it answered already, or the run was loaded again since"
    )]
    NotAsked,
    /// The result cannot be stored.
    #[error("the result cannot be kept: {0}")]
    Result(String),
    /// The output of programs cannot be read.
    #[error("the output cannot be read: {0}")]
    Output(String),
    /// The records of the run do not follow from each other.
    #[error(transparent)]
    Fold(#[from] RunFoldError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact store failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The maximal number of requests waits for a run to be loaded.
    #[error("{0} requests wait for their run to be taken up, which is the most: try again")]
    Crowded(usize),
    /// An earlier run of the same agent waits for an answer.
    #[error(
        "it comes behind run {0} of its agent, which waits for an answer: answer that first, or cancel one of them"
    )]
    Behind(RunId),
    /// The run cannot be undone.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// The intent is above what a caller may have.
    #[error("{0}")]
    Intent(String),
    /// The actors are restarting; the request can be repeated.
    #[error("the system is restarting: try again")]
    Restarting,
    /// The system has halted.
    #[error("the system has halted: {0}")]
    Halted(String),
}

impl From<OperationError> for RunError {
    fn from(error: OperationError) -> RunError {
        match error {
            OperationError::Over => RunError::Over,
            OperationError::UnknownNode(node) => RunError::UnknownNode(node),
            OperationError::NodeOver { node, state } => RunError::NodeOver { node, state },
            OperationError::Undo(error) => RunError::Undo(error),
            OperationError::Refused(_) => RunError::Change(error.to_string()),
        }
    }
}

/// What to type where the name of a tool is not known.
pub(crate) fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "`ostler help tools` lists the tools".to_owned(),
        |nearest| format!("did you mean {nearest:?}?"),
    )
}
