//! The route table of the API, and the state that every handler shares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use ostler_actors::System;

use crate::extract::BODY_BYTES_MAX;
use crate::idempotency::IdempotencyKeys;
use crate::operator::{Challenges, OperatorKeys, recognise};
use crate::problem::Problem;
use crate::socket::ShuttingDown;
use crate::wire::Health;
use crate::{
    again, agents, approvals, candidates, clients, devices, evaluations, gate_controls, goals, grants,
    market, operators, output, pipelines, recall, runs, submit, templates, text, waits,
};

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) system: System,
    idempotency_keys: Arc<Mutex<IdempotencyKeys>>,
    operators: OperatorKeys,
    challenges: Arc<Challenges>,
}

impl Api {
    pub(crate) fn idempotency_keys(&self) -> MutexGuard<'_, IdempotencyKeys> {
        self.idempotency_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn operators(&self) -> &OperatorKeys {
        &self.operators
    }

    pub(crate) fn challenges(&self) -> &Challenges {
        &self.challenges
    }
}

/// The `/v1` API over `system`, as an axum router for a socket or for calls within the process. What only an operator may
/// decide needs a proof by one of the keys in `operators`, or an [`Operator`](crate::Operator) among the extensions of the request.
pub fn router(system: System, operators: OperatorKeys) -> Router {
    let challenges = Arc::new(Challenges::new());
    let api = Api { system, idempotency_keys: Arc::default(), operators, challenges };
    Router::new()
        .route("/v1/runs", get(runs::list).post(submit::submit))
        .route("/v1/goals", post(goals::ask))
        .route("/v1/runs/{run}", get(runs::show))
        .route("/v1/runs/{run}/events", get(runs::events))
        .route("/v1/runs/{run}/output", get(output::output))
        .route("/v1/runs/{run}/text", get(text::text))
        .route("/v1/runs/{run}/graph", get(runs::graph))
        .route("/v1/runs/{run}/model-exchanges", get(runs::model_exchanges))
        .route("/v1/runs/{run}/provenance", get(runs::provenance))
        .route("/v1/runs/{run}/results", get(runs::results))
        .route("/v1/runs/{run}/learnt", get(templates::learnt))
        .route("/v1/templates", get(templates::records))
        .route("/v1/runs/{run}/evaluation", get(evaluations::one).post(evaluations::judge))
        .route("/v1/runs/{run}/cancel", post(runs::cancel))
        .route("/v1/runs/{run}/undo", post(runs::undo))
        .route("/v1/runs/{run}/interject", post(runs::interject))
        .route("/v1/runs/{run}/resolve", post(runs::resolve))
        .route("/v1/runs/{run}/checkpoint", post(runs::checkpoint))
        .route("/v1/runs/{run}/resume", post(runs::resume))
        .route("/v1/runs/{run}/rerun", post(again::rerun))
        .route("/v1/runs/{run}/fork", post(again::fork))
        .route("/v1/runs/{run}/nodes/{node}/edit", post(again::edit))
        .route("/v1/runs/{run}/rerun/invoice", post(again::rerun_invoice))
        .route("/v1/runs/{run}/nodes/{node}/invoice", post(again::invoice))
        .route("/v1/runs/{run}/nodes/{node}/artifact", get(runs::artifact))
        .route("/v1/runs/{run}/nodes/{node}/candidates", get(candidates::list))
        .route("/v1/runs/{run}/nodes/{node}/candidates/{attempt}", get(candidates::content))
        .route("/v1/runs/{run}/nodes/{node}/cancel", post(runs::cancel_node))
        .route("/v1/runs/{run}/nodes/{node}/skip", post(runs::skip_node))
        .route("/v1/runs/{run}/nodes/{node}/answer", post(waits::answer))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::one).post(approvals::answer))
        .route("/v1/agents", get(agents::list).post(agents::spawn))
        .route("/v1/agents/{agent}/release", post(agents::release))
        .route("/v1/agents/{agent}/offer", post(market::offer))
        .route("/v1/evaluations", get(evaluations::list))
        .route("/v1/market", get(market::list).post(market::post))
        .route("/v1/market/{job}", get(market::one))
        .route("/v1/market/{job}/resume", post(market::resume))
        .route("/v1/lockdown", get(gate_controls::lockdown).post(gate_controls::set_lockdown))
        .route("/v1/policy/reload", post(gate_controls::reload))
        .route("/v1/audit", get(market::audit))
        .route("/v1/tree", get(agents::tree))
        .route("/v1/clients", get(clients::list))
        .route("/v1/clients/{client}", get(clients::one).post(clients::change))
        .route("/v1/clients/{client}/remove", post(clients::remove))
        .route("/v1/queue", get(clients::queue))
        .route("/v1/pipelines", get(pipelines::list).post(pipelines::create))
        .route("/v1/pipelines/{pipeline}", get(pipelines::one))
        .route("/v1/pipelines/{pipeline}/remove", post(pipelines::remove))
        .route("/v1/pipelines/{pipeline}/events", get(pipelines::events).post(pipelines::publish))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/events", get(pipelines::stage_events))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/ack", post(pipelines::ack))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/catch-up", post(pipelines::catch_up))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/release", post(pipelines::release))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/end", post(pipelines::end))
        .route("/v1/devices/{device}/accept", post(devices::accept))
        .route("/v1/grants", get(grants::list))
        .route("/v1/grants/{id}/revoke", post(grants::revoke))
        .route("/v1/retractions", get(recall::list).post(recall::retract))
        .route("/v1/retractions/{id}/lift", post(recall::lift))
        .route("/v1/operators", get(operators::list).post(operators::add))
        .route("/v1/operators/{key}/remove", post(operators::remove))
        .route("/healthz", get(health))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn_with_state(api.clone(), recognise))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(api)
}

async fn unknown_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "path_unknown", "there is nothing at this path")
}

async fn unknown_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_unknown", "this path does not take this method")
}

async fn health(State(api): State<Api>, shutting_down: Option<Extension<ShuttingDown>>) -> Json<Health> {
    let drain_ms = || u64::try_from(api.system.drain().as_millis()).unwrap_or(u64::MAX);
    Json(Health {
        status: "ok".to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        active: api.system.active(),
        disk_full: api.system.full().borrow().clone(),
        leaving_within_ms: shutting_down.map(|_| drain_ms()),
    })
}
