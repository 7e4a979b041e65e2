//! What a node must prove: V08, V09, V16.

use super::super::fault::{Fault, FaultCode};
use super::super::{Approval, Method, Plan, Rule};

pub(super) fn judge(plan: &Plan, faults: &mut Vec<Fault>) {
    probabilities(Fault::PLAN, &plan.contract, faults);
    for node in &plan.nodes {
        if node.contract.is_empty() {
            faults.push(Fault::new(
                FaultCode::V08,
                &node.id,
                "nothing says when its result is good",
                "give it a contract, such as [{method: schema, spec: {type: object}}]",
            ));
        }
        probabilities(&node.id, &node.contract, faults);
        let model_only =
            !node.contract.is_empty() && node.contract.iter().all(|rule| rule.method == Method::Model);
        if node.impact == 2 && model_only && node.approval != Approval::Before {
            faults.push(Fault::new(
                FaultCode::V16,
                &node.id,
                "has impact 2, and only a model judges its result",
                "let a person permit it first (approval: before), or add a rule of another method",
            ));
        }
    }
}

fn probabilities(name: impl std::fmt::Display, rules: &[Rule], faults: &mut Vec<Fault>) {
    for (at, rule) in rules.iter().enumerate() {
        let Some(p) = rule.p else { continue };
        if !(p > 0.0 && p <= 1.0) {
            let detail = format!("rule {} of the contract has p = {p}", at + 1);
            faults.push(Fault::new(
                FaultCode::V09,
                &name,
                detail,
                "p is the chance that an accepted result is correct: above 0, at most 1; leave it out if unknown",
            ));
        }
    }
}
