//! Requests of an operator, and stopping nodes.

use serde_json::{Map, Value, json};

use super::Run;
use super::change::Limits;
use super::compensation::UndoError;
use super::decision::Decision;
use super::input::{Canceller, Operation};
use crate::event::{ChangeCause, Event, OperatorAct};
use crate::id::NodeId;
use crate::plan::{Change, Delta, Diagnostic, HumanDuration, Kind, Method, NodeDraft, RuleDraft, Settings};
use crate::policy::{self, Decider, InterjectionError, View};
use crate::run::{NodeState, TransitionReason};

/// An operator's request that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The run has ended.
    #[error("the run is over")]
    Over,
    /// The run has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// The node has ended already.
    #[error("node {node} is {state} already: nothing to stop")]
    NodeOver {
        /// The node.
        node: NodeId,
        /// The terminal state.
        state: NodeState,
    },
    /// The run cannot be undone.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// The change of the plan is invalid.
    #[error("invalid change of the plan: {}", first(.0))]
    Refused(Vec<Diagnostic>),
}

fn first(faults: &[Diagnostic]) -> String {
    faults
        .first()
        .map_or_else(String::new, |fault| format!("{} ({}); {}", fault.detail, fault.code, fault.help))
}

impl Run {
    /// Checks that a request can still be carried out: neither the run nor the node has ended.
    ///
    /// # Errors
    ///
    /// The reason. Deciding the request all the same gives no records, or the record of a refused change.
    pub fn check_operation(
        &self,
        operation: &Operation,
        settings: &Settings<'_>,
    ) -> Result<(), OperationError> {
        self.has_target(operation)?;
        match operation {
            Operation::Undo { .. } => Ok(self.check_undo()?),
            Operation::Delta(delta) | Operation::Interject(delta) => {
                let change = Change::Delta((**delta).clone());
                self.judge(&change, settings, Limits::Reserved).map(drop).map_err(OperationError::Refused)
            }
            Operation::CancelPlan(_) | Operation::Cancel(_) | Operation::Skip(_) => Ok(()),
        }
    }

    fn has_target(&self, operation: &Operation) -> Result<(), OperationError> {
        if matches!(operation, Operation::Undo { .. }) {
            return Ok(());
        }
        if self.counts.live == 0 && !self.replan.is_pending {
            return Err(OperationError::Over);
        }
        match operation {
            Operation::Cancel(node) | Operation::Skip(node) => {
                let instance =
                    self.instance(node).ok_or_else(|| OperationError::UnknownNode(node.clone()))?;
                let (node, state) = (node.clone(), instance.state());
                if instance.is_live() { Ok(()) } else { Err(OperationError::NodeOver { node, state }) }
            }
            Operation::CancelPlan(_)
            | Operation::Delta(_)
            | Operation::Interject(_)
            | Operation::Undo { .. } => Ok(()),
        }
    }

    /// The request to hold this run. In a goal run a model considers `text`, and goes on, concludes or asks for other work
    /// (KAIJU §4), unless `decider` names a person. In a run of a plan file an interjection node `interjection-N` shows `text` to a person and waits `wait`
    /// milliseconds for the answer. Nothing else starts meanwhile; running attempts go on. A yes releases the run; a no or a
    /// timeout cancels the run.
    ///
    /// # Errors
    ///
    /// The operator's answer has faults, or the run has no goal to decide about.
    pub fn interjection(
        &self,
        text: &str,
        wait: i64,
        decider: &Decider,
    ) -> Result<(NodeId, Operation), InterjectionError> {
        // Of the time nothing depends here.
        if let Some(view) = View::of(self, 0) {
            let (id, delta) = policy::interjection(view, text, wait, decider)?;
            return Ok((id, Operation::Interject(Box::new(delta))));
        }
        if matches!(decider, Decider::Operator(_)) {
            return Err(InterjectionError::NoGoal);
        }
        let is_new = |id: &NodeId| self.position(id).is_none();
        let numbered = |number: usize| NodeId::from(format!("interjection-{number}").as_str());
        let id = (1..).map(numbered).find(is_new).expect("a plan has finitely many nodes");
        let gives =
            RuleDraft { method: Some(Method::Schema), p: None, spec: Some(json!({"type": "null"}).into()) };
        let asks = NodeDraft {
            kind: Some(Kind::HumanApproval),
            params: Some(Map::from_iter([("text".to_owned(), Value::from(text))])),
            human_timeout: Some(HumanDuration::Millis(wait)),
            contract: Some(vec![gives]),
            ..NodeDraft::named(id.clone())
        };
        Ok((id, Operation::Interject(Box::new(Delta { add: vec![asks], ..Delta::default() }))))
    }
}

impl Decision<'_, '_, '_> {
    pub(super) fn operator(&mut self, operation: Operation) {
        if self.run.has_target(&operation).is_err() {
            return;
        }
        match operation {
            Operation::Undo { intent } => self.undo_by_operator(intent),
            Operation::CancelPlan(by) => {
                let (act, reason) = match by {
                    Canceller::Operator => (OperatorAct::CancelPlan, TransitionReason::PlanCancelled),
                    Canceller::Deadline => (OperatorAct::StopLate, TransitionReason::Deadline),
                    Canceller::Parent => (OperatorAct::StopUnwanted, TransitionReason::Unwanted),
                };
                self.cancel_run(act, &reason);
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
            self.stop(at, to, &TransitionReason::Operator);
        }
    }

    /// Stops a node: a running attempt that acts on the world drains, any other live node ends at once.
    pub(super) fn stop(&mut self, at: usize, to: NodeState, reason: &TransitionReason) {
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

    /// Cancels the run. The first cancel is recorded: a deadline and an operator may both cancel the same run.
    pub(super) fn cancel_run(&mut self, act: OperatorAct, reason: &TransitionReason) {
        if !self.run.cancelled {
            self.emit(Event::Operator(act));
        }
        self.stop_all(NodeState::Cancelled, reason);
    }

    pub(super) fn stop_all(&mut self, to: NodeState, reason: &TransitionReason) {
        (0..self.run.instances.len()).for_each(|at| self.stop(at, to, reason));
    }

    /// Skips every live node except aggregators and the concluding node.
    pub(super) fn stop_for_conclusion(&mut self, concluding: usize) {
        for at in 0..self.run.instances.len() {
            if at != concluding && self.run.plan.nodes[at].kind != Kind::Aggregator {
                self.stop(at, NodeState::Skipped, &TransitionReason::Concluded);
            }
        }
    }
}
