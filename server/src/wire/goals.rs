//! Goal runs.

use std::num::NonZeroU64;

use ostler_kernel::policy::{Aggregator, Label, Mode, Source};
use serde::{Deserialize, Serialize};

use super::{OverBudget, Usd};

/// The body of `POST /v1/goals`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalRequest {
    /// The goal, as the user wrote it.
    pub goal: String,
    /// The execution mode, such as `reflect` or `nreflect:3`.
    pub mode: Mode,
    /// The model that writes the answer over the results; absent: the answer is put together from texts that exist.
    #[serde(default)]
    pub aggregator: Aggregator,
    /// Configured model of planners, turns and reflections; absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    /// Configured model of observers and answers; absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// The model as the command named it by a file, such as `scripted:script.yaml`; kept for the commands that continue the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// Tools that the models are offered; absent: all of the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Earlier runs whose answers and results the goal may use, the oldest first: as ids, parts of them, or `@last`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// A person approves the first plan, or the first calls, before anything is done.
    #[serde(default)]
    pub confirm: bool,
    /// Most model calls; absent: 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<NonZeroU64>,
    /// Most tokens of all calls; absent: no limit but the client's balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
    /// Most time of one answer of the models, with their fallbacks, in milliseconds; absent: 180 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_timeout_ms: Option<NonZeroU64>,
    /// Time from the opening of the run to its end, in milliseconds; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<NonZeroU64>,
    /// Most that all calls may cost; absent: no limit but the client's balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// What happens before a call that `usd` or `tokens` do not allow; absent: a person is asked if `confirm`, else it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<OverBudget>,
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
    /// Id of the run, a UUID of version 7, which makes the request idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The answer of a goal run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerView {
    /// The text.
    pub text: String,
    /// Origin of the text.
    pub source: Source,
    /// Nodes whose results the text rests on.
    pub citations: Vec<String>,
    /// How far the answer carries.
    pub labels: Vec<Label>,
    /// Reasons for an incomplete answer that no node shows: the time, the model calls, a model without an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}
