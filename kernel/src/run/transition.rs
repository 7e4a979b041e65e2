//! The effect of a node's transition: the node's new status, and every count, join and ordered join that depends on the node.

use std::sync::Arc;

use super::Run;
use super::apply::IllegalStep;
use super::node_status::NodeStatus;
use super::ordered_joins::may_win;
use crate::event::{HumanRequestKind, NodeTransition};
use crate::id::Ticks;
use crate::plan::{Kind, Node};
use crate::policy;
use crate::run::{FailureCategory, NodeState, TransitionReason};

impl Run {
    pub(super) fn apply_transition(&mut self, moved: &NodeTransition, at: Ticks) -> Result<(), IllegalStep> {
        let NodeTransition { node, from, to, reason, .. } = moved;
        let index = self.find(node)?;
        let actual = self.instances[index].state();
        if actual != *from {
            return Err(IllegalStep::WrongState { node: node.clone(), actual, recorded: *from });
        }
        if !from.has_arrow(*to, reason) {
            let (node, reason) = (node.clone(), reason.to_string());
            return Err(IllegalStep::NoArrow { node, from: *from, to: *to, reason });
        }
        let drained = self.instances[index].is_draining();
        self.diagnoses.moved(node, *to, reason);
        self.move_to(index, NodeStatus::after(*to, reason), reason, at);
        self.instances[index].was_sent |= *reason == TransitionReason::InDoubt;
        let instance = &mut self.instances[index];
        match (to, reason) {
            (NodeState::Running, _) => {
                instance.attempts += 1;
                (instance.output, instance.made_in) = (None, None);
                let failure = instance.failure.take();
                instance.refused =
                    failure.filter(|failure| failure.category == FailureCategory::InvalidOutput);
                if let Some(goal) = &mut self.goal {
                    goal.apply_start(node, at);
                }
            }
            (NodeState::WaitingHuman, TransitionReason::ApproveBefore) => instance.approved = false,
            (NodeState::Ready, TransitionReason::Approved) => instance.approved = true,
            (NodeState::Pending, TransitionReason::Retry) => instance.retries += 1,
            (NodeState::Pending, TransitionReason::Patched) => {
                instance.retries = 0;
                instance.patch_count += 1;
                instance.approved = false;
                instance.holds.clear();
                // The next intent is for other work.
                instance.identity = None;
            }
            // A directive in the result of a drained node counts for nothing: the node was stopped before.
            (NodeState::Executed, _) if !drained && !self.plan.nodes[index].is_undo() => {
                let directive = instance.output.as_ref().and_then(|output| output.directive.as_ref());
                if directive.is_some_and(|directive| directive.conclude) {
                    self.conclude();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn move_to(&mut self, index: usize, status: NodeStatus, reason: &TransitionReason, at: Ticks) {
        let before = std::mem::replace(&mut self.instances[index].status, status);
        self.count(index, &before, false);
        let after = self.instances[index].status.clone();
        self.count(index, &after, true);
        let instance = &mut self.instances[index];
        instance.reason = Some(reason.clone());
        instance.since = at;
        self.dirty.mark(index);
        let state = after.state();
        if state.is_terminal() {
            self.commit(index, state);
        }
        if may_win(&before) != may_win(&after) {
            self.update_ordered_joins(index, may_win(&after));
        }
    }

    /// Keeps [`StateCounts`](super::StateCounts) and the ready set in step with a node that enters or leaves `status`.
    fn count(&mut self, index: usize, status: &NodeStatus, enters: bool) {
        let counts = &mut self.counts;
        let count = match status {
            NodeStatus::Running { sleep_until: Some(_), .. } => &mut counts.sleeping,
            // A collector takes no slot.
            NodeStatus::Running { .. } if self.plan.nodes[index].kind == Kind::Collector => {
                &mut counts.sleeping
            }
            NodeStatus::Running { sleep_until: None, .. } => &mut counts.running,
            NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, .. } => &mut counts.awaiting,
            NodeStatus::WaitingHuman { .. } => &mut counts.waiting,
            NodeStatus::FailedRetryable { .. } => &mut counts.retryable,
            NodeStatus::Ready => {
                let key = (self.graph.level[index], index);
                let _ = if enters { self.ready.insert(key) } else { self.ready.remove(&key) };
                return;
            }
            NodeStatus::Executed | NodeStatus::Failed | NodeStatus::Cancelled | NodeStatus::Skipped => {
                counts.live -= usize::from(enters);
                return;
            }
            NodeStatus::Pending | NodeStatus::Held | NodeStatus::Upstream { .. } => return,
        };
        if enters {
            *count += 1;
        } else {
            *count -= 1;
        }
    }

    /// Commits a terminal node. Marks every node with a step that may depend on the commit: consumers (their joins count
    /// it), sources (they lose a consumer), and the rival candidates of a join it wins (superseded).
    fn commit(&mut self, index: usize, state: NodeState) {
        self.counters.commits += 1;
        self.instances[index].commit_number = self.counters.commits;
        let graph = Arc::clone(&self.graph);
        let guarded_out = self.instances[index].is_guarded_out();
        for &(consumer, on) in &graph.consumers[index] {
            let join = self.plan.nodes[consumer].join;
            let before = self.joins[consumer].winner();
            self.joins[consumer].commit(join, on, index, state, guarded_out);
            self.dirty.mark(consumer);
            if before.is_none() && self.joins[consumer].winner().is_some() {
                graph.sources[consumer].iter().for_each(|&(sibling, _)| self.dirty.mark(sibling));
            }
        }
        graph.sources[index].iter().for_each(|&(source, _)| self.dirty.mark(source));
        if let Some(children) = self.children.get(&index) {
            children.iter().for_each(|&child| self.dirty.mark(child));
        }
        self.end_undo(index);
        self.end_interjection(index, state);
    }

    /// Releases the hold of an ended interjection. Cancels the run if the interjection failed and no person is asked
    /// instead, or if a person rejected or left unanswered an operator's interjection: the operator wanted to intervene, so
    /// the run fails safe. A cancelled or skipped interjection only releases its hold.
    fn end_interjection(&mut self, index: usize, state: NodeState) {
        let node = &self.plan.nodes[index];
        let hold = self.holds.iter().position(|held_by| *held_by == node.id);
        let failed = state == NodeState::Failed && !self.falls_back_to_person(node);
        let is_interjection = node.kind == Kind::Interjection;
        let reason = &self.instances[index].reason;
        let refused =
            matches!(reason, Some(TransitionReason::HumanRejected | TransitionReason::HumanTimeout));
        if let Some(hold) = hold {
            self.holds.remove(hold);
            self.dirty.mark_all(self.instances.len());
        }
        if failed && is_interjection || hold.is_some() && (failed || refused) {
            self.cancel_plan();
        }
    }

    /// True for an interjection of a goal run that becomes a question to a person if the model fails.
    pub(super) fn falls_back_to_person(&self, node: &Node) -> bool {
        self.goal.is_some() && policy::falls_back_to_person(node)
    }

    /// Tells the ordered joins about a candidate's chance to win, and marks the next candidate.
    fn update_ordered_joins(&mut self, index: usize, may_win: bool) {
        for &(consumer, _) in &self.graph.consumers[index] {
            if let Some(next) = self.ordered_joins.set(consumer, index, may_win) {
                self.dirty.mark(next);
            }
        }
    }
}
