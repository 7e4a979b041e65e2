//! Handlers of approval requests and answers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Answer, Approval, ApprovalId, ApprovalPage, System};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::policy::Role;
use serde::Deserialize;
use serde_json::Value;

use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::file_changes;
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::summary::parent_view;
use crate::wire::{
    AnswerRequest, ApprovalList, ApprovalView, Decision, EarlierApprovalView, EstimateView, RunRef,
    ShortfallView, StepView, TestView, UnreadableRun, word,
};

/// Questions on one page.
pub const APPROVALS_LISTED_MAX: usize = 100;

/// Bytes of a result in the list of questions; a question requested by its id shows all of it.
pub const RESULT_LISTED_BYTES_MAX: u64 = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalsQuery {
    /// Questions of the run only.
    run: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// `GET /v1/approvals`
pub(crate) async fn list(
    State(api): State<Api>,
    QueryParams(query): QueryParams<ApprovalsQuery>,
) -> Result<Json<ApprovalList>, Problem> {
    let limit = query.limit.unwrap_or(APPROVALS_LISTED_MAX).clamp(1, APPROVALS_LISTED_MAX);
    let run = query.run.map(|name| run_lookup::find(&api.system, &name)).transpose()?;
    let after: Option<ApprovalId> = query
        .after
        .map(|cursor| cursor.parse().map_err(|_| Problem::bad("cursor", "`after` is no cursor of this list")))
        .transpose()?;
    let ApprovalPage { approvals: found, unreadable, has_more } = match run {
        Some(run) => api.system.approval_page_of(run, after.as_ref(), limit).await?,
        None => api.system.approval_page(after.as_ref(), limit).await?,
    };
    let next = found.last().filter(|_| has_more).map(|approval| approval.id.to_string());
    let mut approvals = Vec::with_capacity(found.len());
    for approval in found {
        approvals.push(view(&api.system, approval, RESULT_LISTED_BYTES_MAX).await);
    }
    let unreadable = unreadable.into_iter();
    let unreadable =
        unreadable.map(|(run, error)| UnreadableRun { run: run.to_string(), detail: error.to_string() });
    Ok(Json(ApprovalList { approvals, unreadable: unreadable.collect(), next }))
}

/// `GET /v1/approvals/{id}`
pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ApprovalView>, Problem> {
    let id = id(&name)?;
    let found = api.system.approval(&id).await?.ok_or_else(|| {
        let what = format!("question {} of node {} is not open", id.request, id.node);
        Problem::new(StatusCode::NOT_FOUND, "approval_unknown", what)
    })?;
    Ok(Json(view(&api.system, found, u64::MAX).await))
}

/// `POST /v1/approvals/{id}`
pub(crate) async fn answer(
    State(api): State<Api>,
    operator: Operator,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<AnswerRequest>,
) -> Result<Json<RunRef>, Problem> {
    let id = id(&name)?;
    let AnswerRequest { decision, digest, note, raise, also } = request;
    let digest: Digest = digest.parse().map_err(|_| {
        Problem::bad("digest", "`digest` is not b3: and 64 hex digits: give the one that is shown")
    })?;
    let answer = match decision {
        Decision::Approve => Answer::approve(),
        Decision::Reject => Answer::reject(),
    };
    if also.is_some() && decision == Decision::Reject {
        return Err(Problem::bad("also", "`also` grants calls, so it goes with an approval only"));
    }
    let answer = answer.note(note).raise(raise.unwrap_or_default().amounts()).by(operator.by);
    if let Some(also) = also {
        api.system.check_answer(&id, digest).await?;
        api.system.grant(&id, digest, &also.pattern, also.valid_ms.get().into(), &answer).await?;
    }
    api.system.answer(&id, digest, answer).await?;
    Ok(Json(RunRef { run: id.run.to_string() }))
}

fn id(name: &str) -> Result<ApprovalId, Problem> {
    name.parse().map_err(|_| {
        let what =
            format!("{name:?} names no question: expected RUN:NODE:NUMBER, as GET /v1/approvals lists it");
        Problem::bad("approval_name", what)
    })
}

async fn view(system: &System, approval: Approval, result_bytes_max: u64) -> ApprovalView {
    let Approval {
        id,
        plan,
        client,
        parent,
        model_file,
        digest,
        role,
        shown,
        files_before,
        changes,
        earlier,
        guards,
        result,
        shortfall,
        is_outdated,
        is_looked_at,
        asked,
        deadline,
        holds_up,
    } = approval;
    let ApprovalId { run, node, .. } = &id;
    let (run, node): (&RunId, _) = (run, node.to_string());
    let result_bytes = result.as_ref().map(|result| result.bytes);
    let (mut value, mut refusal) = (None, shown.refusal);
    if let Some(result) = result.filter(|result| result.bytes <= result_bytes_max) {
        match system.value(&result).await {
            Ok(read) => value = Some(read),
            Err(error) => refusal = Some(format!("the result cannot be read: {error}")),
        }
    }
    let steps = value.as_ref().map(|value| steps(system, role, value)).unwrap_or_default();
    let estimate = match &value {
        Some(value) if !steps.is_empty() => {
            let tools = steps.iter().map(|step| step.tool.clone());
            // An estimate only advises.
            system.forecast(id.run, &id.node, value, tools).await.ok().map(EstimateView::from)
        }
        _ => None,
    };
    let holds = shown.holds;
    let tests = shown.tests.into_iter().map(|test| TestView {
        argv: test.argv,
        effect: word(&test.effect),
        impact: test.impact,
    });
    ApprovalView {
        run: run.to_string(),
        plan,
        client: client.to_string(),
        parent: parent.as_ref().map(parent_view),
        model_file,
        node,
        ask: word(&shown.ask),
        kind: word(&shown.kind),
        tool: shown.tool,
        effect: word(&shown.effect),
        impact: shown.impact,
        params: Value::Object(shown.params),
        workspace: shown.workspace,
        files: file_changes::views(&shown.files, &files_before),
        changes: changes.into_iter().map(file_changes::change).collect(),
        earlier: earlier.map(|kept| EarlierApprovalView {
            run: kept.from.to_string(),
            by: kept.by,
            at_ms: kept.at,
            void: kept.void,
        }),
        guards: guards.iter().map(ToString::to_string).collect(),
        tests: tests.collect(),
        holds,
        questions: shown.questions,
        steps,
        estimate,
        result: value,
        result_bytes,
        over_budget: shortfall.map(|shortfall| ShortfallView::from(*shortfall)),
        refusal,
        digest: digest.map(|digest| digest.to_string()),
        outdated: is_outdated,
        not_looked_at: !is_looked_at,
        asked_ms: asked,
        deadline_ms: deadline,
        blocks: holds_up.iter().map(ToString::to_string).collect(),
        id: id.to_string(),
    }
}

/// The steps of a planner, or the calls of a turn. Members of these names in any other result start nothing.
fn steps(system: &System, role: Option<Role>, result: &Value) -> Vec<StepView> {
    let written = match role {
        Some(Role::Planner) => &result["steps"],
        Some(Role::Think) => &result["calls"],
        Some(Role::Reflect | Role::Observe | Role::Micro | Role::Answer | Role::Interject) | None => {
            return Vec::new();
        }
    };
    written.as_array().into_iter().flatten().filter_map(|step| self::step(system, step)).collect()
}

fn step(system: &System, step: &Value) -> Option<StepView> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let tool = text(&step["tool"])?;
    let mut params = step["params"].as_object().cloned().unwrap_or_default();
    params.retain(|_, value| !value.is_null());
    let place = |of: &Value| {
        let part = |name: &str| of[name].as_str().unwrap_or_default();
        format!("{}.{}", part("from"), part("path"))
    };
    let refs = step["refs"].as_array().into_iter().flatten().map(|reference| {
        let from = format!("{} from {}", reference["param"].as_str().unwrap_or_default(), place(reference));
        match &reference["template"] {
            Value::Null => from,
            // Quoted as JSON, so that the text of a template reads as no other part of the step.
            template => format!("{from} as {template}"),
        }
    });
    let list = step.get("for_each").filter(|list| !list.is_null());
    let when = step["when"].as_array().into_iter().flatten().map(|guard| {
        let op = guard["op"].as_str().unwrap_or_default();
        match &guard["value"] {
            Value::Null => format!("{} {op}", place(guard)),
            value => format!("{} {op} {value}", place(guard)),
        }
    });
    Some(StepView {
        id: text(&step["id"]),
        impact: system.class_of(&tool, &params).impact,
        tool,
        refs: refs.collect(),
        for_each: list.map(|list| {
            let parameter = list["as"].as_str().unwrap_or_default();
            let every = format!("{} as {parameter}, at most {} times", place(list), list["max"]);
            match &list["on_child"] {
                Value::Null => every,
                on_child => format!("{every}, on_child {}", on_child.as_str().unwrap_or_default()),
            }
        }),
        when: when.collect(),
        after: step["after"].as_array().into_iter().flatten().filter_map(text).collect(),
        params: Value::Object(params),
        why: text(&step["why"]),
    })
}
