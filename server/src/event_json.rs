//! Journal records as the JSON of `GET /v1/runs/{run}/events`: a kind and a body.
//!
//! The table lists every record and its fields by name, so a field added to a record stays internal until it is
//! listed here. Records whose serialised form is public as it is pass through whole.

use ostler_kernel::event::{
    AttemptResult, Event, OperatorAct, Outcome, Output, Retraction, ReuseBasis, ReuseDecided, ReuseDecision,
    Withdrawn,
};
use ostler_kernel::id::NodeId;
use ostler_kernel::policy::Conclusion;
use serde_json::{Value, json};

/// A JSON object of the named variables, or of the named fields of a record.
macro_rules! body {
    ($($name:ident),+; $($key:literal: $value:expr),+) => {
        json!({$((stringify!($name)): $name,)+ $($key: $value),+})
    };
    ($($name:ident),+) => { json!({$((stringify!($name)): $name),+}) };
    ($record:ident: $($field:ident),+) => { json!({$((stringify!($field)): $record.$field),+}) };
    ($record:ident: $($field:ident),+; $($key:literal: $value:expr),+) => {
        json!({$((stringify!($field)): $record.$field,)+ $($key: $value),+})
    };
}

pub(crate) fn event_json(event: &Event) -> (&'static str, Value) {
    use Event as E;
    match event {
        E::RunOpened(opened) => (
            "run_opened",
            body!(opened: client, agent, intent, scope, workspace, policy_epoch, seed;
                  "plan": opened.plan.value()),
        ),
        E::RunTerms(terms) => ("run_terms", json!(terms)),
        E::RunRecovered { count } => ("run_recovered", body!(count)),
        E::RunClosed { outcome } => ("run_closed", body!(outcome)),
        E::Parked { reason } => ("parked", body!(reason)),
        E::OutOfCredit { out } => ("out_of_credit", body!(out)),
        E::PlanVersion(plan) => (
            "plan_version",
            body!(plan: version; "cause": plan.cause.to_string(), "revision": plan.revision.value()),
        ),
        E::PlanRefused { version, step } => ("plan_refused", body!(version; "step": step.to_string())),
        E::ReplanAsked { for_contract } => ("replan_asked", body!(for_contract)),
        E::ContractChecked { version, holds } => ("contract_checked", body!(version, holds)),
        E::ContractBroken { version, why } => ("contract_broken", body!(version, why)),
        E::GoalOpened { terms } => ("goal_opened", terms.value()),
        E::CallBegun { intent, reserved } => ("call_begun", body!(reserved; "intent": intent.value())),
        E::CallEnded { call, end, faulty } => ("call_ended", body!(call, end, faulty)),
        E::ModelCalled { node, attempt, call } => ("model_called", body!(node, attempt, call)),
        E::Caged { node, attempt, rung } => ("caged", body!(node, attempt, rung)),
        E::CallTerms(terms) => ("call_terms", json!(terms)),
        E::ReuseTerms(terms) => ("reuse_terms", json!(terms)),
        E::ArtifactEdited(edited) => {
            ("artifact_edited", body!(edited: node, author, base, stale; "artifact": edited.output.artifact))
        }
        E::ResultKept(kept) => (
            "result_kept",
            body!(kept: node, from; "artifact": kept.output.as_ref().map(|output| output.artifact)),
        ),
        E::KeptIdentity(kept) => ("kept_identity", body!(kept: node, reuse, idempotency_key)),
        E::ApprovalKept(kept) => (
            "approval_kept",
            body!(kept: node, kind, material, shown, by, at, from, void;
                  "artifact": kept.output.as_ref().map(|output| output.artifact)),
        ),
        E::ApprovalMaterial { node, material } => ("approval_material", body!(node, material)),
        E::ApprovalCarried(carried) => ("approval_carried", body!(carried: node, by, at, from)),
        E::Exposed(exposure) => ("exposed", json!(exposure)),
        E::ReuseDecided(decided) => ("reuse_decided", reuse_json(decided)),
        E::ResultRecorded(record) => (
            "result_recorded",
            body!(record: node, attempt, reuse;
                  "executable": record.manifest.sigma().value(), "inputs": record.manifest.inputs().value(),
                  "receipts": record.manifest.receipts()),
        ),
        E::ModelExchanged(call) => (
            "model_exchanged",
            body!(call: node, attempt, call; "params": call.params.value(), "answer": call.answer.value()),
        ),
        E::CallReserved(call) => ("call_reserved", json!(call)),
        E::CallSettled(call) => ("call_settled", json!(call)),
        E::BudgetShort { node, shortfall } => ("budget_short", body!(node, shortfall)),
        E::BudgetRaised { node, by } => ("budget_raised", body!(node, by)),
        E::BalanceDeposited { client, tokens, nano_usd, used } => {
            ("balance_deposited", body!(client, tokens, nano_usd, used))
        }
        E::Granted(terms) => ("granted", json!(terms)),
        E::GrantedIn(grant) => ("granted_in", json!(grant)),
        E::GrantRevoked { client, grant, by } => ("grant_revoked", body!(client, grant, by)),
        E::Forked(forked) => ("forked", body!(forked: from, at, done, by)),
        E::CandidateKept(refused) => (
            "candidate_kept",
            body!(refused: node, attempt, why; "artifact": refused.output.artifact, "bytes": refused.output.bytes),
        ),
        E::ResultJudged(judged) => (
            "result_judged",
            body!(judged: node, attempt, rule, model, precision, holds, why; "method": "model"),
        ),
        E::Retracted(retraction) => ("retracted", retraction_json(retraction)),
        E::RetractionCarriedOut { client, retraction } => {
            ("retraction_carried_out", body!(client, retraction))
        }
        E::RetractionLifted { client, retraction, by } => {
            ("retraction_lifted", body!(client, retraction, by))
        }
        E::NodeTransition(moved) => (
            "node_transition",
            body!(moved: node, version, from, to, attempt; "reason": moved.reason.to_string()),
        ),
        E::Draining { node } => ("draining", body!(node)),
        E::TimerSet(timer) => ("timer_set", body!(timer: node, kind; "at_ms": timer.at)),
        E::TimerFired { node, kind } => ("timer_fired", body!(node, kind)),
        E::Diagnosis { node, category, level, diagnosis } => {
            ("diagnosis", body!(node, category, level, diagnosis))
        }
        E::RecoveryExhausted { node, level, reason } => {
            ("recovery_level_exhausted", body!(node, level, reason))
        }
        E::GateDecision(decision) => ("gate_decision", body!(decision: node, attempt, code, detail)),
        E::GateVerdict(verdict) => ("gate_verdict", json!(verdict)),
        E::HumanRequest(request) => {
            ("human_request", body!(request: node, kind, shown; "deadline_ms": request.deadline))
        }
        E::HumanAnswer(answer) => ("human_answer", body!(answer: node, approve, redo, by, note)),
        E::NodeFault { node, failure } => {
            ("node_fault", body!(node; "failure": body!(failure: category, message)))
        }
        E::WaitAnswered(answer) => (
            "wait_answered",
            body!(answer: node, id, verdict, by, was_kept; "output": answer.output.as_ref().map(output_json)),
        ),
        E::Operator(act) => ("operator", operator_json(act)),
        E::AttemptIntent(intent) => (
            "attempt_intent",
            body!(intent: node, generation, attempt, reuse, idempotency_key, intent, policy_epoch, provenance;
                  "phase": intent.patch_count),
        ),
        E::AttemptProgress(progress) => {
            ("attempt_progress", body!(progress: of; "token": progress.token.value()))
        }
        E::AttemptResult(result) => ("attempt_result", result_json(result)),
        E::LateResult(result) => ("late_result", result_json(result)),
        E::StepIntent(intent) => ("step_intent", body!(intent: of, step, idem)),
        E::StepResult(result) => {
            ("step_result", body!(result: of, step; "outcome": outcome_json(&result.outcome)))
        }
        E::StepInDoubt { of, step } => ("step_in_doubt", body!(of, step)),
        E::ChildRun { of, step, run, budget } => ("child_run", body!(of, step, run, budget)),
        E::AgentRegistered { agent, client, weight } => ("agent_registered", body!(agent, client, weight)),
        E::AgentProfiled { agent, client, profile } => {
            ("agent_profiled", body!(agent, client; "profile": profile.value()))
        }
        E::AgentOffered { agent, client, offer } => ("agent_offered", body!(agent, client, offer)),
        E::AgentQuarantined { agent, reason } => ("agent_quarantined", body!(agent, reason)),
        E::AgentReleased { agent } => ("agent_released", body!(agent)),
        E::ClientSet { client, weight, contracted } => ("client_set", body!(client, weight, contracted)),
        E::CreditDeposited { client, credits, spent } => ("credit_deposited", body!(client, credits, spent)),
        E::ClientRemoved { client } => ("client_removed", body!(client)),
        E::Evaluated(evaluated) => ("evaluated", json!(evaluated)),
        E::Appraised(appraised) => ("appraised", json!(appraised)),
        E::Verdict(verdict) => ("verdict", json!(verdict)),
        E::Market { job, step } => ("market", body!(job, step)),
        E::Pipeline(record) => ("pipeline", json!(record)),
        E::Published(event) => ("published", body!(event: stage, kind; "data": event.data.value())),
    }
}

