//! Errors, one enum for each operation.

use crate::{ChildId, ChildRef, Exit};

/// The reason why a supervisor or pool did not start. Nothing is left running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The spec has the faults; no child ran.
    #[error("the spec is faulty: {}", list(.0))]
    Invalid(Vec<SpecError>),
    /// A child failed to start; earlier ones were stopped in reverse order.
    #[error("child {id} did not start: {exit}")]
    Child {
        /// The child.
        id: ChildId,
        /// The exit of its start.
        exit: Exit,
    },
    /// The supervisor was told to end, or its runtime is shutting down.
    #[error("the start was interrupted")]
    Interrupted,
}

/// The reason why `start_child` did not start a child.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StartChildError {
    /// A child with the id runs.
    #[error("child {id} already runs")]
    AlreadyStarted {
        /// The id.
        id: ChildId,
        /// The running child.
        child: ChildRef,
    },
    /// A child with the id is down, or restarting.
    #[error("child {id} is already known, expected a new id")]
    AlreadyPresent {
        /// The id.
        id: ChildId,
    },
    /// The spec has the faults.
    #[error("the child spec is faulty: {}", list(.0))]
    Invalid(Vec<SpecError>),
    /// The child failed to start; its spec is not kept and no restart was charged.
    #[error("child {id} did not start: {exit}")]
    Failed {
        /// The id.
        id: ChildId,
        /// The exit of its start.
        exit: Exit,
    },
    /// The child declined to run. A supervisor keeps the spec as down, unless the child is temporary.
    #[error("child {id} declined to run")]
    Ignored {
        /// The id.
        id: ChildId,
    },
    /// The maximal number of children runs.
    #[error("there are {max} children already, which is the most")]
    MaxChildren {
        /// The limit.
        max: u32,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// The reason why `terminate_child` failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminateChildError {
    /// No child has the id.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// The reason why `restart_child` failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartChildError {
    /// No child has the id.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// The child runs; only a child that is down can be restarted by hand.
    #[error("child {id} runs, expected it to be down")]
    Running {
        /// The id.
        id: ChildId,
    },
    /// The supervisor is restarting it already.
    #[error("child {id} is being restarted, expected it to be down")]
    Restarting {
        /// The id.
        id: ChildId,
    },
    /// The child failed to start; its spec is kept as down and no restart was charged.
    #[error("child {id} did not start: {exit}")]
    Failed {
        /// The id.
        id: ChildId,
        /// The exit of its start.
        exit: Exit,
    },
    /// The child declined to run; its spec is kept as down.
    #[error("child {id} declined to run")]
    Ignored {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// The reason why `delete_child` failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteChildError {
    /// No child has the id.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// The child runs; terminate it first.
    #[error("child {id} runs, expected it to be down")]
    Running {
        /// The id.
        id: ChildId,
    },
    /// The child is restarting; terminate it first.
    #[error("child {id} is being restarted, expected it to be down")]
    Restarting {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// The reason why `get_spec` failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GetSpecError {
    /// No child has the id.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

fn list(faults: &[SpecError]) -> String {
    faults.iter().map(SpecError::to_string).collect::<Vec<_>>().join("; ")
}

/// A fault in a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Two children have the id.
    #[error("child id {id} is used twice, expected ids to be unique")]
    DuplicateId {
        /// The id.
        id: ChildId,
    },
    /// The id is empty or too long.
    #[error("a child id has {length} bytes, expected 1 to {max}")]
    IdLength {
        /// Length in bytes.
        length: usize,
        /// [`crate::CHILD_ID_BYTES_MAX`].
        max: usize,
    },
    /// The period of an intensity is zero.
    #[error("the restart period is zero, expected a positive duration")]
    PeriodZero,
    /// The shutdown limit is zero.
    #[error("child {id} has a shutdown timeout of zero, expected a positive one or brutal")]
    ShutdownZero {
        /// The child.
        id: ChildId,
    },
    /// A permanent child never ends for good, so it cannot be significant.
    #[error("child {id} is significant and permanent, expected transient or temporary")]
    SignificantPermanent {
        /// The child.
        id: ChildId,
    },
    /// Significance without auto-shutdown has no effect.
    #[error("child {id} is significant, but its supervisor never shuts down by itself")]
    SignificantWithoutAutoShutdown {
        /// The child.
        id: ChildId,
    },
    /// The supervisor has too many children.
    #[error("{count} children, expected at most {max}")]
    TooManyChildren {
        /// Their number.
        count: usize,
        /// [`crate::SUPERVISOR_CHILDREN_MAX`].
        max: usize,
    },
}
