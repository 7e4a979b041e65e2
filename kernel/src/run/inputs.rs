//! What an attempt is given: its literal parameters, overlaid with what its references lead to.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Run;
use crate::id::NodeId;
use crate::plan::{Node, ParamRef};
use crate::template;

/// A reference that leads nowhere: the failure `param_missing`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parameter {name} wants {path:?} of the result of {from}, which has no such field")]
pub struct InputError {
    /// The parameter.
    pub name: String,
    /// The node it comes from.
    pub from: NodeId,
    /// The path that leads nowhere.
    pub path: String,
}

/// Resolves the parameters of `node`. `value` gives the result of an executed node; a node without one (a person's
/// approval) has `null`.
pub fn resolve(
    run: &Run,
    node: &Node,
    value: &dyn Fn(&NodeId) -> Arc<Value>,
) -> Result<Map<String, Value>, InputError> {
    let mut params = node.params.clone();
    for (name, reference) in &node.param_refs {
        let from = source(run, node, reference);
        let result = value(from);
        let path = reference.path.as_deref().unwrap_or_default();
        let found = template::project(&result, path).ok_or_else(|| InputError {
            name: name.clone(),
            from: from.clone(),
            path: path.to_owned(),
        })?;
        let resolved = match &reference.template {
            Some(text) => Value::String(template::fill(text, found)),
            None => found.clone(),
        };
        params.insert(name.clone(), resolved);
    }
    Ok(params)
}

/// The node a reference reads.
fn source<'a>(run: &'a Run, node: &Node, reference: &'a ParamRef) -> &'a NodeId {
    if reference.from.as_str() == ParamRef::WINNER {
        run.winner(&node.id).unwrap_or(&reference.from)
    } else {
        &reference.from
    }
}
