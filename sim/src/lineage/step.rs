//! A step of the plan as a case writes it.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::json::{Json, Object};
use ostler_kernel::lineage::{self, ExecutableSpec, Repetition};
use ostler_kernel::plan::{Effect, ForEach, Guard, Idempotency};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::function::text_of;
use crate::graph::CaseError;

/// A reference to the result of another step.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Reference {
    pub(super) from: NodeId,
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) template: Option<String>,
}

/// A step, reduced to the fields of its identity.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) id: NodeId,
    /// All fields as written.
    pub(super) fields: Map<String, Value>,
    pub(super) params: Object,
    pub(super) refs: BTreeMap<String, Reference>,
    pub(super) deps: BTreeSet<NodeId>,
    /// The guards, in their order.
    pub(super) guards: Vec<Guard>,
    pub(super) for_each: Option<ForEach>,
    pub(super) effect: Effect,
    pub(super) idem: Idempotency,
    pub(super) reusable: bool,
    /// The contract with its canonical text.
    pub(super) contract: (Value, Json),
}

impl Step {
    pub(super) fn read(fields: &Map<String, Value>) -> Result<Step, CaseError> {
        let id = fields.get("id").and_then(Value::as_str).ok_or_else(|| shape("a node without `id`"))?;
        let contract = match fields.get("contract") {
            None | Some(Value::Null) => json!([{"method": "schema"}]),
            Some(contract) => contract.clone(),
        };
        let text = text_of(&contract)?;
        let step = Step {
            id: NodeId::from(id),
            params: read::<Map<String, Value>>(fields, "params")?.into(),
            refs: read(fields, "param_refs")?,
            deps: read(fields, "deps")?,
            guards: match fields.get("when") {
                Some(guard @ Value::Object(_)) => vec![read_value(guard, "when")?],
                _ => read(fields, "when")?,
            },
            for_each: read(fields, "for_each")?,
            effect: read(fields, "effect")?,
            idem: read(fields, "idem")?,
            reusable: read(fields, "reusable")?,
            contract: (contract, text),
            fields: fields.clone(),
        };
        step.params.canonical().map_err(|error| shape(format!("parameters of {id}: {error}")))?;
        Ok(step)
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.field(name).and_then(Value::as_str)
    }

    pub(super) fn kind(&self) -> &str {
        self.text("kind").unwrap_or("tool")
    }

    pub(super) fn media(&self) -> &str {
        self.text("media").unwrap_or(ostler_kernel::port::JSON)
    }

    pub(super) fn sigma(&self) -> ExecutableSpec<'_> {
        ExecutableSpec {
            kind: self.kind(),
            tool: self.text("tool"),
            tool_version: self.text("tool_version"),
            code: self.text("code"),
            model: self.text("model"),
            model_rev: self.text("model_rev"),
            sampling: self.field("sampling"),
            seed: self.field("seed"),
            prompt: self.text("prompt").map(lineage::prompt),
            media: self.text("media"),
            fresh: self.field("fresh"),
        }
    }

    pub(super) fn sigma_digest(&self) -> Result<Digest, CaseError> {
        let document = self.sigma().document().map_err(|error| shape(format!("{}: {error}", self.id)))?;
        Ok(lineage::executable_digest(&document))
    }

    pub(super) fn repetition(&self, world: Option<&str>) -> Repetition {
        Repetition {
            age_max: None,
            effect: self.effect,
            idem: self.idem,
            reusable: self.reusable,
            has_world: world.is_some(),
        }
    }

    /// The direct predecessors, in ascending id.
    pub(super) fn above(&self) -> BTreeSet<&NodeId> {
        let refs = self.refs.values().map(|reference| &reference.from);
        let guards = self.guards.iter().map(|guard| &guard.from);
        let list = self.for_each.iter().map(|for_each| &for_each.from);
        self.deps.iter().chain(refs).chain(guards).chain(list).collect()
    }

    /// Name of the function that computes the step.
    pub(super) fn function(&self) -> &str {
        self.text("fn").unwrap_or(self.id.as_str())
    }
}

fn read<T: Default + serde::de::DeserializeOwned>(
    fields: &Map<String, Value>,
    name: &str,
) -> Result<T, CaseError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => read_value(value, name),
    }
}

fn read_value<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> Result<T, CaseError> {
    T::deserialize(value).map_err(|error| shape(format!("`{name}`: {error}")))
}

pub(super) fn shape(what: impl Into<String>) -> CaseError {
    CaseError::Shape(what.into())
}
