//! The input of an attempt: literal parameters, overlaid with the values of its references. An aggregator reads the state
//! and result of every dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{FEEDBACK, FailureCategory, NodeStatus, Run};
use crate::callback::WaitAddress;
use crate::id::{Digest, NodeId};
use crate::json::{self, JsonError, Object, VALUE_MEMORY_MAX};
use crate::lineage;
use crate::plan::{Kind, Node, ParamRef, address};
use crate::template::{self, FillError, RENDER_BYTES_MAX, read_part};

/// The input of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptInput {
    /// Parameters of a tool call.
    Params(Object),
    /// A template that is rendered over the dependencies' states and results.
    Aggregate {
        /// The template.
        template: String,
        /// By id of the dependency: `state`, and the `result` of an executed one, the `error` of one that ended otherwise.
        values: Map<String, Value>,
    },
}

/// Digest of each value that comes from another node, by parameter name.
pub type RefDigests = BTreeMap<String, Digest>;

/// An input that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The path leads to no field of the result.
    #[error("parameter {name}: the result of {from} has no field {path:?}")]
    Missing {
        /// The parameter.
        name: String,
        /// The source node.
        from: NodeId,
        /// The path.
        path: String,
    },
    /// The value cannot be rendered into its template.
    #[error("parameter {name}: the result of {from} does not fit the template: {error}")]
    Unprintable {
        /// The parameter.
        name: String,
        /// The source node.
        from: NodeId,
        /// The template error.
        error: FillError,
    },
    /// The value has no canonical form, so the work would have no identity.
    #[error("parameter {name}: {error}")]
    NotCanonical {
        /// The parameter.
        name: String,
        /// The JSON error.
        error: JsonError,
    },
    /// The address of a wait is to be sent out, and no listener takes callbacks.
    #[error(
        "no listener takes callbacks for {0}: set callback_listen under [service] in ostler.toml, and run the plan again"
    )]
    NoAddress(NodeId),
    /// An aggregator without a template.
    #[error("aggregator {0}: missing parameter `template`")]
    NoTemplate(NodeId),
    /// The results, or the values that references copy from them, take more than [`VALUE_MEMORY_MAX`] bytes of memory.
    #[error(
        "what {0} is given takes more than {most} MiB of memory: refer to parts of the results, or to fewer of them",
        most = VALUE_MEMORY_MAX >> 20
    )]
    TooLarge(NodeId),
}

impl InputError {
    /// The failure category of an attempt with this error.
    pub fn category(&self) -> FailureCategory {
        match self {
            InputError::Missing { .. } | InputError::Unprintable { .. } => FailureCategory::ParamMissing,
            InputError::NotCanonical { .. }
            | InputError::NoAddress(_)
            | InputError::NoTemplate(_)
            | InputError::TooLarge(_) => FailureCategory::Structural,
        }
    }
}

impl Run {
    /// The executed nodes with results for the input of `node`.
    pub fn sources(&self, node: &Node) -> BTreeSet<NodeId> {
        let executed =
            |id: &&NodeId| self.instance(id).is_some_and(|instance| instance.status == NodeStatus::Executed);
        match node.kind {
            Kind::Aggregator => node.deps.iter().map(|dep| &dep.n).filter(executed).cloned().collect(),
            kind => {
                let references = node.param_refs.values().map(|reference| source(self, node, reference));
                let read = node.deps.iter().map(|dep| &dep.n).filter(|_| kind == Kind::Model);
                references.chain(read).filter(executed).cloned().collect()
            }
        }
    }

    /// Most bytes of results in the input of `node`: each reference may copy a whole result.
    pub fn input_bytes(&self, node: &Node) -> u64 {
        let of = |id: &NodeId| self.instance(id).and_then(|instance| instance.output.as_ref());
        let references = node.param_refs.values().map(|reference| source(self, node, reference));
        let read = node
            .deps
            .iter()
            .map(|dep| &dep.n)
            .filter(|_| matches!(node.kind, Kind::Aggregator | Kind::Model));
        references.chain(read).filter_map(of).fold(0, |sum, output| sum.saturating_add(output.bytes))
    }

    /// Builds the input of an attempt of `node` from the results of its [`Run::sources`]. A missing result counts as `null`.
    /// `address` gives the callback address of a wait; `None`: no listener takes callbacks.
    ///
    /// # Errors
    ///
    /// See [`InputError`].
    pub fn attempt_input(
        &self,
        node: &Node,
        results: &BTreeMap<NodeId, Arc<Value>>,
        address: &dyn Fn(&NodeId) -> Option<WaitAddress>,
    ) -> Result<(AttemptInput, RefDigests), InputError> {
        // One result alone is small enough.
        let all = results.values().filter(|_| results.len() > 1);
        if all.map(|result| json::memory(result)).sum::<usize>() > VALUE_MEMORY_MAX {
            return Err(InputError::TooLarge(node.id.clone()));
        }
        let result = |from: &NodeId| results.get(from).cloned().unwrap_or_default();
        let mut params = resolve(self, node, &result)?;
        let mut refs = if node.param_refs.is_empty() {
            RefDigests::new()
        } else {
            digests(params.iter().filter(|(name, _)| node.param_refs.contains_key(*name)))?
        };
        let mut template = None;
        if node.kind == Kind::Aggregator {
            let Some(Value::String(text)) = params.make_mut().remove("template") else {
                return Err(InputError::NoTemplate(node.id.clone()));
            };
            template = Some(text);
        } else if node.kind != Kind::Model {
            self.fill_addresses(node, &mut params, &mut refs, address)?;
            return Ok((AttemptInput::Params(params), refs));
        }
        let mut values = self.fates(node, &result);
        if let Some(element) = node.element_in_prompt()
            && let Some(value) = params.make_mut().remove(element)
        {
            values.insert(element.to_owned(), value);
        }
        // A model receives what its prompt reads (0051), so a change of anything else is no change of its work.
        if node.kind == Kind::Model
            && let Some(Value::String(prompt)) = params.get("prompt")
        {
            values = read_part(prompt, &values);
        }
        refs.extend(digests(&values)?);
        if !node.calls_model() {
            let template = template.unwrap_or_default();
            return Ok((AttemptInput::Aggregate { template, values }, refs));
        }
        let asked = params.make_mut();
        asked.extend(template.map(|template| ("prompt".to_owned(), Value::String(template))));
        if !values.is_empty() {
            asked.insert("values".to_owned(), Value::Object(values));
        }
        if let Some(fault) = self.fault_of_last_answer(node) {
            asked.insert(FEEDBACK.to_owned(), Value::from(fault));
        }
        Ok((AttemptInput::Params(params), refs))
    }

