//! Joins: V06, V07 and V18.

use std::collections::BTreeSet;

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::{Join, Node, On};
use super::IndexedPlan;

pub(super) fn check(indexed: &IndexedPlan<'_>, faults: &mut Vec<Diagnostic>) {
    for (at, node) in indexed.plan.nodes.iter().enumerate() {
        match node.join {
            Some(Join::AnyOf) => any_of(indexed, at, node, faults),
            Some(Join::AllOf) if node.deps.is_empty() => {
                let help = "leave `join` out: a node without dependencies starts at once";
                let fault = Diagnostic::new(DiagnosticCode::V07, &node.id, "joins all_of nothing", help);
                faults.push(fault.at(&indexed.place(at).key("join")));
            }
            Some(Join::AllOf) | None => {}
        }
    }
}

fn any_of(indexed: &IndexedPlan<'_>, at: usize, node: &Node, faults: &mut Vec<Diagnostic>) {
    let mut distinct = BTreeSet::new();
    for (edge, dep) in node.deps.iter().enumerate() {
        if !distinct.insert(&dep.n) {
            let detail = format!("lists {} more than once among its candidates", dep.n);
            let fault = Diagnostic::new(DiagnosticCode::V06, &node.id, detail, "list each candidate once");
            faults.push(fault.at(&indexed.edge_place(at, edge)));
        }
        if dep.on == On::Terminal {
            let detail = format!("has {} as a candidate over a terminal edge", dep.n);
            let help = "a candidate wins by success: leave `on: terminal` out";
            let fault = Diagnostic::new(DiagnosticCode::V18, &node.id, detail, help);
            faults.push(fault.at(&indexed.edge_place(at, edge).key("on")));
        }
    }
    if distinct.len() < 2 {
        let detail = format!("is an any_of with {} of at least two candidates", distinct.len());
        let help = "list two or more candidates in `deps`, or leave `join` out";
        let place = indexed.place(at).key(if node.deps.is_empty() { "join" } else { "deps" });
        faults.push(Diagnostic::new(DiagnosticCode::V06, &node.id, detail, help).at(&place));
    }
}
