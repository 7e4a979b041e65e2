//! Calls of the micro-planner: a model writes the patch of a failed node. No attempt makes them, so they hold no slot.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::event::Failure;
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::lineage;
use ostler_kernel::plan::{MODEL_TIMEOUT_MS, model_tool};
use ostler_kernel::policy::{self, CallEnd, CallIntent, FaultyAnswer, JudgedPatch, Role, View};
use ostler_kernel::port::{CallContext, CallOrigin, Finish, ToolResult};
use ostler_kernel::run::{FailureCategory, Patch, ReportedCalls, RunInput};
use ractor::ActorRef;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::driver::RunDriver;
use super::goal::{Evidence, read};
use crate::attempts::call_bill::CallBill;
use crate::attempts::gated_call::{Recorder, refused};
use crate::base::attempt_end::ModelCalls;
use crate::base::panic_message::panic_message;
use crate::messages::agent::{Advice, AgentMessage};
use crate::run::services::RunServices;
use crate::state::caller::Caller;

/// A call of the micro-planner before the gate's verdict.
struct Planned {
    tool: String,
    params: Map<String, Value>,
    key: Digest,
    intent: CallIntent,
    context: CallContext,
    bill: Arc<CallBill>,
}

impl Planned {
    /// Makes the call if the gate allows the call. `None`: the call was cancelled.
    async fn make(self, gate: Gate, end: CancellationToken) -> (Option<ToolResult>, ModelCalls) {
        let Planned { tool, params, key, intent, context, bill } = self;
        let within = Duration::from_millis(context.timeout_ms);
        let call = async {
            let recorder = Recorder {
                gatekeeper: &gate.services.gatekeeper,
                caller: &gate.caller,
                run: gate.run,
                node: &intent.node,
                attempt: intent.attempt,
                agent: Some(gate.me.clone()),
            };
            let permitted = recorder.permit(&tool, params.into(), key).await;
            let (tool, permit) = permitted.map_err(|denial| refused(&denial))?;
            tool.call(permit, context).await
        };
        let called = AssertUnwindSafe(tokio::time::timeout(within, call));
        let answer = end.run_until_cancelled_owned(called.catch_unwind()).await.map(|called| match called {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::new(FailureCategory::Timeout, "no answer in time")),
            Err(panic) => Err(Failure::new(FailureCategory::Crash, panic_message(&*panic))),
        });
        // The call has ended, so it is on the bill.
        (answer, bill.take())
    }
}

/// The parts that a call needs to ask the gate and to record the verdict.
struct Gate {
    services: Arc<RunServices>,
    caller: Arc<Caller>,
    run: RunId,
    me: ActorRef<AgentMessage>,
}

impl RunDriver {
    /// Makes the calls that the run waits for and nobody has made yet, after a crash again. Ends those that the run no longer waits
    /// for: each would be paid for nothing. A run that is to be suspended or whose process ends waits for none.
    pub(super) async fn launch_advice(&mut self) {
        let ends = self.is_suspending() || self.services.journal.status.is_stopping();
        let awaited = |view| if ends { Vec::new() } else { policy::awaited_advice(view) };
        let mut due = View::of(&self.run, self.services.journal.now()).map(awaited).unwrap_or_default();
        let unwanted = self.in_flight.advice.iter().filter(|(call, _)| !due.contains(call));
        unwanted.for_each(|(_, end)| end.cancel());
        due.retain(|call| !self.in_flight.advice.contains_key(call));
        if due.is_empty() {
            return;
        }
        let evidence = self.evidence().await.map_err(|_| unreadable());
        for call in due {
            let planned = match &evidence {
                Ok(evidence) => Ok(self.plan_advice(call, evidence)),
                Err(unreadable) => Err(unreadable.clone()),
            };
            let (me, run, end) = (self.me.clone(), self.opened.run, CancellationToken::new());
            self.in_flight.advice.insert(call, end.clone());
            let (services, caller) = (Arc::clone(&self.services), Arc::clone(&self.caller));
            let gate = Gate { services, caller, run, me: me.clone() };
            tokio::spawn(async move {
                let (answer, calls) = match planned {
                    Ok(planned) => planned.make(gate, end).await,
                    Err(failure) => (Some(Err(failure)), ModelCalls::default()),
                };
                let _ = me.cast(AgentMessage::Advised(Box::new(Advice { run, call, answer, calls })));
            });
        }
    }

