//! The nodes that wait for a node.

use super::Run;
use crate::id::NodeId;

/// Longest list of downstream nodes.
pub const DOWNSTREAM_MAX: usize = 100;

impl Run {
    /// The first [`DOWNSTREAM_MAX`] live nodes that depend on `node`, directly or not, in ascending order of ids.
    pub fn downstream(&self, node: &NodeId) -> Vec<NodeId> {
        let nodes = &self.plan.nodes;
        let Some(start) = self.position(node) else { return Vec::new() };
        let (mut seen, mut open) = (vec![false; nodes.len()], vec![start]);
        while let Some(at) = open.pop() {
            for &(consumer, _) in &self.graph.consumers[at] {
                if self.instances[consumer].is_live() && !std::mem::replace(&mut seen[consumer], true) {
                    open.push(consumer);
                }
            }
        }
        let held = (0..nodes.len()).filter(|&at| seen[at] && at != start).map(|at| nodes[at].id.clone());
        held.take(DOWNSTREAM_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft, Settings};

    #[test]
    fn a_node_names_what_it_holds_up_to_a_limit() {
        let held = |nodes: usize| {
            let mut plan = vec![json!({"id": "ask", "kind": "human_approval", "human_timeout": 1})];
            plan.extend((0..nodes).map(|at| json!({"id": format!("n{at:03}"), "deps": ["ask"]})));
            plan.iter_mut().for_each(|node| node["contract"] = json!([{"method": "schema"}]));
            let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": plan})).unwrap();
            let overrides = PolicyDraft { max_nodes: Some(1_000), ..PolicyDraft::default() };
            let plan = draft.validate(&Settings::simulation(overrides, None)).unwrap();
            Run::new(Arc::new(plan), 1, 0).downstream(&"ask".into())
        };
        assert_eq!(
            (held(DOWNSTREAM_MAX).len(), held(DOWNSTREAM_MAX + 1).len()),
            (DOWNSTREAM_MAX, DOWNSTREAM_MAX)
        );
        assert_eq!(held(DOWNSTREAM_MAX + 1), held(DOWNSTREAM_MAX), "the first of them");
    }
}
