//! Contracts: V08, V09 and V16 for nodes, V25 for the plan.

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::pointer::Pointer;
use super::super::{Approval, Method, Rule};
use super::IndexedPlan;

pub(super) fn check_plan(indexed: &IndexedPlan<'_>, faults: &mut Vec<Diagnostic>) {
    let place = || indexed.origin.whole().key("contract");
    probabilities(Diagnostic::PLAN, &indexed.plan.contract, &place, faults);
}

pub(super) fn check(indexed: &IndexedPlan<'_>, at: usize, faults: &mut Vec<Diagnostic>) {
    let node = &indexed.plan.nodes[at];
    let place = || indexed.place(at).key("contract");
    if node.contract.is_empty() {
        let detail = "no contract";
        let help = "add a contract, such as [{method: schema, spec: {type: object}}]";
        faults.push(Diagnostic::new(DiagnosticCode::V08, &node.id, detail, help).at(&place()));
    }
    probabilities(&node.id, &node.contract, &place, faults);
    let model_only =
        !node.contract.is_empty() && node.contract.iter().all(|rule| rule.method == Method::Model);
    if node.impact == 2 && model_only && node.approval != Approval::Before {
        let detail = "has impact 2, and only a model judges its result";
        let help = "set approval: before, or add a rule of another method";
        faults.push(Diagnostic::new(DiagnosticCode::V16, &node.id, detail, help).at(&place()));
    }
}

/// V25: a test, a model and a person need a permit from the gate, a slot, an approval or a deadline. All of these
/// belong to a node, so the plan's own contract cannot have such rules.
pub(super) fn check_plan_tests(indexed: &IndexedPlan<'_>, faults: &mut Vec<Diagnostic>) {
    for (at, rule) in indexed.plan.contract.iter().enumerate() {
        let (what, cannot) = match rule.method {
            Method::Schema | Method::Code => continue,
            Method::Test => ("test", "run tests"),
            Method::Model => ("rule for a model", "ask models"),
            Method::Human => ("rule for a person", "ask people"),
        };
        let detail = format!("contract[{at}] is a {what}, and the contract of a plan cannot {cannot}");
        let help = match indexed.plan.outputs.as_slice() {
            [last] => format!("move the {what} to the contract of the last node, {last}"),
            _ => format!("move the {what} to the contract of a node that depends on all outputs"),
        };
        let place = indexed.origin.whole().key("contract").item(at).key("method");
        faults.push(Diagnostic::new(DiagnosticCode::V25, Diagnostic::PLAN, detail, help).at(&place));
    }
}

pub(super) fn probabilities(
    name: impl std::fmt::Display,
    rules: &[Rule],
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) {
    for (at, rule) in rules.iter().enumerate() {
        let Some(p) = rule.p else { continue };
        if !(p > 0.0 && p <= 1.0) {
            let detail = format!("contract[{at}].p is {p}, expected above 0 and at most 1");
            let help = "p is the probability that an accepted result is correct; remove it if unknown";
            faults.push(
                Diagnostic::new(DiagnosticCode::V09, &name, detail, help).at(&place().item(at).key("p")),
            );
        }
    }
}
