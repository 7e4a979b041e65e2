//! What an operator asks for, and stopping in general.

use super::Run;
use super::turn::{Operation, Turn};
use crate::event::{ChangeCause, Event, OperatorAct};
use crate::id::NodeId;
use crate::plan::{Change, Kind};
use crate::run::{NodeState, Reason};

/// Why an operator's wish comes to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// Nothing is left to do in the run.
    #[error("the run is over")]
    Over,
    /// It has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// The node has come to its end already.
    #[error("node {node} is {state} already: it cannot be stopped any more")]
    NodeOver {
        /// Which node.
        node: NodeId,
        /// How it ended.
        state: NodeState,
    },
}

impl Run {
    /// Whether what the operator wishes can still be done: the run is not over, and neither is the node.
    ///
    /// # Errors
    ///
    /// Why not: deciding it all the same gives no records.
    pub fn check_operation(&self, operation: &Operation) -> Result<(), OperationError> {
        if self.counts.live == 0 && !self.replan_pending {
            return Err(OperationError::Over);
        }
        match operation {
            Operation::Cancel(node) | Operation::Skip(node) => {
                let instance =
                    self.instance(node).ok_or_else(|| OperationError::UnknownNode(node.clone()))?;
                let (node, state) = (node.clone(), instance.state());
                if instance.is_live() { Ok(()) } else { Err(OperationError::NodeOver { node, state }) }
            }
            Operation::CancelPlan | Operation::Delta(_) | Operation::Interject(_) => Ok(()),
        }
    }
}

impl Turn<'_, '_, '_> {
    pub(super) fn operator(&mut self, operation: Operation) {
        if self.run.check_operation(&operation).is_err() {
            return;
        }
        match operation {
            Operation::CancelPlan => {
                self.emit(Event::Operator(OperatorAct::CancelPlan));
                self.stop_all(NodeState::Cancelled, &Reason::PlanCancelled);
            }
            Operation::Cancel(node) => {
                self.stop_one(&node, NodeState::Cancelled, OperatorAct::Cancel(node.clone()));
            }
            Operation::Skip(node) => {
                self.stop_one(&node, NodeState::Skipped, OperatorAct::Skip(node.clone()))
            }
            Operation::Delta(delta) => self.change(ChangeCause::Operator, Change::Delta(*delta)),
            Operation::Interject(delta) => self.change(ChangeCause::Interject, Change::Delta(*delta)),
        }
    }

    fn stop_one(&mut self, node: &NodeId, to: NodeState, act: OperatorAct) {
        if let Some(at) = self.run.position(node) {
            self.emit(Event::Operator(act));
            self.stop(at, to, &Reason::Operator);
        }
    }

    /// Stops a node: what runs and acts on the world drains, any other live node ends at once.
    pub(super) fn stop(&mut self, at: usize, to: NodeState, reason: &Reason) {
        let instance = &self.run.instances[at];
        if !instance.is_live() || instance.is_draining() {
            return;
        }
        if instance.state() == NodeState::Running && self.run.plan.nodes[at].acts() {
            self.emit(Event::Draining { node: self.id(at) });
        } else {
            self.transit(at, to, reason.clone());
        }
    }

    pub(super) fn stop_all(&mut self, to: NodeState, reason: &Reason) {
        (0..self.run.instances.len()).for_each(|at| self.stop(at, to, reason));
    }

    /// Every live node but aggregators, and but the one that concludes.
    pub(super) fn stop_for_conclusion(&mut self, concluding: usize) {
        for at in 0..self.run.instances.len() {
            if at != concluding && self.run.plan.nodes[at].kind != Kind::Aggregator {
                self.stop(at, NodeState::Skipped, &Reason::Concluded);
            }
        }
    }
}
