//! Undo: a round of nodes, each of which undoes the effect of an executed node, newest effect first.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decision::Decision;
use super::node_status::{NodeInstance, NodeStatus};
use super::{Run, RunOutcome};
use crate::event::{ChangeCause, Event, PlanRefusal};
use crate::id::NodeId;
use crate::json;
use crate::plan::{self, Made, Node, OnFailure};
use crate::run::TransitionReason;

/// What undoing has come to.
#[derive(Debug, Clone, Default)]
pub(super) struct UndoState {
    pub(super) rounds: u32,
    /// Somebody asked for an undo: once asked, the policy does not.
    pub(super) is_asked: bool,
    /// An operator undoes, or undid, a run that had been closed.
    pub(super) is_by_operator: bool,
    /// Outcome of the run when the first undo began: what happened stays what happened.
    pub(super) outcome: Option<RunOutcome>,
    /// Live undo nodes: (round, turn, index).
    pub(super) turns: BTreeSet<(u32, u32, usize)>,
}

/// What an undo achieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// Whether every executed effect is undone, and none is unsure.
    pub state: Undone,
    /// The undo nodes, in the order of their rounds and turns.
    pub nodes: Vec<NodeId>,
    /// Executed effects for which the plan has no undo, ascending.
    pub without: Vec<NodeId>,
    /// Nodes whose effect nobody knows, ascending: a person settles them.
    pub unsure: Vec<NodeId>,
}

/// State of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// Every executed effect is undone.
    Undone,
    /// Some are not, or nobody knows.
    Partly,
}

impl Undone {
    /// The name in files and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            Undone::Undone => "undone",
            Undone::Partly => "partly",
        }
    }
}

/// An undo that cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    /// A node is live, or a new version of the plan is being written.
    #[error("the run still goes on: cancel it first, then undo it")]
    Live,
    /// No executed effect is left that an undo could undo.
    #[error("nothing is left to undo: no executed node has an `undo` that did not run yet")]
    Nothing,
}

impl Run {
    /// True if an operator undoes, or undid, the run after it had been closed.
    pub fn is_reopened(&self) -> bool {
        self.undo.is_by_operator
    }

    /// Checks that an undo could begin now.
    ///
    /// # Errors
    ///
    /// See [`UndoError`].
    pub fn check_undo(&self) -> Result<(), UndoError> {
        if self.counts.live > 0 || self.replan.is_pending {
            Err(UndoError::Live)
        } else if self.undo_candidates().is_empty() {
            Err(UndoError::Nothing)
        } else {
            Ok(())
        }
    }

    /// The undo nodes of a node that has any.
    fn undo_nodes(&self) -> impl Iterator<Item = (&NodeId, (u32, u32), &Node, &NodeInstance)> {
        self.instances().filter_map(|(node, instance)| match node.made.as_deref() {
            Some(Made::Undo { of, round, turn }) => Some((of, (*round, *turn), node, instance)),
            _ => None,
        })
    }

    /// Executed nodes with an undo that was not made and is not in doubt, by index, newest first.
    fn undo_candidates(&self) -> Vec<usize> {
        let settled: BTreeSet<&NodeId> = self
            .undo_nodes()
            .filter(|(.., instance)| instance.status == NodeStatus::Executed || is_in_doubt(instance))
            .map(|(of, ..)| of)
            .collect();
        let mut candidates: Vec<usize> = (0..self.instances.len())
            .filter(|&at| {
                let node = &self.plan.nodes[at];
                is_executed_effect(node, &self.instances[at])
                    && node.undo.is_some()
                    && !settled.contains(&node.id)
            })
            .collect();
        candidates.sort_by_key(|&at| std::cmp::Reverse(self.instances[at].commit_number));
        candidates
    }

    /// The nearest descendants of a node among `round`: over edges of either kind, through nodes that are not undone. What
    /// ended before the node did not build on it.
    fn nearest_descendants(&self, at: usize, round: &BTreeSet<usize>) -> Vec<usize> {
        let since = self.instances[at].commit_number;
        let (mut seen, mut found, mut open) = (BTreeSet::new(), Vec::new(), vec![at]);
        while let Some(at) = open.pop() {
            for &(consumer, _) in &self.graph.consumers[at] {
                if self.instances[consumer].commit_number < since || !seen.insert(consumer) {
                    continue;
                }
                if round.contains(&consumer) { found.push(consumer) } else { open.push(consumer) }
            }
        }
        found
    }

    /// True if the policy asks for an undo that nobody has asked for.
    pub(super) fn owes_undo(&self) -> bool {
        self.plan.policy.on_failure == OnFailure::Undo
            && !self.undo.is_asked
            && self.outcome() == RunOutcome::Failed
            && !self.undo_candidates().is_empty()
    }

