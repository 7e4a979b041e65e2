//! Requests that open runs and change them.

use std::num::NonZeroU64;

use ostler_kernel::plan::PlanDraft;
use ostler_kernel::policy::OperatorAnswer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{OverBudget, Usd};

/// The body of `POST /v1/runs`.
///
/// A caller in the same process may hand over a plan that it has validated already: the request then has an empty body and
/// carries a `SubmitRequest<Arc<Plan>>` as an HTTP extension, which no request over a socket can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest<P = PlanDraft> {
    /// The plan.
    pub plan: P,
    /// The client that pays; ignored if an agent is named: then the agent's client pays.
    #[serde(default = "super::default_client")]
    pub client: String,
    /// The agent; absent: one of the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Highest allowed impact, 0 to 2; absent: the default of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u8>,
    /// Name of the scope.
    #[serde(default = "super::default_scope")]
    pub scope: String,
    /// The folder that the tools may touch, as an absolute path.
    pub workspace: String,
    /// Budget in credits, at least 1; absent: limited only by the client's credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NonZeroU64>,
    /// Most that the calls of models may cost, child runs included; absent: no limit but the client's balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Most tokens of all calls of models, child runs included; absent: no limit but the client's balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
    /// What happens before a call that `usd` or `tokens` do not allow; absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<OverBudget>,
    /// Id of the run, a UUID of version 7, which makes the request idempotent: a repetition with the same terms returns
    /// the run that was opened before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Recorded results of equal work of the client stand in for executions, and results are recorded for later runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse: bool,
    /// With `reuse`: nodes to execute also if a result is recorded; `*` for all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fresh: Vec<String>,
}

impl<P> SubmitRequest<P> {
    /// The same request with another plan, and the plan it had.
    pub fn swap_plan<Q>(self, plan: Q) -> (P, SubmitRequest<Q>) {
        let SubmitRequest {
            plan: before,
            client,
            agent,
            intent,
            scope,
            workspace,
            budget,
            usd,
            tokens,
            over_budget,
            run,
            reuse,
            fresh,
        } = self;
        let request = SubmitRequest {
            plan,
            client,
            agent,
            intent,
            scope,
            workspace,
            budget,
            usd,
            tokens,
            over_budget,
            run,
            reuse,
            fresh,
        };
        (before, request)
    }
}

/// The answer to requests that open or change a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    /// The run as a UUID.
    pub run: String,
}

/// The body of `POST /v1/runs/{id}/undo`; `null` leaves the intent to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Most impact that the calls of the undo may have, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u8>,
}

/// The body of `POST /v1/runs/{id}/interject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterjectRequest {
    /// The question, or the message to a model.
    pub text: String,
    /// Milliseconds after which silence cancels the run.
    pub wait_ms: NonZeroU64,
    /// The operator's answer in place of a model, in a goal run: with `conclude` the text is the verdict, with `replan` what is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<OperatorAnswer>,
    /// A person is asked for yes or no, also in a goal run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
}

/// The answer to an interjection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interjected {
    /// The run.
    pub run: String,
    /// The node that asks; its question is among the approvals.
    pub node: String,
}

/// The body of `POST /v1/runs/{id}/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// Node with the attempt in doubt.
    pub node: String,
    /// The attempt to settle, as in `waiting`: no other is settled, and a repetition changes nothing. Absent: the one
    /// in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The settlement.
    pub how: Resolution,
    /// The result, for [`Resolution::Done`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Settlement of an attempt in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The attempt took effect; the request has its result.
    Done,
    /// Run the node again.
    Redo,
    /// The attempt failed.
    Fail,
    /// The run has ended, and nothing is left of the node's effect.
    Gone,
}
