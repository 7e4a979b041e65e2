//! How edges combine: V06, V07, V18.

use std::collections::BTreeSet;

use super::super::fault::{Fault, FaultCode};
use super::super::{Join, Node, On};
use super::Subject;

pub(super) fn judge(subject: &Subject<'_>, faults: &mut Vec<Fault>) {
    for (at, node) in subject.plan.nodes.iter().enumerate() {
        match node.join {
            Some(Join::AnyOf) => any_of(subject, at, node, faults),
            Some(Join::AllOf) if node.deps.is_empty() => {
                let mend = "leave `join` out: a node without dependencies starts at once";
                let fault = Fault::new(FaultCode::V07, &node.id, "joins all_of nothing", mend);
                faults.push(fault.at(&subject.place(at).key("join")));
            }
            Some(Join::AllOf) | None => {}
        }
    }
}

fn any_of(subject: &Subject<'_>, at: usize, node: &Node, faults: &mut Vec<Fault>) {
    let mut distinct = BTreeSet::new();
    for (edge, dep) in node.deps.iter().enumerate() {
        if !distinct.insert(&dep.n) {
            let detail = format!("lists {} more than once among its candidates", dep.n);
            let fault = Fault::new(FaultCode::V06, &node.id, detail, "list each candidate once");
            faults.push(fault.at(&subject.edge_place(at, edge)));
        }
        if dep.on == On::Terminal {
            let detail = format!("has {} as a candidate over a terminal edge", dep.n);
            let mend = "a candidate wins by success: leave `on: terminal` out";
            let fault = Fault::new(FaultCode::V18, &node.id, detail, mend);
            faults.push(fault.at(&subject.edge_place(at, edge).key("on")));
        }
    }
    if distinct.len() < 2 {
        let detail = format!("is an any_of with {} of at least two candidates", distinct.len());
        let mend = "list two or more candidates in `deps`, or leave `join` out";
        let place = subject.place(at).key(if node.deps.is_empty() { "join" } else { "deps" });
        faults.push(Fault::new(FaultCode::V06, &node.id, detail, mend).at(&place));
    }
}
