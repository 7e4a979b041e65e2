//! The form of a mode case: a goal, the tools, and the script of models, tools and people.

use std::collections::BTreeMap;

use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Delta, HumanDuration, Idempotency, PolicyDraft};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, ContextForm, DIGEST_TOKENS, GOAL_LIMIT, GoalModels, GoalTerms, Mode,
    Role,
};
use ostler_kernel::run::FailureCategory;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::graph::CaseError;
use crate::graph::script::{ControlKind, DeltaScript, HumanScript, UniqueKeys, one, some_ticks, ticks};

/// Timeout of an attempt, and wait for a person, without one in the case.
const TIMEOUT: i64 = 100;

/// A line of a file of mode cases.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) terms: TermsScript,
    pub(super) answers: AnswerScripts,
    pub(super) outside: OutsideScript,
    pub(super) expect: Option<Value>,
}

/// Fields of a case besides those of its parts.
const FIELDS: [&str; 3] = ["id", "title", "expect"];

impl Case {
    pub(super) fn read(line: &str) -> Result<Case, CaseError> {
        let UniqueKeys = serde_json::from_str(line).map_err(CaseError::shape)?;
        let fields: Map<String, Value> = serde_json::from_str(line).map_err(CaseError::shape)?;
        let [mut whole, mut terms, mut answers, mut outside] = std::array::from_fn(|_| Map::new());
        for (name, value) in fields {
            let part = match name.as_str() {
                name if FIELDS.contains(&name) => &mut whole,
                name if TermsScript::FIELDS.contains(&name) => &mut terms,
                name if AnswerScripts::FIELDS.contains(&name) => &mut answers,
                _ => &mut outside, // which refuses unknown fields
            };
            part.insert(name, value);
        }
        let Some(Value::String(id)) = whole.remove("id") else {
            return Err(CaseError::Shape("missing field `id`: a text".to_owned()));
        };
        Ok(Case {
            id,
            terms: serde_json::from_value(terms.into()).map_err(CaseError::shape)?,
            answers: serde_json::from_value(answers.into()).map_err(CaseError::shape)?,
            outside: serde_json::from_value(outside.into()).map_err(CaseError::shape)?,
            expect: whole.remove("expect"),
        })
    }
}

/// What the run is opened with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TermsScript {
    goal: String,
    mode: Mode,
    #[serde(default)]
    aggregator: Aggregator,
    #[serde(default)]
    context: ContextForm,
    #[serde(default, deserialize_with = "base_tokens")]
    base_tokens: BaseTokens,
    #[serde(default = "digest_tokens")]
    digest_tokens: u64,
    #[serde(default = "timeout", deserialize_with = "ticks")]
    human_timeout: i64,
    /// Longest call of a model. Not a key of cases.
    #[serde(skip, default = "timeout")]
    pub(super) control_timeout: i64,
    #[serde(default)]
    budgets: BudgetScript,
    #[serde(default)]
    policy: PolicyDraft,
}

fn digest_tokens() -> u64 {
    DIGEST_TOKENS
}

fn timeout() -> i64 {
    TIMEOUT
}

impl TermsScript {
    const FIELDS: [&'static str; 9] = [
        "goal",
        "mode",
        "aggregator",
        "context",
        "base_tokens",
        "digest_tokens",
        "human_timeout",
        "budgets",
        "policy",
    ];

    pub(super) fn terms(&self) -> GoalTerms {
        let budgets = Budgets::of_mode(self.mode);
        let given = &self.budgets;
        GoalTerms {
            goal: self.goal.clone(),
            mode: self.mode,
            aggregator: self.aggregator,
            context: self.context,
            digest_tokens: self.digest_tokens,
            budgets: Budgets {
                model_calls: given.model_calls.unwrap_or(budgets.model_calls),
                tokens: given.tokens,
                replans: given.replans.unwrap_or(budgets.replans),
                wall: given.wall,
            },
            base: self.base_tokens.clone(),
            control_timeout: HumanDuration::Whole(self.control_timeout),
            human_timeout: HumanDuration::Whole(self.human_timeout),
            opened_at: 0,
            models: GoalModels::default(),
            model_file: None,
            tools: None,
            on: Vec::new(),
            templates: Vec::new(),
            confirm: false,
        }
    }

