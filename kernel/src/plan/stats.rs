//! What can be said of a valid plan before it runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Graph, Method, Node, Plan};
use crate::contract::{Reliability, precision, reliability};
use crate::id::NodeId;

/// The size and reach of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanStats {
    /// Nodes.
    pub nodes: usize,
    /// Edges of either kind.
    pub edges: usize,
    /// Nodes on the longest path: no run has fewer rounds.
    pub depth: usize,
    /// Nodes on the fullest level, where a node's level is the longest path to it: about as many may run at
    /// once.
    pub width: usize,
    /// A longest path, from an entry on; of several, the first by the ids of its nodes from the end.
    pub critical_path: Vec<NodeId>,
    /// The most that any node may do, the tests of its contract included: 0 observe, 1 operate, 2 control.
    pub impact_max: u8,
    /// The tools it names, ascending.
    pub tools: BTreeSet<String>,
    /// The models it names, ascending.
    pub models: BTreeSet<String>,
    /// How likely everything that its contracts accept is correct; `None` if one of them says nothing of it.
    pub reliability: Option<Reliability>,
    /// The methods that its contracts judge by, and how many nodes each, ascending.
    pub methods: BTreeMap<Method, usize>,
    /// The nodes whose contract says nothing of its precision, ascending: why there is no bound.
    pub unknown_precision: Vec<NodeId>,
}

impl PlanStats {
    /// The facts of a valid plan.
    pub fn of(plan: &Plan) -> PlanStats {
        let graph = plan.graph();
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
            impact_max: plan.nodes.iter().map(|node| node.reach().impact).max().unwrap_or(0),
            tools: plan.nodes.iter().flat_map(tools).collect(),
            models: plan.nodes.iter().filter_map(|node| node.model.clone()).collect(),
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

/// The tool of a node, and that of its fallback.
fn tools(node: &Node) -> impl Iterator<Item = String> {
    let fallback = node.fallback.as_ref().and_then(|fields| fields.tool.clone().flatten());
    node.tool.clone().into_iter().chain(fallback)
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
    use crate::plan::{PlanDraft, PolicyDraft, Settings};

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
        let plan = draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap();
        expect![[r#"{"nodes":5,"edges":5,"depth":3,"width":2,"critical_path":["list","a","put"],"impact_max":1,"tools":["fs.list","fs.read","fs.write"],"models":["small"],"reliability":null,"methods":{"code":5},"unknown_precision":["a","b","c","list","put"]}"#]]
            .assert_eq(&serde_json::to_string(&PlanStats::of(&plan)).unwrap());
    }
}
