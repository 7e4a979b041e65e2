//! The log of an attempt: heartbeats, progress, and finished steps.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    AnswerForm, ArtifactError, BoxFuture, CageRung, Delta, JournalError, ModelCall, ModelTurn, ModelTurnEnd,
    OutputStream, PermittedTool,
};
use crate::event::{Failure, StepKey};
use crate::id::{Digest, RunId};
use crate::json::{JsonError, Object};
use crate::ledger::Price;
use crate::plan::{Idempotency, PlanDraft};
use crate::policy::{GoalTerms, Label, goal_plan};
use crate::run::{FailureCategory, RunOutcome};
use crate::step_history::{StepLimitError, StepMismatch};

/// Longest resume token, in bytes of canonical JSON.
pub const TOKEN_BYTES_MAX: usize = 4 * 1_024;

/// The log of one attempt. Only the code of the attempt writes to its log; after the end of the attempt the log refuses
/// everything. Each default is that of [`NoLog`]: it keeps nothing and refuses steps.
pub trait AttemptLog: Send + Sync + 'static {
    /// The last reported token: of this attempt or, before its first report, of the last attempt at the same work that
    /// failed or died.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    fn resume_token(&self) -> Result<Option<Value>, AttemptLogError> {
        Ok(None)
    }

    /// Reports progress: a heartbeat, and a token for the next attempt in case this one fails. Returns at once; of many
    /// reports in a short time the log keeps the last.
    ///
    /// # Errors
    ///
    /// The token is too large or not canonical JSON, the attempt has ended, or the call keeps no log.
    fn progress(&self, token: Value) -> Result<(), AttemptLogError> {
        let _ = token;
        Err(AttemptLogError::NoLog)
    }

    /// Reports a heartbeat.
    fn heartbeat(&self) {}

    /// Keeps what a program of the attempt printed, for people. The bytes may end amid a line or a character. The log keeps
    /// the beginning and the end of a long output. The default keeps nothing.
    fn output(&self, stream: OutputStream, bytes: &[u8]) {
        let _ = (stream, bytes);
    }

    /// Notes the cage in which a program of the attempt runs, for the records of the attempt. The default notes nothing.
    fn caged(&self, rung: CageRung) {
        let _ = rung;
    }

    /// Notes that a call of a model begins, and returns its number within the attempt, from 1. The default returns 0 and
    /// shows nothing.
    fn model_begins(&self, form: AnswerForm) -> u32 {
        let _ = form;
        0
    }

    /// Shows a piece of the answer to a call to people while the model writes. Returns at once. The default shows nothing.
    fn model_delta(&self, call: u32, delta: &Delta) {
        let _ = (call, delta);
    }

    /// Notes a call of a model that ended, for the bill and the records of the attempt. The default notes nothing.
    fn model_called(&self, number: u32, call: ModelCall) {
        let _ = (number, call);
    }

    /// Keeps a question and its answer, for the export of a run whose records do not hold the question. The default keeps nothing.
    fn model_exchanged(&self, params: &Map<String, Value>, answer: &Value, call: ModelCall) {
        let _ = (params, answer, call);
    }

    /// Reserves tokens and money for a call of a model, and waits while other calls hold what this one needs. Dropping the
    /// future reserves nothing. The default grants every call.
    ///
    /// # Errors
    ///
    /// The budget of the run or the balance of its client does not allow the call, or the price is unknown.
    fn reserve_call<'a>(&'a self, call: PricedCall<'a>) -> BoxFuture<'a, Result<CallGrant, Failure>> {
        let max_output_tokens = call.max_output_tokens;
        Box::pin(std::future::ready(Ok(CallGrant { reservation: None, max_output_tokens })))
    }

    /// Settles a reservation with what the call used; each once. The default does nothing.
    fn settle_call(&self, reservation: u64, call: &ModelCall) {
        let _ = (reservation, call);
    }

    /// Waits until the rate limits of a model admit a call. Dropping the future gives the turn up. The default waits for nothing.
    fn model_turn<'a>(&'a self, turn: ModelTurn<'a>) -> BoxFuture<'a, ()> {
        let _ = turn;
        Box::pin(std::future::ready(()))
    }

    /// Settles the turn of a call that ended or was dropped. Returns true if the provider refused the call for now and the call is to
    /// be made again, after another [`AttemptLog::model_turn`]. The default never asks for that.
    fn model_turn_ended(&self, end: ModelTurnEnd<'_>) -> bool {
        let _ = end;
        false
    }

    /// Longest time without a heartbeat before the attempt counts as dead, in milliseconds; `None`: no limit.
    fn heartbeat_ms(&self) -> Option<u64> {
        None
    }

    /// Asks the gate for a call amid the attempt, under the rights of its run. The default permits nothing.
    ///
    /// # Errors
    ///
    /// The gate denies the call, or there is no such tool.
    fn permit<'a>(
        &'a self,
        tool: &'a str,
        params: Object,
        key: Digest,
    ) -> BoxFuture<'a, Result<PermittedTool, Failure>> {
        let _ = (tool, params, key);
        Box::pin(async { Err(Failure::new(FailureCategory::GateDenied, "a call outside of any attempt")) })
    }

    /// Begins a step: returns its recorded result, or permission to call it. `acting` is the reaction to a lost result, for
    /// a step that acts on the world; permission for such a step is durable.
    ///
    /// # Errors
    ///
    /// The step must not be called: see [`AttemptLogError`].
    fn begin<'a>(
        &'a self,
        step: &'a str,
        key: StepKey,
        acting: Option<Idempotency>,
    ) -> BoxFuture<'a, Result<StepStart, AttemptLogError>> {
        let _ = (step, key, acting);
        none()
    }

    /// The idempotency key of a step with an effect that was begun before, even before a patch: the step runs again under
    /// this key.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    fn step_key(&self, step: &str) -> Result<Option<Digest>, AttemptLogError> {
        let _ = step;
        Ok(None)
    }

    /// Records the end of a step. A result is reused by later attempts; a failed step is called again. With `durable` the
    /// record is on disk when the future resolves.
    ///
    /// # Errors
    ///
    /// The record is not kept: see [`AttemptLogError`].
    fn end<'a>(
        &'a self,
        step: &'a str,
        ended: Result<&'a Value, &'a Failure>,
        durable: bool,
    ) -> BoxFuture<'a, Result<(), AttemptLogError>> {
        let _ = (step, ended, durable);
        none()
    }

    /// Drops a step that was begun and whose call was dropped.
    fn abandon(&self, step: &str) {
        let _ = step;
    }

    /// Opens a child run, or finds the one that this step opened before, and waits for its end. Dropping the future does not
    /// stop the child run.
    ///
    /// # Errors
    ///
    /// The child run cannot be opened or followed.
    fn spawn<'a>(
        &'a self,
        step: &'a str,
        child: ChildRunSpec,
    ) -> BoxFuture<'a, Result<ChildRunResult, AttemptLogError>> {
        let _ = (step, child);
        none()
    }

    /// Asks a person a yes-or-no question during the call. The question stays open for `within_ms` milliseconds, and
    /// silence means no. The wait does not count as time of the attempt. A later attempt that asks under the same step
    /// receives the same answer.
    ///
    /// # Errors
    ///
    /// The question cannot be asked, or the wait for the answer fails.
    fn ask_person<'a>(
        &'a self,
        step: &'a str,
        text: &'a str,
        within_ms: i64,
    ) -> BoxFuture<'a, Result<bool, AttemptLogError>> {
        let _ = (step, text, within_ms);
        none()
    }
}

