//! Which nodes of a run want a slot, and what they wait for until they have one.

use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::id::NodeId;
use ostler_kernel::run::{NodeState, NodeStatus};
use ostler_scheduler::Price;
use tokio::time::{Duration, Instant};

use super::AgentMessage;
use super::drive::Drive;
use crate::scheduler::Job;
use crate::state::estimates::UNKNOWN;

/// How long a node waits for which there was no room in the run queue.
const CROWDED: Duration = Duration::from_millis(200);

/// What a run waits for that its client has none of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waits {
    #[default]
    Nothing,
    /// The credits of the client are used up.
    Credits,
    /// What the client has left is reserved for jobs of the market.
    Reserve,
}

impl Drive {
    /// A ready node wants a slot, or has a question to ask before.
    pub(super) fn offer(&mut self, node: &NodeId) {
        if self.run.question(node).is_some() {
            self.asking.insert(node.clone());
        } else {
            self.fresh.insert(self.order(node));
        }
    }

    /// Place in the order of dispatch.
    pub(super) fn order(&self, node: &NodeId) -> (u32, NodeId) {
        let graph = self.run.graph();
        (graph.position(node).map_or(0, |at| graph.level[at]), node.clone())
    }

    /// The node is no longer ready. Its job, if it has one, is given back when it is granted.
    pub(super) fn unqueue(&mut self, node: &NodeId) {
        // It is in one of them at most; the last may be as large as the plan.
        let _ = self.queued.remove(node) || self.asking.remove(node) || self.fresh.remove(&self.order(node));
    }

    /// A new version may have moved nodes to other levels.
    pub(super) fn reorder(&mut self) {
        let nodes: Vec<NodeId> = std::mem::take(&mut self.fresh).into_iter().map(|(_, node)| node).collect();
        nodes.iter().for_each(|node| self.offer(node));
    }

