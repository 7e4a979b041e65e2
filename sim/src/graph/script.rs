//! What a case says the tools, models, people and planners will do.

use std::collections::BTreeMap;
use std::fmt::Display;

use ostler_kernel::plan::{Delta, HumanDuration, NodeDraft, NodeFields, PlanDraft, PolicyDraft};
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::CaseError;
use super::duplicate_keys::UniqueKeys;

/// A case of `graph_cases.jsonl`; what is expected of it stays apart.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) id: String,
    #[serde(default, rename = "title")]
    _title: Option<String>,
    #[serde(deserialize_with = "plan")]
    pub(super) plan: PlanDraft,
    #[serde(default, deserialize_with = "policy")]
    pub(super) policy: Option<PolicyDraft>,
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
    #[serde(default)]
    pub(super) script: BTreeMap<String, Vec<OutcomeScript>>,
    #[serde(default)]
    pub(super) patch: BTreeMap<String, Vec<Option<PatchScript>>>,
    #[serde(default)]
    pub(super) human: BTreeMap<String, Vec<HumanScript>>,
    #[serde(default)]
    pub(super) control: Vec<ControlScript>,
    #[serde(default)]
    pub(super) replans: Vec<Option<ReplanScript>>,
    #[serde(default)]
    pub(super) expect: Option<Value>,
}

impl Case {
    /// Reads a line.
    pub(super) fn read(line: &str) -> Result<Case, CaseError> {
        let UniqueKeys = serde_json::from_str(line).map_err(CaseError::shape)?;
        serde_json::from_str(line).map_err(CaseError::shape)
    }
}

/// One attempt: `ok`, `fail` or `invalid`, and how long it takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeScript {
    #[serde(default)]
    pub(super) ok: Value,
    #[serde(default)]
    pub(super) fail: Option<ostler_kernel::run::FailureCategory>,
    #[serde(default)]
    pub(super) invalid: bool,
    #[serde(default = "one", deserialize_with = "ticks")]
    pub(super) dur: i64,
    #[serde(default)]
    pub(super) delta: Option<DeltaScript>,
    #[serde(default)]
    pub(super) conclude: bool,
}

impl Default for OutcomeScript {
    fn default() -> Self {
        OutcomeScript { ok: Value::Null, fail: None, invalid: false, dur: 1, delta: None, conclude: false }
    }
}

fn one() -> i64 {
    1
}

/// A time or a span, which is not negative.
fn ticks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let ticks = i64::deserialize(deserializer)?;
    if ticks >= 0 { Ok(ticks) } else { Err(D::Error::custom(format!("{ticks} is before the beginning"))) }
}

fn some_ticks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Option::<i64>::deserialize(deserializer)?.map(|ticks| self::ticks(ticks.into_deserializer())).transpose()
}

fn plan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PlanDraft, D::Error> {
    let plan = PlanDraft::deserialize(deserializer)?;
    let policy = || plan.policy.as_ref().map_or(Ok(()), whole_policy);
    plan.nodes.iter().try_for_each(whole_node).and_then(|()| policy()).map_err(D::Error::custom)?;
    Ok(plan)
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PolicyDraft>, D::Error> {
    let policy = Option::<PolicyDraft>::deserialize(deserializer)?;
    policy.as_ref().map_or(Ok(()), whole_policy).map_err(D::Error::custom)?;
    Ok(policy)
}

/// That times are whole: a plan that runs may wait for half a second, but no tick has a half.
fn whole<const N: usize>(
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

const NODE_TIMES: [&str; 3] = ["timeout", "heartbeat_timeout", "human_timeout"];

fn whole_node(node: &NodeDraft) -> Result<(), String> {
    whole(&node.id, NODE_TIMES, [node.timeout, node.heartbeat_timeout, node.human_timeout])?;
    node.fallback.as_deref().map_or(Ok(()), |fields| whole_fields(&node.id, fields))
}

fn whole_fields(whose: &dyn Display, fields: &NodeFields) -> Result<(), String> {
    let NodeFields { timeout, heartbeat_timeout, human_timeout, .. } = *fields;
    whole(whose, NODE_TIMES, [timeout, heartbeat_timeout.flatten(), human_timeout.flatten()])
}

fn whole_policy(policy: &PolicyDraft) -> Result<(), String> {
    whole(&"the policy", ["backoff_base", "backoff_cap"], [policy.backoff_base, policy.backoff_cap])
}

/// An answer of the micro-planner: outcomes alone, or a new configuration too, or a refusal.
#[derive(Debug, Clone)]
pub(super) struct PatchScript {
    pub(super) refuse: bool,
    pub(super) set: Option<NodeFields>,
    pub(super) outcomes: Vec<OutcomeScript>,
    pub(super) dur: Option<i64>,
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
                let times = set.as_ref().map_or(Ok(()), |set| whole_fields(&"a patch", set));
                times.map_err(D::Error::custom)?;
                Ok(PatchScript { refuse, set, outcomes, dur })
            }
        }
    }
}

/// An answer of a person, that many ticks after the request.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HumanScript {
    Approve(#[serde(deserialize_with = "ticks")] i64),
    Reject(#[serde(deserialize_with = "ticks")] i64),
}

/// What the operator does at a time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ControlScript {
    #[serde(deserialize_with = "ticks")]
    pub(super) at: i64,
    pub(super) op: ControlKind,
    #[serde(default)]
    pub(super) node: Option<String>,
    #[serde(default)]
    pub(super) delta: Option<DeltaScript>,
    #[serde(default, deserialize_with = "some_ticks")]
    pub(super) timeout: Option<i64>,
    #[serde(default)]
    pub(super) outcome: Option<OutcomeScript>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ControlKind {
    CancelPlan,
    Cancel,
    Skip,
    Delta,
    Interject,
}

/// An answer of the planner: a delta with a few words beside it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ReplanScript {
    #[serde(default)]
    pub(super) refuse: bool,
    #[serde(default, deserialize_with = "some_ticks")]
    pub(super) dur: Option<i64>,
    #[serde(flatten)]
    pub(super) delta: DeltaScript,
}

/// A change as a case has it: the change itself, and beside it the outcomes of what it adds.
#[derive(Debug, Clone)]
pub(super) struct DeltaScript {
    /// The change as it is written.
    pub(super) written: Map<String, Value>,
    /// The change. Whether a plan takes it is told when it arrives there; what cannot be read at all is no case.
    pub(super) delta: Delta,
    pub(super) script: AddedScript,
}

/// The outcomes that a delta brings for the nodes it adds.
pub(super) type AddedScript = BTreeMap<String, Vec<OutcomeScript>>;

impl DeltaScript {
    /// Parts a delta of a case into the delta itself and the outcomes of what it adds.
    fn part(mut written: Map<String, Value>) -> Result<DeltaScript, String> {
        let unread = |error: serde_json::Error| format!("a delta cannot be read: {error}");
        let mut script: AddedScript = match written.remove("script") {
            Some(script) => serde_json::from_value(script).map_err(unread)?,
            None => AddedScript::new(),
        };
        let delta: Delta = serde_json::from_value(Value::Object(written.clone())).map_err(unread)?;
        delta.add.iter().try_for_each(whole_node)?;
        delta.set.iter().try_for_each(|(node, fields)| whole_fields(node, fields))?;
        script.retain(|node, _| delta.add.iter().any(|added| added.id.as_str() == node.as_str()));
        Ok(DeltaScript { written, delta, script })
    }
}

impl<'de> Deserialize<'de> for DeltaScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DeltaScript::part(Map::<String, Value>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
