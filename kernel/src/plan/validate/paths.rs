//! References to paths that no result can have: the second part of V17.
//!
//! A result passes the contract of its node and the schema of its tool before any reader sees the result.
//! [`ResultSchemas`](super::super::unreachable_path) walks the referenced path through both schemas and finds
//! the first step that neither allows.

use super::super::ParamRef;
use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::references::is_path;
use super::{Context, IndexedPlan};
use crate::id::NodeId;

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    for (name, reference) in &indexed.plan.nodes[at].param_refs {
        path(indexed, at, name, reference, context, faults);
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
    let Some(unreachable_path) = context.results.unreachable_path(source, path.split('.')) else { return };
    let detail = format!("parameter {name} refers to {path} of {from}: {}", unreachable_path.what);
    let otherwise = match unreachable_path.known.as_slice() {
        [] => unreachable_path.help(),
        known => format!("known names: {}", known.join(", ")),
    };
    let names = unreachable_path.known.iter().map(String::as_str);
    let help = context.suggestions.help(&unreachable_path.segment, names, &otherwise);
    let place = indexed.place(at).key("param_refs").key(name).key("path");
    faults.push(Diagnostic::new(DiagnosticCode::V17, &node.id, detail, help).at(&place));
}