    pub(super) fn policy(&self) -> PolicyDraft {
        let most = |given: Option<u32>| Some(given.unwrap_or(GOAL_LIMIT));
        PolicyDraft {
            max_replans: Some(0),
            max_nodes: most(self.budgets.nodes),
            max_versions: most(self.budgets.versions),
            max_depth: most(self.budgets.depth),
            ..self.policy.clone()
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetScript {
    nodes: Option<u32>,
    versions: Option<u32>,
    depth: Option<u32>,
    model_calls: Option<u64>,
    tokens: Option<u64>,
    replans: Option<u32>,
    #[serde(default, deserialize_with = "some_ticks")]
    wall: Option<i64>,
}

/// Reads the tokens of every role: one number, or numbers by role with `*` for any other.
fn base_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BaseTokens, D::Error> {
    let mut base = BaseTokens::default();
    let roles: BTreeMap<String, u64> = match Value::deserialize(deserializer)? {
        Value::Object(roles) => serde_json::from_value(roles.into()).map_err(D::Error::custom)?,
        number => {
            base.other = serde_json::from_value(number).map_err(D::Error::custom)?;
            return Ok(base);
        }
    };
    for (role, tokens) in roles {
        if role == "*" {
            base.other = tokens;
        } else {
            let role: Role = serde_json::from_value(Value::from(role)).map_err(D::Error::custom)?;
            base.roles.insert(role, tokens);
        }
    }
    Ok(base)
}

/// Answers of models, by role; those about a node by node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AnswerScripts {
    pub(super) plans: Vec<AnswerScript>,
    pub(super) reflections: Vec<AnswerScript>,
    pub(super) thoughts: Vec<AnswerScript>,
    pub(super) answers: Vec<AnswerScript>,
    pub(super) interjections: Vec<AnswerScript>,
    pub(super) observations: BTreeMap<String, Vec<AnswerScript>>,
    pub(super) micro: BTreeMap<String, Vec<AnswerScript>>,
}

impl AnswerScripts {
    const FIELDS: [&'static str; 7] =
        ["plans", "reflections", "thoughts", "answers", "interjections", "observations", "micro"];
}

/// A scripted answer of a model, or of a person in its place.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerScript {
    #[serde(default)]
    pub(super) ok: Value,
    #[serde(default)]
    pub(super) fail: Option<FailureCategory>,
    #[serde(default = "one", deserialize_with = "ticks")]
    pub(super) dur: i64,
    #[serde(default)]
    pub(super) tokens: u64,
    #[serde(default)]
    pub(super) finish: Finish,
    /// Outcomes of the patched node, in an answer of the micro-planner.
    #[serde(default)]
    pub(super) outcomes: Vec<WorkScript>,
}

impl AnswerScript {
    pub(super) fn ok(ok: Value) -> AnswerScript {
        AnswerScript { ok, fail: None, dur: 1, tokens: 0, finish: Finish::Stop, outcomes: Vec::new() }
    }

    pub(super) fn fail(category: FailureCategory) -> AnswerScript {
        AnswerScript { fail: Some(category), ..AnswerScript::ok(Value::Null) }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finish {
    #[default]
    Stop,
    Length,
}

/// Tools, outcomes of work, people and operators.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OutsideScript {
    pub(super) tools: BTreeMap<String, ToolScript>,
    pub(super) script: BTreeMap<String, Vec<WorkScript>>,
    pub(super) human: BTreeMap<String, Vec<HumanScript>>,
    pub(super) controls: Vec<ControlScript>,
}

/// A tool and the tokens of its results.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolScript {
    pub(super) impact: u8,
    pub(super) impacts: BTreeMap<String, BTreeMap<String, u8>>,
    pub(super) trusted: bool,
    pub(super) size: u64,
    pub(super) index: u64,
    pub(super) params: Option<BTreeMap<String, Presence>>,
    pub(super) sensitive: Vec<String>,
    pub(super) retries: i64,
    pub(super) patches: i64,
    #[serde(deserialize_with = "ticks")]
    pub(super) timeout: i64,
    pub(super) idem: Idempotency,
}

impl Default for ToolScript {
    fn default() -> Self {
        ToolScript {
            impact: 0,
            impacts: BTreeMap::new(),
            trusted: true,
            size: 0,
            index: 0,
            params: None,
            sensitive: Vec::new(),
            retries: 0,
            patches: 0,
            timeout: TIMEOUT,
            idem: Idempotency::Natural,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Presence {
    Required,
    Optional,
}

/// The result of one attempt of work. `size` are tokens, the tool's by default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkScript {
    #[serde(default)]
    pub(super) ok: Value,
    #[serde(default)]
    pub(super) fail: Option<FailureCategory>,
    #[serde(default)]
    pub(super) invalid: bool,
    #[serde(default = "one", deserialize_with = "ticks")]
    pub(super) dur: i64,
    #[serde(default)]
    pub(super) size: Option<u64>,
    #[serde(default)]
    pub(super) message: String,
}

impl Default for WorkScript {
    fn default() -> Self {
        WorkScript { ok: Value::Null, fail: None, invalid: false, dur: 1, size: None, message: String::new() }
    }
}

/// An operator's input.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ControlScript {
    #[serde(deserialize_with = "ticks")]
    pub(super) at: i64,
    pub(super) op: ControlKind,
    #[serde(default)]
    node: Option<NodeId>,
    #[serde(default)]
    delta: Option<ModeDelta>,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) person: Option<AnswerScript>,
}

impl ControlScript {
    pub(super) fn node(&self) -> Result<NodeId, CaseError> {
        self.node.clone().ok_or(CaseError::ControlWithoutNode)
    }

    /// The delta and the outcomes of the nodes it adds.
    pub(super) fn delta(&self) -> Result<&ModeDelta, CaseError> {
        self.delta.as_ref().ok_or(CaseError::ControlWithoutDelta)
    }
}

/// A delta of an operator, with outcomes of the nodes it adds.
#[derive(Debug, Clone)]
pub(super) struct ModeDelta {
    pub(super) delta: Delta,
    pub(super) script: BTreeMap<String, Vec<WorkScript>>,
}

impl<'de> Deserialize<'de> for ModeDelta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut written = Map::deserialize(deserializer)?;
        let mut script: BTreeMap<String, Vec<WorkScript>> = match written.remove("script") {
            Some(script) => serde_json::from_value(script).map_err(D::Error::custom)?,
            None => BTreeMap::new(),
        };
        let DeltaScript { delta, .. } = serde_json::from_value(written.into()).map_err(D::Error::custom)?;
        script.retain(|node, _| delta.add.iter().any(|added| added.id.as_str() == node.as_str()));
        Ok(ModeDelta { delta, script })
    }
}
