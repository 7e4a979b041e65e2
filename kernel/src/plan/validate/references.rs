//! References and reads: V03 (references), V10, V11, V17 (syntax) and V22.
//!
//! A reference is legal if the result is certain to exist when the node starts. Under `all_of` the source
//! must be a dependency on success: a terminal edge is satisfied by a failed source without a result. Under
//! `any_of` only the winning candidate is certain, so the source must be `$winner`. Normalisation has already
//! added missing success edges, except in strict plans and `any_of` nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::suggest::Suggestions;
use super::super::{Join, Node, On, ParamRef};
use super::edges::names;
use super::{Context, IndexedPlan};
use crate::id::NodeId;

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let (node, suggestions) = (&indexed.plan.nodes[at], &context.suggestions);
    if node.param_refs.is_empty() && node.reads.is_empty() {
        return;
    }
    let mut succeeds: BTreeMap<&NodeId, bool> = BTreeMap::new();
    for dep in &node.deps {
        *succeeds.entry(&dep.n).or_default() |= dep.on == On::Success;
    }
    for (name, reference) in &node.param_refs {
        let success = succeeds.get(&reference.from) == Some(&true);
        let place = || indexed.place(at).key("param_refs").key(name);
        let what = format!("parameter {name}");
        if let Some(fault) = source(indexed, node, &what, &reference.from, success, suggestions) {
            faults.push(fault.at(&place().key("from")));
        }
        if let Some(fault) = check_path(node, &what, reference.path.as_deref()) {
            faults.push(fault.at(&place().key("path")));
        }
        if context.settings.real_run && node.params.contains_key(name) {
            let detail = format!("parameter {name} is given both in params and in param_refs");
            let place = indexed.place(at).key("params").key(name);
            faults.push(
                Diagnostic::new(DiagnosticCode::V22, &node.id, detail, "remove one of them").at(&place),
            );
        }
    }
    let referred: BTreeSet<&NodeId> = node.param_refs.values().map(|reference| &reference.from).collect();
    for (item, read) in node.reads.iter().enumerate() {
        if !succeeds.contains_key(read) && !referred.contains(read) {
            let detail = format!("reads {read}, which is neither a dependency nor referenced");
            let named = node.deps.iter().map(|dep| dep.n.as_str());
            let help = suggestions.help(read.as_str(), named, "add it to `deps`, or remove it from `reads`");
            let place = indexed.place(at).key("reads").item(item);
            faults.push(Diagnostic::new(DiagnosticCode::V10, &node.id, detail, help).at(&place));
        }
    }
}

/// V03 or V11 for the source of a reference; `what` names the referring field.
pub(super) fn source(
    indexed: &IndexedPlan<'_>,
    node: &Node,
    what: &str,
    from: &NodeId,
    success: bool,
    suggestions: &Suggestions,
) -> Option<Diagnostic> {
    let any_of = node.join == Some(Join::AnyOf);
    let (detail, help) = if from.as_str() == ParamRef::WINNER {
        if any_of {
            return None;
        }
        ("only a node with join: any_of has a winner", "name a node instead")
    } else if indexed.index.find(from).is_none() {
        let detail = format!("{what} refers to {from}, which the plan does not define");
        let help = suggestions.help(from.as_str(), names(indexed.plan), "add that node, or refer to another");
        return Some(Diagnostic::new(DiagnosticCode::V03, &node.id, detail, help));
    } else if any_of {
        ("a candidate of an any_of may never run", "use from: $winner")
    } else if !success {
        ("no success edge leads from it", "depend on its success: a terminal edge carries no data")
    } else {
        return None;
    };
    let detail = format!("{what} refers to {from}: {detail}");
    Some(Diagnostic::new(DiagnosticCode::V11, &node.id, detail, help))
}

/// V17 for the path of a reference; `what` names the referring field.
pub(super) fn check_path(node: &Node, what: &str, path: Option<&str>) -> Option<Diagnostic> {
    let detail = match path {
        None => format!("{what} has no path"),
        Some(path) if !is_path(path) => format!("{what} has the invalid path {path:?}"),
        Some(_) => return None,
    };
    let help = "give keys and list indices separated by dots, such as matches.0.line";
    Some(Diagnostic::new(DiagnosticCode::V17, &node.id, detail, help))
}

pub(crate) fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(plain))
}
