//! Statistics of a valid plan before it runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Graph, Method, Node, Plan, Settings, undoing, with_fallback};
use crate::contract::{Reliability, precision, reliability};
use crate::id::NodeId;

/// Size and reach of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanStats {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of edges of either kind.
    pub edges: usize,
    /// Nodes on the longest path: a lower bound on rounds.
    pub depth: usize,
    /// Largest number of nodes on one level (longest path from an entry): an estimate of parallelism.
    pub width: usize,
    /// A longest path, from an entry on. Ties are broken by node id, from the end of the path.
    pub critical_path: Vec<NodeId>,
    /// Largest impact of any node with its contract's tests, its fallback and its undo: 0 observe, 1 operate, 2 control.
    pub impact_max: u8,
    /// Tools in the plan, those of fallbacks and undos included, ascending.
    pub tools: BTreeSet<String>,
    /// Models in the plan, ascending.
    pub models: BTreeSet<String>,
    /// Probability that everything accepted by the contracts is correct; `None` if any precision is unknown.
    pub reliability: Option<Reliability>,
    /// Contract methods and the number of nodes with each.
    pub methods: BTreeMap<Method, usize>,
    /// Nodes with a contract of unknown precision, ascending: the reason for a missing `reliability`.
    pub unknown_precision: Vec<NodeId>,
}

impl PlanStats {
    /// Computes the statistics of a plan that is valid under `settings`.
    pub fn of(plan: &Plan, settings: &Settings<'_>) -> PlanStats {
        let graph = plan.graph();
        let others: Vec<Node> = plan
            .nodes
            .iter()
            .flat_map(|node| [with_fallback(node, settings), undoing(node, settings)])
            .flatten()
            .collect();
        let callers = || plan.nodes.iter().chain(&others);
        let critical_path = critical_path(plan, graph);
        let mut per_level = vec![0; plan.nodes.len()];
        for &level in &graph.level {
            per_level[level as usize] += 1;
        }
        PlanStats {
            nodes: plan.nodes.len(),
            edges: graph.sources.items().len(),
            depth: critical_path.len(),
            width: per_level.into_iter().max().unwrap_or(0),
            critical_path,
            impact_max: callers().map(|node| node.reach().impact).max().unwrap_or(0),
            tools: callers().filter_map(|node| node.tool.clone()).collect(),
            models: callers().filter_map(|node| node.model.clone()).collect(),
            reliability: reliability(plan.nodes.iter().map(|node| precision(&node.contract))),
            methods: methods(&plan.nodes),
            unknown_precision: plan
                .nodes
                .iter()
                .filter(|node| precision(&node.contract).is_none())
                .map(|node| node.id.clone())
                .collect(),
        }
    }
}

fn methods(nodes: &[Node]) -> BTreeMap<Method, usize> {
    let mut methods = BTreeMap::new();
    for node in nodes {
        let of_node: BTreeSet<Method> = node.contract.iter().map(|rule| rule.method).collect();
        for method in of_node {
            *methods.entry(method).or_default() += 1;
        }
    }
    methods
}

fn critical_path(plan: &Plan, graph: &Graph) -> Vec<NodeId> {
    let deepest = |nodes: &mut dyn Iterator<Item = usize>| {
        nodes.max_by(|&a, &b| graph.level[a].cmp(&graph.level[b]).then(b.cmp(&a)))
    };
    let mut path = Vec::new();
    let mut next = deepest(&mut (0..plan.nodes.len()));
    while let Some(at) = next {
        path.push(plan.nodes[at].id.clone());
        next = deepest(&mut graph.sources[at].iter().map(|&(source, _)| source));
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft};

    #[test]
    fn facts_tell_size_depth_width_and_reach() {
        let rule = json!([{"method": "code"}]);
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": [
            {"id": "list", "tool": "fs.list", "contract": rule},
            {"id": "a", "tool": "fs.read", "deps": ["list"], "contract": rule},
            {"id": "b", "tool": "fs.read", "deps": ["list"], "contract": rule},
            {"id": "c", "model": "small", "contract": rule},
            {"id": "put", "tool": "fs.write", "effect": "write", "impact": 1, "deps": ["a", "b", "c"], "contract": rule},
        ]}))
        .unwrap();
        let settings = Settings::simulation(PolicyDraft::default(), None);
        let plan = draft.validate(&settings).unwrap();
        expect![[r#"{"nodes":5,"edges":5,"depth":3,"width":2,"critical_path":["list","a","put"],"impact_max":1,"tools":["fs.list","fs.read","fs.write"],"models":["small"],"reliability":null,"methods":{"code":5},"unknown_precision":["a","b","c","list","put"]}"#]]
            .assert_eq(&serde_json::to_string(&PlanStats::of(&plan, &settings)).unwrap());
    }
}
