//! Propagation: the steps of nodes without any further input, after each decision.
//!
//! Per node, the first rule to apply makes a step:
//!
//! 1. A live node is skipped if another candidate has won its any_of join and no other consumer demands the node. A running
//!    attempt with an effect drains instead: its true end must be known.
//! 2. A pending or ready node is blocked while an interjection holds the run, and pending again afterwards.
//! 3. A pending node is blocked when its all_of join has lost a source. The node is pending again if a new plan version
//!    repairs the join, and cancelled once no replan can come.
//! 4. A pending node with a complete join becomes ready; an any_of join without a winner and without an open candidate
//!    fails.
//!
//! A step may enable steps of other nodes: every transition marks the affected nodes in the
//! [`DirtySet`](super::dirty::DirtySet), and passes in ascending order of ids go on until the set is empty. The passes end
//! because terminal states absorb and each rule leaves the state of its condition; holds and plan versions change between
//! decisions only. The fixed order makes the result a function of the records, as replay needs.

use super::Run;
use super::decision::Decision;
use super::node_status::NodeStatus;
use crate::event::Event;
use crate::id::{NodeId, Ticks};
use crate::plan::{Join, On};
use crate::run::{NodeState, TransitionReason};

enum Step {
    Drain,
    /// The join holds; guards and the list come next.
    Enter(TransitionReason),
    Move(NodeState, TransitionReason),
}

impl Decision<'_, '_, '_> {
    /// Makes the steps of all dirty nodes until no node is dirty.
    pub(super) fn settle(&mut self) {
        while let Some(at) = self.run.dirty.take() {
            match self.run.own_step(at, self.cx.now) {
                Some(Step::Drain) => self.emit(Event::Draining { node: self.id(at) }),
                Some(Step::Move(to, reason)) => self.transit(at, to, reason),
                Some(Step::Enter(reason)) => self.enter_in_pass(at, reason),
                None => {}
            }
        }
        self.run.reading.end();
    }

    /// The pass continues after the node, even if the step created a new version of the plan; added nodes take part from
    /// the next pass on.
    fn enter_in_pass(&mut self, at: usize, reason: TransitionReason) {
        let (id, version) = (self.id(at), self.run.plan.version);
        self.enter(at, reason);
        if self.run.plan.version != version
            && let Some(at) = self.run.position(&id)
        {
            let added = std::mem::take(&mut self.run.added);
            self.run.dirty.resume(at, self.run.instances.len(), &added);
        }
    }
}

impl Run {
    fn own_step(&self, at: usize, now: Ticks) -> Option<Step> {
        let instance = &self.instances[at];
        if instance.is_live() && !instance.is_draining() && self.is_superseded(at) && !self.is_demanded(at) {
            let drains = self.plan.nodes[at].acts() && instance.state() == NodeState::Running;
            return Some(if drains {
                Step::Drain
            } else {
                Step::Move(NodeState::Skipped, TransitionReason::SiblingWon)
            });
        }
        if instance.is_live() && !instance.is_draining() && self.is_left_over(at) && !self.is_demanded(at) {
            let drains = self.plan.nodes[at].acts() && instance.state() == NodeState::Running;
            return Some(if drains {
                Step::Drain
            } else {
                Step::Move(NodeState::Skipped, TransitionReason::CollectorEnded)
            });
        }
        match &instance.status {
            NodeStatus::Pending | NodeStatus::Ready if self.is_held(at) => {
                Some(Step::Move(NodeState::Blocked, TransitionReason::Hold))
            }
            NodeStatus::Held if !self.is_held(at) => {
                Some(Step::Move(NodeState::Pending, TransitionReason::HoldReleased))
            }
            NodeStatus::Upstream { broken_dep } => {
                if self.joins[at].broken_dep().is_none() {
                    Some(Step::Move(NodeState::Pending, TransitionReason::Unblocked))
                } else if self.is_guarded_out(at) {
                    Some(Step::Move(NodeState::Skipped, TransitionReason::GuardFalse))
                } else if !self.recovery_open(now) {
                    Some(Step::Move(NodeState::Cancelled, TransitionReason::Upstream(broken_dep.clone())))
                } else {
                    None
                }
            }
            NodeStatus::Pending if !self.waits_its_turn(at) && !self.waits_for_undo(at) => self.join_step(at),
            NodeStatus::Pending
            | NodeStatus::Ready
            | NodeStatus::Running { .. }
            | NodeStatus::WaitingHuman { .. }
            | NodeStatus::FailedRetryable { .. }
            | NodeStatus::Held
            | NodeStatus::Executed
            | NodeStatus::Failed
            | NodeStatus::Cancelled
            | NodeStatus::Skipped => None,
        }
    }

