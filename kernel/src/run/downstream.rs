//! The nodes that wait for a node.

use super::Run;
use crate::id::NodeId;

/// Longest list of downstream nodes.
pub const DOWNSTREAM_MAX: usize = 100;

impl Run {
    /// The first [`DOWNSTREAM_MAX`] live nodes that depend on `node`, directly or not, in ascending order of ids.
    pub fn downstream(&self, node: &NodeId) -> Vec<NodeId> {
        let Some(start) = self.position(node) else { return Vec::new() };
        let held = self.graph.reached_from(start, |at| self.instances[at].is_live());
        held.into_iter().take(DOWNSTREAM_MAX).map(|at| self.plan.nodes[at].id.clone()).collect()
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
