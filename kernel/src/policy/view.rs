//! The view of a goal run that policies decide by.

use std::collections::BTreeSet;

use super::answer::Answer;
use super::role::ANSWER;
use super::{Goal, Role};
use crate::event::{ChangeCause, Failure};
use crate::id::{NodeId, Ticks};
use crate::plan::{Node, On};
use crate::run::{NodeInstance, NodeState, Run, TransitionReason};

/// A goal run at a point of time. All of it follows from the records of the run, so a recovered run has the same view.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) run: &'a Run,
    pub(super) goal: &'a Goal,
    pub(super) now: Ticks,
}

/// An executed control node with its answer.
pub(super) struct Answered<'a> {
    pub(super) node: &'a NodeId,
    pub(super) answer: Answer,
}

impl<'a> View<'a> {
    /// The view of a run at `now`; `None` for a run of a plan file.
    pub fn of(run: &'a Run, now: Ticks) -> Option<View<'a>> {
        Some(View { run, goal: run.goal()?, now })
    }

    pub(super) fn nodes(self) -> impl Iterator<Item = (&'a Node, &'a NodeInstance)> {
        self.run.instances()
    }

    /// Nodes that are not control nodes, in ascending order of ids.
    pub(super) fn work(self) -> impl Iterator<Item = (&'a Node, &'a NodeInstance)> {
        self.nodes().filter(move |(node, _)| self.is_work(&node.id))
    }

    pub(super) fn is_work(self, node: &NodeId) -> bool {
        !self.goal.roles.contains_key(node)
    }

    pub(super) fn role(self, node: &NodeId) -> Option<Role> {
        self.goal.role(node)
    }

    pub(super) fn state(self, node: &NodeId) -> Option<NodeState> {
        self.run.instance(node).map(NodeInstance::state)
    }

    pub(super) fn is_live(self, node: &NodeId) -> bool {
        self.run.instance(node).is_some_and(NodeInstance::is_live)
    }

    pub(super) fn has_live_nodes(self) -> bool {
        self.nodes().any(|(_, instance)| instance.is_live())
    }

    /// Control nodes of a role, in ascending order of ids.
    pub(super) fn of_role(self, role: Role) -> impl Iterator<Item = (&'a Node, &'a NodeInstance)> {
        self.nodes().filter(move |(node, _)| self.role(&node.id) == Some(role))
    }

    /// Work that a model may be shown: executed or failed. Cancelled and skipped work shows nothing.
    pub(super) fn evidence(self) -> impl Iterator<Item = &'a NodeId> {
        self.work().filter(|(_, instance)| is_evidence(instance)).map(|(node, _)| &node.id)
    }