impl fmt::Debug for dyn AttemptLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptLog")
    }
}

/// A call of a model before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PricedCall<'a> {
    /// Name of the model in the configuration.
    pub model: &'a str,
    /// Bytes of everything that the model reads.
    pub input_bytes: u64,
    /// Most tokens of the answer, at least 1.
    pub max_output_tokens: u32,
    /// The price; `None`: unknown.
    pub price: Option<Price>,
}

/// Permission for a call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallGrant {
    /// Number of the reservation to settle; `None`: nothing was reserved.
    pub reservation: Option<u64>,
    /// Most tokens of the answer: what was asked for, or less.
    pub max_output_tokens: u32,
}

/// The start of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepStart {
    /// The step must be called, with this idempotency key.
    Call(Digest),
    /// The step was done before, with this result.
    Done(Value),
}

/// A child run. It never gets more rights or credits than its parent has.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRunSpec {
    /// Plan of the child run.
    pub plan: PlanDraft,
    /// Terms of a goal run, whose plan is [`goal_plan`]; `None`: the plan is all there is.
    pub goal: Option<Box<GoalTerms>>,
    /// Budget in credits; `None`: half of the parent's free credits, or none if the parent has no budget.
    pub budget: Option<u64>,
    /// Scope, intersected with the parent's; `None`: the parent's.
    pub scope: Option<String>,
    /// Highest impact, 0..=2, limited by the parent's; `None`: the parent's.
    pub intent: Option<u8>,
}

impl ChildRunSpec {
    /// A child run of a plan with the parent's scope and impact.
    pub fn plan(plan: PlanDraft) -> ChildRunSpec {
        ChildRunSpec { plan, goal: None, budget: None, scope: None, intent: None }
    }

    /// A goal run with the parent's scope and impact. Its models think within the rights of the parent.
    pub fn goal(terms: GoalTerms) -> ChildRunSpec {
        let plan = goal_plan(&terms);
        ChildRunSpec { goal: Some(Box::new(terms)), ..ChildRunSpec::plan(plan) }
    }

    /// A child run of one call of a tool or program.
    pub fn call(tool: &str, params: serde_json::Map<String, Value>) -> ChildRunSpec {
        ChildRunSpec::plan(PlanDraft::call(tool, params))
    }
}

