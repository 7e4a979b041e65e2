//! The script of a case: future results of tools and models, answers of people and planners, inputs of the operator.

use std::collections::BTreeMap;
use std::fmt::Display;

use ostler_kernel::plan::{Delta, HumanDuration, NodeDraft, NodeFields, PlanDraft, PolicyDraft};
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::CaseError;
pub(crate) use super::duplicate_keys::UniqueKeys;

/// A case of `graph_cases.jsonl`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(default, rename = "title")]
    _title: Option<String>,
    #[serde(deserialize_with = "plan")]
    pub(crate) plan: PlanDraft,
    #[serde(default, deserialize_with = "policy")]
    pub(crate) policy: Option<PolicyDraft>,
    #[serde(default)]
    pub(crate) tools: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) script: BTreeMap<String, Vec<OutcomeScript>>,
    #[serde(default)]
    pub(crate) patch: BTreeMap<String, Vec<Option<PatchScript>>>,
    #[serde(default)]
    pub(crate) human: BTreeMap<String, Vec<HumanScript>>,
    #[serde(default)]
    pub(crate) control: Vec<ControlScript>,
    #[serde(default)]
    pub(crate) replans: Vec<Option<ReplanScript>>,
    #[serde(default)]
    pub(crate) answers: Vec<AnswerScript>,
    #[serde(default)]
    pub(crate) crash: CrashScript,
    #[serde(default)]
    pub(crate) expect: Option<Value>,
}

impl Case {
    pub(crate) fn read(line: &str) -> Result<Case, CaseError> {
        let UniqueKeys = serde_json::from_str(line).map_err(CaseError::shape)?;
        serde_json::from_str(line).map_err(CaseError::shape)
    }
}

/// The result of one attempt (`ok`, `fail` or `invalid`) and its duration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeScript {
    #[serde(default)]
    pub(crate) ok: Value,
    #[serde(default)]
    pub(crate) fail: Option<ostler_kernel::run::FailureCategory>,
    #[serde(default)]
    pub(crate) invalid: bool,
    #[serde(default = "one", deserialize_with = "ticks")]
    pub(crate) dur: i64,
    #[serde(default)]
    pub(crate) delta: Option<DeltaScript>,
    #[serde(default)]
    pub(crate) conclude: bool,
}

impl Default for OutcomeScript {
    fn default() -> Self {
        OutcomeScript { ok: Value::Null, fail: None, invalid: false, dur: 1, delta: None, conclude: false }
    }
}

pub(crate) fn one() -> i64 {
    1
}

pub(crate) fn ticks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let ticks = i64::deserialize(deserializer)?;
    if ticks >= 0 { Ok(ticks) } else { Err(D::Error::custom(format!("{ticks} ticks: a time is 0 or more"))) }
}

pub(crate) fn some_ticks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Option::<i64>::deserialize(deserializer)?.map(|ticks| self::ticks(ticks.into_deserializer())).transpose()
}

fn plan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PlanDraft, D::Error> {
    let plan = PlanDraft::deserialize(deserializer)?;
    let policy = || plan.policy.as_ref().map_or(Ok(()), check_policy_times);
    plan.nodes.iter().try_for_each(check_node_times).and_then(|()| policy()).map_err(D::Error::custom)?;
    Ok(plan)
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PolicyDraft>, D::Error> {
    let policy = Option::<PolicyDraft>::deserialize(deserializer)?;
    policy.as_ref().map_or(Ok(()), check_policy_times).map_err(D::Error::custom)?;
    Ok(policy)
}

/// Refuses fractions of a tick. (Times in the plan of a real run may be fractions of a second.)
fn check_whole_ticks<const N: usize>(
    whose: &dyn Display,
    names: [&str; N],
    times: [Option<HumanDuration>; N],
) -> Result<(), String> {
    for (name, span) in names.into_iter().zip(times) {
        if let Some(HumanDuration::Fraction(ticks)) = span
            && ticks.fract() != 0.0
        {
            return Err(format!("the {name} of {whose} is {ticks}: times are whole numbers of ticks"));
        }
    }
    Ok(())
}

const NODE_TIMES: [&str; 4] = ["timeout", "heartbeat_timeout", "human_timeout", "deadline"];

fn check_node_times(node: &NodeDraft) -> Result<(), String> {
    let times = [node.timeout, node.heartbeat_timeout, node.human_timeout, node.deadline];
    check_whole_ticks(&node.id, NODE_TIMES, times)?;
    node.fallback.as_deref().map_or(Ok(()), |fields| check_field_times(&node.id, fields))
}

fn check_field_times(whose: &dyn Display, fields: &NodeFields) -> Result<(), String> {
    let NodeFields { timeout, heartbeat_timeout, human_timeout, deadline, .. } = *fields;
    let times = [timeout, heartbeat_timeout.flatten(), human_timeout.flatten(), deadline.flatten()];
    check_whole_ticks(whose, NODE_TIMES, times)
}

fn check_policy_times(policy: &PolicyDraft) -> Result<(), String> {
    check_whole_ticks(
        &"the policy",
        ["backoff_base", "backoff_cap"],
        [policy.backoff_base, policy.backoff_cap],
    )
}

/// An answer from outside.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerScript {
    #[serde(deserialize_with = "ticks")]
    pub(crate) at: i64,
    pub(crate) node: String,
    #[serde(default)]
    pub(crate) value: Value,
    /// The value breaks the contract.
    #[serde(default)]
    pub(crate) invalid: bool,
    #[serde(default)]
    pub(crate) id: Option<String>,
}

