//! Reachability: every node serves an output (V05).

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::IndexedPlan;

/// Reports nodes without an effect and without a path to an output or a control node.
pub(super) fn check(indexed: &IndexedPlan<'_>, faults: &mut Vec<Diagnostic>) {
    let nodes = &indexed.plan.nodes;
    let wanted =
        |at: usize| indexed.edges.is_output[at] || (indexed.index.is_effective(at) && nodes[at].is_control());
    let mut leads: Vec<bool> = (0..nodes.len()).map(wanted).collect();
    let mut reached: Vec<usize> = (0..nodes.len()).filter(|&at| leads[at]).collect();
    while let Some(at) = reached.pop() {
        for &(source, _) in &indexed.edges.sources[at] {
            if !std::mem::replace(&mut leads[source], true) {
                reached.push(source);
            }
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        if node.reach().impact == 0 && !node.is_control() && !leads[indexed.index.effective(at)] {
            let detail = "has no effect, and no output and no control node depends on it";
            let help = "remove the node, add it to `outputs`, or let another node depend on it";
            faults.push(
                Diagnostic::new(DiagnosticCode::V05, &node.id, detail, help).at(&indexed.place(at).key("id")),
            );
        }
    }
}
