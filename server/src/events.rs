//! Records as they are told, once, or as they come.

use futures::{Stream, stream};
use ostler_actors::{EventCursor, RunError, Settled, System};
use ostler_kernel::event::{AttemptResult, Event, OperatorAct, Outcome};
use ostler_kernel::id::RunId;
use ostler_kernel::port::{BoxFuture, Recorded, Seq};
use serde_json::{Value, json};

use crate::wire::EventLine;

/// How long a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// To the record that closes the run.
    Closed,
    /// To that, or until nothing goes on in the run.
    Settled,
    /// To the record that is the last one now.
    Now,
}

/// A record as a line.
pub(crate) fn event_line(run: RunId, record: &Recorded) -> EventLine {
    let (kind, body) = event_json(&record.event);
    EventLine {
        line_type: "event".to_owned(),
        seq: record.seq.0,
        at_ms: record.at_ms,
        run: run.to_string(),
        kind: kind.to_owned(),
        body,
    }
}

struct Follow {
    run: RunId,
    cursor: EventCursor,
    until: Until,
    last_now: Seq,
    /// Nothing more is waited for: what is known is told, and that is all.
    ending: bool,
    over: bool,
    settled: Option<BoxFuture<'static, Result<Settled, RunError>>>,
}

/// The records after `after`, as lines. A journal that fails ends the stream with an error.
pub(crate) fn follow(
    system: System,
    run: RunId,
    after: Seq,
    until: Until,
    last_now: Seq,
) -> Result<impl Stream<Item = Result<EventLine, RunError>> + Send, RunError> {
    let cursor = system.events(run, after)?;
    let settled = (until == Until::Settled).then(|| -> BoxFuture<'static, _> {
        let system = system.clone();
        Box::pin(async move { system.outcome(run).await })
    });
    let over = until == Until::Now && after >= last_now;
    let state = Follow { run, cursor, until, last_now, ending: false, over, settled };
    Ok(stream::unfold(state, |mut state| async move {
        let record = state.next().await?;
        let told = record.map(|record| event_line(state.run, &record));
        Some((told, state))
    }))
}

impl Follow {
    async fn next(&mut self) -> Option<Result<Recorded, RunError>> {
        if self.over {
            return None;
        }
        let record = loop {
            if self.ending {
                break self.cursor.next_known().await;
            }
            let Some(settled) = &mut self.settled else { break self.cursor.next().await };
            tokio::select! {
                biased;
                record = self.cursor.next() => break record,
                settled = settled => {
                    self.settled = None;
                    match settled {
                        // What led here is known by now: nothing more is waited for.
                        Ok(_) => self.ending = true,
                        Err(error) => {
                            self.over = true;
                            return Some(Err(error));
                        }
                    }
                }
            }
        };
        if record.is_none() && !self.ending && !self.cursor.is_closed().unwrap_or(false) {
            // The system ends, and not the run: whoever follows it asks the next process.
            self.over = true;
            return Some(Err(RunError::Restarting));
        }
        if self.until == Until::Now
            && record
                .as_ref()
                .is_some_and(|record| record.as_ref().is_ok_and(|record| record.seq >= self.last_now))
        {
            self.over = true;
        }
        self.over |= matches!(record, None | Some(Err(_)));
        record.map(|record| record.map_err(RunError::from))
    }
}