    /// There was no room in the run queue: these nodes want a slot still, and ask again in a while.
    pub(super) fn no_room(&mut self, nodes: Vec<NodeId>) {
        for node in nodes {
            if self.queued.remove(&node) || self.is_lost_attempt(&node) {
                self.crowded.push(node);
            }
        }
        if self.crowded.is_empty() || self.asks_again.is_some() {
            return;
        }
        let (me, at) = (self.me.clone(), Instant::now() + CROWDED);
        self.asks_again = Some(at);
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = me.cast(AgentMessage::AskAgain(at));
        });
    }

    /// Nodes for which there was no room ask again, as far as they are still ready; unless that is what another run had waited for.
    pub(super) fn again(&mut self, at: Instant) {
        if self.asks_again.take_if(|due| *due == at).is_none() {
            return;
        }
        let (has_credits, mut still) = (self.book.may_start(self.opened.run), Vec::new());
        for node in std::mem::take(&mut self.crowded) {
            if self.is_lost_attempt(&node) {
                if has_credits {
                    self.redo(vec![node]);
                } else {
                    still.push(node);
                }
            } else if self.run.instance(&node).is_some_and(|instance| instance.state() == NodeState::Ready) {
                self.offer(&node);
            }
        }
        if !still.is_empty() {
            self.no_room(still);
        }
    }

    /// Whether the attempt of a node died with its process, and is to be done again.
    pub(super) fn is_lost_attempt(&self, node: &NodeId) -> bool {
        let standing = self.run.instance(node).map(|instance| &instance.status);
        // A wait is nobody's attempt.
        matches!(standing, Some(NodeStatus::Running { sleep_until: None, .. })) && self.is_lost(node)
    }

    /// The client's credits are used up, or they are not any more. That says nothing of what is reserved.
    pub(super) fn out_of_credit(&mut self, out: bool, surplus: bool) {
        // What it spends is set aside for it.
        let out = out && !self.book.is_prepaid(self.opened.run);
        self.is_surplus = surplus;
        match self.waits {
            _ if out => self.wait_for(Waits::Credits),
            Waits::Credits => self.wait_for(Waits::Nothing),
            Waits::Nothing | Waits::Reserve => {}
        }
    }

    /// What it waits for from here on: whether it waits is written down, so that whoever looks at the run knows.
    pub(super) fn wait_for(&mut self, waits: Waits) {
        let was = std::mem::replace(&mut self.waits, waits);
        let out = waits != Waits::Nothing;
        if (was != Waits::Nothing) != out {
            self.pending.push(Event::OutOfCredit { out });
        }
    }

    /// Slots were granted, so the client has credits, whatever was heard before. Whether they may be spent: a contract may have been
    /// signed since the slots were asked for.
    pub(super) fn may_spend(&mut self) -> bool {
        let spare = self.book.may_start(self.opened.run);
        self.wait_for(if spare { Waits::Nothing } else { Waits::Reserve });
        spare
    }

    /// Whether anything may be started that costs something: what the client has reserved for others is not its to spend.
    pub(super) fn has_spare(&mut self) -> bool {
        let spare = self.book.may_start(self.opened.run);
        match self.waits {
            Waits::Nothing if !spare => self.wait_for(Waits::Reserve),
            Waits::Reserve if spare => self.wait_for(Waits::Nothing),
            // So it says of itself since it was read, and it may have been the other.
            Waits::Credits if !spare && !self.book.is_parked() => self.wait_for(Waits::Reserve),
            // Who is out of credits waits for those first.
            Waits::Nothing | Waits::Reserve | Waits::Credits => {}
        }
        spare
    }

    /// Whether fresh nodes may be started. Those that wait for what is reserved ask again in a while.
    pub(super) fn may_start(&mut self) -> bool {
        // When its budget is used up nothing is left but what costs nothing.
        if self.fresh.is_empty() || self.is_used_up() || self.has_spare() {
            return true;
        }
        let nodes: Vec<NodeId> = std::mem::take(&mut self.fresh).into_iter().map(|(_, node)| node).collect();
        self.queued.extend(nodes.iter().cloned());
        self.no_room(nodes);
        false
    }

    /// A granted node is not in the queue any more.
    pub(super) fn take_from_queue(&mut self, node: &NodeId) {
        self.queued.remove(node);
    }

    /// Puts fresh ready nodes into the run queue, as many as the plan's own limit allows; starts at once what holds
    /// no slot.
    pub(super) async fn enqueue(&mut self) {
        if self.is_resting() {
            return;
        }
        let mut jobs = Vec::new();
        // Who asks needs no slot for it.
        while let Some(id) = self.asking.pop_first() {
            self.ask_person(&id).await;
        }
        if !self.may_start() {
            return;
        }
        let plan = Arc::clone(self.run.plan());
        while self.queued.len() < self.run.free_slots() {
            let Some((_, id)) = self.fresh.pop_first() else { break };
            if self.ask_person(&id).await {
                continue;
            }
            let Some(at) = self.run.graph().position(&id) else { continue };
            let node = &plan.nodes[at];
            if self.services.toolbox.is_timer(node) {
                Box::pin(self.launch_timer(node)).await;
            } else {
                jobs.push(self.job(id.clone()));
                self.queued.insert(id);
            }
        }
        self.submit(jobs);
    }

    pub(super) fn submit(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let owner = &self.arguments.owner;
        self.slots.extend(self.services.scheduling.enqueue(&self.services, owner, &self.me, jobs));
    }

    /// What is queued of a node. Its rank: nodes from here to the end of the plan, along the longest path.
    pub(super) fn job(&self, id: NodeId) -> Job {
        let graph = self.run.graph();
        let rank = graph.position(&id).map_or(0, |at| u64::from(graph.height[at]) + 1);
        let mut estimate = self.run.node(&id).map_or(UNKNOWN, |node| self.services.estimates.of(node));
        if self.book.is_prepaid(self.opened.run) {
            // Its budget is what says whether it may start.
            estimate = Price { credits: 0, ..estimate };
        }
        Job { run: self.opened.run, rank, opened_ms: self.opened_ms, estimate, node: id }
    }

    /// Slots that were given back while the run was to come to rest are wanted again.
    pub(super) fn offer_again(&mut self) {
        let wanting = self.run.instances().filter(|(node, instance)| {
            matches!(instance.state(), NodeState::Ready | NodeState::Running)
                && !self.queued.contains(&node.id)
        });
        for node in wanting.map(|(node, _)| node.id.clone()).collect::<Vec<_>>() {
            if self.is_lost_attempt(&node) {
                self.redo(vec![node]);
            } else if self.run.instance(&node).is_some_and(|instance| instance.state() == NodeState::Ready) {
                self.offer(&node);
            }
        }
    }
}
