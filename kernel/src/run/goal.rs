//! Goal runs: the wishes of a mode between the steps of nodes, and the calls of models.

use super::Run;
use super::change::Limits;
use super::decision::Decision;
use crate::event::{Event, OperatorAct};
use crate::id::NodeId;
use crate::plan::Change;
use crate::policy::{ANSWER, CallEnd, CallIntent, Goal, View, Wish, ask_micro_planner, effects, extend};
use crate::run::{FailureCategory, NodeState, TransitionReason};

impl Run {
    /// Mode and memory of a goal run; `None` for a run of a plan file.
    pub fn goal(&self) -> Option<&Goal> {
        self.goal.as_deref()
    }

    /// Adds a call that an attempt is about to make, with the tokens reserved for its output. Returns the number of the call for
    /// [`Run::end_call`]. Does nothing in a run of a plan file.
    ///
    /// The micro-planner's calls are added by the decision that asks for them: see [`Goal::calls`].
    pub fn begin_call(&mut self, intent: CallIntent, reserved_tokens: u64) -> usize {
        self.goal.as_mut().map_or(0, |goal| goal.begin_call(intent, reserved_tokens))
    }

    /// Settles a call: its usage, and the faults of its answer. Call before the result is decided.
    pub fn end_call(&mut self, call: usize, end: CallEnd) {
        if let Some(goal) = &mut self.goal {
            goal.end_call(call, end);
        }
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
        self.run.begin_call(intent, reserved);
        self.transit(at, NodeState::FailedRetryable, TransitionReason::Category(category));
    }
}
