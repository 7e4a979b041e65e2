//! Whether a reference can find anything: the other half of V17.

use super::super::ParamRef;
use super::super::fault::{Fault, FaultCode};
use super::references::is_path;
use super::{Known, Subject};
use crate::id::NodeId;

pub(super) fn judge(subject: &Subject<'_>, at: usize, known: &Known<'_>, faults: &mut Vec<Fault>) {
    for (name, reference) in &subject.plan.nodes[at].param_refs {
        path(subject, at, name, reference, known, faults);
    }
}

/// Judges what the node at `at` reads of one other.
pub(super) fn between(
    subject: &Subject<'_>,
    at: usize,
    source: &NodeId,
    known: &Known<'_>,
    faults: &mut Vec<Fault>,
) {
    let references = subject.plan.nodes[at].param_refs.iter();
    for (name, reference) in references.filter(|(_, reference)| reference.from == *source) {
        path(subject, at, name, reference, known, faults);
    }
}

fn path(
    subject: &Subject<'_>,
    at: usize,
    name: &str,
    reference: &ParamRef,
    known: &Known<'_>,
    faults: &mut Vec<Fault>,
) {
    let ParamRef { from, path: Some(path), .. } = reference else { return };
    let Some(source) = subject.table.find(from).filter(|_| is_path(path)) else { return };
    let (node, source) = (&subject.plan.nodes[at], &subject.plan.nodes[source]);
    let Some(dead_end) = known.results.dead_end(source, path.split('.')) else { return };
    let detail = format!("parameter {name} refers to {path} of {from}: {}", dead_end.what);
    let otherwise = match dead_end.known.as_slice() {
        [] => dead_end.mend(),
        known => format!("there are {}", known.join(", ")),
    };
    let names = dead_end.known.iter().map(String::as_str);
    let mend = known.hints.mend(&dead_end.segment, names, &otherwise);
    let place = subject.place(at).key("param_refs").key(name).key("path");
    faults.push(Fault::new(FaultCode::V17, &node.id, detail, mend).at(&place));
}