/// Deaths of the process: at every place, or once at the first place with so many events.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum CrashScript {
    Always(bool),
    At(Vec<usize>),
}

impl Default for CrashScript {
    fn default() -> Self {
        CrashScript::Always(false)
    }
}

/// An answer to a patch request: outcomes, a new configuration with outcomes, or a refusal.
#[derive(Debug, Clone)]
pub(crate) struct PatchScript {
    pub(crate) refuse: bool,
    pub(crate) set: Option<NodeFields>,
    pub(crate) outcomes: Vec<OutcomeScript>,
    pub(crate) dur: Option<i64>,
}

impl<'de> Deserialize<'de> for PatchScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            refuse: bool,
            #[serde(default)]
            set: Option<NodeFields>,
            #[serde(default)]
            outcomes: Vec<OutcomeScript>,
            #[serde(default, deserialize_with = "some_ticks")]
            dur: Option<i64>,
        }
        let wrong = D::Error::custom;
        match Value::deserialize(deserializer)? {
            list @ Value::Array(_) => {
                let outcomes = serde_json::from_value(list).map_err(wrong)?;
                Ok(PatchScript { refuse: false, set: None, outcomes, dur: None })
            }
            fields => {
                let Fields { refuse, set, outcomes, dur } = serde_json::from_value(fields).map_err(wrong)?;
                let times = set.as_ref().map_or(Ok(()), |set| check_field_times(&"a patch", set));
                times.map_err(D::Error::custom)?;
                Ok(PatchScript { refuse, set, outcomes, dur })
            }
        }
    }
}

/// A person's answer, so many ticks after the question.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HumanScript {
    Approve(#[serde(deserialize_with = "ticks")] i64),
    Reject(#[serde(deserialize_with = "ticks")] i64),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlScript {
    #[serde(deserialize_with = "ticks")]
    pub(crate) at: i64,
    pub(crate) op: ControlKind,
    #[serde(default)]
    pub(crate) node: Option<String>,
    #[serde(default)]
    pub(crate) delta: Option<DeltaScript>,
    #[serde(default, deserialize_with = "some_ticks")]
    pub(crate) timeout: Option<i64>,
    #[serde(default)]
    pub(crate) outcome: Option<OutcomeScript>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlKind {
    CancelPlan,
    Cancel,
    Skip,
    Delta,
    Interject,
    Undo,
}

/// An answer to a replan request: a delta with a duration, or a refusal.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ReplanScript {
    #[serde(default)]
    pub(crate) refuse: bool,
    #[serde(default, deserialize_with = "some_ticks")]
    pub(crate) dur: Option<i64>,
    #[serde(flatten)]
    pub(crate) delta: DeltaScript,
}

/// A delta with the outcomes of the nodes it adds.
#[derive(Debug, Clone)]
pub(crate) struct DeltaScript {
    pub(crate) written: Map<String, Value>,
    /// The parsed delta. The plan may still refuse it on arrival.
    pub(crate) delta: Delta,
    pub(crate) script: AddedScript,
}

pub(crate) type AddedScript = BTreeMap<String, Vec<OutcomeScript>>;

impl DeltaScript {
    /// Separates the delta from the outcomes of its nodes.
    fn separate(mut written: Map<String, Value>) -> Result<DeltaScript, String> {
        let unread = |error: serde_json::Error| format!("a delta cannot be read: {error}");
        let mut script: AddedScript = match written.remove("script") {
            Some(script) => serde_json::from_value(script).map_err(unread)?,
            None => AddedScript::new(),
        };
        let delta: Delta = serde_json::from_value(Value::Object(written.clone())).map_err(unread)?;
        delta.add.iter().try_for_each(check_node_times)?;
        delta.set.iter().try_for_each(|(node, fields)| check_field_times(node, fields))?;
        script.retain(|node, _| delta.add.iter().any(|added| added.id.as_str() == node.as_str()));
        Ok(DeltaScript { written, delta, script })
    }
}

impl<'de> Deserialize<'de> for DeltaScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DeltaScript::separate(Map::<String, Value>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
