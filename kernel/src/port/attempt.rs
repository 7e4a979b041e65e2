//! What an attempt keeps of itself while it runs: signs of life, how far it has come, and its finished steps.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ArtifactError, BoxFuture, JournalError};
use crate::event::{Failure, StepKey};
use crate::id::{Digest, RunId};
use crate::json::JsonError;
use crate::plan::{Idempotency, PlanDraft};
use crate::run::RunOutcome;
use crate::step_history::{StepLimitError, StepMismatch};

/// Bytes of a resume token, as canonical JSON.
pub const TOKEN_BYTES_MAX: usize = 4 * 1_024;

/// The log of one attempt. Whoever runs the attempt is the only one who writes to it; when the attempt has ended, however that
/// came, nothing more is taken.
pub trait AttemptLog: Send + Sync + 'static {
    /// What was reported last by this attempt or, as long as it has not reported anything, by one before it of the same work:
    /// one that failed, or that died with its process.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    fn resume_token(&self) -> Result<Option<Value>, AttemptLogError>;

    /// Reports how far the attempt has come: a sign of life, and what the next attempt is given if this one fails. Not waited
    /// for; of many reports in a short time the last one is kept.
    ///
    /// # Errors
    ///
    /// The token is too large or no JSON, the attempt is over, or there is no log.
    fn progress(&self, token: Value) -> Result<(), AttemptLogError>;

    /// A sign of life.
    fn heartbeat(&self);

    /// How long the attempt may be silent before it counts as dead, in milliseconds; `None`: for ever.
    fn heartbeat_ms(&self) -> Option<u64>;

    /// What came of a step before, or leave to call it now. `acting`: what may be done if its result is lost, of a step that
    /// does something to the world; leave to call such a one is durable.
    ///
    /// # Errors
    ///
    /// Nothing may be called then: see [`AttemptLogError`].
    fn begin<'a>(
        &'a self,
        step: &'a str,
        key: StepKey,
        acting: Option<Idempotency>,
    ) -> BoxFuture<'a, Result<StepStart, AttemptLogError>>;

    /// The key of a step that acted before, by this attempt's work or before a patch of it: it is called under that one again.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    fn step_key(&self, step: &str) -> Result<Option<Digest>, AttemptLogError> {
        let _ = step;
        Ok(None)
    }

    /// Keeps what came of a step that was begun. What succeeded is not called again; what failed is. With `durable`, it is on
    /// disk when the future is done.
    ///
    /// # Errors
    ///
    /// It is not kept then: see [`AttemptLogError`].
    fn end<'a>(
        &'a self,
        step: &'a str,
        ended: Result<&'a Value, &'a Failure>,
        durable: bool,
    ) -> BoxFuture<'a, Result<(), AttemptLogError>>;

    /// A step that was begun is given up: its call was dropped.
    fn abandon(&self, step: &str);

    /// Opens a run on behalf of the attempt, or finds the one that it opened before, and waits until that is over. Dropping the
    /// future leaves the run as it is.
    ///
    /// # Errors
    ///
    /// It cannot be opened or followed.
    fn spawn<'a>(
        &'a self,
        step: &'a str,
        child: ChildRunSpec,
    ) -> BoxFuture<'a, Result<ChildRunResult, AttemptLogError>>;
}

impl fmt::Debug for dyn AttemptLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptLog")
    }
}

/// How a step begins.
#[derive(Debug, Clone, PartialEq)]
pub enum StepStart {
    /// It is to be called; what a receiver can recognise a repetition by.
    Call(Digest),
    /// It was done before, with this result.
    Done(Value),
}

/// A run that an attempt wants to have: never more than what the attempt has itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRunSpec {
    /// Its plan.
    pub plan: PlanDraft,
    /// Credits that it may cost; `None`: half of what is free of the budget of the run that wants it, if that has one.
    pub budget: Option<u64>,
    /// The scope it acts in, as far as the run that wants it may act there too; `None`: the same.
    pub scope: Option<String>,
    /// The most impact it may have, 0..=2, as far as the run that wants it may have it; `None`: the same.
    pub intent: Option<u8>,
}

impl ChildRunSpec {
    /// A run of a plan, with all that the run which wants it has.
    pub fn plan(plan: PlanDraft) -> ChildRunSpec {
        ChildRunSpec { plan, budget: None, scope: None, intent: None }
    }

