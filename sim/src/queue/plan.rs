//! Plans of a trace: nodes that wait for others, and what becomes of them when those end.

use std::collections::{BTreeMap, BTreeSet};

use ostler_scheduler::{AgentHandle, Price};

use super::record::Node;

/// A plan whose nodes are queued as their dependencies are settled.
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
    /// Every node after those it depends on.
    order: Vec<usize>,
}

impl Shape {
    /// The order of the nodes; `unknown_dep` or `cyclic_dag` if there is none. The ids differ from each other.
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
    /// A plan all of whose nodes still wait; a node's rank is its charge and that of the costliest path below it.
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

    /// Nodes that the end of `number` makes ready, in the order of the plan.
    pub(super) fn ready_after(&self, number: usize) -> Vec<Ready> {
        let freed = |follower: usize| self.nodes[follower].waits && self.nodes[follower].missing == 1;
        self.nodes[number]
            .followers
            .iter()
            .filter(|&&f| freed(f))
            .map(|&follower| self.ready(follower))
            .collect()
    }

    /// Takes note that `number` was queued.
    pub(super) fn queued(&mut self, number: usize) {
        self.nodes[number].waits = false;
    }

    /// Takes note that `number` was settled.
    pub(super) fn settled(&mut self, number: usize) {
        for follower in std::mem::take(&mut self.nodes[number].followers) {
            self.nodes[follower].missing -= 1;
        }
    }

    /// Ends the wait of `number` and of everything below it; returns what is below, in the order of the plan.
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

    /// True if no node waits any more, so that nothing will ever be asked of the plan.
    pub(super) fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| !node.waits)
    }

    fn ready(&self, number: usize) -> Ready {
        let node = &self.nodes[number];
        Ready { number, id: node.id.clone(), price: node.price, rank: node.rank }
    }
}
