//! From ready nodes to jobs in the run queue: which to queue, hold for credits, or offer again.

use std::cmp::Reverse;
use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::id::NodeId;
use ostler_kernel::json;
use ostler_kernel::plan::{Node, model_of_tool};
use ostler_kernel::policy::{Role, View, may_call};
use ostler_kernel::run::{NodeState, NodeStatus, Run};
use ostler_scheduler::Price;
use tokio::time::Instant;

use super::dispatch_queue::{CreditWait, Place};
use super::driver::RunDriver;
use super::without_slot::takes_no_slot;
use crate::messages::agent::AgentMessage;
use crate::messages::slots::{Job, ModelUse};
use crate::state::estimates::{ATTEMPT_CREDITS, UNKNOWN};

/// Bits of the level in a rank, enough for the nodes of the largest plan file; the height is above them.
const RANK_LEVEL_BITS: u32 = 20;

/// Rank of a lost attempt that runs again: before any other job of the agent, as it was running before them.
const RERUN_RANK: u64 = u64::MAX >> 11;

impl RunDriver {
    /// Offers a ready node for a slot, or for a person's approval first.
    pub(super) fn offer(&mut self, node: &NodeId) {
        // A node without a slot does not wait for the plan's limit of slots.
        let is_prompt = self.run.question(node).is_some() || takes_no_slot(&self.run, node);
        self.queue.offer(place(&self.run, node), is_prompt);
    }

    pub(super) fn unqueue(&mut self, node: &NodeId) {
        let run = &self.run;
        self.queue.remove(node, || place(run, node));
    }

    /// Sorts ready nodes anew after a plan version: it may have changed what depends on them.
    pub(super) fn reorder(&mut self) {
        for node in self.queue.take_ready() {
            self.offer(&node);
        }
    }