    /// A run of one call of a tool, or of a program.
    pub fn call(tool: &str, params: serde_json::Map<String, Value>) -> ChildRunSpec {
        ChildRunSpec::plan(PlanDraft::call(tool, params))
    }
}

/// What became of a run that an attempt wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildRunResult {
    /// Which.
    pub run: RunId,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What its plan is for: the results of its outputs, by node; those without one are absent.
    pub outputs: serde_json::Map<String, Value>,
}

/// Why a log did not do as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttemptLogError {
    /// This call has none.
    #[error("this call keeps no log: only an attempt of a node does")]
    NoLog,
    /// The attempt has ended, or another one has taken its place.
    #[error("the attempt is over: nothing more is taken from it")]
    AttemptEnded,
    /// The token is more than is kept.
    #[error("the resume token has {bytes} bytes, at most {TOKEN_BYTES_MAX} are kept")]
    LargeToken {
        /// How many there are.
        bytes: usize,
    },
    /// What is to be kept is no JSON that can be read back.
    #[error("it cannot be written down: {0}")]
    Json(#[from] JsonError),
    /// The step was recorded with something else.
    #[error(transparent)]
    StepMismatch(#[from] Box<StepMismatch>),
    /// There are more steps than an attempt may have, or its name is no name.
    #[error(transparent)]
    StepLimit(#[from] StepLimitError),
    /// The step is under way already.
    #[error("step {0:?} is under way already: give each step an id of its own")]
    Busy(String),
    /// The step was begun by an attempt that did not live to tell what came of it, and may not be called twice.
    #[error("step {0:?} was begun and its result is lost: whether it was done is for a person to say")]
    InDoubt(String),
    /// The step acted before its node was patched, and would do something else now.
    #[error(
        "step {:?} was done before its node was patched, and would be done otherwise now: whether it may be is for a person \
         to say ({})", .0.step, .0.differs()
    )]
    ChangedByPatch(Box<StepMismatch>),
    /// What came of the step cannot be kept.
    #[error("step {step:?}: {}", failure.message)]
    Result {
        /// Which.
        step: String,
        /// Why not.
        failure: Failure,
    },
    /// A run could not be opened.
    #[error("step {step:?}: {why}")]
    ChildRun {
        /// Which step wants it.
        step: String,
        /// Why not.
        why: String,
    },
    /// As many attempts wait for runs as may: those need agents that are live as well.
    #[error(
        "step {step:?}: {waiting} attempts wait for runs that they opened, which is as many as may: it is tried again, or open fewer \
         at once"
    )]
    TooManyWaiting {
        /// Which step wants a run.
        step: String,
        /// How many wait.
        waiting: u32,
    },
    /// More credits than are left.
    #[error("step {step:?} wants {asked} credits for a run, and {left} of the budget of this one are left")]
    Budget {
        /// Which step wants a run.
        step: String,
        /// How many it wants.
        asked: u64,
        /// How many there are.
        left: u64,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact store failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

/// The log of a call that is no attempt: it keeps nothing, and says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

fn none<'a, T>() -> BoxFuture<'a, Result<T, AttemptLogError>>
where
    T: Send + 'a,
{
    Box::pin(std::future::ready(Err(AttemptLogError::NoLog)))
}

impl AttemptLog for NoLog {
    fn resume_token(&self) -> Result<Option<Value>, AttemptLogError> {
        Ok(None)
    }

    fn progress(&self, _: Value) -> Result<(), AttemptLogError> {
        Err(AttemptLogError::NoLog)
    }

    fn heartbeat(&self) {}

    fn heartbeat_ms(&self) -> Option<u64> {
        None
    }

    fn begin<'a>(
        &'a self,
        _: &'a str,
        _: StepKey,
        _: Option<Idempotency>,
    ) -> BoxFuture<'a, Result<StepStart, AttemptLogError>> {
        none()
    }

    fn end<'a>(
        &'a self,
        _: &'a str,
        _: Result<&'a Value, &'a Failure>,
        _: bool,
    ) -> BoxFuture<'a, Result<(), AttemptLogError>> {
        none()
    }

    fn abandon(&self, _: &str) {}

    fn spawn<'a>(
        &'a self,
        _: &'a str,
        _: ChildRunSpec,
    ) -> BoxFuture<'a, Result<ChildRunResult, AttemptLogError>> {
        none()
    }
}