/// The end of a child run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildRunResult {
    /// Id of the run.
    pub run: RunId,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Results of the executed outputs, by node. A goal run has one output, its [`FinalAnswer`](crate::policy::FinalAnswer).
    pub outputs: serde_json::Map<String, Value>,
    /// Labels of the answer of a goal run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
}

/// A failed operation of an attempt's log.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttemptLogError {
    /// The call is no attempt of a node.
    #[error("no log: only an attempt of a node keeps one")]
    NoLog,
    /// The attempt has ended, or another attempt has replaced it.
    #[error("the attempt has ended: its log is closed")]
    AttemptEnded,
    /// The token is too large.
    #[error("resume token of {bytes} bytes: use at most {TOKEN_BYTES_MAX} bytes")]
    LargeToken {
        /// Size of the token.
        bytes: usize,
    },
    /// A value has no canonical JSON.
    #[error("the value has no canonical JSON: {0}")]
    Json(#[from] JsonError),
    /// The step was recorded with another version or input.
    #[error(transparent)]
    StepMismatch(#[from] Box<StepMismatch>),
    /// The attempt has too many steps, or the id is empty or too long.
    #[error(transparent)]
    StepLimit(#[from] StepLimitError),
    /// The step is running already.
    #[error("step {0:?}: already running; give each step its own id")]
    Busy(String),
    /// An attempt that died had begun the step, which must not run twice.
    #[error("step {0:?}: begun before, and the result is lost; a person has to resolve it")]
    InDoubt(String),
    /// The step acted before a patch of its node, with another version or input.
    #[error("step {:?}: done before a patch of its node and changed since ({}); a person has to resolve it", .0.step, .0.differs())]
    ChangedByPatch(Box<StepMismatch>),
    /// The result of the step cannot be kept.
    #[error("step {step:?}: {}", failure.message)]
    Result {
        /// Id of the step.
        step: String,
        /// The reason.
        failure: Failure,
    },
    /// A child run could not be opened.
    #[error("step {step:?}: {why}")]
    ChildRun {
        /// Id of the step.
        step: String,
        /// The reason.
        why: String,
    },
    /// Too many attempts wait for child runs, which need live agents as well.
    #[error(
        "step {step:?}: {waiting} attempts already wait for child runs; the step is retried, or open fewer at once"
    )]
    TooManyWaiting {
        /// Id of the step.
        step: String,
        /// Number of waiting attempts.
        waiting: u32,
    },
    /// The limit of open runs below the run at the top is reached.
    #[error(
        "step {step:?}: {most} runs are open below the run at the top, and no further one may be; let each run do more of the work, give \
         nodes `deps` so that fewer are open at once, or answer or cancel runs that are suspended"
    )]
    TooManyOpen {
        /// Id of the step.
        step: String,
        /// The limit.
        most: usize,
    },
    /// The child run asks for more credits than are left.
    #[error("step {step:?}: {asked} credits asked for a child run, {left} left in the budget")]
    Budget {
        /// Id of the step.
        step: String,
        /// Credits asked for.
        asked: u64,
        /// Credits left.
        left: u64,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact store failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl AttemptLogError {
    /// Category of the failure of an attempt that ends with the error.
    pub fn category(&self) -> FailureCategory {
        match self {
            AttemptLogError::InDoubt(_) | AttemptLogError::ChangedByPatch(_) => FailureCategory::InDoubt,
            AttemptLogError::Result { failure, .. } => failure.category,
            AttemptLogError::Busy { .. }
            | AttemptLogError::StepMismatch(_)
            | AttemptLogError::StepLimit(_)
            | AttemptLogError::NoLog
            | AttemptLogError::Json(_)
            | AttemptLogError::LargeToken { .. }
            | AttemptLogError::ChildRun { .. }
            | AttemptLogError::Artifact(ArtifactError::Missing(_) | ArtifactError::Damaged { .. }) => {
                FailureCategory::Structural
            }
            AttemptLogError::TooManyWaiting { .. }
            | AttemptLogError::Artifact(ArtifactError::Io(_) | ArtifactError::Full(_)) => {
                FailureCategory::Transient
            }
            AttemptLogError::TooManyOpen { .. } | AttemptLogError::Budget { .. } => {
                FailureCategory::ResourceExhaustion
            }
            AttemptLogError::AttemptEnded | AttemptLogError::Journal(_) => FailureCategory::Crash,
        }
    }
}

impl From<AttemptLogError> for Failure {
    fn from(error: AttemptLogError) -> Failure {
        Failure { category: error.category(), message: error.to_string() }
    }
}

/// The log of a call outside of any attempt: it keeps nothing and refuses steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

fn none<'a, T>() -> BoxFuture<'a, Result<T, AttemptLogError>>
where
    T: Send + 'a,
{
    Box::pin(std::future::ready(Err(AttemptLogError::NoLog)))
}

impl AttemptLog for NoLog {}
