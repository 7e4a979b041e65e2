//! What keeps a run finite: V13 (but for depth) and V14; and V15, that effect and impact agree.

use super::super::fault::{Fault, FaultCode};
use super::super::{Approval, Effect, Kind, Node, Plan};

pub(super) fn judge(plan: &Plan, faults: &mut Vec<Fault>) {
    size(plan, faults);
    for node in &plan.nodes {
        attempts(node, plan.policy.max_attempts, faults);
        waiting(node, faults);
        effect(node, faults);
    }
}

fn size(plan: &Plan, faults: &mut Vec<Fault>) {
    let (count, most) = (plan.nodes.len(), plan.policy.max_nodes);
    if count == 0 {
        faults.push(Fault::new(FaultCode::V13, Fault::PLAN, "has no nodes", "give it at least one"));
    }
    if count > most as usize {
        let detail = format!("has {count} nodes, policy.max_nodes is {most}");
        faults.push(Fault::new(FaultCode::V13, Fault::PLAN, detail, "split it, or raise policy.max_nodes"));
    }
}

fn attempts(node: &Node, most: i64, faults: &mut Vec<Fault>) {
    let mut fault = |detail: String, mend: &str| {
        faults.push(Fault::new(FaultCode::V14, &node.id, detail, mend));
    };
    if node.timeout <= 0 {
        fault(format!("its timeout is {}", node.timeout), "give an attempt more time than none");
    }
    for (name, count) in [("retries", node.retries), ("patches", node.patches)] {
        if count < 0 {
            fault(format!("{name} is {count}"), "say 0 or more");
        }
    }
    let all = (i128::from(node.retries) + 1) * (i128::from(node.patches) + 1);
    if node.retries >= 0 && node.patches >= 0 && all > i128::from(most) {
        fault(
            format!("(retries + 1) x (patches + 1) is {all}, policy.max_attempts is {most}"),
            "allow fewer retries or patches",
        );
    }
}

/// Silence of a person must end.
fn waiting(node: &Node, faults: &mut Vec<Fault>) {
    let asks = node.approval != Approval::None || node.kind == Kind::HumanApproval;
    if asks && node.human_timeout.is_none_or(|span| span <= 0) {
        let detail = match node.human_timeout {
            None => "asks a person, and nothing says for how long".to_owned(),
            Some(span) => format!("asks a person, and its human_timeout is {span}"),
        };
        let mend = "say after which time silence cancels it, such as human_timeout: 1h";
        faults.push(Fault::new(FaultCode::V14, &node.id, detail, mend));
    }
}

fn effect(node: &Node, faults: &mut Vec<Fault>) {
    let (acts, name) = match node.effect {
        Effect::None => (false, "none"),
        Effect::Read => (false, "read"),
        Effect::Write => (true, "write"),
        Effect::External => (true, "external"),
    };
    if acts != (node.impact > 0) {
        let detail = format!("its effect is {name}, its impact {}", node.impact);
        let mend = "write and external go with impact 1 or 2, none and read with impact 0";
        faults.push(Fault::new(FaultCode::V15, &node.id, detail, mend));
    }
}
