//! What an attempt is given: its literal parameters, overlaid with what its references lead to; an aggregator, what
//! became of every dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{FailureCategory, NodeStatus, Run};
use crate::id::{Digest, NodeId};
use crate::json::{self, JsonError, Object};
use crate::lineage;
use crate::plan::{Kind, Node, ParamRef};
use crate::template::{self, FillError, RENDER_BYTES_MAX};

/// What an attempt is given.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptInput {
    /// Parameters to call a tool with.
    Params(Object),
    /// A template, to be rendered over what became of each dependency.
    Aggregate {
        /// The template.
        template: String,
        /// By the id of the dependency: `state`, and `result` if it is executed.
        values: Map<String, Value>,
    },
}

/// Digest of each value that came out of another node, by the name it arrives under.
pub type RefDigests = BTreeMap<String, Digest>;

/// Why an attempt cannot be given what it needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It leads nowhere.
    #[error("parameter {name} wants {path:?} of the result of {from}, which has no such field")]
    Missing {
        /// The parameter.
        name: String,
        /// The node it comes from.
        from: NodeId,
        /// The path that leads nowhere.
        path: String,
    },
    /// What it leads to cannot be put into its template.
    #[error("parameter {name} cannot put the result of {from} into its template: {error}")]
    Unprintable {
        /// The parameter.
        name: String,
        /// The node it comes from.
        from: NodeId,
        /// Why.
        error: FillError,
    },
    /// What it leads to has no canonical form, so the work would have no identity.
    #[error("parameter {name}: {error}")]
    NotCanonical {
        /// The parameter.
        name: String,
        /// Why.
        error: JsonError,
    },
    /// An aggregator has nothing to render.
    #[error("aggregator {0} has no text as params.template")]
    NoTemplate(NodeId),
}

impl InputError {
    /// What kind of failure it is.
    pub fn category(&self) -> FailureCategory {
        match self {
            InputError::Missing { .. } | InputError::Unprintable { .. } => FailureCategory::ParamMissing,
            InputError::NotCanonical { .. } | InputError::NoTemplate(_) => FailureCategory::Structural,
        }
    }
}

impl Run {
    /// The executed nodes whose results an attempt of `node` needs.
    pub fn sources(&self, node: &Node) -> BTreeSet<NodeId> {
        let executed =
            |id: &&NodeId| self.instance(id).is_some_and(|instance| instance.status == NodeStatus::Executed);
        match node.kind {
            Kind::Aggregator => node.deps.iter().map(|dep| &dep.n).filter(executed).cloned().collect(),
            _ => {
                let references = node.param_refs.values();
                references.map(|reference| source(self, node, reference)).filter(executed).cloned().collect()
            }
        }
    }

    /// What an attempt of `node` is given. `results` has the result of each of its [`Run::sources`]; what is not
    /// there counts as `null`.
    pub fn attempt_input(
        &self,
        node: &Node,
        results: &BTreeMap<NodeId, Arc<Value>>,
    ) -> Result<(AttemptInput, RefDigests), InputError> {
        let result = |from: &NodeId| results.get(from).cloned().unwrap_or_default();
        let mut params = resolve(self, node, &result)?;
        let mut refs = if node.param_refs.is_empty() {
            RefDigests::new()
        } else {
            digests(params.iter().filter(|(name, _)| node.param_refs.contains_key(*name)))?
        };
        if node.kind == Kind::Aggregator {
            let Some(Value::String(template)) = params.make_mut().remove("template") else {
                return Err(InputError::NoTemplate(node.id.clone()));
            };
            let values = self.fates(node, &result);
            refs.extend(digests(&values)?);
            return Ok((AttemptInput::Aggregate { template, values }, refs));
        }
        Ok((AttemptInput::Params(params), refs))
    }

    /// An aggregator sees every dependency, whatever became of it.
    fn fates(&self, node: &Node, result: &dyn Fn(&NodeId) -> Arc<Value>) -> Map<String, Value> {
        let mut fates = Map::new();
        for dep in &node.deps {
            let Some(instance) = self.instance(&dep.n) else { continue };
            let mut fate = json!({"state": instance.state().as_str()});
            if instance.status == NodeStatus::Executed {
                fate["result"] = (*result(&dep.n)).clone();
            }
            fates.insert(dep.n.to_string(), fate);
        }
        fates
    }
}

fn digests<'a>(values: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Result<RefDigests, InputError> {
    let digest = |(name, value): (&String, &Value)| match json::canonical(value) {
        Ok(canonical) => Ok((name.clone(), lineage::value(&canonical))),
        Err(error) => Err(InputError::NotCanonical { name: name.clone(), error }),
    };
    values.into_iter().map(digest).collect()
}

/// Resolves the parameters of `node`; what its templates become is bounded by [`RENDER_BYTES_MAX`] in all. `value` gives the result of an executed node; a node without one (a person's
/// approval) has `null`.
pub fn resolve(run: &Run, node: &Node, value: &dyn Fn(&NodeId) -> Arc<Value>) -> Result<Object, InputError> {
    if node.param_refs.is_empty() {
        return Ok(node.params.clone());
    }
    let mut params = node.params.clone().into_map();
    let mut room = RENDER_BYTES_MAX; // for the texts of all templates
    for (name, reference) in &node.param_refs {
        let from = source(run, node, reference);
        let result = value(from);
        let path = reference.path.as_deref().unwrap_or_default();
        let found = template::project(&result, path).ok_or_else(|| InputError::Missing {
            name: name.clone(),
            from: from.clone(),
            path: path.to_owned(),
        })?;
        let resolved =
            match &reference.template {
                Some(text) => {
                    let filled = template::fill(text, found, room).map_err(|error| {
                        InputError::Unprintable { name: name.clone(), from: from.clone(), error }
                    })?;
                    room -= filled.len();
                    Value::String(filled)
                }
                None => found.clone(),
            };
        params.insert(name.clone(), resolved);
    }
    Ok(params.into())
}

/// The node a reference reads.
fn source<'a>(run: &'a Run, node: &Node, reference: &'a ParamRef) -> &'a NodeId {
    if reference.from.as_str() == ParamRef::WINNER {
        run.winner(&node.id).unwrap_or(&reference.from)
    } else {
        &reference.from
    }
}
