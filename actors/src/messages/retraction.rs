//! Withdrawing results, and lifting a withdrawal.

use ostler_kernel::event::RETRACTIONS_MAX;
use ostler_kernel::id::NodeId;
use ostler_kernel::port::JournalError;

use crate::base::error::{RunError, meant};

/// Error of a retraction; nothing was withdrawn, and nothing lifted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RetractError {
    /// The run cannot be read, or has no such result.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The result is a person's artifact, which no other run reuses.
    #[error(
        "the result of {0} is an edit by {1}, which stands in nowhere else: edit it again with `ostler edit`"
    )]
    Edited(NodeId, String),
    /// The name of a tool, a model or a version is empty or too long.
    #[error("{0:?} is no name of a tool, a model or a version: give 1 to {NAME_BYTES_MAX} bytes")]
    Name(String),
    /// No tool has the name, and no recorded result comes from one: the name may be mistyped.
    #[error("there is no tool {tool:?} and no recorded result of one; {}", meant(.nearest.as_deref()))]
    UnknownTool {
        /// The tool; the tool `model.NAME` is the model `NAME`.
        tool: String,
        /// A tool with a similar name.
        nearest: Option<String>,
    },
    /// [`RETRACTIONS_MAX`] retractions are in force.
    #[error(
        "there are {RETRACTIONS_MAX} retractions in force: lift one first, with `ostler retract --lift ID`"
    )]
    TooMany,
    /// No such retraction is in force.
    #[error("no retraction {0} is in force; `ostler retract --list` lists them")]
    Unknown(String),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// The end of a retraction's consequences, or of the retraction itself.
#[derive(Debug, Clone)]
pub(crate) enum RetractionStep {
    /// All dependent approvals and grants are void.
    CarriedOut,
    /// Lifted by this operator.
    Lifted(String),
}

/// Longest name of a tool, a model or a version, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 256;
