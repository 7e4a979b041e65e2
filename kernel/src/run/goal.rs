//! Goal runs: the wishes of a mode between the steps of nodes, and the calls of models.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Run;
use super::apply::IllegalStep;
use super::change::Limits;
use super::decision::Decision;
use crate::event::{Event, OperatorAct};
use crate::id::{NodeId, Ticks};
use crate::json::{self, Json};
use crate::plan::Change;
use crate::policy::{
    ANSWER, CallEnd, CallIntent, FaultyAnswer, Goal, GoalTerms, GoalTools, NoTools, View, Wish,
    ask_micro_planner, effects, extend,
};
use crate::run::{FailureCategory, NodeState, TransitionReason};

impl Run {
    /// Mode and memory of a goal run; `None` for a run of a plan file.
    pub fn goal(&self) -> Option<&Goal> {
        self.goal.as_deref()
    }

    /// Gives a goal run its tools. A run that was read from its records has none, which is enough to look at it.
    pub fn set_goal_tools(&mut self, tools: Arc<dyn GoalTools>) {
        if let Some(goal) = &mut self.goal {
            goal.set_tools(tools);
        }
    }

    /// Makes the record of a call that an attempt is about to make, with the tokens reserved for its answer; and the number of the
    /// call. `None` in a run of a plan file. The record has taken effect: append it before the call.
    ///
    /// The decision that asks the micro-planner records that call itself: see [`Goal::calls`].
    pub fn begin_call(&mut self, now: Ticks, intent: &CallIntent, reserved: u64) -> Option<(u32, Event)> {
        let call = self.goal()?.calls().len() as u32;
        let record = call_begun(intent, reserved);
        self.apply(&record, now).expect("a call is read as it was written");
        Some((call, record))
    }

    /// Makes the record of a call that ended: its usage, and what became of the answer. Decide the result after it.
    pub fn end_call(&mut self, now: Ticks, call: u32, end: CallEnd, faulty: Option<FaultyAnswer>) -> Event {
        let record = Event::CallEnded { call, end, faulty: faulty.map(FaultyAnswer::bounded) };
        self.apply(&record, now).expect("the end of a call applies to every run");
        record
    }

    pub(super) fn apply_goal(&mut self, terms: &Json) -> Result<(), IllegalStep> {
        let terms: GoalTerms = read("the terms of the goal", terms)?;
        self.goal = Some(Box::new(Goal::new(Arc::new(terms), Arc::new(NoTools))));
        Ok(())
    }

    pub(super) fn apply_call_begun(&mut self, intent: &Json, reserved: u64) -> Result<(), IllegalStep> {
        let intent: CallIntent = read("a call of a model", intent)?;
        if let Some(goal) = &mut self.goal {
            goal.begin_call(intent, reserved);
        }
        Ok(())
    }

    /// True if a goal run, or a node of any run, concluded the run.
    pub(crate) fn is_concluded(&self) -> bool {
        self.concluded
    }

    pub(crate) fn is_recovery_closed(&self) -> bool {
        self.replan.is_closed
    }

    /// True if the failure of a running attempt would end its node: no retry is left for it, and no patch.
    pub fn is_last_try(&self, node: &NodeId, category: FailureCategory) -> bool {
        let (Some(known), Some(instance)) = (self.node(node), self.instance(node)) else { return false };
        let policy = &self.plan.policy;
        let strategy = super::RecoveryStrategy::decide(category, policy.domain.as_deref(), &policy.recovery);
        let has_retry = strategy.level() == 1 && i64::from(instance.retries) < known.retries;
        instance.is_draining() || !has_retry && i64::from(instance.patch_count) >= known.patches
    }
}

fn call_begun(intent: &CallIntent, reserved: u64) -> Event {
    let intent = json::to_canonical(intent).expect("an intent has texts and whole numbers");
    Event::CallBegun { intent, reserved }
}

fn read<T: DeserializeOwned>(what: &'static str, text: &Json) -> Result<T, IllegalStep> {
    serde_json::from_str(text.as_str())
        .map_err(|error| IllegalStep::Unreadable { what, why: error.to_string() })
}

impl Decision<'_, '_, '_> {
    /// Propagates a decision through the graph. In a goal run, what answers ask for takes effect before any node moves, and the
    /// mode adds its own wishes once no node can move without an attempt; then answers come first again.
    ///
    /// Ends because every accepted wish adds a node, cancels one or concludes, and a refused wish is not made again.
    pub(super) fn propagate(&mut self) {
        if self.run.goal.is_none() {
            return self.settle();
        }
        loop {
            while let Some(wish) = self.view().and_then(effects) {
                self.grant(wish);
            }
            // Recovery may have closed by the change of a budget, which marks no node.
            self.run.dirty.mark_all(self.run.instances.len());
            self.settle();
            let Some(wish) = self.view().and_then(extend) else { return };
            self.grant(wish);
        }
    }

    fn view(&self) -> Option<View<'_>> {
        View::of(self.run, self.cx.now)
    }

    fn grant(&mut self, wish: Wish) {
        let Wish { cause, delta, conclusion } = wish;
        if let Some(delta) = delta {
            let adds_answer = delta.add.iter().any(|node| node.id.as_str() == ANSWER);
            let limits = if adds_answer { Limits::Whole } else { Limits::Reserved };
            self.change_within(cause, Change::Delta(delta), limits);
        }
        if let Some(conclusion) = conclusion {
            self.emit(Event::Operator(OperatorAct::Conclude(conclusion)));
            for at in 0..self.run.instances.len() {
                if self.run.plan.nodes[at].id.as_str() != ANSWER {
                    self.stop(at, NodeState::Skipped, &TransitionReason::Concluded);
                }
            }
        }
    }

    /// Asks the micro-planner for a patch, or fails the node if it is not asked.
    pub(super) fn ask_micro_planner(&mut self, at: usize, category: FailureCategory) {
        let node = self.id(at);
        let call = self.view().and_then(|view| ask_micro_planner(view, &node, category));
        let Some(intent) = call else { return self.patch(at, category, None) };
        let reserved = self.cx.planner.reserve(self.run, &intent);
        self.emit(call_begun(&intent, reserved));
        self.transit(at, NodeState::FailedRetryable, TransitionReason::Category(category));
    }
}