    /// True if an undo node has to wait for one before it in its round.
    pub(super) fn waits_for_undo(&self, at: usize) -> bool {
        self.plan.nodes[at].is_undo() && self.undo.turns.first().is_some_and(|&(.., first)| first != at)
    }

    /// Notes the end of an undo node; the next one may start.
    pub(super) fn end_undo(&mut self, at: usize) {
        let Some(Made::Undo { round, turn, .. }) = self.plan.nodes[at].made.as_deref() else { return };
        self.undo.turns.remove(&(*round, *turn, at));
        if let Some(&(.., next)) = self.undo.turns.first() {
            self.dirty.mark(next);
        }
    }

    /// Counts the live undo nodes anew.
    pub(super) fn derive_undo_turns(&mut self) {
        let plan = Arc::clone(&self.plan);
        let live = plan.nodes.iter().enumerate().filter_map(|(at, node)| match node.made.as_deref() {
            Some(Made::Undo { round, turn, .. }) if self.instances[at].is_live() => Some((*round, *turn, at)),
            _ => None,
        });
        self.undo.turns = live.collect();
    }

    /// What undoing the run has come to; `None` if nobody asked for it.
    pub fn undo_report(&self) -> Option<UndoReport> {
        let by_policy = self.plan.policy.on_failure == OnFailure::Undo
            && self.counts.live == 0
            && !self.replan.is_pending
            && self.outcome() == RunOutcome::Failed;
        if !self.undo.is_asked && !by_policy {
            return None;
        }
        let done: BTreeSet<&NodeId> = self
            .undo_nodes()
            .filter(|(.., instance)| instance.status == NodeStatus::Executed)
            .map(|(of, ..)| of)
            .collect();
        let (mut without, mut unsure, mut all_undone) = (Vec::new(), Vec::new(), true);
        for (node, instance) in self.instances() {
            if is_executed_effect(node, instance) {
                all_undone &= done.contains(&node.id);
                if node.undo.is_none() {
                    without.push(node.id.clone());
                }
            } else if is_unsure(node, instance) {
                unsure.push(node.id.clone());
            }
        }
        let mut nodes: Vec<((u32, u32), NodeId)> =
            self.undo_nodes().map(|(_, turn, node, _)| (turn, node.id.clone())).collect();
        nodes.sort();
        let is_whole = all_undone && without.is_empty() && unsure.is_empty();
        Some(UndoReport {
            state: if is_whole { Undone::Undone } else { Undone::Partly },
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
            without,
            unsure,
        })
    }
}

fn is_executed_effect(node: &Node, instance: &NodeInstance) -> bool {
    node.impact > 0 && !node.is_undo() && instance.status == NodeStatus::Executed
}

fn is_in_doubt(instance: &NodeInstance) -> bool {
    instance.status == NodeStatus::Failed && instance.reason == Some(TransitionReason::InDoubt)
}

/// True if a tool may have acted for the node, and nobody knows.
fn is_unsure(node: &Node, instance: &NodeInstance) -> bool {
    if node.is_undo() {
        return is_in_doubt(instance);
    }
    node.impact > 0 && instance.was_sent && instance.status != NodeStatus::Executed
}

impl Decision<'_, '_, '_> {
    /// Begins an undo that an operator asks for, or refuses it.
    pub(super) fn undo_by_operator(&mut self) {
        let version = self.run.plan.version;
        match self.run.check_undo() {
            Ok(()) => self.undo(ChangeCause::UndoOperator),
            Err(UndoError::Live) => self.emit(Event::PlanRefused { version, step: PlanRefusal::UndoLive }),
            Err(UndoError::Nothing) => {
                self.emit(Event::PlanRefused { version, step: PlanRefusal::UndoNothing })
            }
        }
    }

    /// Makes the version that undoes what is executed. No limit refuses it: limits are used up just when an undo is needed.
    pub(super) fn undo(&mut self, cause: ChangeCause) {
        let candidates = self.run.undo_candidates();
        let round: BTreeSet<usize> = candidates.iter().copied().collect();
        let run = &*self.run;
        let descendants = |at: usize| run.nearest_descendants(at, &round);
        let revision = plan::undo_round(&run.plan, run.undo.rounds + 1, &candidates, &descendants);
        let revision = serde_json::to_value(&revision).expect("a revision has only names and JSON in it");
        // Every part of it is a part of a plan that was journaled.
        match json::canonical(&revision) {
            Ok(revision) => self.accept(cause, revision),
            Err(error) => debug_assert!(false, "an undo without canonical form: {error}"),
        }
    }
}
