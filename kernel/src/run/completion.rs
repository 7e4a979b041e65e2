//! What follows from nothing being left to do: first that applies of asking the planner for what is missing, judging the
//! plan's own contract, closing recovery for what is still blocked, and the end.

use super::Run;
use super::decision::{Decision, DecisionContext};
use super::node_status::NodeStatus;
use super::planner::PlannerAnswer;
use crate::event::{Event, PlanRefusal};
use crate::id::NodeId;

/// What stands in for a node where the plan as a whole is meant.
pub(super) const PLAN: &str = "*";

/// What a quiescent run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Something is under way or may start.
    InProgress,
    /// The plan's own contract is to be judged, over the map of the outputs: send
    /// [`super::RunInput::ContractJudged`].
    JudgeContract,
    /// Nothing will ever happen again.
    Done,
}

impl Run {
    /// Whether nothing runs, waits or is on its way, and nothing is ready to start.
    fn is_quiescent(&self) -> bool {
        let counts = &self.counts;
        counts.running + counts.sleeping + counts.waiting + counts.retryable == 0
            && self.ready.is_empty()
            && !self.replan_pending
    }

    /// What a run that has settled and dispatched waits for. Does nothing while something is under way; else it
    /// asks the planner, or closes recovery, as long as that leads anywhere.
    pub fn check_completion(&mut self, cx: &mut DecisionContext<'_>) -> (Vec<Event>, Completion) {
        let mut decision = Decision::new(self, cx);
        let quiet = decision.check_completion();
        decision.propagate();
        (decision.events, quiet)
    }
}

impl Decision<'_, '_, '_> {
    fn check_completion(&mut self) -> Completion {
        if !self.run.is_quiescent() {
            return Completion::InProgress;
        }
        let outputs = self.run.outputs_executed();
        let version = self.run.plan.version;
        if self.run.recovery_open() && !outputs && self.run.has_unasked_failure() {
            self.ask_planner(false);
            Completion::InProgress
        } else if !self.run.plan.contract.is_empty()
            && outputs
            && !self.run.cancelled
            && self.run.contract.is_none_or(|(judged, _)| judged != version)
        {
            Completion::JudgeContract
        } else if self.run.counts.live > 0 {
            let node = NodeId::from(PLAN);
            let reason = "nobody to ask for a new plan".to_owned();
            self.emit(Event::RecoveryExhausted { node, level: 3, reason });
            Completion::InProgress
        } else {
            Completion::Done
        }
    }

    fn ask_planner(&mut self, for_contract: bool) {
        self.emit(Event::ReplanAsked { for_contract });
        match self.cx.planner.replan(&self.planner_request()) {
            PlannerAnswer::Refused => self.replanned(None),
            PlannerAnswer::Now(delta) => self.replanned(Some(Box::new(delta))),
            PlannerAnswer::Later => {}
        }
    }

    pub(super) fn contract_judged(&mut self, holds: bool) {
        let version = self.run.plan.version;
        self.emit(Event::ContractChecked { version, holds });
        if !holds {
            self.emit(Event::PlanRefused { version, step: PlanRefusal::Contract });
            if self.run.recovery_open() {
                self.ask_planner(true);
            }
        }
    }
}

impl Run {
    fn has_unasked_failure(&self) -> bool {
        self.instances
            .iter()
            .any(|instance| instance.status == NodeStatus::Failed && !instance.replan_requested)
    }
}
