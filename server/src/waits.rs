//! Handlers of answers from outside.

use axum::Json;
use axum::extract::State;
use ostler_actors::{WaitAnswer, WaitVerdict};

use crate::extract::{JsonBody, PathParams};
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::wire::{WaitAnswerRequest, WaitAnswered};

/// `POST /v1/runs/{run}/nodes/{node}/answer`
pub(crate) async fn answer(
    State(api): State<Api>,
    operator: Operator,
    PathParams((name, node)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<WaitAnswerRequest>,
) -> Result<Json<WaitAnswered>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let WaitAnswerRequest { value, id } = request;
    let answer = WaitAnswer { value, id, by: operator.by };
    let WaitVerdict { verdict, broken, deadline } =
        api.system.answer_wait(run, node.as_str().into(), answer).await?;
    Ok(Json(WaitAnswered { run: run.to_string(), node, verdict, broken, deadline_ms: deadline }))
}