/// `decision` is `reused`, `cut_off`, `revalidated`, `edited`, `kept` or `recomputed`. `why` has the code of the reason, `words` the reason for
/// people.
fn reuse_json(decided: &ReuseDecided) -> Value {
    let ReuseDecided { node, reuse, decision } = decided;
    match decision {
        ReuseDecision::Reused(result) => {
            let above: &[NodeId] = match &result.basis {
                ReuseBasis::CutOff(above) => above,
                ReuseBasis::Same | ReuseBasis::Revalidated | ReuseBasis::Fresh { .. } => &[],
            };
            let (age, most) = match result.basis {
                ReuseBasis::Fresh { age, most } => (Some(age), most),
                _ => (None, None),
            };
            json!({
                "node": node, "reuse": reuse, "decision": result.basis.word(), "recomputed": above, "from": result.from,
                "sampled": result.sampled, "artifact": result.output.artifact,
                "age_ms": age, "age_max_ms": most,
            })
        }
        ReuseDecision::Edited { output, author, stale } => json!({
            "node": node, "reuse": reuse, "decision": "edited", "author": author, "stale": stale,
            "artifact": output.artifact,
        }),
        ReuseDecision::Kept { output, from } => json!({
            "node": node, "reuse": reuse, "decision": "kept", "from": {"run": from},
            "artifact": output.as_ref().map(|output| output.artifact),
        }),
        ReuseDecision::Recomputed(reason) => json!({
            "node": node, "reuse": reuse, "decision": "recomputed", "why": reason.to_string(),
            "words": reason.in_words(), "field": reason.field(),
        }),
    }
}

