//! What arrives at a run: results of attempts, fired timers, judged contracts.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use ostler_kernel::event::{AttemptResult, Event, Outcome, Output, TimerKind};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::model_of_tool;
use ostler_kernel::policy::Role;
use ostler_kernel::port::ModelCall;
use ostler_kernel::run::{Canceller, FailureCategory, Operation, ReportedCalls, RunInput, refused_candidate};
use tokio::time::Instant;

use super::deadlines::Deadline;
use super::driver::RunDriver;
use crate::attempts::attempt;
use crate::base::attempt_end::{Ended, ModelCalls};
use crate::base::keys::AttemptKey;
use crate::messages::agent::AgentMessage;

/// Results in one append. Each may be stored in its record, and all of them fit into a frame of the journal.
const ENDED_TOGETHER_MAX: usize = 512;

/// Recorded characters of the reason why a contract is broken.
const WHY_CHARS_MAX: usize = 1_000;

impl RunDriver {
    pub(super) fn fire_due_timers(&mut self) {
        let now = Instant::now();
        if self.timers.wall.take_if(|wall| *wall <= now).is_some() {
            // The mode looks at the clock by itself.
            self.decide(RunInput::Propagate);
        }
        while let Some((node, Deadline { kind, number, .. })) = self.timers.deadlines.pop_due(now) {
            match kind {
                TimerKind::Backoff => self.decide(RunInput::RetryDue(node)),
                TimerKind::Human => self.decide(RunInput::HumanTimeout { node, request: number }),
                TimerKind::Sleep => {
                    let outcome = attempt::slept();
                    let result = AttemptResult::without_cost(node, number, outcome);
                    self.decide(RunInput::Result(Box::new(result)));
                }
            }
        }
    }

    /// Cancels the run once the deadline of its market job has passed, whether or not the market has noticed.
    pub(super) fn cancel_after_deadline(&mut self) {
        let now = self.services.journal.now();
        if self.deadline.take_if(|deadline| *deadline <= now).is_none() {
            return;
        }
        let cancel = Operation::CancelPlan(Canceller::Deadline);
        if self.run.check_operation(&cancel, &self.services.kernel.settings()).is_ok() {
            self.decide(RunInput::Operator(cancel));
        }
    }

    /// Cancels the run if a run above no longer wants it.
    pub(super) fn cancel_if_given_up(&mut self) {
        let cancel = Operation::CancelPlan(Canceller::Parent);
        if self.services.active_runs.is_given_up(self.opened.run)
            && !self.run.is_cancelled()
            && self.run.check_operation(&cancel, &self.services.kernel.settings()).is_ok()
        {
            self.decide(RunInput::Operator(cancel));
        }
    }

    /// Records the results of ended attempts, as many as fit into one append; a message brings the others back.
    pub(super) async fn results_arrived(&mut self, mut keys: Vec<AttemptKey>) {
        if keys.len() > ENDED_TOGETHER_MAX {
            let later = keys.split_off(ENDED_TOGETHER_MAX);
            let _ = self.me.cast(AgentMessage::Ended(later));
        }
        for key in &keys {
            self.result_arrived(key).await;
        }
    }

    /// Records the result that the attempt table holds. A result of another run goes to the driver of that run.
    pub(super) async fn result_arrived(&mut self, key: &AttemptKey) {
        if key.run != self.opened.run {
            self.services.attempts.undelivered_result(key.clone());
            return;
        }
        let Some(ended) = self.services.attempts.ended(key) else { return };
        self.record_result(key, ended).await;
        self.writer.unacked_results.push(key.clone());
    }

    pub(super) async fn record_result(&mut self, key: &AttemptKey, mut ended: Ended) {
        if let Some(node) = self.run.node(&key.node) {
            self.services.estimates.learn(node, ended.cost);
            self.services.measures.attempted(&self.opened.client, node.kind, &ended);
        }
        let ModelCalls { ended: calls, verdicts, shortfall, rung, refused } =
            std::mem::take(&mut ended.model_calls);
        let is_short = matches!(&ended.outcome, Outcome::Failed(failure) if failure.category == FailureCategory::ResourceExhaustion);
        let shortfall = shortfall.filter(|_| is_short);
        self.learn_tokens(key, &calls);
        let now = self.services.journal.now();
        // Boxed: otherwise this rare future enlarges the future of every message.
        Box::pin(self.judge_answer(key, &mut ended, &calls, shortfall.as_deref())).await;
        let reported = ReportedCalls { calls, verdicts, rung };
        let called = self.run.record_calls(now, &key.node, key.attempt, reported);
        self.apply_effects(called);
        let kept =
            refused.and_then(|output| refused_candidate(&key.node, key.attempt, &ended.outcome, *output));
        self.apply_effects(kept.into_iter().collect());
        let result = ended.result_of(key);
        let unsure = self.run.plan().policy.oversight.is_some()
            // Boxed: otherwise this rare future enlarges the future of every message.
            && Box::pin(self.services.results.is_unsure(&result.outcome)).await;
        // An answer that the template gave after all is no failure any more.
        let shortfall = shortfall.filter(|_| matches!(result.outcome, Outcome::Failed(_)));
        self.record_revalidation(key, &result.outcome);
        self.decide(match shortfall {
            Some(shortfall) => RunInput::OverBudget(result, shortfall),
            None if unsure => RunInput::Unsure(result),
            None => RunInput::Result(result),
        });
        self.record_for_reuse(key);
        self.release_budget(key);
    }

    /// Learns how many tokens calls of the node's model take in its role. Refused calls took none.
    fn learn_tokens(&self, key: &AttemptKey, calls: &[ModelCall]) {
        let Some(tool) = self.run.node(&key.node).and_then(|node| node.tool.as_deref()) else { return };
        let role = self.control_role(&key.node).map(Role::as_str).unwrap_or_default();
        let of_model = calls.iter().filter(|call| Some(call.model.as_str()) == model_of_tool(tool));
        for call in of_model {
            let tokens = call.input_tokens.saturating_add(call.output_tokens);
            self.services.estimates.learn_tokens(tool, role, tokens);
        }
    }

    pub(super) fn contract_judged(&mut self, version: u32, broken: Option<String>) {
        self.judges.contract = None;
        if self.run.plan().version != version {
            return;
        }
        let holds = broken.is_none();
        let why = broken.map(|why| why.chars().take(WHY_CHARS_MAX).collect());
        self.writer.pending.extend(why.map(|why| Event::ContractBroken { version, why }));
        self.decide(RunInput::ContractJudged(holds));
    }

    /// Judges the plan's own contract over the map of the outputs, in a task.
    pub(super) fn judge_contract(&mut self) {
        let (services, me) = (Arc::clone(&self.services), self.me.clone());
        let version = self.run.plan().version;
        let rules = self.run.plan().contract.clone();
        let outputs: Vec<(NodeId, Option<Output>)> = self
            .run
            .plan()
            .outputs
            .iter()
            .map(|id| (id.clone(), self.run.instance(id).and_then(|instance| instance.result().cloned())))
            .collect();
        let task = tokio::spawn(async move {
            let judged =
                AssertUnwindSafe(attempt::judge_plan(&services.executor, &rules, outputs)).catch_unwind();
            let broken = judged.await.unwrap_or_else(|_| Err("it could not be judged".to_owned())).err();
            let _ = me.cast(AgentMessage::ContractJudged { version, broken });
        });
        self.judges.contract = Some(task.abort_handle());
    }
}
