//! Ids and edges: V01, V02, V03 (dependencies and outputs) and V19.

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::suggest::Suggestions;
use super::super::{Kind, Plan};
use super::IndexedPlan;
use crate::id::{NAME_RULE, NodeId, is_name};

pub(super) fn check(indexed: &IndexedPlan<'_>, suggestions: &Suggestions, faults: &mut Vec<Diagnostic>) {
    let plan = indexed.plan;
    for (at, node) in plan.nodes.iter().enumerate() {
        id(indexed, at, faults);
        let own = indexed.index.effective(at);
        for (edge, (dep, source)) in node.deps.iter().zip(&indexed.index.sources[at]).enumerate() {
            let place = || indexed.edge_place(at, edge);
            let Some(source) = *source else {
                if !indexed.origin.is_written(at, edge) {
                    continue; // the reference is reported itself
                }
                let detail = format!("depends on {}, which the plan does not define", dep.n);
                let help =
                    suggestions.help(dep.n.as_str(), names(plan), "add that node, or depend on another");
                faults.push(Diagnostic::new(DiagnosticCode::V03, &node.id, detail, help).at(&place()));
                continue;
            };
            if source == own {
                let help = "remove that dependency or reference";
                faults.push(
                    Diagnostic::new(DiagnosticCode::V02, &node.id, "depends on itself", help).at(&place()),
                );
            }
            if plan.nodes[source].kind == Kind::Aggregator {
                faults.push(aggregator_consumed(&dep.n, &node.id).at(&place()));
            }
        }
    }
    for (at, output) in plan.outputs.iter().enumerate() {
        if indexed.index.find(output).is_none() {
            let help = suggestions.help(
                output.as_str(),
                names(plan),
                "add that node, or remove the name from `outputs`",
            );
            let place = indexed.origin.whole().key("outputs").item(at);
            let detail = "unknown output";
            faults.push(Diagnostic::new(DiagnosticCode::V03, output, detail, help).at(&place));
        }
    }
}

/// V19 for an aggregator with a consumer.
pub(super) fn aggregator_consumed(aggregator: &NodeId, consumer: &NodeId) -> Diagnostic {
    let detail = format!("is an aggregator, and {consumer} depends on it");
    let help = "an aggregator ends a run: let the consumer depend on the aggregated nodes";
    Diagnostic::new(DiagnosticCode::V19, aggregator, detail, help)
}

pub(super) fn names(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.nodes.iter().map(|node| node.id.as_str())
}

fn id(indexed: &IndexedPlan<'_>, at: usize, faults: &mut Vec<Diagnostic>) {
    let id = &indexed.plan.nodes[at].id;
    let place = || indexed.place(at).key("id");
    if !is_name(id.as_str()) {
        let help = format!("use {NAME_RULE}");
        faults.push(Diagnostic::new(DiagnosticCode::V01, id, "invalid id", help).at(&place()));
    }
    if at > 0 && indexed.plan.nodes[at - 1].id == *id {
        let help = "give each node an id of its own";
        faults.push(Diagnostic::new(DiagnosticCode::V01, id, "duplicate id", help).at(&place()));
    }
}
