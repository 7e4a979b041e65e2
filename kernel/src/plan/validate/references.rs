//! What a node reads: V03 of references, V10, V11, V17, V22.

use std::collections::{BTreeMap, BTreeSet};

use super::super::fault::{Fault, FaultCode};
use super::super::nearest::Hints;
use super::super::{Join, Node, On, ParamRef, Settings};
use super::Subject;
use super::edges::names;
use crate::id::NodeId;

pub(super) fn judge(subject: &Subject<'_>, settings: &Settings<'_>, hints: &Hints, faults: &mut Vec<Fault>) {
    for node in &subject.plan.nodes {
        if node.param_refs.is_empty() && node.reads.is_empty() {
            continue;
        }
        let mut succeeds: BTreeMap<&NodeId, bool> = BTreeMap::new();
        for dep in &node.deps {
            *succeeds.entry(&dep.n).or_default() |= dep.on == On::Success;
        }
        for (name, reference) in &node.param_refs {
            let success = succeeds.get(&reference.from) == Some(&true);
            source(subject, node, name, reference, success, hints, faults);
            path(node, name, reference, faults);
            if settings.complete && node.params.contains_key(name) {
                let detail = format!("parameter {name} is given both in params and in param_refs");
                faults.push(Fault::new(FaultCode::V22, &node.id, detail, "give it once"));
            }
        }
        let referred: BTreeSet<&NodeId> = node.param_refs.values().map(|reference| &reference.from).collect();
        for read in &node.reads {
            if !succeeds.contains_key(read) && !referred.contains(read) {
                let detail = format!("reads {read}, which is neither a dependency nor referred to");
                let mend = "depend on it, or take it out of `reads`";
                faults.push(Fault::new(FaultCode::V10, &node.id, detail, mend));
            }
        }
    }
}

/// Whether a reference may take from where it does.
fn source(
    subject: &Subject<'_>,
    node: &Node,
    name: &str,
    reference: &ParamRef,
    success: bool,
    hints: &Hints,
    faults: &mut Vec<Fault>,
) {
    let from = &reference.from;
    let any_of = node.join == Some(Join::AnyOf);
    let (detail, mend) = if from.as_str() == ParamRef::WINNER {
        if any_of {
            return;
        }
        ("there is no winner where nothing joins any_of", "name the node to take it from")
    } else if subject.table.find(from).is_none() {
        faults.push(Fault::new(
            FaultCode::V03,
            &node.id,
            format!("parameter {name} refers to {from}, which the plan does not define"),
            hints.mend(from.as_str(), names(subject.plan), "add that node, or refer to another"),
        ));
        return;
    } else if any_of {
        ("one candidate of an any_of may never run", "take it from $winner")
    } else if !success {
        ("there is no success edge from it", "depend on its success; a terminal edge carries no data")
    } else {
        return;
    };
    let detail = format!("parameter {name} refers to {from}: {detail}");
    faults.push(Fault::new(FaultCode::V11, &node.id, detail, mend));
}

fn path(node: &Node, name: &str, reference: &ParamRef, faults: &mut Vec<Fault>) {
    let detail = match &reference.path {
        None => format!("parameter {name} says no path"),
        Some(path) if !is_path(path) => format!("parameter {name} has the path {path:?}"),
        Some(_) => return,
    };
    let mend = "say where in the result it stands, as keys and indices with dots: matches.0.line";
    faults.push(Fault::new(FaultCode::V17, &node.id, detail, mend));
}

fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(plain))
}
