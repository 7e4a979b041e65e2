//! References to paths that no result can have: the second part of V17.
//!
//! A result passes the contract of its node and the schema of its tool before any reader sees the result.
//! [`ResultSchemas`](super::super::unreachable_path) walks the referenced path through both schemas and finds
//! the first step that neither allows.

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::{Op, ParamRef};
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
    let node = &indexed.plan.nodes[at];
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
        let known = unreachable.known.iter().map(String::as_str);
        let help = context.suggestions.help(&unreachable.segment, known, &unreachable.help());
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
