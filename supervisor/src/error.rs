//! What can go wrong: one enum per operation.

use crate::{ChildId, ChildRef, Exit};

/// Why a supervisor or a pool did not start. Nothing is left running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The spec is faulty; no child ran. Carries every fault.
    #[error("the spec is faulty: {}", list(.0))]
    Invalid(Vec<SpecError>),
    /// This child failed to start; those started before it were stopped again, in reverse order.
    #[error("child {id} did not start: {exit}")]
    Child {
        /// The child.
        id: ChildId,
        /// How its start ended.
        exit: Exit,
    },
    /// The start was interrupted: the supervisor was told to end, or its runtime is going away.
    #[error("the start was interrupted")]
    Interrupted,
}

/// Why `start_child` did not give a fresh child.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StartChildError {
    /// A child with this id already runs; here it is.
    #[error("child {id} already runs")]
    AlreadyStarted {
        /// The id.
        id: ChildId,
        /// The running child.
        child: ChildRef,
    },
    /// A child with this id is known but down, or being restarted.
    #[error("child {id} is already known, expected a new id")]
    AlreadyPresent {
        /// The id.
        id: ChildId,
    },
    /// The spec is faulty. Carries every fault.
    #[error("the child spec is faulty: {}", list(.0))]
    Invalid(Vec<SpecError>),
    /// The child failed to start; its spec is not kept and no restart was charged.
    #[error("child {id} did not start: {exit}")]
    Failed {
        /// The id.
        id: ChildId,
        /// How its start ended.
        exit: Exit,
    },
    /// The child declined to run. A supervisor keeps its spec as down unless it is temporary.
    #[error("child {id} declined to run")]
    Ignored {
        /// The id.
        id: ChildId,
    },
    /// The most children are there already; nothing was started.
    #[error("there are {max} children already, which is the most")]
    MaxChildren {
        /// The limit.
        max: u32,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// Why `terminate_child` did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminateChildError {
    /// There is no such child.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// Why `restart_child` did not start the child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartChildError {
    /// There is no such child.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// It runs; only a child that is down can be restarted by hand.
    #[error("child {id} runs, expected it to be down")]
    Running {
        /// The id.
        id: ChildId,
    },
    /// The supervisor is trying to restart it already.
    #[error("child {id} is being restarted, expected it to be down")]
    Restarting {
        /// The id.
        id: ChildId,
    },
    /// It failed to start; its spec is kept as down and no restart was charged.
    #[error("child {id} did not start: {exit}")]
    Failed {
        /// The id.
        id: ChildId,
        /// How its start ended.
        exit: Exit,
    },
    /// It declined to run; its spec is kept as down.
    #[error("child {id} declined to run")]
    Ignored {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// Why `delete_child` kept the spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteChildError {
    /// There is no such child.
    #[error("there is no child {id}")]
    NotFound {
        /// The id.
        id: ChildId,
    },
    /// It runs; terminate it first.
    #[error("child {id} runs, expected it to be down")]
    Running {
        /// The id.
        id: ChildId,
    },
    /// It is being restarted; terminate it first.
    #[error("child {id} is being restarted, expected it to be down")]
    Restarting {
        /// The id.
        id: ChildId,
    },
    /// The supervisor has ended or is ending.
    #[error("the supervisor has ended")]
    Ended,
}

/// Why `get_spec` has no spec to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GetSpecError {
    /// There is no such child.
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
    /// Two children share this id.
    #[error("child id {id} is used twice, expected ids to be unique")]
    DuplicateId {
        /// The id.
        id: ChildId,
    },
    /// An id is empty or too long.
    #[error("a child id has {length} bytes, expected 1 to {max}")]
    IdLength {
        /// Its length in bytes.
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
    /// Nothing would come of the significance.
    #[error("child {id} is significant, but its supervisor never shuts down by itself")]
    SignificantWithoutAutoShutdown {
        /// The child.
        id: ChildId,
    },
    /// More children than a supervisor holds.
    #[error("{count} children, expected at most {max}")]
    TooManyChildren {
        /// How many there are.
        count: usize,
        /// [`crate::SUPERVISOR_CHILDREN_MAX`].
        max: usize,
    },
}
