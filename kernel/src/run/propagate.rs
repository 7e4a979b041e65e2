//! What follows without anybody's doing. Of a node, the first step that applies is made: it is superseded and nobody needs
//! it; it is held, or its hold is released; what it depends on is lost, or not any more; its join holds.

use super::Run;
use super::decision::Decision;
use super::node_status::NodeStatus;
use crate::event::Event;
use crate::id::NodeId;
use crate::plan::{Join, On};
use crate::run::{NodeState, TransitionReason};

/// A step that a node makes by itself.
enum Step {
    Drain,
    Move(NodeState, TransitionReason),
}

impl Decision<'_, '_, '_> {
    /// Lets every node make the steps it makes by itself, in passes of ascending id.
    pub(super) fn propagate(&mut self) {
        while let Some(at) = self.run.dirty.take() {
            match self.run.own_step(at) {
                Some(Step::Drain) => self.emit(Event::Draining { node: self.id(at) }),
                Some(Step::Move(to, reason)) => self.transit(at, to, reason),
                None => {}
            }
        }
    }
}

impl Run {
    fn own_step(&self, at: usize) -> Option<Step> {
        let instance = &self.instances[at];
        if instance.is_live() && !instance.is_draining() && self.is_superseded(at) && !self.is_demanded(at) {
            let drains = self.plan.nodes[at].acts() && instance.state() == NodeState::Running;
            return Some(if drains {
                Step::Drain
            } else {
                Step::Move(NodeState::Skipped, TransitionReason::SiblingWon)
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
                } else if !self.recovery_open() {
                    Some(Step::Move(NodeState::Cancelled, TransitionReason::Upstream(broken_dep.clone())))
                } else {
                    None
                }
            }
            NodeStatus::Pending if !self.waits_its_turn(at) => self.joined(at),
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

    /// What the join of a pending node comes to.
    fn joined(&self, at: usize) -> Option<Step> {
        let (join, id) = (&self.joins[at], |source: usize| self.plan.nodes[source].id.clone());
        match self.plan.nodes[at].join {
            None => Some(Step::Move(NodeState::Ready, TransitionReason::Entry)),
            Some(Join::AllOf) if join.unmet == 0 => {
                Some(Step::Move(NodeState::Ready, TransitionReason::AllOf))
            }
            Some(Join::AllOf) => join
                .broken_dep()
                .map(|broken_dep| Step::Move(NodeState::Blocked, TransitionReason::Upstream(id(broken_dep)))),
            Some(Join::AnyOf) => match join.winner() {
                Some(winner) => Some(Step::Move(NodeState::Ready, TransitionReason::AnyOf(id(winner)))),
                None if join.unmet == 0 => {
                    Some(Step::Move(NodeState::Failed, TransitionReason::JoinExhausted))
                }
                None => None,
            },
        }
    }

    /// Some any_of consumer has another winner.
    fn is_superseded(&self, at: usize) -> bool {
        self.graph.consumers[at].iter().any(|&(consumer, _)| {
            self.plan.nodes[consumer].join == Some(Join::AnyOf)
                && self.joins[consumer].winner().is_some_and(|winner| winner != at)
        })
    }

    /// It is an output, or a consumer that is not terminal needs it.
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

    /// Whether the attempt of a running node, should it have died with its process, is not to be done again before the run goes on:
    /// under an interjection nothing starts.
    pub fn is_rerun_held(&self, node: &NodeId) -> bool {
        self.position(node).is_some_and(|at| {
            let instance = &self.instances[at];
            self.is_held(at) && instance.state() == NodeState::Running && !instance.is_draining()
        })
    }

    fn is_held(&self, at: usize) -> bool {
        !self.holds.is_empty() && !self.holds.contains(&self.plan.nodes[at].id)
    }

    /// A pending candidate of an ordered join whose predecessors in the list may still win, and that nothing
    /// else needs.
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
