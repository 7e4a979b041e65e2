//! The graph of a run with the state of each node.

use std::collections::BTreeSet;

use ostler_actors::{RecoveryPreview, RunView};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Made;
use ostler_kernel::run::NodeStatus;

use crate::wire::{GraphEdge, GraphNode, GraphView, word};

/// The graph at the view's last record; `ahead` replaces it by what recovery of an inactive run would find. `withdrawn` are the nodes
/// with a withdrawn result.
pub(crate) fn graph_view(
    run: RunId,
    view: &RunView,
    ahead: Option<&RecoveryPreview>,
    withdrawn: &BTreeSet<NodeId>,
) -> GraphView {
    let now = ahead.map_or(&view.run, |ahead| &ahead.run);
    let (plan, graph) = (now.plan(), now.graph());
    let critical: BTreeSet<&NodeId> = view.figures.critical_path.iter().collect();
    let mut nodes: Vec<GraphNode> = now
        .instances()
        .enumerate()
        .map(|(at, (node, instance))| {
            let output = instance.result();
            let deadline_ms = match instance.status {
                NodeStatus::WaitingHuman { deadline, .. } => deadline,
                _ => None,
            };
            let (list, undoes, round) = match node.made.as_deref() {
                Some(Made::Child { of, .. }) => (Some(of.to_string()), None, None),
                Some(Made::Undo { of, round, .. }) => (None, Some(of.to_string()), Some(*round)),
                Some(Made::Collector { .. }) | None => (None, None, None),
            };
            GraphNode {
                id: node.id.to_string(),
                kind: word(&node.kind),
                uses: node.tool.clone().or_else(|| node.model.clone()),
                level: graph.level[at],
                state: instance.state().to_string(),
                reason: instance.reason.as_ref().map(ToString::to_string),
                since_ms: instance.since,
                attempts: instance.attempts,
                interrupted: ahead.is_some_and(|ahead| ahead.again.contains(&node.id)),
                busy_ms: view.figures.took.get(&node.id).copied(),
                failure: instance.failure_message().map(str::to_owned),
                artifact: output.map(|output| output.artifact.to_string()),
                bytes: output.map(|output| output.bytes),
                reuse: match withdrawn.contains(&node.id) {
                    true => Some("withdrawn".to_owned()),
                    false => view.figures.reuse.get(&node.id).map(|&word| word.to_owned()),
                },
                critical: critical.contains(&node.id),
                deadline_ms,
                list,
                undoes,
                round,
            }
        })
        .collect();
    nodes.sort_by(|a, b| (a.level, &a.id).cmp(&(b.level, &b.id)));
    let edges = plan.nodes.iter().flat_map(|node| {
        node.deps.iter().map(|dep| GraphEdge {
            from: dep.n.to_string(),
            to: node.id.to_string(),
            on: word(&dep.on),
        })
    });
    GraphView {
        run: run.to_string(),
        plan: plan.id.clone(),
        version: plan.version,
        edges: edges.collect(),
        nodes,
        outputs: plan.outputs.iter().map(ToString::to_string).collect(),
    }
}
