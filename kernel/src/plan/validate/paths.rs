//! References to paths that no result can have: the second part of V17.
//!
//! A result passes the contract of its node and the schema of its tool before any reader sees the result.
//! [`ResultSchemas`](super::super::unreachable_path) walks the referenced path through both schemas and finds
//! the first step that neither allows.

use std::collections::BTreeSet;

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::unreachable_path::{UnreachablePath, may_fit, type_words, types_taken};
use super::super::{Guard, Kind, Node, Op, ParamRef};
use super::references::is_path;
use super::{Context, IndexedPlan};
use crate::id::NodeId;

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let node = &indexed.plan.nodes[at];
    for (name, reference) in &node.param_refs {
        path(indexed, at, name, reference, context, faults);
    }
    for (number, guard) in node.when.iter().enumerate() {
        faults.extend(incomparable(indexed, at, (number, guard), context));
    }
    faults.extend(wrong_elements(indexed, at, context));
    let guards = node.when.iter().filter(|guard| guard.op != Op::Exists);
    let guards = guards.map(|guard| ("a guard asks", "when", &guard.from, &guard.path));
    let list = node.for_each.iter().map(|list| ("for_each goes", "for_each", &list.from, &list.path));
    for (what, key, from, path) in guards.chain(list) {
        let (Some(path), Some(source)) =
            (path.as_deref().filter(|path| is_path(path)), indexed.index.find(from))
        else {
            continue;
        };
        let source = &indexed.plan.nodes[source];
        let Some(unreachable) = context.results.unreachable_path(source, path.split('.')) else { continue };
        let detail = format!("{what} for {path} of {from}: {}", unreachable.what);
        let help = help(&unreachable, context);
        let place = indexed.place(at).key(key);
        faults.push(Diagnostic::new(DiagnosticCode::V17, &node.id, detail, help).at(&place));
    }
}

/// Checks the references of the node at `at` to one other node.
pub(super) fn check_source(
    indexed: &IndexedPlan<'_>,
    at: usize,
    source: &NodeId,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let references = indexed.plan.nodes[at].param_refs.iter();
    for (name, reference) in references.filter(|(_, reference)| reference.from == *source) {
        path(indexed, at, name, reference, context, faults);
    }
}

fn path(
    indexed: &IndexedPlan<'_>,
    at: usize,
    name: &str,
    reference: &ParamRef,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let ParamRef { from, path: Some(path), .. } = reference else { return };
    let Some(source) = indexed.index.find(from).filter(|_| is_path(path)) else { return };
    let (node, source) = (&indexed.plan.nodes[at], &indexed.plan.nodes[source]);
    let Some(unreachable_path) = context.results.unreachable_path(source, path.split('.')) else {
        faults.extend(wrong_type(indexed, at, (name, reference), source, context));
        return;
    };
    let detail = format!("parameter {name} refers to {path} of {from}: {}", unreachable_path.what);
    let help = help(&unreachable_path, context);
    let place = indexed.place(at).key("param_refs").key(name).key("path");
    faults.push(Diagnostic::new(DiagnosticCode::V17, &node.id, detail, help).at(&place));
}

/// V24: a reference to a value of a type that the parameter never takes.
fn wrong_type(
    indexed: &IndexedPlan<'_>,
    at: usize,
    (name, reference): (&str, &ParamRef),
    source: &Node,
    context: &Context<'_>,
) -> Option<Diagnostic> {
    let path = reference.path.as_deref().filter(|_| reference.template.is_none())?;
    let (detail, expected) = misfit(&indexed.plan.nodes[at], name, source, path, context)?;
    let from = &reference.from;
    let help = match expected.as_str() {
        "a text" => {
            format!(
                "refer to a text, or make one of it: `{name}: {{from: {from}, path: {path}, template: \"{{}}\"}}`"
            )
        }
        _ => format!("refer to {expected}"),
    };
    let place = indexed.place(at).key("param_refs").key(name).key("path");
    Some(Diagnostic::new(DiagnosticCode::V24, &indexed.plan.nodes[at].id, detail, help).at(&place))
}

/// V24: a list whose elements have a type that the parameter of a child never takes.
fn wrong_elements(indexed: &IndexedPlan<'_>, at: usize, context: &Context<'_>) -> Option<Diagnostic> {
    let node = &indexed.plan.nodes[at];
    let list = node.for_each.as_deref()?;
    let path = list.path.as_deref().filter(|path| is_path(path))?;
    let source = &indexed.plan.nodes[indexed.index.find(&list.from)?];
    let (detail, _) = misfit(node, &list.parameter, source, &format!("{path}.0"), context)?;
    let help = "name a parameter in `as` that takes an element of the list, or go over another list";
    let place = indexed.place(at).key("for_each").key("as");
    Some(Diagnostic::new(DiagnosticCode::V24, &node.id, detail, help).at(&place))
}

/// The detail of a V24 if the value at `path` of `source` has a type that the parameter never takes, and the types that it takes.
fn misfit(
    node: &Node,
    parameter: &str,
    source: &Node,
    path: &str,
    context: &Context<'_>,
) -> Option<(String, String)> {
    let calls = matches!(node.kind, Kind::Tool | Kind::SubAgent);
    let tool = node.tool.as_deref().filter(|_| calls)?;
    let taken = types_taken(context.settings.tools?.params_schema(tool)?, parameter)?;
    let found = context.results.type_at(source, path.split('.'))?;
    if may_fit(&found, &taken) {
        return None;
    }
    let expected: BTreeSet<&str> = taken.iter().map(|name| type_words(name)).collect();
    let expected = expected.into_iter().collect::<Vec<_>>().join(" or ");
    let (found, from) = (type_words(&found), &source.id);
    Some((
        format!("{tool}: parameter {parameter} takes {expected}, and {path} of {from} is {found}"),
        expected,
    ))
}

/// V27: a guard that compares values of types without an order, or looks into a value without parts.
fn incomparable(
    indexed: &IndexedPlan<'_>,
    at: usize,
    (number, guard): (usize, &Guard),
    context: &Context<'_>,
) -> Option<Diagnostic> {
    let node = &indexed.plan.nodes[at];
    let path = guard.path.as_deref().filter(|path| is_path(path))?;
    let source = &indexed.plan.nodes[indexed.index.find(&guard.from)?];
    let found = context.results.type_at(source, path.split('.'))?;
    let expected = guard.unfit(&found)?;
    let (from, op, found) = (&guard.from, guard.op.as_str(), type_words(&found));
    let detail = format!("guard {}: {path} of {from} is {found}, and `{op}` needs {expected}", number + 1);
    let help = match guard.op {
        Op::Contains => "ask for another path, or use `eq`".to_owned(),
        _ if ["a number", "a text"].contains(&found) => format!("write `value` as {found}"),
        _ => "ask for another path".to_owned(),
    };
    let place = indexed.place(at).key("when");
    Some(Diagnostic::new(DiagnosticCode::V27, &node.id, detail, help).at(&place))
}

fn help(unreachable: &UnreachablePath, context: &Context<'_>) -> String {
    let otherwise = match unreachable.known.as_slice() {
        [] => unreachable.help(),
        known => format!("known names: {}", known.join(", ")),
    };
    let names = unreachable.known.iter().map(String::as_str);
    context.suggestions.help(&unreachable.segment, names, &otherwise)
}