/// What a record is called, and what it says.
fn event_json(event: &Event) -> (&'static str, Value) {
    match event {
        Event::RunOpened(opened) => (
            "run_opened",
            json!({
                "client": opened.client, "agent": opened.agent, "plan": opened.plan.value(),
                "intent": opened.intent, "scope": opened.scope, "workspace": opened.workspace,
                "policy_epoch": opened.policy_epoch, "seed": opened.seed,
            }),
        ),
        Event::RunRecovered { count } => ("run_recovered", json!({"count": count})),
        Event::PlanVersion(version) => (
            "plan_version",
            json!({
                "version": version.version, "cause": version.cause.to_string(),
                "revision": version.revision.value(),
            }),
        ),
        Event::PlanRefused { version, step } => {
            ("plan_refused", json!({"version": version, "step": step.to_string()}))
        }
        Event::NodeTransition(moved) => (
            "node_transition",
            json!({
                "node": moved.node, "version": moved.version, "from": moved.from, "to": moved.to,
                "reason": moved.reason.to_string(), "attempt": moved.attempt,
            }),
        ),
        Event::AttemptIntent(intent) => (
            "attempt_intent",
            json!({
                "node": intent.node, "generation": intent.generation, "phase": intent.patch_count,
                "attempt": intent.attempt, "reuse": intent.reuse, "idempotency_key": intent.idempotency_key,
                "intent": intent.intent, "policy_epoch": intent.policy_epoch, "provenance": intent.provenance,
            }),
        ),
        Event::AttemptResult(result) => ("attempt_result", result_json(result)),
        Event::LateResult(result) => ("late_result", result_json(result)),
        Event::HumanRequest(request) => (
            "human_request",
            json!({
                "node": request.node, "kind": request.kind, "deadline_ms": request.deadline,
                "shown": request.shown,
            }),
        ),
        Event::HumanAnswer(answer) => (
            "human_answer",
            json!({
                "node": answer.node, "approve": answer.approve, "redo": answer.redo, "by": answer.by,
                "note": answer.note,
            }),
        ),
        Event::TimerSet(timer) => {
            ("timer_set", json!({"node": timer.node, "kind": timer.kind, "at_ms": timer.at}))
        }
        Event::TimerFired { node, kind } => ("timer_fired", json!({"node": node, "kind": kind})),
        Event::RecoveryExhausted { node, level, reason } => {
            ("recovery_level_exhausted", json!({"node": node, "level": level, "reason": reason}))
        }
        Event::GateDecision(decision) => (
            "gate_decision",
            json!({
                "node": decision.node, "attempt": decision.attempt, "code": decision.code,
                "detail": decision.detail,
            }),
        ),
        Event::AgentRegistered { agent, client, weight } => {
            ("agent_registered", json!({"agent": agent, "client": client, "weight": weight}))
        }
        Event::AgentQuarantined { agent, reason } => {
            ("agent_quarantined", json!({"agent": agent, "reason": reason}))
        }
        Event::AgentReleased { agent } => ("agent_released", json!({"agent": agent})),
        Event::AgentProfiled { agent, client, profile } => {
            ("agent_profiled", json!({"agent": agent, "client": client, "profile": profile.value()}))
        }
        Event::AttemptProgress(progress) => {
            ("attempt_progress", json!({"of": progress.of, "token": progress.token.value()}))
        }
        Event::StepIntent(intent) => {
            ("step_intent", json!({"of": intent.of, "step": intent.step, "idem": intent.idem}))
        }
        Event::StepResult(result) => (
            "step_result",
            json!({"of": result.of, "step": result.step, "outcome": outcome_json(&result.outcome)}),
        ),
        Event::StepInDoubt { of, step } => ("step_in_doubt", json!({"of": of, "step": step})),
        Event::ChildRun { of, step, run, budget } => {
            ("child_run", json!({"of": of, "step": step, "run": run, "budget": budget}))
        }
        Event::RunTerms(terms) => ("run_terms", json!(terms)),
        Event::Parked { reason } => ("parked", json!({"reason": reason})),
        Event::Operator(act) => match act {
            OperatorAct::CancelPlan => ("operator", json!({"act": "cancel_plan"})),
            OperatorAct::Cancel(node) => ("operator", json!({"act": "cancel", "node": node})),
            OperatorAct::StopDenied => ("operator", json!({"act": "stop_denied"})),
            OperatorAct::StopLate => ("operator", json!({"act": "stop_late"})),
            OperatorAct::StopUnwanted => ("operator", json!({"act": "stop_unwanted"})),
            OperatorAct::Skip(node) => ("operator", json!({"act": "skip", "node": node})),
        },
        Event::ContractBroken { version, why } => {
            ("contract_broken", json!({"version": version, "why": why}))
        }
        Event::ContractChecked { version, holds } => {
            ("contract_checked", json!({"version": version, "holds": holds}))
        }
        Event::ClientSet { client, weight, contracted } => {
            ("client_set", json!({"client": client, "weight": weight, "contracted": contracted}))
        }
        Event::CreditDeposited { client, credits, spent } => {
            ("credit_deposited", json!({"client": client, "credits": credits, "spent": spent}))
        }
        Event::OutOfCredit { out } => ("out_of_credit", json!({"out": out})),
        Event::Evaluated(evaluated) => ("evaluated", json!(evaluated)),
        Event::Appraised(appraised) => ("appraised", json!(appraised)),
        Event::Verdict(verdict) => ("verdict", json!(verdict)),
        Event::AgentOffered { agent, client, offer } => {
            ("agent_offered", json!({"agent": agent, "client": client, "offer": offer}))
        }
        Event::Market { job, step } => ("market", json!({"job": job, "step": step})),
        Event::RunClosed { outcome } => ("run_closed", json!({"outcome": outcome})),
        Event::Draining { node } => ("draining", json!({"node": node})),
        Event::ReplanAsked { for_contract } => ("replan_asked", json!({"for_contract": for_contract})),
        Event::Diagnosis { node, category, level } => {
            ("diagnosis", json!({"node": node, "category": category, "level": level}))
        }
        Event::Pipeline(record) => ("pipeline", json!(record)),
        Event::Published(event) => {
            ("published", json!({"stage": event.stage, "kind": event.kind, "data": event.data.value()}))
        }
    }
}

fn result_json(result: &AttemptResult) -> Value {
    json!({
        "node": result.node, "attempt": result.attempt, "outcome": outcome_json(&result.outcome),
        "duration_ms": result.duration_ms, "cost": result.cost,
    })
}

fn outcome_json(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Ok(output) => json!({
            "ok": {
                "artifact": output.artifact, "bytes": output.bytes,
                "inline": output.inline.as_ref().map(|inline| inline.value()),
            },
        }),
        Outcome::Failed(failure) => {
            json!({"failed": {"category": failure.category, "message": failure.message}})
        }
    }
}
