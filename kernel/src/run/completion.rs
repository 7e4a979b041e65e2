//! The end of a run. A run is quiescent once no node runs, waits or is ready, and no planner is writing. The first rule to
//! apply to a quiescent run decides:
//!
//! An output that a guard ruled out is absent: not missing, and not part of the contract's input.
//!
//! 1. An output is missing, a node failed since the last replan, and budgets allow one: ask the planner for a new version.
//! 2. Every output is executed or absent and the plan has a contract without a check for this version: check the contract.
//! 3. Nodes are still blocked: no replan will come, so recovery closes and propagation cancels the blocked nodes.
//! 4. The run failed, its policy is to undo, and nobody has asked for an undo: undo what is executed.
//! 5. Otherwise the run is done.
//!
//! Each of the first four makes progress towards the fifth, because replans and versions are bounded, and the policy undoes once.

use super::Run;
use super::decision::{Decision, DecisionContext};
use super::node_status::NodeStatus;
use super::planner::PlannerAnswer;
use crate::event::{ChangeCause, Event, PlanRefusal};
use crate::id::NodeId;

/// Stands for the plan as a whole in records that name a node.
pub(super) const PLAN: &str = "*";

/// Result of a completion check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The run goes on: something is in flight, or the records of this check have made something possible.
    InProgress,
    /// The plan's contract has to be checked over the map of the outputs: answer with
    /// [`RunInput::ContractJudged`](super::RunInput::ContractJudged).
    JudgeContract,
    /// Nothing can follow: close the run.
    Done,
}

impl Run {
    fn is_quiescent(&self) -> bool {
        let counts = &self.counts;
        counts.running + counts.sleeping + counts.waiting + counts.awaiting + counts.retryable == 0
            && self.ready.is_empty()
            && !self.replan.is_pending
            && !self.has_unread()
    }

    /// Checks a run for its end, after propagation and dispatch, and decides the last resorts: a replan, the contract check,
    /// the end of recovery. Call again after [`Completion::InProgress`] with records; without records the run waits for an
    /// input.
    pub fn check_completion(&mut self, cx: &mut DecisionContext<'_>) -> (Vec<Event>, Completion) {
        let mut decision = Decision::new(self, cx);
        let completion = decision.check_completion();
        // A goal run's mode looks at the run after each input, not after each dispatch.
        if decision.run.goal.is_none() || !decision.events.is_empty() {
            decision.propagate();
        }
        (decision.events, completion)
    }

    fn has_unasked_failure(&self) -> bool {
        self.instances
            .iter()
            .any(|instance| instance.status == NodeStatus::Failed && !instance.replan_requested)
    }
}

impl Decision<'_, '_, '_> {
    fn check_completion(&mut self) -> Completion {
        if !self.run.is_quiescent() {
            return Completion::InProgress;
        }
        let outputs = self.run.outputs_settled();
        let version = self.run.plan.version;
        let asks_planner = self.run.goal.is_none() && self.run.recovery_open(self.cx.now);
        if asks_planner && !outputs && self.run.has_unasked_failure() {
            self.ask_planner(false);
            Completion::InProgress
        } else if !self.run.plan.contract.is_empty()
            && outputs
            && !self.run.cancelled
            && self.run.undo.rounds == 0
            && self.run.contract.is_none_or(|(judged, _)| judged != version)
        {
            Completion::JudgeContract
        } else if self.run.counts.live > 0 {
            let node = NodeId::from(PLAN);
            let reason = "no new plan version can come".to_owned();
            self.emit(Event::RecoveryExhausted { node, level: 3, reason });
            Completion::InProgress
        } else if self.run.owes_undo() {
            self.undo(ChangeCause::UndoPolicy, None);
            Completion::InProgress
        } else {
            Completion::Done
        }
    }

    fn ask_planner(&mut self, for_contract: bool) {
        self.emit(Event::ReplanAsked { for_contract });
        match self.cx.planner.replan(&self.planner_request(self.run.replan.asked)) {
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
            if self.run.recovery_open(self.cx.now) {
                self.ask_planner(true);
            }
        }
    }
}
