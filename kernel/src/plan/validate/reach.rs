//! That every node is there for something: V05.

use super::super::fault::{Fault, FaultCode};
use super::Subject;

/// Names nodes that do nothing to the world and lead neither to an output nor to a control node.
pub(super) fn judge(subject: &Subject<'_>, faults: &mut Vec<Fault>) {
    let nodes = &subject.plan.nodes;
    let wanted =
        |at: usize| subject.edges.is_output[at] || (subject.table.counts(at) && nodes[at].is_control());
    let mut leads: Vec<bool> = (0..nodes.len()).map(wanted).collect();
    let mut reached: Vec<usize> = (0..nodes.len()).filter(|&at| leads[at]).collect();
    while let Some(at) = reached.pop() {
        for &(source, _) in &subject.edges.sources[at] {
            if !std::mem::replace(&mut leads[source], true) {
                reached.push(source);
            }
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        if node.reach().impact == 0 && !node.is_control() && !leads[subject.table.last(at)] {
            let detail = "does nothing to the world, and no output and no control node depends on it";
            let mend = "take it out, name it in the outputs, or let something depend on it";
            faults.push(Fault::new(FaultCode::V05, &node.id, detail, mend).at(&subject.place(at).key("id")));
        }
    }
}
