//! Fallbacks: the plan after each fallback must be valid too.

use super::super::contract_rules::PatternBudget;
use super::super::delta::is_last_version;
use super::super::diagnostic::{Diagnostic, DiagnosticCode, sort_and_limit};
use super::super::pointer::Origin;
use super::super::set_fields::set;
use super::super::{Approval, Kind, Settings};
use super::{Context, IndexedPlan, edges, node, paths, speculation};

/// Applies every fallback as the patch it will become and validates the result. Runs only on a plan without
/// other diagnostics. A patch changes no edge, so checking the patched node and the readers of its result
/// suffices: linear in the plan instead of one full validation per fallback.
pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    settings: &Settings<'_>,
    order: &[usize],
    faults: &mut Vec<Diagnostic>,
) {
    if indexed.plan.nodes.iter().all(|node| node.fallback.is_none()) {
        return;
    }
    let (context, cones) = (Context::new(settings), speculation::cones(indexed, order));
    let (nowhere, mut room) = (Origin::default(), PatternBudget::default());
    let mut patched = indexed.plan.clone();
    for (at, node) in indexed.plan.nodes.iter().enumerate() {
        let Some(fields) = &node.fallback else { continue };
        let mut found: Vec<Diagnostic> = is_last_version(indexed.plan).into_iter().collect();
        set(&mut patched.nodes[at], fields, settings, &mut room, &mut found);
        let with_it = IndexedPlan { plan: &patched, origin: &nowhere, ..*indexed };
        check_one(&with_it, at, &context, &cones, &mut found);
        patched.nodes[at].clone_from(node);
        let place = indexed.place(at).key("fallback");
        if fields
            .approval
            .is_some_and(|approval| approval != node.approval && node.approval != Approval::None)
        {
            let detail = "in its fallback: drops the approval of the node";
            let help = "remove `approval`: the fallback keeps the approval of the node";
            faults.push(Diagnostic::new(DiagnosticCode::V14, &node.id, detail, help).at(&place));
        }
        faults.extend(sort_and_limit(found).into_iter().map(|fault| {
            let detail = format!("in its fallback: {}", fault.detail);
            Diagnostic::new(fault.code, &node.id, detail, fault.help).at(&place)
        }));
    }
}

/// Checks a plan that differs from a valid one in the node at `at` only.
fn check_one(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    cones: &speculation::Cones,
    faults: &mut Vec<Diagnostic>,
) {
    node(indexed, at, context, faults);
    faults.extend(speculation::node(indexed, at, cones));
    let IndexedPlan { plan, edges, .. } = indexed;
    let id = &plan.nodes[at].id;
    let mut last = None;
    for &(consumer, _) in &edges.consumers[at] {
        if last.replace(consumer) == Some(consumer) {
            continue;
        }
        if plan.nodes[at].kind == Kind::Aggregator {
            faults.push(edges::aggregator_consumed(id, &plan.nodes[consumer].id));
        }
        if context.settings.real_run {
            paths::check_source(indexed, consumer, id, context, faults);
        }
    }
}
