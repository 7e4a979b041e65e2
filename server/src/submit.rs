//! `POST /v1/runs`, with or without an idempotency key.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ostler_actors::{Submission, System, new_run_id};
use ostler_kernel::event::{Fresh, ReuseTerms};
use ostler_kernel::id::{AgentId, Digest, NodeId, RunId};
use ostler_kernel::lineage;
use ostler_kernel::plan::Plan;
use ostler_kernel::run::OpeningTerms;

use crate::extract::{RawBody, parse_body};
use crate::operator::AnyCaller;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::amounts::call_terms;
use crate::wire::{OverBudget, RunRef, SubmitRequest};
use crate::{agents, idempotency, run_lookup};

pub(crate) async fn submit(
    State(api): State<Api>,
    headers: HeaderMap,
    caller: AnyCaller,
    validated: Option<Extension<SubmitRequest<Arc<Plan>>>>,
    RawBody(bytes): RawBody,
) -> Result<Response, Problem> {
    if let Some(Extension(request)) = validated {
        caller.may_intend(request.intent, &api)?;
        let run = api.system.submit(of_validated(&api.system, request).await?).await?;
        return Ok((StatusCode::CREATED, Json(RunRef { run: run.to_string() })).into_response());
    }
    let key = headers.get("idempotency-key").map(|key| {
        let text =
            key.to_str().map_err(|_| Problem::bad("idempotency_key", "an idempotency key is ASCII"))?;
        Ok::<_, Problem>(text.to_owned())
    });
    let key = key.transpose()?.map(|key| (key, lineage::hash("aos/request/1", &[&bytes])));
    let run = match key {
        None => api.system.submit(submission(&api, &caller, &bytes).await?).await?,
        Some((key, digest)) => submit_once(&api, &caller, &key, digest, &bytes).await?,
    };
    Ok((StatusCode::CREATED, Json(RunRef { run: run.to_string() })).into_response())
}

/// Opens the run of an idempotency key at most once.
///
/// The key is bound to a run id before the run is opened, so a client that hangs up and sends the request again gets the
/// same run. Once that run is open, a repeated body returns its id without another validation, and a different body is
/// refused. Before that, for instance after a refused request, a different body replaces the first. The binding's lock
/// serialises requests of one key.
async fn submit_once(
    api: &Api,
    caller: &AnyCaller,
    key: &str,
    digest: Digest,
    bytes: &Bytes,
) -> Result<RunId, Problem> {
    let binding = api.idempotency_keys().bind(key, digest, new_run_id())?;
    let mut binding = binding.lock().await;
    let (seen, run) = *binding;
    if api.system.has_opened(run).await? {
        return if seen == digest { Ok(run) } else { Err(idempotency::reused()) };
    }
    let mut submission = submission(api, caller, bytes).await?;
    // A run id in the body may name another client's run: bind the key to it only after `submit` has accepted it.
    if submission.run.is_none() {
        *binding = (digest, run);
        submission.run = Some(run);
    }
    let run = api.system.submit(submission).await?;
    *binding = (digest, run);
    Ok(run)
}

async fn submission(api: &Api, caller: &AnyCaller, bytes: &Bytes) -> Result<Submission, Problem> {
    let (system, request): (_, SubmitRequest) = (&api.system, parse_body(bytes)?);
    caller.may_intend(request.intent, api)?;
    let (draft, request) = request.swap_plan(());
    let plan = system.judge_plan(draft).await.map_err(|faults| Problem::faults(&faults))?.into();
    of_validated(system, request.swap_plan(plan).1).await
}

/// Resolves the names in a request with a valid plan.
async fn of_validated(system: &System, request: SubmitRequest<Arc<Plan>>) -> Result<Submission, Problem> {
    let over_budget = request.over_budget.unwrap_or(OverBudget::Ask);
    let calls = call_terms(request.usd, request.tokens, over_budget)
        .map_err(|what| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "budget", what))?;
    let reuse = reuse_terms(&request)?;
    let SubmitRequest { plan, client, agent, intent, scope, workspace, budget, run, .. } = request;
    let intent = intent.unwrap_or(system.default_intent());
    let workspace = absolute_workspace(workspace)?;
    let agent = agent.as_deref().map(AgentId::from);
    let client = match &agent {
        Some(agent) => agents::client_of(system, agent).await?,
        None => client.as_str().into(),
    };
    let run = run.as_deref().map(|run| run_lookup::chosen_id(run, "run_id")).transpose()?;
    let budget = budget.map(NonZeroU64::get);
    Ok(Submission {
        plan,
        client,
        agent,
        intent,
        scope,
        workspace,
        run,
        terms: OpeningTerms { budget, calls, reuse, ..OpeningTerms::default() },
        goal: None,
    })
}

/// Stands for all nodes in `fresh`.
const ALL_NODES: &str = "*";

fn reuse_terms(request: &SubmitRequest<Arc<Plan>>) -> Result<Option<ReuseTerms>, Problem> {
    let SubmitRequest { plan, reuse, fresh, .. } = request;
    if !reuse {
        if fresh.is_empty() {
            return Ok(None);
        }
        let what = "`fresh` opts nodes out of reuse, so it goes with `reuse: true` only";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "fresh", what));
    }
    let nodes: Vec<NodeId> = fresh.iter().map(|node| NodeId::from(node.as_str())).collect();
    let fresh = match nodes.iter().find(|node| plan.node(node).is_none()) {
        Some(all) if all.as_str() == ALL_NODES => Fresh::Everything,
        Some(unknown) => {
            let what = format!("fresh: the plan has no node {unknown}; name one of its nodes, or * for all");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_node", what));
        }
        None if nodes.is_empty() => Fresh::Nothing,
        None => Fresh::Nodes(nodes),
    };
    Ok(Some(ReuseTerms { fresh }))
}

/// Refuses a relative path: the client's working directory is unknown here.
pub(crate) fn absolute_workspace(workspace: String) -> Result<PathBuf, Problem> {
    let workspace = PathBuf::from(workspace);
    if workspace.is_absolute() {
        return Ok(workspace);
    }
    let what = format!("the workspace {} is not an absolute path", workspace.display());
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "workspace_unusable", what))
}
