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
                let help = "remove `join`: a node without dependencies starts at once";
                let fault =
                    Diagnostic::new(DiagnosticCode::V07, &node.id, "all_of without dependencies", help);
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
            let detail = format!("lists the candidate {} more than once", dep.n);
            let fault = Diagnostic::new(DiagnosticCode::V06, &node.id, detail, "list each candidate once");
            faults.push(fault.at(&indexed.edge_place(at, edge)));
        }
        if dep.on == On::Terminal {
            let detail = format!("has the candidate {} over a terminal edge", dep.n);
            let help = "remove `on: terminal`: a candidate wins by success";
            let fault = Diagnostic::new(DiagnosticCode::V18, &node.id, detail, help);
            faults.push(fault.at(&indexed.edge_place(at, edge).key("on")));
        }
    }
    if distinct.len() < 2 {
        let detail = format!("any_of has {} candidates, expected at least 2", distinct.len());
        let help = "list two or more candidates in `deps`, or remove `join`";
        let place = indexed.place(at).key(if node.deps.is_empty() { "join" } else { "deps" });
        faults.push(Diagnostic::new(DiagnosticCode::V06, &node.id, detail, help).at(&place));
    }
}
