//! The graph of a run with the state of each node.

use ostler_actors::{RecoveryPreview, RunView};
use ostler_kernel::id::RunId;

use crate::wire::{GraphEdge, GraphNode, GraphView, word};

/// The graph at the view's last record; `ahead` replaces it by what recovery of an inactive run would find.
pub(crate) fn graph_view(run: RunId, view: &RunView, ahead: Option<&RecoveryPreview>) -> GraphView {
    let now = ahead.map_or(&view.run, |ahead| &ahead.run);
    let (plan, graph) = (now.plan(), now.graph());
    let mut nodes: Vec<GraphNode> = now
        .instances()
        .enumerate()
        .map(|(at, (node, instance))| {
            let output = instance.result();
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
                busy_ms: view.took.get(&node.id).copied(),
                failure: instance.failure_message().map(str::to_owned),
                artifact: output.map(|output| output.artifact.to_string()),
                bytes: output.map(|output| output.bytes),
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