    /// The failure of failed work.
    pub(super) fn failure_of(self, node: &NodeId) -> Option<&'a Failure> {
        let instance = self.run.instance(node).filter(|instance| instance.state() != NodeState::Executed)?;
        instance.failure.as_deref()
    }

    /// Executed work of this run, in ascending order of ids.
    pub(super) fn executed(self) -> impl Iterator<Item = &'a NodeId> {
        let is_executed = |instance: &NodeInstance| instance.state() == NodeState::Executed;
        let executed =
            self.work().filter(move |(_, instance)| is_executed(instance)).map(|(node, _)| &node.id);
        executed.filter(move |node| !self.is_earlier(node))
    }

    /// The work that a control node has terminal edges on.
    pub(super) fn cover(self, node: &'a Node) -> impl Iterator<Item = &'a NodeId> {
        let edges = node.deps.iter().filter(|dep| dep.on == On::Terminal).map(|dep| &dep.n);
        edges.filter(move |source| self.is_work(source))
    }

    /// The evidence in a control node's cover.
    pub(super) fn covered_evidence(self, node: &'a Node) -> impl Iterator<Item = &'a NodeId> {
        self.cover(node).filter(move |source| self.run.instance(source).is_some_and(is_evidence))
    }

    /// Evidence of this run in the cover of no reflection. Reflections that failed or were skipped cover too.
    pub(super) fn uncovered(self) -> Vec<&'a NodeId> {
        let covered: BTreeSet<&NodeId> =
            self.of_role(Role::Reflect).flat_map(|(node, _)| self.cover(node)).collect();
        self.evidence().filter(|node| !covered.contains(node) && !self.is_earlier(node)).collect()
    }

    /// Evidence in the cover of reflections that have ended.
    pub(super) fn reviewed(self) -> BTreeSet<&'a NodeId> {
        let ended = self.of_role(Role::Reflect).filter(|(_, instance)| !instance.is_live());
        ended.flat_map(|(node, _)| self.covered_evidence(node)).collect()
    }

    /// The answer of an executed control node; `None` if it was executed without a call. The policy reads answers from the
    /// records alone, so the results of control nodes are always inline, at any size.
    pub(super) fn answer(self, node: &NodeId) -> Option<Answer> {
        let output = self.run.instance(node)?.result()?;
        Answer::read(self.role(node)?, output.inline.as_ref()?)
    }

    /// Executed control nodes with answers, in the order of their commits.
    pub(super) fn answers(self) -> Vec<Answered<'a>> {
        let mut ended: Vec<(u64, &'a NodeId)> = self
            .nodes()
            .filter(|(node, instance)| instance.state() == NodeState::Executed && !self.is_work(&node.id))
            .map(|(node, instance)| (instance.commit_number, &node.id))
            .collect();
        ended.sort();
        let read = |(_, node)| Some(Answered { node, answer: self.answer(node)? });
        ended.into_iter().filter_map(read).collect()
    }

    /// True if a planner was added for the answer of this node.
    pub(super) fn has_planner(self, asked_by: &NodeId) -> bool {
        self.of_role(Role::Planner).any(|(node, _)| node.deps.iter().any(|dep| dep.n == *asked_by))
    }

    /// True if nothing may follow any more: the answer is a node, or the plan is cancelled or concluded.
    pub(super) fn is_over(self) -> bool {
        self.role(&NodeId::from(ANSWER)).is_some() || self.run.is_cancelled() || self.run.is_concluded()
    }

    /// True if the run has no answer and no step of its plan has begun.
    pub(crate) fn did_nothing(self) -> bool {
        !self.run.outputs_settled() && self.work().all(|(_, instance)| instance.attempts == 0)
    }

    /// True if the time of the run is up.
    pub(super) fn is_late(self) -> bool {
        self.goal.is_late(self.now)
    }

    /// Time at which the wall row of the mode fires if nothing else happens until then: propagate then. `None` without a budget
    /// of time, once the time is up, and once the run is ending.
    pub fn wall_at(self) -> Option<Ticks> {
        self.goal.wall_at().filter(|_| !self.is_late() && !self.is_over())
    }

    pub(super) fn is_opening_executed(self) -> bool {
        self.state(&self.goal.opening()) == Some(NodeState::Executed)
    }

    /// The node whose answer wrote this node; `None` if an operator or the mode added it.
    pub(super) fn written_by(self, node: &NodeId) -> Option<&'a NodeId> {
        match self.goal.added_by.get(node)? {
            ChangeCause::Node(author) => Some(author),
            ChangeCause::Mode(_)
            | ChangeCause::Patch(_)
            | ChangeCause::Operator
            | ChangeCause::Interject
            | ChangeCause::Replan
            | ChangeCause::Expand(_)
            | ChangeCause::UndoPolicy
            | ChangeCause::UndoOperator => None,
        }
    }
}

fn is_evidence(instance: &NodeInstance) -> bool {
    matches!(instance.state(), NodeState::Executed | NodeState::Failed)
}

/// True if a person stopped the node: by name, or with a delta.
pub(super) fn is_stopped_by_person(instance: &NodeInstance) -> bool {
    matches!(instance.reason, Some(TransitionReason::Operator | TransitionReason::Delta))
}
