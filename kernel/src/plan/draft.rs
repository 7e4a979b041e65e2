//! Plans as people and models write them: one serde form for YAML, JSON, TOML and the conformance cases.
//! Deserialising checks the shape only; [`normalise`](super::normalise) fills in defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::duration::HumanDuration;
use super::{
    Approval, Dep, Dispatch, Effect, Idempotency, InDoubt, Join, Kind, MODEL_DEFAULT, Method, ParamRef,
};
use crate::agent::Oversight;
use crate::id::NodeId;
use crate::ledger::Usd;
use crate::run::{FailureCategory, RecoveryStrategy};

/// A plan as written. Unknown fields are rejected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a plan: a map with an `id` and a list of `nodes`")]
pub struct PlanDraft {
    /// The author's name for the plan.
    pub id: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// 1, if given: a plan file is always a first version.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "first_version")]
    pub version: Option<u32>,
    /// The nodes, in the author's order.
    pub nodes: Vec<NodeDraft>,
    /// Nodes the run is for; `None` means the exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<NodeId>>,
    /// True if references add no edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Limits and choices that differ from the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyDraft>,
    /// Rules over the map of the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Vec<RuleDraft>>,
}

/// Id of the node in a plan made of one call.
const CALL: &str = "call";

impl PlanDraft {
    /// Creates a plan of one node, `call`, for one tool call.
    pub fn call(tool: &str, params: Map<String, Value>) -> PlanDraft {
        let (tool, params) = (Some(tool.to_owned()), Some(params));
        let node = NodeDraft { tool: tool.clone(), params, ..NodeDraft::named(CALL) };
        PlanDraft { id: tool.unwrap_or_default(), nodes: vec![node], ..PlanDraft::default() }
    }
}

/// A node as written; [`Node`](super::Node) documents the fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a node: a map with an `id` and a `tool`")]
#[allow(missing_docs)] // the fields are those of Node
pub struct NodeDraft {
    pub id: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deps: Option<Vec<DepDraft>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param_refs: Option<BTreeMap<String, ParamRef>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Vec<NodeId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Vec<RuleDraft>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<Impact>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idem: Option<Idempotency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<HumanDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_timeout: Option<HumanDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<NodeFields>>,
    /// A guard, or a list of guards. Parsed during validation, so a malformed guard is reported as V27 together with other
    /// diagnostics; the same holds for the next fields.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub when: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub for_each: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub fresh: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<HumanDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub undo: Option<Value>,
}

impl PlanDraft {
    /// Lets the nodes that ask the default model ask `model`.
    pub fn ask(&mut self, model: &str) {
        for node in &mut self.nodes {
            let names_none = node.params.as_ref().is_none_or(|params| !params.contains_key("model"));
            let asks_default = match node.model.as_deref() {
                Some(named) => named == MODEL_DEFAULT,
                None => names_none && matches!(node.kind, Some(Kind::Model | Kind::SubAgent)),
            };
            if asks_default {
                node.model = Some(model.to_owned());
            }
        }
    }
}

impl NodeDraft {
    /// Creates a node with nothing but an id.
    pub fn named(id: impl Into<NodeId>) -> NodeDraft {
        NodeDraft {
            id: id.into(),
            kind: None,
            tool: None,
            model: None,
            deps: None,
            join: None,
            dispatch: None,
            params: None,
            param_refs: None,
            reads: None,
            contract: None,
            effect: None,
            impact: None,
            idem: None,
            timeout: None,
            heartbeat_timeout: None,
            retries: None,
            patches: None,
            approval: None,
            human_timeout: None,
            fallback: None,
            when: None,
            for_each: None,
            fresh: None,
            deadline: None,
            undo: None,
        }
    }
}

/// Node fields set by a change. Absent fields stay; `null` removes a tool, model, contract, heartbeat timeout,
/// human timeout, deadline, undo, guards or a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a map of fields of a node")]
#[allow(missing_docs)] // the fields are those of Node
pub struct NodeFields {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub tool: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub model: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub params: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub param_refs: Option<BTreeMap<String, ParamRef>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub reads: Option<Vec<NodeId>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub contract: Option<Option<Vec<RuleDraft>>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub effect: Option<Effect>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub impact: Option<Impact>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub idem: Option<Idempotency>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub timeout: Option<HumanDuration>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub heartbeat_timeout: Option<Option<HumanDuration>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub retries: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub patches: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub approval: Option<Approval>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub human_timeout: Option<Option<HumanDuration>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub when: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub for_each: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub deadline: Option<Option<HumanDuration>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub undo: Option<Value>,

    // A change may not set the fields below. Deserialising accepts them, so validation reports D06 beside
    // other diagnostics.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub deps: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub join: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub dispatch: Option<Value>,
}

impl NodeFields {
    /// Fields that are stored unparsed.
    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        [&self.when, &self.for_each, &self.undo].into_iter().flatten()
    }

    /// The same, mutable.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        [&mut self.when, &mut self.for_each, &mut self.undo].into_iter().flatten()
    }

    /// Names of the present fields that no change may set.
    pub fn forbidden(&self) -> impl Iterator<Item = &'static str> {
        [("id", &self.id), ("deps", &self.deps), ("join", &self.join), ("dispatch", &self.dispatch)]
            .into_iter()
            .filter_map(|(name, field)| field.is_some().then_some(name))
    }
}

/// A contract rule as written. A missing method is a V09, not a shape error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a rule: a map with a `method` and a `spec`")]
#[allow(missing_docs)] // the fields are those of Rule
pub struct RuleDraft {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Arc<Value>>,
}

/// Limits and choices as written; absent ones take the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a map of limits")]
#[allow(missing_docs)] // the fields are those of Policy
pub struct PolicyDraft {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replans: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_versions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_base: Option<HumanDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_cap: Option<HumanDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_doubt: Option<InDoubt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversight: Option<Oversight>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<BTreeMap<FailureCategory, RecoveryStrategy>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// `keep` or `undo`; anything else is a V32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_kept: Option<u32>,
}

/// Impact of a node: 0 observe, 1 operate, 2 control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Impact(u8);

impl Impact {
    /// Returns the impact, or `None` above 2.
    pub fn new(impact: u8) -> Option<Impact> {
        (impact <= 2).then_some(Impact(impact))
    }

    /// The number: 0, 1 or 2.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Impact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let impact = i64::deserialize(deserializer)?;
        u8::try_from(impact).ok().and_then(Impact::new).ok_or_else(|| {
            D::Error::custom(format!("impact is 0 (observe), 1 (operate) or 2 (control), found {impact}"))
        })
    }
}

/// An edge as written: the id of the source, or `{n, on}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DepDraft(pub Dep);

impl<'de> Deserialize<'de> for DepDraft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = DepDraft;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the id of a node, or {n: id, on: success | terminal}")
            }

            fn visit_str<E: Error>(self, id: &str) -> Result<DepDraft, E> {
                Ok(DepDraft(Dep { n: id.into(), on: Default::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DepDraft, A::Error> {
                Dep::deserialize(MapAccessDeserializer::new(map)).map(DepDraft)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Deserialises a present field to `Some`, even for `null`; absent fields stay `None` by default.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn first_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::<i64>::deserialize(deserializer)? {
        None => Ok(None),
        Some(1) => Ok(Some(1)),
        Some(version) => {
            Err(D::Error::custom(format!("the version of a plan as written is 1, found {version}")))
        }
    }
}
