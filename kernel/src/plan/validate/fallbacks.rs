//! What nodes become once retries cannot help: each such plan has to be one as well.

use super::super::delta::{is_last_version, set};
use super::super::fault::{Fault, FaultCode, in_order};
use super::super::normalise::PatternRoom;
use super::super::pointer::Origin;
use super::super::{Approval, Kind, Settings};
use super::{Known, Subject, edges, node, paths, speculation};

/// Judges every fallback as the patch that it is. Only of a plan without other faults is anything known of that. A patch
/// changes no edge, so of each plan that it makes only the node is judged, and what others ask of it.
pub(super) fn judge(
    subject: &Subject<'_>,
    settings: &Settings<'_>,
    order: &[usize],
    faults: &mut Vec<Fault>,
) {
    if subject.plan.nodes.iter().all(|node| node.fallback.is_none()) {
        return;
    }
    let (known, cones) = (Known::new(settings), speculation::cones(subject, order));
    let (nowhere, mut room) = (Origin::default(), PatternRoom::default());
    let mut patched = subject.plan.clone();
    for (at, node) in subject.plan.nodes.iter().enumerate() {
        let Some(fields) = &node.fallback else { continue };
        let mut found: Vec<Fault> = is_last_version(subject.plan).into_iter().collect();
        set(&mut patched.nodes[at], fields, settings, &mut room, &mut found);
        let with_it = Subject { plan: &patched, origin: &nowhere, ..*subject };
        judge_one(&with_it, at, &known, &cones, &mut found);
        patched.nodes[at].clone_from(node);
        let place = subject.place(at).key("fallback");
        if fields
            .approval
            .is_some_and(|approval| approval != node.approval && node.approval != Approval::None)
        {
            let detail = "as its fallback: asks nobody where the node itself asks a person";
            let mend = "leave `approval` out: the fallback asks as the node does";
            faults.push(Fault::new(FaultCode::V14, &node.id, detail, mend).at(&place));
        }
        faults.extend(in_order(found).into_iter().map(|fault| {
            let detail = format!("as its fallback: {}", fault.detail);
            Fault::new(fault.code, &node.id, detail, fault.mend).at(&place)
        }));
    }
}

/// What is wrong with a plan where only the node at `at` is another than in one without faults.
fn judge_one(
    subject: &Subject<'_>,
    at: usize,
    known: &Known<'_>,
    cones: &speculation::Cones,
    faults: &mut Vec<Fault>,
) {
    node(subject, at, known, faults);
    faults.extend(speculation::node(subject, at, cones));
    let Subject { plan, edges, .. } = subject;
    let id = &plan.nodes[at].id;
    let mut last = None;
    for &(consumer, _) in &edges.consumers[at] {
        if last.replace(consumer) == Some(consumer) {
            continue;
        }
        if plan.nodes[at].kind == Kind::Aggregator {
            faults.push(edges::consumed(id, &plan.nodes[consumer].id));
        }
        if known.settings.complete {
            paths::between(subject, consumer, id, known, faults);
        }
    }
}
