//! Undo: a round of nodes, each undoing the effect of one executed node, newest effect first.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decision::Decision;
use super::node_status::{NodeInstance, NodeStatus};
use super::{Doubt, ResolutionError, Run, RunOutcome};
use crate::event::{ChangeCause, Event, HumanAnswer, PlanRefusal};
use crate::id::NodeId;
use crate::json;
use crate::plan::{self, Made, Node, OnFailure};
use crate::run::TransitionReason;

/// Progress of undoing a run.
#[derive(Debug, Clone, Default)]
pub(super) struct UndoState {
    pub(super) rounds: u32,
    /// An undo was requested. The policy requests no second one.
    pub(super) is_asked: bool,
    /// An operator requested the undo of a closed run.
    pub(super) is_by_operator: bool,
    /// Outcome of the run when the first undo began. The undo does not change that outcome.
    pub(super) outcome: Option<RunOutcome>,
    /// Live undo nodes: (round, turn, index).
    pub(super) turns: BTreeSet<(u32, u32, usize)>,
}

/// Result of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// Overall state of the undo.
    pub state: Undone,
    /// The undo nodes, in the order of their rounds and turns.
    pub nodes: Vec<NodeId>,
    /// Executed effects without an undo in the plan, ascending.
    pub without: Vec<NodeId>,
    /// Nodes with an unknown effect, ascending: a person settles them.
    pub unsure: Vec<NodeId>,
}

/// State of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// Every executed effect is undone.
    Undone,
    /// Some effects are not undone, or unknown.
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

/// Reason why an undo cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    /// A node is live, or a new version of the plan is being written.
    #[error("the run still goes on: cancel it first, then undo it")]
    Live,
    /// No undoable effect is left.
    #[error("nothing is left to undo: no executed node has an `undo` that did not run yet{}", look_at(.unsure))]
    Nothing {
        /// Nodes with an unknown effect, ascending: a person settles them.
        unsure: Vec<NodeId>,
    },
}

/// Nodes named by a refusal.
const UNSURE_NAMED_MAX: usize = 8;

fn look_at(unsure: &[NodeId]) -> String {
    if unsure.is_empty() {
        return String::new();
    }
    let named = unsure.iter().take(UNSURE_NAMED_MAX).map(NodeId::as_str).collect::<Vec<_>>().join(", ");
    let more = match unsure.len().saturating_sub(UNSURE_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "; nobody knows what is left of {named}{more}: look, undo it by hand, then `ostler resolve RUN NODE --gone` settles it"
    )
}

impl Run {
    /// True if an operator requested the undo of the run after the run had closed.
    pub fn is_reopened(&self) -> bool {
        self.undo.is_by_operator
    }

    /// Checks the preconditions of an undo.
    ///
    /// # Errors
    ///
    /// See [`UndoError`].
    pub fn check_undo(&self) -> Result<(), UndoError> {
        if self.counts.live > 0 || self.replan.is_pending {
            Err(UndoError::Live)
        } else if self.undo_candidates().is_empty() {
            Err(UndoError::Nothing { unsure: self.unsure() })
        } else {
            Ok(())
        }
    }

    /// Nodes whose effect is unknown, ascending.
    fn unsure(&self) -> Vec<NodeId> {
        let unsure = self.instances().filter(|(node, instance)| is_unsure(node, instance));
        unsure.map(|(node, _)| node.id.clone()).collect()
    }

    /// True if the effect of a node is unknown: an undo does not take it back, or a repetition of the run must not make it.
    pub fn is_unsure(&self, node: &NodeId) -> bool {
        let Some((node, instance)) = self.node(node).zip(self.instance(node)) else { return false };
        is_unsure(node, instance) || self.doubt(node) == Some(Doubt::Unknown)
    }

    /// The record by which a person settles the effect of a node of an ended run: nothing is left of it, because it was not made or
    /// has been undone by hand. `None`: it is settled already.
    ///
    /// # Errors
    ///
    /// [`ResolutionError`]: there is no such node, its effect is known, or the run goes on.
    pub fn settle_by_hand(&self, node: &NodeId, by: String) -> Result<Option<Event>, ResolutionError> {
        let instance = self.instance(node).ok_or_else(|| ResolutionError::UnknownNode(node.clone()))?;
        if self.counts.live > 0 || self.replan.is_pending {
            return Err(ResolutionError::GoesOn { node: node.clone() });
        }
        if instance.is_settled {
            return Ok(None);
        }
        if !self.is_unsure(node) {
            return Err(ResolutionError::NotInDoubt { node: node.clone(), state: instance.state() });
        }
        let (node, note) = (node.clone(), String::new());
        Ok(Some(Event::HumanAnswer(HumanAnswer { node, approve: false, redo: false, by, note })))
    }

