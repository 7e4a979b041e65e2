//! What follows from the end of an attempt.

use super::standing::Standing;
use super::turn::{Resolution, Turn};
use crate::event::{
    AttemptResult, Directive, Event, Failure, HumanRequestKind, OperatorAct, Outcome, TimerKind,
};
use crate::gate::AfterLoss;
use crate::id::NodeId;
use crate::plan::InDoubt;
use crate::run::{Category, NodeState, Reason, Strategy};

impl Turn<'_, '_, '_> {
    pub(super) fn result(&mut self, result: Box<AttemptResult>, unsure: bool) {
        let Some(at) = self.run.position(&result.node) else { return };
        if !self.run.is_current(&result.node, result.attempt) {
            self.emit(Event::LateResult(result));
            return;
        }
        let failed = match &result.outcome {
            Outcome::Ok(_) => None,
            Outcome::Failed(failure) => Some(failure.category),
        };
        let draining = self.run.instances[at].is_draining();
        self.emit(Event::AttemptResult(result));
        match failed {
            Some(category) => {
                self.failed(at, category);
                self.stop_denied();
            }
            None if draining => self.drained(at, unsure),
            None if self.asks_after(at, unsure) => {
                let shown = self.run.instances[at].output.as_ref().map(|output| output.artifact);
                self.ask(at, Reason::ApproveAfter, HumanRequestKind::After, shown);
            }
            None => self.executed(at),
        }
    }

    /// Whoever is refused again and again looks for what is allowed: the run is cancelled.
    fn stop_denied(&mut self) {
        let is_enough = self.cx.settings.denials_max.is_some_and(|most| self.run.denials >= most);
        if is_enough && !self.run.cancelled {
            self.cancel_run(OperatorAct::StopDenied, &Reason::Denials);
        }
    }

    fn drained(&mut self, at: usize, unsure: bool) {
        if self.asks_after(at, unsure) {
            self.transit(at, NodeState::Cancelled, Reason::DrainedUnapproved);
        } else {
            self.transit(at, NodeState::Executed, Reason::Ok);
        }
    }

    /// The result stands: whatever else it asks for takes effect now, the conclusion first.
    pub(super) fn executed(&mut self, at: usize) {
        let directive = self.run.instances[at].output.as_ref().and_then(|output| output.directive.clone());
        self.transit(at, NodeState::Executed, Reason::Ok);
        let Some(Directive { conclude, delta }) = directive.map(|directive| *directive) else { return };
        if conclude {
            self.stop_for_conclusion(at);
        }
        if let Some(delta) = delta {
            self.delta_of_node(at, &delta);
        }
    }

    /// An attempt failed, or its result was refused: first that applies of in doubt, draining, retry, patch, the
    /// end.
    pub(super) fn failed(&mut self, at: usize, category: Category) {
        let node = &self.run.plan.nodes[at];
        let draining = self.run.instances[at].is_draining();
        // A step of an agent may be what only a person can tell of, whatever its node says.
        let doubtful = node.after_loss() == AfterLoss::InDoubt || category == Category::InDoubt;
        if category.is_loss() && doubtful {
            self.in_doubt(at, draining);
        } else if draining {
            self.fail(at, Reason::Category(category));
        } else {
            self.recover(at, category);
        }
    }

    pub(super) fn in_doubt(&mut self, at: usize, draining: bool) {
        match self.run.plan.policy.in_doubt {
            InDoubt::Ask if !draining => self.ask(at, Reason::InDoubt, HumanRequestKind::InDoubt, None),
            InDoubt::Ask | InDoubt::Fail => self.fail(at, Reason::InDoubt),
        }
    }

    /// The node has failed for good.
    pub(super) fn fail(&mut self, at: usize, reason: Reason) {
        self.transit(at, NodeState::Failed, reason);
    }

    pub(super) fn retry_due(&mut self, node: &NodeId) {
        let Some(at) = self.run.position(node) else { return };
        if let Standing::FailedRetryable { retry_at: Some(_), .. } = self.run.instances[at].standing {
            self.emit(Event::TimerFired { node: node.clone(), kind: TimerKind::Backoff });
            self.transit(at, NodeState::Pending, Reason::Retry);
        }
    }

    /// The process died while this attempt ran. What may not be done twice is in doubt; what was stopped meanwhile
    /// is done by nobody any more; the rest is simply started again by the caller, under the same attempt.
    pub(super) fn lost(&mut self, node: &NodeId) {
        let Some(at) = self.run.position(node) else { return };
        let (description, instance) = (&self.run.plan.nodes[at], &self.run.instances[at]);
        let draining = instance.is_draining();
        if !matches!(instance.standing, Standing::Running { .. }) {
            return;
        }
        let policy = &self.run.plan.policy;
        let asks = Strategy::decide(Category::Crash, policy.domain.as_deref(), &policy.recovery)
            == Strategy::HumanEscalation;
        if description.after_loss() == AfterLoss::InDoubt || (asks && !draining) {
            self.in_doubt(at, draining);
        } else if draining {
            let message = "its process ended".to_owned();
            let outcome = Outcome::Failed(Failure { category: Category::Crash, message });
            let result = AttemptResult::unpaid(node.clone(), instance.attempts, outcome);
            self.result(Box::new(result), false);
        }
    }

    /// What would be done again is not what was started: whether that may be is for a person to say, even if doing the
    /// same twice would be harmless.
    pub(super) fn changed(&mut self, node: &NodeId, what: String) {
        let Some(at) = self.run.position(node) else { return };
        let instance = &self.run.instances[at];
        let (draining, attempt) = (instance.is_draining(), instance.attempts);
        if !matches!(instance.standing, Standing::Running { .. }) {
            return;
        }
        let outcome = Outcome::Failed(Failure { category: Category::Crash, message: what });
        self.emit(Event::AttemptResult(Box::new(AttemptResult::unpaid(node.clone(), attempt, outcome))));
        self.in_doubt(at, draining);
    }

    /// A person settled an attempt in doubt.
    pub(super) fn resolved(&mut self, node: &NodeId, how: Resolution, by: String) {
        let (Some(at), Ok(_)) = (self.run.position(node), self.run.check_resolution(node, None)) else {
            return;
        };
        let (approve, redo) = (matches!(how, Resolution::Done(_)), matches!(how, Resolution::Redo));
        self.human_answer(at, approve, redo, by, String::new());
        match how {
            Resolution::Done(result) => {
                self.emit(Event::AttemptResult(result));
                self.executed(at);
            }
            Resolution::Redo => self.transit(at, NodeState::Ready, Reason::Retry),
            Resolution::Fail => self.fail(at, Reason::InDoubt),
        }
    }
}