    fn plan_advice(&self, call: usize, evidence: &Evidence) -> Planned {
        let known = View::of(&self.run, self.services.journal.now()).zip(self.run.goal());
        let known = known.and_then(|(view, goal)| Some((view, goal, goal.calls().get(call)?)));
        let (view, goal, asked) = known.expect("the run waits for the call");
        let intent: CallIntent = asked.intent.clone();
        let params = policy::prompt(view, &intent, &read(evidence), &|_| None);
        let tool = model_tool(goal.terms().model_of(Role::Micro).unwrap_or_default());
        let key = advice_key(self.opened.run, call);
        let (executor, owner, node) = (&self.services.executor, &self.arguments.owner, intent.node.clone());
        let bill = CallBill::new(
            executor,
            owner,
            self.opened.run,
            self.payer(),
            Some((node.clone(), intent.attempt)),
        );
        let bill = Arc::new(bill);
        let context = CallContext {
            workspace: Arc::clone(&self.caller.workspace),
            timeout_ms: MODEL_TIMEOUT_MS.unsigned_abs(),
            repeatable: true,
            origin: CallOrigin {
                role: intent.role.as_str().to_owned(),
                node: Some(node),
                ordinal: intent.attempt,
                refusals: 0,
            },
            attempt: Arc::<CallBill>::clone(&bill),
            recorded: None,
            turn: None,
        };
        Planned { tool, params, key, intent, context, bill }
    }

    /// Judges an answer of the micro-planner, if its node still waits for it. A faulty answer and a failed call refuse the patch; a
    /// call that does not fit the budget asks a person.
    pub(super) fn advised(&mut self, advice: Advice) {
        let Advice { run, call, answer, calls: ModelCalls { ended: calls, shortfall, rung, .. } } = advice;
        if run != self.opened.run {
            return;
        }
        self.in_flight.advice.remove(&call);
        let now = self.services.journal.now();
        let Some(intent) = self.run.goal().and_then(|goal| goal.calls().get(call)) else { return };
        let (node, attempt) = (intent.intent.node.clone(), intent.intent.attempt);
        let view = View::of(&self.run, now).filter(|view| policy::awaited_advice(*view).contains(&call));
        let Some((view, answer)) = view.zip(answer) else {
            let reported = ReportedCalls { rung, ..calls.into() };
            let called = self.run.record_calls(now, &node, attempt, reported);
            self.apply_effects(called);
            return;
        };
        // The answer is in no other record: a patch says what became of it.
        let told = answer
            .as_ref()
            .ok()
            .map(|answer| FaultyAnswer { answer: answer.to_string(), faults: String::new() });
        let is_cut = calls.last().is_some_and(|call| call.finish == Finish::Length.as_str());
        let judged = match answer {
            Ok(answer) => policy::judge_patch(view, call, &answer, is_cut),
            Err(_) => JudgedPatch::Faulty(Vec::new()),
        };
        let mut told = told;
        let (patch, faults, is_skip): (Option<Box<Patch>>, u32, bool) = match judged {
            JudgedPatch::Patch(patch) => (Some(patch), 0, false),
            JudgedPatch::Skip => (None, 0, true),
            JudgedPatch::Faulty(faults) => {
                if let Some(told) = &mut told {
                    told.faults = policy::describe(&faults);
                }
                (None, faults.len() as u32, false)
            }
        };
        let input_tokens = Some(calls.iter().map(|call| call.input_tokens).fold(0, u64::saturating_add));
        let output_tokens = calls.iter().map(|call| call.output_tokens).fold(0, u64::saturating_add);
        let ended = self.run.end_call(
            now,
            call as u32,
            CallEnd { input_tokens, output_tokens, faults, is_skip, is_unmade: shortfall.is_some() },
            told,
        );
        let called = self.run.record_calls(now, &node, attempt, calls.into());
        self.apply_effects([vec![ended], called].concat());
        self.decide(match shortfall {
            Some(shortfall) => RunInput::AdviceOverBudget(node, shortfall),
            None => RunInput::Patched(node, patch),
        });
    }
}

fn unreadable() -> Failure {
    Failure::new(FailureCategory::Transient, "the results of the run cannot be read")
}

/// The key of a call without an attempt: equal whenever it is made.
fn advice_key(run: RunId, call: usize) -> Digest {
    lineage::hash("aos/advice/1", &[run.to_string().as_bytes(), &(call as u64).to_be_bytes()])
}
