//! Open questions and their answers.

use ostler_kernel::event::ApprovalVoid;
use ostler_kernel::ledger::Shortfall;
use ostler_kernel::run::HeldFor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EstimateView, GrantRequest, ParentView, Raise, Usd};

/// The answer to `GET /v1/approvals`: a page of open questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalList {
    /// The questions, oldest run first.
    pub approvals: Vec<ApprovalView>,
    /// Open runs that cannot be read, each on one page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRun>,
    /// The `after` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run with unreadable records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableRun {
    /// The run as a UUID.
    pub run: String,
    /// The reason why it cannot be read.
    pub detail: String,
}

/// An open question with everything it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalView {
    /// Id of the question.
    pub id: String,
    /// The run as a UUID.
    pub run: String,
    /// Id of the plan.
    pub plan: String,
    /// The client that pays.
    pub client: String,
    /// The attempt that opened the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView>,
    /// The model of a goal run as the command named it by a file, such as `scripted:script.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// The node.
    pub node: String,
    /// `before` an action, `after` it (may the result be published?), `node` for a question of its own, or `budget` if a call
    /// of a model does not fit the budget.
    pub ask: String,
    /// Kind of the node.
    pub kind: String,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The effect.
    pub effect: String,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// The resolved parameters.
    pub params: Value,
    /// The folder that the call may touch, if it has paths or runs programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Files that the call and its tests name or execute: an approval holds for these contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileView>,
    /// Other parts of the question that differ from when it was last asked, or from the repeated run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeView>,
    /// The approval that a person gave in the repeated run, and that does not hold here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierApprovalView>,
    /// `human_approval` nodes above the effect that keep their answer of another run: this question stands in their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<String>,
    /// Reasons of the gate to hold the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HeldFor>,
    /// Programs that test the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestView>,
    /// Questions of the contract about the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The result to publish; absent if it is larger than requested, or unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Steps that a planner or a turn of a goal run asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// What the steps are expected to cost; absent without steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateView>,
    /// Bytes of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The call that does not fit the budget. An approval raises the budget; a rejection goes on within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<ShortfallView>,
    /// The reason why the node would fail if it were approved now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Digest of what is shown; an answer must name it.
    pub digest: Option<String>,
    /// Tools, the policy or files have changed since: the question is repeated when the run resumes, and in place of a yes.
    pub outdated: bool,
    /// Looks at the files of other questions took the time of the page: the files are those that the question was asked about, and may be
    /// others by now. `GET /v1/approvals/{id}` looks at them, and so does a yes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub not_looked_at: bool,
    /// Time of the question in milliseconds since the Unix epoch.
    pub asked_ms: i64,
    /// Time at which silence cancels the node.
    pub deadline_ms: Option<i64>,
    /// Nodes that cannot start before the answer; the first hundred.
    #[serde(rename = "holds_up")]
    pub blocks: Vec<String>,
}

/// A file that a question names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileView {
    /// Path below the workspace.
    pub path: String,
    /// Digest of the content; absent if the file is gone since the question was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Size.
    pub bytes: u64,
    /// True if the file has come since the question was last asked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_new: bool,
    /// The digest when the question was last asked, if it was another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Lines that went (`-`) and came (`+`), if both were small texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Vec<String>>,
}

/// A part of a question that was another one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeView {
    /// `params.NAME`, `result.NAME`, or a field of the question.
    pub part: String,
    /// The value before; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Value>,
    /// The value now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Value>,
    /// Lines that went (`-`) and came (`+`), if both were texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Vec<String>>,
}

/// An approval of the repeated run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierApprovalView {
    /// The run in which the person answered.
    pub run: String,
    /// Name of the person.
    pub by: String,
    /// Time of the answer in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The reason why it would not hold for the same question either; absent: the question shows something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<ApprovalVoid>,
}

/// An approval of the repeated run that answered a question of this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedApprovalView {
    /// The node.
    pub node: String,
    /// Name of the person.
    pub by: String,
    /// The run in which the person answered.
    pub run: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A step of a model's plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// Id of the step; absent for a call of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// The parameters that are known.
    pub params: Value,
    /// Parameters from results, as `PARAM from STEP.PATH`, with the template around the result as `… as "TEMPLATE"` (JSON).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// The list over which the step is repeated, as `STEP.PATH as PARAM, at most N times, on_child WORD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// Conditions of the step, as `STEP.PATH OP VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Steps that must have ended before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// 0 observe, 1 operate, 2 control: the worst that the call may do.
    pub impact: u8,
    /// The model's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A call of a model that a budget does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortfallView {
    /// Name of the model in the configuration.
    pub model: String,
    /// True if the client's balance is too small: only a deposit helps. False: the budget of the run is.
    pub of_client: bool,
    /// Money; absent without a limit on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<ShortOf<Usd>>,
    /// Tokens; absent without a limit on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ShortOf<u64>>,
}

/// What a call needs of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortOf<T> {
    /// The least that a useful call needs.
    pub least: T,
    /// What the call needs in full.
    pub needs: T,
    /// Part of the budget that no call has used or reserved.
    pub left: T,
    /// The budget, or all that was deposited.
    pub budget: T,
}

impl From<Shortfall> for ShortfallView {
    fn from(short: Shortfall) -> ShortfallView {
        let Shortfall { model, of_client, needs, least, left, limits } = short;
        let usd = limits.nano_usd.zip(left.nano_usd).map(|(budget, left)| ShortOf {
            least: Usd(least.nano_usd),
            needs: Usd(needs.nano_usd),
            left: Usd(left),
            budget: Usd(budget),
        });
        let tokens = limits.tokens.zip(left.tokens).map(|(budget, left)| ShortOf {
            least: least.tokens,
            needs: needs.tokens,
            left,
            budget,
        });
        ShortfallView { model, of_client, usd, tokens }
    }
}

/// A test of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestView {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The effect.
    pub effect: String,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
}

/// The body of `POST /v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The decision.
    pub decision: Decision,
    /// Digest of what was shown.
    pub digest: String,
    /// A note of up to 4 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// By how much the budget grows; required to approve a call over the budget of its run, refused for anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raise: Option<Raise>,
    /// Further calls that the approval grants; refused beside a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<GrantRequest>,
}

/// A person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Continue.
    Approve,
    /// Do not.
    Reject,
}
