//! The end of an attempt: success, failure, loss, and a person's resolution.

use super::decision::Decision;
use super::input::Resolution;
use super::node_status::NodeStatus;
use crate::event::{
    AttemptResult, Directive, Event, Failure, HumanRequestKind, OperatorAct, Outcome, TimerKind,
};
use crate::gate::OnLostResult;
use crate::id::NodeId;
use crate::plan::InDoubt;
use crate::run::{FailureCategory, NodeState, RecoveryStrategy, TransitionReason};

impl Decision<'_, '_, '_> {
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
                self.ask(at, TransitionReason::ApproveAfter, HumanRequestKind::After, shown);
            }
            None => self.executed(at),
        }
    }

    /// Cancels a run after too many denied calls: repeated denials are a search for an allowed call. Denials in the other runs of
    /// the tree count from the first denial of the run itself on.
    fn stop_denied(&mut self) {
        let (own, around) = (self.run.counters.denials, self.cx.settings.denials_around);
        let is_enough = |most: u32| own > 0 && own.saturating_add(around) >= most;
        if self.cx.settings.denials_max.is_some_and(is_enough) && !self.run.cancelled {
            self.cancel_run(OperatorAct::StopDenied, &TransitionReason::Denials);
        }
    }

    fn drained(&mut self, at: usize, unsure: bool) {
        if self.asks_after(at, unsure) {
            self.transit(at, NodeState::Cancelled, TransitionReason::DrainedUnapproved);
        } else {
            self.transit(at, NodeState::Executed, TransitionReason::Ok);
        }
    }

    /// Publishes the result, and carries out its directive: the conclusion first, then the change of the plan.
    pub(super) fn executed(&mut self, at: usize) {
        let directive = self.run.instances[at].output.as_ref().and_then(|output| output.directive.clone());
        self.transit(at, NodeState::Executed, TransitionReason::Ok);
        let directive = directive.filter(|_| !self.run.plan.nodes[at].is_undo());
        let Some(Directive { conclude, delta }) = directive.map(|directive| *directive) else { return };
        if conclude {
            self.stop_for_conclusion(at);
        }
        if let Some(delta) = delta {
            self.delta_of_node(at, &delta);
        }
    }

    /// Reacts to a failed attempt or a rejected result by the first rule that applies: in doubt, draining, retry, patch,
    /// failed.
    pub(super) fn failed(&mut self, at: usize, category: FailureCategory) {
        let node = &self.run.plan.nodes[at];
        let draining = self.run.instances[at].is_draining();
        // A step of a program may be in doubt although its node may run twice.
        let doubtful = node.on_lost_result() == OnLostResult::InDoubt || category == FailureCategory::InDoubt;
        if category.is_loss() && doubtful {
            self.in_doubt(at, draining);
        } else if draining {
            self.fail(at, TransitionReason::Category(category));
        } else {
            self.recover(at, category);
        }
    }

    pub(super) fn in_doubt(&mut self, at: usize, draining: bool) {
        match self.run.plan.policy.in_doubt {
            InDoubt::Ask if !draining => {
                self.ask(at, TransitionReason::InDoubt, HumanRequestKind::InDoubt, None)
            }
            InDoubt::Ask | InDoubt::Fail => self.fail(at, TransitionReason::InDoubt),
        }
    }

    pub(super) fn fail(&mut self, at: usize, reason: TransitionReason) {
        self.transit(at, NodeState::Failed, reason);
    }

    pub(super) fn retry_due(&mut self, node: &NodeId) {
        let Some(at) = self.run.position(node) else { return };
        if let NodeStatus::FailedRetryable { retry_at: Some(_), .. } = self.run.instances[at].status {
            self.emit(Event::TimerFired { node: node.clone(), kind: TimerKind::Backoff });
            self.transit(at, NodeState::Pending, TransitionReason::Retry);
        }
    }

    /// Reacts to an attempt lost with its process. Work without idempotency is in doubt, if its intent was recorded. A draining attempt
    /// ends as failed. Any other attempt stays `running`: the caller repeats the attempt under the same number.
    pub(super) fn attempt_lost(&mut self, node: &NodeId) {
        let Some(at) = self.run.position(node) else { return };
        let (description, instance) = (&self.run.plan.nodes[at], &self.run.instances[at]);
        let draining = instance.is_draining();
        if !matches!(instance.status, NodeStatus::Running { .. }) {
            return;
        }
        let policy = &self.run.plan.policy;
        let asks =
            RecoveryStrategy::decide(FailureCategory::Crash, policy.domain.as_deref(), &policy.recovery)
                == RecoveryStrategy::HumanEscalation;
        let has_begun = instance.begun == instance.attempts;
        if has_begun && (description.on_lost_result() == OnLostResult::InDoubt || (asks && !draining)) {
            self.in_doubt(at, draining);
        } else if draining {
            let (category, message) = match has_begun {
                true => (FailureCategory::Crash, "the process died before the attempt ended"),
                false => (FailureCategory::Transient, "the attempt was given up before it began"),
            };
            let outcome = Outcome::Failed(Failure { category, message: message.to_owned() });
            let result = AttemptResult::without_cost(node.clone(), instance.attempts, outcome);
            self.result(Box::new(result), false);
        }
    }

    /// Reacts to a lost attempt after a change of its tool or program. A person decides, even if a repetition of the old
    /// work would be harmless.
    pub(super) fn work_changed(&mut self, node: &NodeId, what: String) {
        let Some(at) = self.run.position(node) else { return };
        let instance = &self.run.instances[at];
        let (draining, attempt) = (instance.is_draining(), instance.attempts);
        if !matches!(instance.status, NodeStatus::Running { .. }) {
            return;
        }
        let outcome = Outcome::Failed(Failure { category: FailureCategory::Crash, message: what });
        self.emit(Event::AttemptResult(Box::new(AttemptResult::without_cost(
            node.clone(),
            attempt,
            outcome,
        ))));
        self.in_doubt(at, draining);
    }

    /// Ends an attempt that is not what was approved, and asks again, whatever is left to try: the node comes to be ready, where another
    /// document asks.
    pub(super) fn unapproved(&mut self, node: &NodeId, what: String) {
        let Some(at) = self.run.position(node) else { return };
        let instance = &self.run.instances[at];
        let (draining, attempt) = (instance.is_draining(), instance.attempts);
        if !matches!(instance.status, NodeStatus::Running { .. }) {
            return;
        }
        let outcome = Outcome::Failed(Failure { category: FailureCategory::Transient, message: what });
        let result = AttemptResult::without_cost(node.clone(), attempt, outcome);
        self.emit(Event::AttemptResult(Box::new(result)));
        let why = TransitionReason::Category(FailureCategory::Transient);
        if draining {
            return self.fail(at, why);
        }
        self.transit(at, NodeState::FailedRetryable, why);
        self.transit(at, NodeState::Pending, TransitionReason::Retry);
    }

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
            Resolution::Redo => self.transit(at, NodeState::Ready, TransitionReason::Retry),
            Resolution::Fail => self.fail(at, TransitionReason::InDoubt),
        }
    }
}