    /// Keeps nodes that the run queue had no room for, and offers them again after a delay.
    pub(super) fn rejected_by_queue(&mut self, nodes: Vec<NodeId>) {
        for node in nodes {
            self.yield_turn(&node);
            if self.queue.unmark_queued(&node) || self.is_lost_attempt(&node) {
                self.queue.reject(node);
            }
        }
        let Some(at) = self.queue.arm_retry(Instant::now()) else { return };
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = me.cast(AgentMessage::AskAgain(at));
        });
    }

    /// Offers rejected nodes again that are still ready. A timer that an earlier run of the agent armed is ignored.
    pub(super) fn retry_rejected(&mut self, at: Instant) {
        let Some(nodes) = self.queue.retry(at) else { return };
        let (has_credits, mut still) = (self.book.may_start(self.opened.run), Vec::new());
        for node in nodes {
            if self.is_lost_attempt(&node) {
                if has_credits {
                    self.rerun(vec![node]);
                } else {
                    still.push(node);
                }
            } else if self.is_ready(&node) {
                self.offer(&node);
            }
        }
        if !still.is_empty() {
            self.rejected_by_queue(still);
        }
    }

    /// True if a running attempt of the node died with its process. A timer has no attempt that could die.
    pub(super) fn is_lost_attempt(&self, node: &NodeId) -> bool {
        let status = self.run.instance(node).map(|instance| &instance.status);
        matches!(status, Some(NodeStatus::Running { sleep_until: None, .. })) && self.is_lost(node)
    }

    fn is_ready(&self, node: &NodeId) -> bool {
        self.run.instance(node).is_some_and(|instance| instance.state() == NodeState::Ready)
    }

    /// Takes the run queue's report that the client's credits are used up, or no longer are. The report says nothing
    /// about reserved credits, and nothing about a run with a reservation.
    pub(super) fn out_of_credit(&mut self, out: bool, surplus: bool) {
        let out = out && !self.book.is_prepaid(self.opened.run);
        self.queue.is_surplus = surplus;
        match self.queue.credit_wait {
            _ if out => self.wait_for(CreditWait::Credits),
            CreditWait::Credits => self.wait_for(CreditWait::Nothing),
            CreditWait::Nothing | CreditWait::Reserve => {}
        }
    }

    /// Changes what the run waits for, and records a change of being out of credit for readers of the journal.
    fn wait_for(&mut self, wait: CreditWait) {
        if wait != CreditWait::Nothing {
            self.yield_turns();
        }
        if let Some(out) = self.queue.wait_for(wait) {
            self.writer.pending.push(Event::OutOfCredit { out });
        }
    }

    /// True if granted slots may be used. The grant shows that the client has credits, but a contract may have reserved them since
    /// the slots were asked for.
    pub(super) fn may_spend(&mut self) -> bool {
        let spare = self.book.may_start(self.opened.run);
        self.wait_for(if spare { CreditWait::Nothing } else { CreditWait::Reserve });
        spare
    }

    /// True if the client has credits that no contract has reserved.
    fn has_spare(&mut self) -> bool {
        let spare = self.book.may_start(self.opened.run);
        match self.queue.credit_wait {
            CreditWait::Nothing if !spare => self.wait_for(CreditWait::Reserve),
            CreditWait::Reserve if spare => self.wait_for(CreditWait::Nothing),
            // A recovered run knows only that it waited; a client that is not parked lacks unreserved credits.
            CreditWait::Credits if !spare && !self.book.is_parked() => self.wait_for(CreditWait::Reserve),
            CreditWait::Nothing | CreditWait::Reserve | CreditWait::Credits => {}
        }
        spare
    }

    /// True if ready nodes may be queued. Nodes that wait for reserved credits are offered again after a delay.
    fn may_start(&mut self) -> bool {
        // A run whose budget is used up only refuses, which costs nothing.
        if !self.queue.has_ready() || self.is_used_up() || self.has_spare() {
            return true;
        }
        let nodes = self.queue.take_ready();
        nodes.iter().for_each(|node| self.queue.mark_queued(node.clone()));
        self.rejected_by_queue(nodes);
        false
    }

    /// Queues ready nodes, as many as the plan's own slot limit allows. Questions and timers need no slot and start at once.
    pub(super) async fn enqueue(&mut self) {
        if self.is_suspending() {
            return;
        }
        self.ask_prompts().await;
        if !self.may_start() {
            return;
        }
        let mut jobs = Vec::new();
        while !self.in_flight.inline.is_full()
            && let Some(id) = self.queue.next_ready(self.run.free_slots())
        {
            if self.keep(&id).await {
                self.ask_prompts().await;
                continue;
            }
            self.record_exposure(&id);
            self.hold_for_person(&id);
            if self.ask_person(&id).await {
                continue;
            }
            let Some(at) = self.run.graph().position(&id) else { continue };
            // A reused list has its children added: the plan of the last turn may be an old one.
            let plan = Arc::clone(self.run.plan());
            let node = &plan.nodes[at];
            if self.reuse(node).await {
                // The reused result may have made nodes ready that ask a person.
                self.ask_prompts().await;
                continue;
            }
            if self.services.gatekeeper.toolbox.is_timer(node) {
                Box::pin(self.launch_timer(node)).await;
            } else {
                jobs.push(self.job(id.clone()));
                self.queue.mark_queued(id);
            }
        }
        self.submit(jobs);
    }

    async fn ask_prompts(&mut self) {
        while !self.in_flight.inline.is_full()
            && let Some(id) = self.queue.next_prompt()
        {
            if self.keep(&id).await {
                continue;
            }
            // Boxed: otherwise these rare futures enlarge the future of every message.
            if !Box::pin(self.start_without_slot(&id)).await {
                self.record_exposure(&id);
                self.hold_for_person(&id);
                self.ask_person(&id).await;
            }
        }
    }

    fn submit(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let owner = &self.arguments.owner;
        self.queue.granted.extend(self.services.scheduler.enqueue(owner, &self.me, jobs));
    }

    /// The job of a node. Its rank follows its place among the ready nodes, so the critical path goes first.
    fn job(&self, id: NodeId) -> Job {
        let (Reverse(height), Reverse(level), _) = place(&self.run, &id);
        let rank = ((u64::from(height) + 1) << RANK_LEVEL_BITS) + u64::from(level);
        let mut estimate = self.run.node(&id).map_or(UNKNOWN, |node| self.services.estimates.of(node));
        if self.book.is_prepaid(self.opened.run) {
            // The run's own budget decides whether it starts.
            estimate = Price { credits: 0, ..estimate };
        } else if self.book.left().is_none() {
            // Nothing is held. The run queue keeps a job whose credits are its charge in four bytes.
            estimate.credits = estimate.charge.min(ATTEMPT_CREDITS);
        }
        let model = self.run.node(&id).and_then(|node| self.model_use(node));
        if let Some(uses) = &model {
            let share = self.services.scheduler.rates().charge(&uses.model, uses.tokens);
            estimate = Price { charge: estimate.charge.max(share), tokens: uses.tokens, ..estimate };
        }
        Job { run: self.opened.run, rank, opened_ms: self.opened_ms, estimate, node: id, model }
    }

    /// The call of a model that the job of a node makes, with its expected tokens: the mean of earlier calls of the model in the role,
    /// else the parameters of the node and a usual answer. The prompt itself is made once the job has its slot.
    fn model_use(&self, node: &Node) -> Option<ModelUse> {
        let tool = node.tool.as_deref()?;
        if !View::of(&self.run, self.services.journal.now()).is_none_or(|view| may_call(view, node)) {
            return None;
        }
        let model = Arc::clone(self.services.scheduler.rates().model(model_of_tool(tool)?)?);
        let role = self.control_role(&node.id).map(Role::as_str).unwrap_or_default();
        let prompt_bytes = json::measure(&node.params).unwrap_or(0);
        let tokens = self.services.estimates.tokens(tool, role, prompt_bytes as u64);
        Some(ModelUse { model, tokens })
    }

    /// Queues lost attempts again under their old numbers. Attempts held by an interjection wait for the answer.
    pub(super) fn rerun(&mut self, nodes: Vec<NodeId>) {
        let (later, now): (Vec<NodeId>, Vec<NodeId>) =
            nodes.into_iter().partition(|node| self.run.is_rerun_held(node));
        // Until a person has answered the interjection.
        later.iter().for_each(|node| self.yield_turn(node));
        self.in_flight.paused_reruns.extend(later);
        let (unqueued, now): (Vec<NodeId>, Vec<NodeId>) =
            now.into_iter().partition(|node| takes_no_slot(&self.run, node));
        unqueued.iter().for_each(|node| self.offer(node));
        let jobs = now.into_iter().map(|node| Job { rank: RERUN_RANK, ..self.job(node) });
        self.submit(jobs.collect());
    }

    /// Offers everything again that lost its slot while the run was about to be suspended.
    pub(super) fn reoffer(&mut self) {
        let wanting = self.run.instances().filter(|(node, instance)| {
            matches!(instance.state(), NodeState::Ready | NodeState::Running)
                && !self.queue.is_queued(&node.id)
        });
        for node in wanting.map(|(node, _)| node.id.clone()).collect::<Vec<_>>() {
            if self.is_lost_attempt(&node) {
                self.rerun(vec![node]);
            } else if self.is_ready(&node) {
                self.offer(&node);
            }
        }
    }
}

/// The place of a node among the ready ones: where the plan's own slots bind, the critical path goes first, as in the run queue.
/// How long a node will take is not known, so paths are compared by their nodes: first by those to come, then by those that
/// are done. The end of a path that was begun therefore goes before nodes without any path.
fn place(run: &Run, node: &NodeId) -> Place {
    let graph = run.graph();
    let (height, level) = graph.position(node).map_or((0, 0), |at| (graph.height[at], graph.level[at]));
    (Reverse(height), Reverse(level), node.clone())
}