    /// Waits whose addresses the literal parameters of `node` mention, as `{{ NODE.address }}`.
    pub fn addressed(&self, node: &Node) -> BTreeSet<NodeId> {
        let mut waits = BTreeSet::new();
        if address::cannot_send(node).is_none() {
            let literal = node.params.iter().filter(|(name, _)| !node.param_refs.contains_key(*name));
            literal.for_each(|(_, value)| {
                address::mentioned(value, &mut |named| waits.extend(self.wait(named)))
            });
        }
        waits
    }

    fn wait(&self, named: &str) -> Option<NodeId> {
        let id = NodeId::from(named);
        self.node(&id).filter(|node| node.kind == Kind::Wait)?;
        Some(id)
    }

    /// Fills addresses into literal parameters. Values from results stay as they are: a result may come from a stranger, who
    /// must not obtain an address by naming it.
    fn fill_addresses(
        &self,
        node: &Node,
        params: &mut Object,
        refs: &mut RefDigests,
        address: &dyn Fn(&NodeId) -> Option<WaitAddress>,
    ) -> Result<(), InputError> {
        let waits = self.addressed(node);
        if waits.is_empty() {
            return Ok(());
        }
        let mut urls = BTreeMap::new();
        for wait in waits {
            let WaitAddress { url, identity } = address(&wait).ok_or(InputError::NoAddress(wait.clone()))?;
            refs.insert(format!("{wait}.address"), identity);
            urls.insert(wait.as_str().to_owned(), url);
        }
        let members = params.make_mut().iter_mut();
        for (_, value) in members.filter(|(name, _)| !node.param_refs.contains_key(*name)) {
            address::fill(value, &mut |named| urls.get(named).cloned());
        }
        Ok(())
    }

    /// The reason why the last answer of a model did not count: shown to the model in the next attempt.
    fn fault_of_last_answer(&self, node: &Node) -> Option<&str> {
        let instance = self.instance(&node.id)?;
        // Once an attempt has started, the failure of its predecessor is not the last one any more. A question about the next
        // attempt shows the same parameters.
        let failure = match instance.status {
            NodeStatus::Running { .. } => instance.refused.as_ref(),
            _ => {
                instance.failure.as_ref().filter(|failure| failure.category == FailureCategory::InvalidOutput)
            }
        };
        failure.map(|failure| failure.message.as_str())
    }

    fn fates(&self, node: &Node, result: &dyn Fn(&NodeId) -> Arc<Value>) -> Map<String, Value> {
        let mut fates = Map::new();
        for dep in &node.deps {
            let Some(instance) = self.instance(&dep.n) else { continue };
            // `error` is always there, so that a template need not ask for the state first.
            let mut fate = json!({"state": instance.state().as_str(), "error": ""});
            if instance.status == NodeStatus::Executed {
                fate["result"] = (*result(&dep.n)).clone();
            } else if !instance.is_live() {
                let reason = || instance.reason.as_ref().map(ToString::to_string).unwrap_or_default();
                let error = instance.failure_message().map_or_else(reason, str::to_owned);
                fate["error"] = Value::from(error);
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

/// Resolves the parameters of `node`. `value` returns the result of an executed node, `null` for a node without one (an
/// approval). The texts of all templates together have at most [`RENDER_BYTES_MAX`] bytes.
pub fn resolve(run: &Run, node: &Node, value: &dyn Fn(&NodeId) -> Arc<Value>) -> Result<Object, InputError> {
    if node.param_refs.is_empty() {
        return Ok(node.params.clone());
    }
    let mut params = node.params.clone().into_map();
    let mut room = RENDER_BYTES_MAX; // left for the texts of all templates
    let mut left = VALUE_MEMORY_MAX; // left for the values of all references
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
                None => {
                    let rest = left.checked_sub(json::memory(found));
                    left = rest.ok_or_else(|| InputError::TooLarge(node.id.clone()))?;
                    found.clone()
                }
            };
        params.insert(name.clone(), resolved);
    }
    Ok(params.into())
}

fn source<'a>(run: &'a Run, node: &Node, reference: &'a ParamRef) -> &'a NodeId {
    if reference.from.as_str() == ParamRef::WINNER {
        run.winner(&node.id).unwrap_or(&reference.from)
    } else {
        &reference.from
    }
}
