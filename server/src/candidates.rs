//! Handlers of `/v1/runs/{run}/nodes/{node}/candidates`: outputs that did not become results.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ostler_kernel::lineage;
use ostler_kernel::run::{Candidate, CandidateReason};

use crate::extract::PathParams;
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::wire::{CandidateList, CandidateRow};

pub(crate) async fn list(
    State(api): State<Api>,
    PathParams((name, node)): PathParams<(String, String)>,
) -> Result<Json<CandidateList>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let candidates = api.system.candidates(run, &node.as_str().into()).await?;
    let candidates = candidates.into_iter().map(row).collect();
    Ok(Json(CandidateList { run: run.to_string(), node, candidates }))
}

/// The content of the candidate of an attempt.
pub(crate) async fn content(
    State(api): State<Api>,
    PathParams((name, node, attempt)): PathParams<(String, String, u32)>,
) -> Result<Response, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let candidates = api.system.candidates(run, &node.as_str().into()).await?;
    let found = candidates.into_iter().find(|candidate| candidate.attempt == attempt);
    let found = found.ok_or_else(|| {
        let what = format!("attempt {attempt} of {node} left no candidate; --candidates lists them");
        Problem::new(StatusCode::NOT_FOUND, "candidate_unknown", what)
    })?;
    let artifact = api.system.output_content(&found.output).await?;
    let digest = lineage::artifact(&artifact.media, &artifact.content);
    let headers = [(header::CONTENT_TYPE, artifact.media), (header::ETAG, format!("\"{digest}\""))];
    Ok((headers, artifact.content).into_response())
}

fn row(candidate: Candidate) -> CandidateRow {
    let Candidate { attempt, reason, output } = candidate;
    let (reason, detail) = match reason {
        CandidateReason::Refused(why) => ("contract_refused", Some(why)),
        CandidateReason::Rejected(by) => ("rejected", Some(format!("by {by}"))),
        CandidateReason::Unapproved => ("unapproved", None),
        CandidateReason::Late => ("late", None),
    };
    CandidateRow {
        attempt,
        reason: reason.to_owned(),
        detail,
        artifact: output.artifact.to_string(),
        bytes: output.bytes,
    }
}
