//! Calls of the micro-planner: a model writes the patch of a failed node. No attempt makes them, so they hold no slot.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::event::Failure;
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::lineage;
use ostler_kernel::plan::{MODEL_TIMEOUT_MS, model_tool};
use ostler_kernel::policy::{self, CallEnd, CallIntent, JudgedPatch, Role, View};
use ostler_kernel::port::{
    AttemptLog, BoxFuture, CallContext, CallGrant, CallOrigin, Finish, ModelCall, ModelTurn, ModelTurnEnd,
    PricedCall, ToolResult,
};
use ostler_kernel::run::{FailureCategory, Patch, RunInput};

use super::driver::RunDriver;
use super::goal::read;
use crate::attempts::call_budget::CallBudget;
use crate::attempts::model_turns::ModelTurns;
use crate::base::lock::lock;
use crate::base::panic_message::panic_message;
use crate::messages::agent::{Advice, AgentMessage};
use crate::storage::journal_client::JournalClient;

impl RunDriver {
    /// Makes the calls that the run waits for and nobody has made yet, after a crash again.
    pub(super) async fn launch_advice(&mut self) {
        let awaited = |run, now| View::of(run, now).map(policy::awaited_advice).unwrap_or_default();
        let mut due = awaited(&self.run, self.services.journal.now());
        due.retain(|call| !self.in_flight.advice.contains(call));
        if due.is_empty() {
            return;
        }
        let Ok(evidence) = self.evidence().await else {
            due.into_iter().for_each(|call| self.send_advice(call, Err(unreadable()), Vec::new()));
            return;
        };
        for call in due {
            let Some(view) = View::of(&self.run, self.services.journal.now()) else { return };
            let Some(intent) = self.run.goal().and_then(|goal| goal.calls().get(call)) else { continue };
            let intent: CallIntent = intent.intent.clone();
            let params = policy::prompt(view, &intent, &read(&evidence), &|_| None);
            let model = self.run.goal().and_then(|goal| goal.terms().model_of(Role::Micro));
            let tool = model_tool(model.unwrap_or_default());
            let key = advice_key(self.opened.run, call);
            self.in_flight.advice.insert(call);
            match self.services.gatekeeper.gate(&self.caller, &tool, params.into(), 0, key) {
                Ok((tool, permit)) => {
                    let origin = CallOrigin {
                        role: intent.role.as_str().to_owned(),
                        node: Some(intent.node.clone()),
                        ordinal: intent.attempt,
                        refusals: 0,
                    };
                    let budget = CallBudget {
                        accounts: Arc::clone(&self.services.call_accounts),
                        journal: Arc::clone(&self.services.journal),
                        notes: self.services.step_logs.of(self.writer.stream.attempts_stream()),
                        payer: self.payer(),
                        node: intent.node.clone(),
                        shortfall: Mutex::default(),
                    };
                    let journal = Arc::clone(&self.services.journal);
                    let (scheduler, owner) = (&self.services.scheduler, &self.arguments.owner);
                    let turns = ModelTurns::new(scheduler, owner, self.opened.run, origin.node.clone());
                    let log = Arc::new(AdviceLog { journal, calls: Mutex::default(), budget, turns });
                    let context = CallContext {
                        workspace: Arc::clone(&self.caller.workspace),
                        timeout_ms: MODEL_TIMEOUT_MS.unsigned_abs(),
                        repeatable: true,
                        origin,
                        attempt: Arc::<AdviceLog>::clone(&log),
                    };
                    let (me, run) = (self.me.clone(), self.opened.run);
                    tokio::spawn(async move {
                        let within = Duration::from_millis(context.timeout_ms);
                        let called = tokio::time::timeout(within, tool.call(permit, context));
                        let answer = match AssertUnwindSafe(called).catch_unwind().await {
                            Ok(Ok(answer)) => answer,
                            Ok(Err(_)) => Err(Failure::new(FailureCategory::Timeout, "no answer in time")),
                            Err(panic) => Err(Failure::new(FailureCategory::Crash, panic_message(&*panic))),
                        };
                        let calls = std::mem::take(&mut *lock(&log.calls));
                        let is_unmade = lock(&log.budget.shortfall).is_some();
                        let advice = Advice { run, call, answer, calls, is_unmade };
                        let _ = me.cast(AgentMessage::Advised(Box::new(advice)));
                    });
                }
                Err(denial) => {
                    let failure = Failure::new(FailureCategory::GateDenied, denial.for_model().to_owned());
                    self.send_advice(call, Err(failure), Vec::new());
                }
            }
        }
    }