    /// Most impact that the newest undo may have, if the person who asked for it said so.
    pub fn undo_intent(&self) -> Option<u8> {
        let rounds = self.instances().filter_map(|(node, _)| match node.made.as_deref() {
            Some(Made::Undo { round, intent, .. }) => Some((*round, *intent)),
            _ => None,
        });
        rounds.max_by_key(|(round, _)| *round).and_then(|(_, intent)| intent)
    }

    /// The undo nodes of `node`.
    fn undo_nodes(&self) -> impl Iterator<Item = (&NodeId, (u32, u32), &Node, &NodeInstance)> {
        self.instances().filter_map(|(node, instance)| match node.made.as_deref() {
            Some(Made::Undo { of, round, turn, .. }) => Some((of, (*round, *turn), node, instance)),
            _ => None,
        })
    }

    /// Nodes with an undo, also one that is planned, failed or in doubt.
    pub fn undone(&self) -> BTreeSet<&NodeId> {
        self.undo_nodes().map(|(of, ..)| of).collect()
    }

    /// Executed nodes whose undo has neither run nor is in doubt, by index, newest first.
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

    /// Nearest descendants of a node within `round`, over edges of either kind and through nodes that are not undone. A
    /// node that ended before this node did not build on this node.
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

    /// True if the policy requires an undo and none was requested yet.
    pub(super) fn owes_undo(&self) -> bool {
        self.plan.policy.on_failure == OnFailure::Undo
            && !self.undo.is_asked
            && self.outcome() == RunOutcome::Failed
            && !self.undo_candidates().is_empty()
    }

    /// True if an undo node must wait for an earlier node of its round.
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

    /// Report of the undo; `None` if neither an operator nor the policy requires an undo.
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
            .filter(|(.., instance)| instance.status == NodeStatus::Executed || instance.is_settled)
            .map(|(of, ..)| of)
            .collect();
        let (mut without, mut all_undone) = (Vec::new(), true);
        for (node, instance) in self.instances() {
            if is_executed_effect(node, instance) {
                all_undone &= done.contains(&node.id);
                if node.undo.is_none() {
                    without.push(node.id.clone());
                }
            }
        }
        let unsure = self.unsure();
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
    // A kept effect was made by another run, which can undo it.
    node.impact > 0 && !node.is_undo() && instance.attempts > 0 && instance.status == NodeStatus::Executed
}

fn is_in_doubt(instance: &NodeInstance) -> bool {
    instance.status == NodeStatus::Failed && instance.reason == Some(TransitionReason::InDoubt)
}

/// True if a tool may have acted for the node, and the effect is unknown.
fn is_unsure(node: &Node, instance: &NodeInstance) -> bool {
    if node.is_undo() {
        return is_in_doubt(instance) && !instance.is_settled;
    }
    node.impact > 0 && !instance.is_settled && instance.was_sent && instance.status != NodeStatus::Executed
}

impl Decision<'_, '_, '_> {
    /// Begins an undo on an operator's request, or refuses the request.
    pub(super) fn undo_by_operator(&mut self, intent: Option<u8>) {
        let version = self.run.plan.version;
        match self.run.check_undo() {
            Ok(()) => self.undo(ChangeCause::UndoOperator, intent),
            Err(UndoError::Live) => self.emit(Event::PlanRefused { version, step: PlanRefusal::UndoLive }),
            Err(UndoError::Nothing { .. }) => {
                self.emit(Event::PlanRefused { version, step: PlanRefusal::UndoNothing })
            }
        }
    }

    /// Builds the version that undoes all executed effects. No limit refuses this version, because an exhausted limit is a
    /// common cause for an undo.
    pub(super) fn undo(&mut self, cause: ChangeCause, intent: Option<u8>) {
        let candidates = self.run.undo_candidates();
        let round: BTreeSet<usize> = candidates.iter().copied().collect();
        let run = &*self.run;
        let descendants = |at: usize| run.nearest_descendants(at, &round);
        let revision = plan::undo_round(&run.plan, (run.undo.rounds + 1, intent), &candidates, &descendants);
        let revision = serde_json::to_value(&revision).expect("a revision has only names and JSON in it");
        let revision = json::canonical(&revision).expect("every part of an undo comes from a journaled plan");
        self.accept(cause, revision);
    }
}
