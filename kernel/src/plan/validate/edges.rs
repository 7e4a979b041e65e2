//! Names and where edges lead: V01, V02, V03 of dependencies and outputs, V19.

use super::super::fault::{Fault, FaultCode};
use super::super::nearest::Hints;
use super::super::{Kind, Plan};
use super::Subject;
use crate::id::{NAME_RULE, NodeId, is_name};

pub(super) fn judge(subject: &Subject<'_>, hints: &Hints, faults: &mut Vec<Fault>) {
    let plan = subject.plan;
    for (at, node) in plan.nodes.iter().enumerate() {
        id(subject, at, faults);
        let own = subject.table.last(at);
        for (edge, (dep, source)) in node.deps.iter().zip(&subject.table.sources[at]).enumerate() {
            let place = || subject.edge_place(at, edge);
            let Some(source) = *source else {
                if !subject.origin.is_written(at, edge) {
                    continue; // the reference itself is told of
                }
                let detail = format!("depends on {}, which the plan does not define", dep.n);
                let mend = hints.mend(dep.n.as_str(), names(plan), "add that node, or depend on another");
                faults.push(Fault::new(FaultCode::V03, &node.id, detail, mend).at(&place()));
                continue;
            };
            if source == own {
                let mend = "leave that dependency or reference out";
                faults.push(Fault::new(FaultCode::V02, &node.id, "depends on itself", mend).at(&place()));
            }
            if plan.nodes[source].kind == Kind::Aggregator {
                faults.push(consumed(&dep.n, &node.id).at(&place()));
            }
        }
    }
    for (at, output) in plan.outputs.iter().enumerate() {
        if subject.table.find(output).is_none() {
            let mend =
                hints.mend(output.as_str(), names(plan), "add that node, or take it out of the outputs");
            let place = subject.origin.whole().key("outputs").item(at);
            let detail = "is an output the plan does not define";
            faults.push(Fault::new(FaultCode::V03, output, detail, mend).at(&place));
        }
    }
}

/// The fault of an aggregator that a node depends on.
pub(super) fn consumed(aggregator: &NodeId, consumer: &NodeId) -> Fault {
    let detail = format!("is an aggregator, and {consumer} depends on it");
    let mend = "an aggregator ends a run: let its consumer depend on what it aggregates";
    Fault::new(FaultCode::V19, aggregator, detail, mend)
}

pub(super) fn names(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.nodes.iter().map(|node| node.id.as_str())
}

fn id(subject: &Subject<'_>, at: usize, faults: &mut Vec<Fault>) {
    let id = &subject.plan.nodes[at].id;
    let place = || subject.place(at).key("id");
    if !is_name(id.as_str()) {
        let mend = format!("use {NAME_RULE}");
        faults.push(Fault::new(FaultCode::V01, id, "is no id", mend).at(&place()));
    }
    if at > 0 && subject.plan.nodes[at - 1].id == *id {
        let mend = "give each node an id of its own";
        faults.push(Fault::new(FaultCode::V01, id, "is used twice", mend).at(&place()));
    }
}