    fn join_step(&self, at: usize) -> Option<Step> {
        let (join, id) = (&self.joins[at], |source: usize| self.plan.nodes[source].id.clone());
        let node = &self.plan.nodes[at];
        let ready = |reason| match node.when.is_empty() && node.for_each.is_none() {
            true => Some(Step::Move(NodeState::Ready, reason)),
            false => Some(Step::Enter(reason)),
        };
        match node.join {
            None => ready(TransitionReason::Entry),
            Some(Join::AllOf) if join.unmet == 0 => ready(TransitionReason::AllOf),
            Some(Join::AllOf) if self.is_guarded_out(at) => {
                Some(Step::Move(NodeState::Skipped, TransitionReason::GuardFalse))
            }
            Some(Join::AllOf) => join
                .broken_dep()
                .map(|broken_dep| Step::Move(NodeState::Blocked, TransitionReason::Upstream(id(broken_dep)))),
            Some(Join::AnyOf) => match join.winner() {
                Some(winner) => ready(TransitionReason::AnyOf(id(winner))),
                None if join.unmet == 0 && self.is_guarded_out(at) => {
                    Some(Step::Move(NodeState::Skipped, TransitionReason::GuardFalse))
                }
                None if join.unmet == 0 => {
                    Some(Step::Move(NodeState::Failed, TransitionReason::JoinExhausted))
                }
                None => None,
            },
        }
    }

    fn is_guarded_out(&self, at: usize) -> bool {
        self.joins[at].is_guarded_out(self.plan.nodes[at].join, self.graph.sources[at].len())
    }

    /// True for a child of a collector that ended without a result.
    fn is_left_over(&self, at: usize) -> bool {
        let collector = self.plan.nodes[at].parent().and_then(|collector| self.position(collector));
        collector.is_some_and(|collector| {
            let instance = &self.instances[collector];
            !instance.is_live() && instance.status != NodeStatus::Executed
        })
    }

    /// True if another candidate has won an any_of consumer of this node.
    fn is_superseded(&self, at: usize) -> bool {
        self.graph.consumers[at].iter().any(|&(consumer, _)| {
            self.plan.nodes[consumer].join == Some(Join::AnyOf)
                && self.joins[consumer].winner().is_some_and(|winner| winner != at)
        })
    }

    /// True if the node is an output, or a live consumer still needs its result.
    fn is_demanded(&self, at: usize) -> bool {
        self.is_output[at]
            || self.graph.consumers[at].iter().any(|&(consumer, on)| {
                self.instances[consumer].is_live()
                    && match self.plan.nodes[consumer].join {
                        Some(Join::AnyOf) => self.joins[consumer].winner().is_none(),
                        Some(Join::AllOf) | None => on == On::Success,
                    }
            })
    }

    /// True if a lost attempt of this running node must not be repeated yet: nothing starts while an interjection holds the
    /// run.
    pub fn is_rerun_held(&self, node: &NodeId) -> bool {
        self.position(node).is_some_and(|at| {
            let instance = &self.instances[at];
            self.is_held(at) && instance.state() == NodeState::Running && !instance.is_draining()
        })
    }

    fn is_held(&self, at: usize) -> bool {
        !self.holds.is_empty() && !self.holds.contains(&self.plan.nodes[at].id)
    }

    /// True if the node is a candidate of an open ordered join behind one that may still win, and no other consumer needs the
    /// node now.
    fn waits_its_turn(&self, at: usize) -> bool {
        let open =
            |consumer: usize| self.instances[consumer].is_live() && self.joins[consumer].winner().is_none();
        let consumers = &self.graph.consumers[at];
        let waits = |&(consumer, _): &(usize, On)| self.ordered_joins.waits(consumer, at) && open(consumer);
        consumers.iter().any(waits)
            && !consumers.iter().any(|&(consumer, on)| match self.plan.nodes[consumer].join {
                Some(Join::AnyOf) => !self.ordered_joins.is_ordered(consumer) && open(consumer),
                Some(Join::AllOf) | None => on == On::Success && self.instances[consumer].is_live(),
            })
    }
}
