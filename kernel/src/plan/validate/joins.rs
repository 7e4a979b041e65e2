//! How edges combine: V06, V07, V18.

use std::collections::BTreeSet;

use super::super::fault::{Fault, FaultCode};
use super::super::{Join, Node, On, Plan};

pub(super) fn judge(plan: &Plan, faults: &mut Vec<Fault>) {
    for node in &plan.nodes {
        match node.join {
            Some(Join::AnyOf) => any_of(node, faults),
            Some(Join::AllOf) if node.deps.is_empty() => faults.push(Fault::new(
                FaultCode::V07,
                &node.id,
                "joins all_of nothing",
                "leave `join` out: a node without dependencies starts at once",
            )),
            Some(Join::AllOf) | None => {}
        }
    }
}

fn any_of(node: &Node, faults: &mut Vec<Fault>) {
    let mut distinct = BTreeSet::new();
    for dep in &node.deps {
        if !distinct.insert(&dep.n) {
            let detail = format!("lists {} more than once among its candidates", dep.n);
            faults.push(Fault::new(FaultCode::V06, &node.id, detail, "list each candidate once"));
        }
        if dep.on == On::Terminal {
            let detail = format!("has {} as a candidate over a terminal edge", dep.n);
            let mend = "a candidate wins by success: leave `on: terminal` out";
            faults.push(Fault::new(FaultCode::V18, &node.id, detail, mend));
        }
    }
    if distinct.len() < 2 {
        let detail = format!("is an any_of with {} of at least two candidates", distinct.len());
        let mend = "list two or more candidates in `deps`, or leave `join` out";
        faults.push(Fault::new(FaultCode::V06, &node.id, detail, mend));
    }
}