    fn send_advice(&mut self, call: usize, answer: ToolResult, calls: Vec<ModelCall>) {
        self.in_flight.advice.insert(call);
        let run = self.opened.run;
        let advice = Advice { run, call, answer, calls, is_unmade: false };
        let _ = self.me.cast(AgentMessage::Advised(Box::new(advice)));
    }

    /// Judges an answer of the micro-planner, if its node still waits for it. A faulty answer and a failed call refuse the patch.
    pub(super) fn advised(&mut self, advice: Advice) {
        let Advice { run, call, answer, calls, is_unmade } = advice;
        if run != self.opened.run {
            return;
        }
        self.in_flight.advice.remove(&call);
        let now = self.services.journal.now();
        let Some(view) = View::of(&self.run, now) else { return };
        if !policy::awaited_advice(view).contains(&call) {
            return;
        }
        let Some(intent) = self.run.goal().and_then(|goal| goal.calls().get(call)) else { return };
        let (node, attempt) = (intent.intent.node.clone(), intent.intent.attempt);
        let is_cut = calls.last().is_some_and(|call| call.finish == Finish::Length.as_str());
        let judged = match answer {
            Ok(answer) => policy::judge_patch(view, call, &answer, is_cut),
            Err(_) => JudgedPatch::Faulty(Vec::new()),
        };
        let (patch, faults, is_skip): (Option<Box<Patch>>, u32, bool) = match judged {
            JudgedPatch::Patch(patch) => (Some(patch), 0, false),
            JudgedPatch::Skip => (None, 0, true),
            JudgedPatch::Faulty(faults) => (None, faults.len() as u32, false),
        };
        let input_tokens = Some(calls.iter().map(|call| call.input_tokens).fold(0, u64::saturating_add));
        let output_tokens = calls.iter().map(|call| call.output_tokens).fold(0, u64::saturating_add);
        let ended = self.run.end_call(
            now,
            call as u32,
            CallEnd { input_tokens, output_tokens, faults, is_skip, is_unmade },
            None,
        );
        let called = self.run.record_calls(now, &node, attempt, calls, None);
        self.apply_effects([vec![ended], called].concat());
        self.decide(RunInput::Patched(node, patch));
    }
}

fn unreadable() -> Failure {
    Failure::new(FailureCategory::Transient, "the results of the run cannot be read")
}

/// The key of a call without an attempt: equal whenever it is made.
fn advice_key(run: RunId, call: usize) -> Digest {
    lineage::hash("aos/advice/1", &[run.to_string().as_bytes(), &(call as u64).to_be_bytes()])
}

/// Notes the calls and pays for them, and keeps nothing else. Calls wait for their turns within their time.
struct AdviceLog {
    journal: Arc<JournalClient>,
    calls: Mutex<Vec<ModelCall>>,
    budget: CallBudget,
    turns: ModelTurns,
}

impl AttemptLog for AdviceLog {
    fn model_called(&self, _number: u32, mut call: ModelCall) {
        call.ended_at = self.journal.now();
        lock(&self.calls).push(call);
    }

    fn reserve_call<'a>(&'a self, call: PricedCall<'a>) -> BoxFuture<'a, Result<CallGrant, Failure>> {
        Box::pin(self.budget.reserve(call, None))
    }

    fn settle_call(&self, reservation: u64, call: &ModelCall) {
        self.budget.settle(reservation, call);
    }

    fn model_turn<'a>(&'a self, turn: ModelTurn<'a>) -> BoxFuture<'a, ()> {
        self.turns.model_turn(turn)
    }

    fn model_turn_ended(&self, end: ModelTurnEnd<'_>) -> bool {
        self.turns.model_turn_ended(end)
    }
}
