//! Plans of a trace: waiting nodes and their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use ostler_scheduler::{AgentHandle, Price};

use super::record::Node;

/// A plan. Its nodes enter the queue when their dependencies are settled.
pub(super) struct Plan {
    pub(super) client: String,
    pub(super) agent: AgentHandle,
    nodes: Vec<PlanNode>,
}

struct PlanNode {
    id: String,
    price: Price,
    rank: u64,
    missing: usize,
    followers: Vec<usize>,
    waits: bool,
}

pub(super) struct Ready {
    pub(super) number: usize,
    pub(super) id: String,
    pub(super) price: Price,
    pub(super) rank: u64,
}

pub(super) struct Shape {
    followers: Vec<Vec<usize>>,
    missing: Vec<usize>,
    /// Topological order of the nodes.
    order: Vec<usize>,
}

impl Shape {
    /// Sorts nodes topologically. Ids must be unique. Errors: `unknown_dep`, `cyclic_dag`.
    pub(super) fn of(nodes: &[Node]) -> Result<Self, &'static str> {
        let numbers: BTreeMap<&str, usize> =
            nodes.iter().zip(0..).map(|(node, number)| (node.id.as_str(), number)).collect();
        let mut followers = vec![Vec::new(); nodes.len()];
        let mut missing = Vec::with_capacity(nodes.len());
        for (number, node) in nodes.iter().enumerate() {
            let needed: BTreeSet<&str> = node.dependencies.iter().map(String::as_str).collect();
            missing.push(needed.len());
            for dependency in needed {
                followers[*numbers.get(dependency).ok_or("unknown_dep")?].push(number);
            }
        }
        let mut left = missing.clone();
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&number| left[number] == 0).collect();
        let mut done = 0;
        while let Some(&number) = order.get(done) {
            done += 1;
            for &follower in &followers[number] {
                left[follower] -= 1;
                if left[follower] == 0 {
                    order.push(follower);
                }
            }
        }
        if order.len() == nodes.len() { Ok(Self { followers, missing, order }) } else { Err("cyclic_dag") }
    }
}

impl Plan {
    /// A plan with every node waiting. The rank of a node is the cost of its costliest path to an end, itself included.
    pub(super) fn new(
        client: String,
        agent: AgentHandle,
        nodes: Vec<Node>,
        prices: &[Price],
        shape: Shape,
    ) -> Self {
        let mut ranks = vec![0; nodes.len()];
        for &number in shape.order.iter().rev() {
            let below = shape.followers[number].iter().map(|&follower| ranks[follower]).max().unwrap_or(0);
            ranks[number] = prices[number].charge + below;
        }
        let nodes = nodes
            .into_iter()
            .zip(shape.followers)
            .enumerate()
            .map(|(number, (node, followers))| PlanNode {
                id: node.id,
                price: prices[number],
                rank: ranks[number],
                missing: shape.missing[number],
                followers,
                waits: true,
            })
            .collect();
        Self { client, agent, nodes }
    }

    pub(super) fn roots(&self) -> Vec<Ready> {
        (0..self.nodes.len())
            .filter(|&number| self.nodes[number].missing == 0)
            .map(|number| self.ready(number))
            .collect()
    }

    /// Nodes that became ready with the end of `number`, in plan order.
    pub(super) fn ready_after(&self, number: usize) -> Vec<Ready> {
        let freed = |follower: usize| self.nodes[follower].waits && self.nodes[follower].missing == 1;
        self.nodes[number]
            .followers
            .iter()
            .filter(|&&f| freed(f))
            .map(|&follower| self.ready(follower))
            .collect()
    }

    /// Marks `number` as queued.
    pub(super) fn queued(&mut self, number: usize) {
        self.nodes[number].waits = false;
    }

    /// Marks `number` as settled.
    pub(super) fn settled(&mut self, number: usize) {
        for follower in std::mem::take(&mut self.nodes[number].followers) {
            self.nodes[follower].missing -= 1;
        }
    }

    /// Cancels `number` and its descendants; returns the descendants in plan order.
    pub(super) fn cancel(&mut self, number: usize) -> Vec<String> {
        self.nodes[number].waits = false;
        let (mut gone, mut below) = (BTreeSet::new(), vec![number]);
        while let Some(number) = below.pop() {
            for follower in self.nodes[number].followers.clone() {
                if std::mem::take(&mut self.nodes[follower].waits) {
                    gone.insert(follower);
                    below.push(follower);
                }
            }
        }
        gone.into_iter().map(|number| self.nodes[number].id.clone()).collect()
    }

    /// True if no node waits: the plan can be dropped.
    pub(super) fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| !node.waits)
    }

    fn ready(&self, number: usize) -> Ready {
        let node = &self.nodes[number];
        Ready { number, id: node.id.clone(), price: node.price, rank: node.rank }
    }
}
