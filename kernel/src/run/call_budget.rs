//! Calls of models that the budget does not allow: a question to a person, and its answers.
//!
//! The accounts are kept outside of the run, because runs share them. The run knows whether a person is asked, and what
//! became of the questions.

use super::Run;
use super::apply::IllegalStep;
use super::decision::Decision;
use super::node_status::NodeStatus;
use crate::event::{AttemptResult, CallTerms, Event, HumanRequestKind, TimerKind};
use crate::id::{Digest, NodeId};
use crate::json;
use crate::ledger::{Amounts, Shortfall};
use crate::lineage;
use crate::policy::{Goal, Role};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// Terms of a run's calls of models, and what people answered about its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallBudget {
    /// `None`: no limits but the client's.
    pub(super) terms: Option<CallTerms>,
    raised: Amounts,
    /// A person refused to raise the budget, or was silent: no one is asked again.
    is_closed: bool,
}

impl CallBudget {
    pub(super) fn raise(&mut self, by: Amounts) {
        self.raised = self.raised.plus(by);
    }
}

impl Shortfall {
    /// Digest of what a person is shown; an answer names it.
    pub fn digest(&self) -> Digest {
        let document = json::to_canonical(self).expect("names and whole numbers are JSON");
        lineage::hash("aos/shortfall/1", &[document.as_str().as_bytes()])
    }
}

impl Run {
    /// Limits of the run's calls of models; `None`: none but the client's.
    pub fn call_terms(&self) -> Option<&CallTerms> {
        self.call_budget.terms.as_ref()
    }

    /// True if a person is asked before a call is refused for lack of budget.
    pub fn asks_over_budget(&self) -> bool {
        self.call_budget.terms.is_none_or(|calls| calls.asks) && !self.call_budget.is_closed
    }

    /// True if the ledger decides about the tokens of a goal run, and asks a person before the rules of the mode hold. The account of
    /// another run knows nothing of this run's tokens.
    pub(crate) fn leaves_tokens_to_ledger(&self) -> bool {
        let asks = |calls: CallTerms| calls.asks && calls.limits.tokens.is_some();
        self.call_budget.terms.is_some_and(asks) && !self.call_budget.is_closed
    }

    /// Tokens and money by which people raised the budget.
    pub fn budget_raised(&self) -> Amounts {
        self.call_budget.raised
    }

    pub(super) fn apply_shortfall(
        &mut self,
        node: &NodeId,
        shortfall: &Shortfall,
    ) -> Result<(), IllegalStep> {
        let at = self.find(node)?;
        self.instances[at].shortfall = Some(Box::new(shortfall.clone()));
        Ok(())
    }

    /// A refusal ends a goal run with what is there: as if its time were up.
    pub(super) fn answer_budget(&mut self, approve: bool) {
        if approve {
            return;
        }
        self.call_budget.is_closed = true;
        if let Some(goal) = &mut self.goal {
            goal.run_out_of_budget();
        }
    }

    /// The time to answer passed. Only a question about the budget has consequences for the rest of the run.
    pub(super) fn apply_silence(&mut self, node: &NodeId) {
        let is_budget = |at: usize| {
            matches!(
                self.instances[at].status,
                NodeStatus::WaitingHuman { ask: HumanRequestKind::Budget, .. }
            )
        };
        if self.position(node).is_some_and(is_budget) {
            self.call_budget.is_closed = true;
        }
    }

    fn waiting_for_budget(&self) -> Vec<usize> {
        let waits = |at: &usize| {
            matches!(
                self.instances[*at].status,
                NodeStatus::WaitingHuman { ask: HumanRequestKind::Budget, .. }
            )
        };
        (0..self.instances.len()).filter(waits).collect()
    }
}

impl Decision<'_, '_, '_> {
    /// An attempt ended because a call does not fit. A person is asked, if any is to be asked; else the failure takes its
    /// usual course.
    pub(super) fn over_budget(&mut self, result: Box<AttemptResult>, shortfall: Box<Shortfall>) {
        let current = self.run.position(&result.node).filter(|at| {
            self.run.is_current(&result.node, result.attempt) && !self.run.instances[*at].is_draining()
        });
        let Some(at) = current.filter(|_| self.run.asks_over_budget()) else {
            return self.result(result, false);
        };
        let (node, shown) = (result.node.clone(), shortfall.digest());
        self.emit(Event::AttemptResult(result));
        self.emit(Event::BudgetShort { node, shortfall });
        self.ask(at, TransitionReason::OverBudget, HumanRequestKind::Budget, Some(shown));
    }

    /// The call of the micro-planner was not made, because it does not fit. A person is asked, if any is to be asked; else the
    /// patch is refused.
    pub(super) fn advice_over_budget(&mut self, node: &NodeId, shortfall: Box<Shortfall>) {
        let waiting = self.run.position(node).filter(|_| self.run.open_patch_request(node).is_some());
        let Some(at) = waiting else { return };
        if !self.run.asks_over_budget() {
            return self.patched(node, None);
        }
        let shown = shortfall.digest();
        self.emit(Event::BudgetShort { node: node.clone(), shortfall });
        self.ask(at, TransitionReason::OverBudget, HumanRequestKind::Budget, Some(shown));
    }

    /// Category of the failure about which the micro-planner could not be asked; `None` for a node whose own call was not made.
    fn unadvised(&self, at: usize) -> Option<FailureCategory> {
        self.run.goal()?.unmade_advice(&self.id(at), self.run.instances[at].attempts)
    }

    /// Carries out an answer to a question about the budget. It holds for every node of the run that asks the same.
    pub(super) fn budget_answered(&mut self, at: usize, approve: bool, raise: Amounts) {
        if approve && !raise.is_zero() {
            self.emit(Event::BudgetRaised { node: self.id(at), by: raise });
        }
        for at in self.run.waiting_for_budget() {
            match self.unadvised(at) {
                _ if !approve => self.go_without(at),
                Some(category) => self.ask_micro_planner(at, category),
                None => self.transit(at, NodeState::Ready, TransitionReason::Retry),
            }
        }
    }

    /// Lets the calls fail that no person has answered for in time. From here on the run asks no person about its budget.
    pub(super) fn budget_silence(&mut self, node: &NodeId) {
        self.emit(Event::TimerFired { node: node.clone(), kind: TimerKind::Human });
        self.run.waiting_for_budget().into_iter().for_each(|at| self.go_without(at));
    }

    /// The node goes on without the call. An answer never fails: its next attempt puts the template in the model's place.
    /// Other control nodes of a concluding goal run are skipped by the conclusion.
    fn go_without(&mut self, at: usize) {
        let node = self.id(at);
        let goal = self.run.goal();
        let concludes = goal.is_some_and(Goal::is_out_of_budget);
        match goal.and_then(|goal| goal.role(&node)) {
            Some(Role::Answer) => self.transit(at, NodeState::Ready, TransitionReason::Retry),
            _ if concludes => {}
            _ => match self.unadvised(at) {
                Some(category) => self.patch(at, category, None),
                None => self.failed(at, FailureCategory::ResourceExhaustion),
            },
        }
    }
}

impl super::NodeInstance {
    /// Digest of the document in the open question; `None` for a question without one.
    pub fn asked_digest(&self) -> Option<Digest> {
        match self.status {
            NodeStatus::WaitingHuman { ask: HumanRequestKind::Budget, .. } => {
                self.shortfall.as_ref().map(|shortfall| shortfall.digest())
            }
            _ => self.shown.as_deref().copied(),
        }
    }
}