/// `withdrawn` is `result` with the run and the node, or `executable` with its fields.
fn retraction_json(retraction: &Retraction) -> Value {
    let Retraction { id, client, what, by } = retraction;
    match what {
        Withdrawn::Result { run, node, place } => json!({
            "id": id, "client": client, "by": by, "withdrawn": "result", "run": run, "node": node, "record": place,
        }),
        Withdrawn::Executable(fields) => json!({
            "id": id, "client": client, "by": by, "withdrawn": "executable", "executable": fields.value(),
        }),
    }
}

fn operator_json(act: &OperatorAct) -> Value {
    match act {
        OperatorAct::CancelPlan => json!({"act": "cancel_plan"}),
        OperatorAct::Cancel(node) => json!({"act": "cancel", "node": node}),
        OperatorAct::Skip(node) => json!({"act": "skip", "node": node}),
        OperatorAct::StopDenied => json!({"act": "stop_denied"}),
        OperatorAct::StopLate => json!({"act": "stop_late"}),
        OperatorAct::StopUnwanted => json!({"act": "stop_unwanted"}),
        OperatorAct::Conclude(Conclusion::Node(node)) => json!({"act": "conclude", "node": node}),
        OperatorAct::Conclude(Conclusion::Wall) => json!({"act": "conclude"}),
    }
}

fn result_json(result: &AttemptResult) -> Value {
    body!(result: node, attempt, duration_ms, cost; "outcome": outcome_json(&result.outcome))
}

fn output_json(output: &Output) -> Value {
    let inline = output.inline.as_ref().map(|inline| inline.value());
    body!(output: artifact, bytes; "inline": inline)
}

fn outcome_json(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Ok(output) => json!({"ok": output_json(output)}),
        Outcome::Failed(failure) => json!({"failed": body!(failure: category, message)}),
    }
}

#[cfg(test)]
mod tests;
