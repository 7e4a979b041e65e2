//! What a case says the tools, models, people and planners will do.

use std::collections::BTreeMap;

use ostler_kernel::plan::NodeFields;
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A case of `graph_cases.jsonl`; what is expected of it stays apart.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) id: String,
    #[serde(default, rename = "title")]
    _title: Option<String>,
    pub(super) plan: Value,
    #[serde(default)]
    pub(super) policy: Option<Value>,
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

/// One attempt: `ok`, `fail` or `invalid`, and how long it takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeScript {
    #[serde(default)]
    pub(super) ok: Value,
    #[serde(default)]
    pub(super) fail: Option<ostler_kernel::run::Category>,
    #[serde(default)]
    pub(super) invalid: bool,
    #[serde(default = "one", deserialize_with = "ticks")]
    pub(super) dur: i64,
    #[serde(default)]
    pub(super) delta: Option<Map<String, Value>>,
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
    pub(super) delta: Option<Map<String, Value>>,
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
    pub(super) delta: Map<String, Value>,
}

/// The outcomes that a delta brings for the nodes it adds.
pub(super) type AddedScript = BTreeMap<String, Vec<OutcomeScript>>;

/// Parts a delta of a case into the delta itself and the outcomes of what it adds.
pub(super) fn part(
    mut delta: Map<String, Value>,
) -> Result<(Map<String, Value>, AddedScript), serde_json::Error> {
    let mut script = match delta.remove("script") {
        Some(script) => serde_json::from_value(script)?,
        None => AddedScript::new(),
    };
    let added: Vec<&Value> = delta.get("add").and_then(Value::as_array).into_iter().flatten().collect();
    script.retain(|node, _| added.iter().any(|added| added["id"] == *node.as_str()));
    Ok((delta, script))
}
