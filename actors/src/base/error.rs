//! Why nothing could be done about a run.

use ostler_kernel::agent::InvalidState;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{ArtifactError, JournalError};
use ostler_kernel::run::{AnswerError, NodeState, OperationError, ResolutionError, RunFoldError};

/// Why nothing could be done about a run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// There is none of that id.
    #[error("no run {0}")]
    Unknown(RunId),
    /// It has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// It is over.
    #[error("the run is over")]
    Over,
    /// Its agent does not take that where it stands with it.
    #[error(transparent)]
    InvalidState(#[from] InvalidState),
    /// Something of it is damaged, and it was set aside for that.
    #[error("the run is quarantined and never goes on: {0}")]
    Quarantined(String),
    /// The node is not in doubt.
    #[error(transparent)]
    Resolution(#[from] ResolutionError),
    /// The node has no result.
    #[error("node {node} is {state} and has no result")]
    NoResult {
        /// Which node.
        node: NodeId,
        /// Where it stands.
        state: NodeState,
    },
    /// An answer that is not for what is asked.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// An answer that cannot be written down.
    #[error("{0}")]
    Said(String),
    /// The node is over already.
    #[error("node {node} is {state} already: it cannot be stopped any more")]
    NodeOver {
        /// Which node.
        node: NodeId,
        /// How it ended.
        state: NodeState,
    },
    /// The plan of the run cannot be changed as was asked.
    #[error("{0}")]
    Change(String),
    /// A result that cannot be kept.
    #[error("the result cannot be kept: {0}")]
    Result(String),
    /// Its records do not fit together.
    #[error(transparent)]
    Fold(#[from] RunFoldError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact store failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// As many requests as may wait for an agent to take a run up do so.
    #[error("{0} requests wait for their run to be taken up, which is the most: try again")]
    Crowded(usize),
    /// It comes behind another run of its agent, which waits for a person.
    #[error(
        "it comes behind run {0} of its agent, which waits for a person: answer that first, or cancel one of them"
    )]
    Behind(RunId),
    /// The actors are being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
    /// Nothing goes on any more.
    #[error("the system has halted: {0}")]
    Halted(String),
}

impl From<OperationError> for RunError {
    fn from(error: OperationError) -> RunError {
        match error {
            OperationError::Over => RunError::Over,
            OperationError::UnknownNode(node) => RunError::UnknownNode(node),
            OperationError::NodeOver { node, state } => RunError::NodeOver { node, state },
            OperationError::Refused(_) => RunError::Change(error.to_string()),
        }
    }
}
