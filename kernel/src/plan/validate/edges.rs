//! Names and where edges lead: V01, V02, V03 of dependencies and outputs, V19.

use super::super::fault::{Fault, FaultCode};
use super::super::nearest::Hints;
use super::super::{Kind, Plan};
use super::Subject;
use crate::id::{NAME_RULE, is_name};

pub(super) fn judge(subject: &Subject<'_>, hints: &Hints, faults: &mut Vec<Fault>) {
    let plan = subject.plan;
    for (at, node) in plan.nodes.iter().enumerate() {
        id(subject, at, faults);
        for (dep, source) in node.deps.iter().zip(&subject.table.sources[at]) {
            let Some(source) = *source else {
                faults.push(Fault::new(
                    FaultCode::V03,
                    &node.id,
                    format!("depends on {}, which the plan does not define", dep.n),
                    hints.mend(dep.n.as_str(), names(plan), "add that node, or depend on another"),
                ));
                continue;
            };
            if dep.n == node.id {
                let mend = "leave that dependency or reference out";
                faults.push(Fault::new(FaultCode::V02, &node.id, "depends on itself", mend));
            }
            if plan.nodes[source].kind == Kind::Aggregator {
                let detail = format!("is an aggregator, and {} depends on it", node.id);
                let mend = "an aggregator ends a run: let its consumer depend on what it aggregates";
                faults.push(Fault::new(FaultCode::V19, &dep.n, detail, mend));
            }
        }
    }
    for output in &plan.outputs {
        if subject.table.find(output).is_none() {
            let mend =
                hints.mend(output.as_str(), names(plan), "add that node, or take it out of the outputs");
            faults.push(Fault::new(FaultCode::V03, output, "is an output the plan does not define", mend));
        }
    }
}

pub(super) fn names(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.nodes.iter().map(|node| node.id.as_str())
}

fn id(subject: &Subject<'_>, at: usize, faults: &mut Vec<Fault>) {
    let id = &subject.plan.nodes[at].id;
    if !is_name(id.as_str()) {
        faults.push(Fault::new(FaultCode::V01, id, "is no id", format!("use {NAME_RULE}")));
    }
    if !subject.table.counts(at) {
        faults.push(Fault::new(FaultCode::V01, id, "is used twice", "give each node an id of its own"));
    }
}
