//! Streaming the records of a run, and reconnecting when the process that holds the data folder ends.

use futures::StreamExt;
use hyper::Method;
use ostler_actors::CHECKPOINTED;
use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ClientRow, EventLine, RunRef, Summary};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::live::{REDRAW, View};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::{ApiError, CONNECTION_LOST, Client, path_segment};
use crate::cli::session::approval_prompt::{ApprovalPrompt, PromptInput};
use crate::cli::session::{AccessMode, RECONNECTS_MAX, Session};

/// Maximum bytes of one record.
const LINE_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowMode {
    /// This process continues the run.
    Execute,
    /// Following ends with what the journal has.
    Observe,
}

/// Streams records after `after` to the view until the run is `settled` or `closed`, or until a prompt that
/// had pending approvals has none. Reconnects if the process that executes the run ends.
#[allow(clippy::too_many_arguments)] // the run, the stop condition, the mode and the outputs
pub(crate) async fn follow_until(
    session: &mut Session,
    run: &str,
    after: &mut u64,
    until: &str,
    mode: FollowMode,
    view: &mut (dyn View + Send),
    mut prompt: Option<&mut ApprovalPrompt>,
    out: &mut Out,
) -> Result<(), ApiError> {
    let path = format!("/v1/runs/{}", path_segment(run));
    for _ in 0..RECONNECTS_MAX {
        let lost = match stream_events(&session.client, &path, after, until, view, prompt.as_deref_mut(), out)
            .await
        {
            Ok(()) if mode == FollowMode::Execute && resume_if_idle(session, run).await? => continue,
            Ok(()) => return Ok(()),
            Err(ApiError::ConnectionLost(what) | ApiError::NotSent(what)) => what,
            Err(refused) => return Err(refused),
        };
        let access = if mode == FollowMode::Execute { AccessMode::Execute } else { AccessMode::Read };
        session.reconnect(access).await.map_err(|_| ApiError::ConnectionLost(lost.clone()))?;
        match mode {
            FollowMode::Execute => {
                resume_if_idle(session, run).await?;
            }
            FollowMode::Observe if session.client.is_remote() => {}
            FollowMode::Observe => {
                let summary: Summary = session.client.get(&path).await?;
                let could_go_on =
                    matches!(summary.status, RunStatus::Queued | RunStatus::Running | RunStatus::Waiting);
                return match could_go_on && !summary.waits_for_person() {
                    true => Err(ApiError::ConnectionLost(lost)),
                    false => stream_events(&session.client, &path, after, "now", view, None, out).await,
                };
            }
        }
    }
    stream_events(&session.client, &path, after, until, view, prompt, out).await
}

/// Resumes a run that no process executes. A new holder of the data folder may have opened it for another
/// purpose. Returns whether the run was idle.
async fn resume_if_idle(session: &mut Session, run: &str) -> Result<bool, ApiError> {
    let path = format!("/v1/runs/{}", path_segment(run));
    if !session.get::<Summary>(&path).await?.is_idle() {
        return Ok(false);
    }
    if !session.client.is_remote() {
        status_line("the process that held the data folder ended: the run continues in this one");
    }
    match session.post::<RunRef>(&format!("{path}/resume"), &Value::Null).await {
        // Another process resumed the run first.
        Err(ApiError::Problem(problem)) if problem.code == "invalid_state" => Ok(true),
        taken_up => taken_up.map(|_| true),
    }
}

/// Error for a connection that could not be restored.
pub(crate) fn connection_lost(refused: ApiError, run: &str) -> Failure {
    match refused {
        ApiError::ConnectionLost(what) | ApiError::NotSent(what) => {
            Failure::internal(format!("{what}; `{}` continues the run", hints::resume(run)))
        }
        refused => refused.into(),
    }
}

pub(crate) fn exit_code(summary: &Summary) -> u8 {
    match summary.status {
        RunStatus::Succeeded | RunStatus::Concluded => code::SUCCEEDED,
        RunStatus::Failed | RunStatus::Cancelled => code::FAILED,
        RunStatus::Waiting if summary.waits_for_person() => code::WAITS,
        RunStatus::Suspended if summary.reason.as_deref() == Some(CHECKPOINTED) => code::WAITS,
        RunStatus::Quarantined => code::STORE,
        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Suspended => code::INTERNAL,
    }
}

/// Streams records to the view, and advances `after` to the last one.
pub(crate) async fn stream_events(
    client: &Client,
    path: &str,
    after: &mut u64,
    until: &str,
    view: &mut (dyn View + Send),
    mut prompt: Option<&mut ApprovalPrompt>,
    out: &mut Out,
) -> Result<(), ApiError> {
    let had_open = prompt.as_ref().is_some_and(|prompt| prompt.has_pending());
    let path = format!("{path}/events?after={after}&until={until}");
    let response = client.request(Method::GET, &path, "application/x-ndjson", None).await?;
    let mut bytes = response.into_body().into_data_stream();
    show_credits(client, view, out).await;
    let mut rest: Vec<u8> = Vec::new();
    let mut ticks = tokio::time::interval(REDRAW);
    // No redraw happens while a prompt is shown; afterwards one redraw covers the gap.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let gone = |what: String| ApiError::ConnectionLost(format!("{CONNECTION_LOST}: {what}"));
    loop {
        let mut asking = false;
        if let Some(prompt) = &mut prompt {
            prompt.show_next(client, view).await?;
            if had_open && !prompt.has_pending() {
                return Ok(());
            }
            asking = prompt.is_prompting();
        }
        let chunk = tokio::select! {
            chunk = bytes.next() => chunk,
            _ = ticks.tick(), if view.moves() && !asking => {
                view.tick(out);
                continue;
            }
            came = prompt_input(&mut prompt), if asking => {
                if let Some(prompt) = &mut prompt {
                    prompt.handle(came, client, view, out).await?;
                }
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        rest.extend_from_slice(&chunk.map_err(|_| ApiError::ConnectionLost(CONNECTION_LOST.to_owned()))?);
        let mut from = 0;
        while let Some(end) = rest[from..].iter().position(|&byte| byte == b'\n') {
            let line = &rest[from..from + end];
            let line: EventLine = serde_json::from_slice(line).map_err(|error| gone(error.to_string()))?;
            view.record(&line, out);
            show_credits(client, view, out).await;
            if let Some(prompt) = &mut prompt {
                prompt.record(&line);
            }
            *after = line.seq;
            from += end + 1;
        }
        rest.drain(..from);
        if rest.len() > LINE_BYTES_MAX {
            return Err(gone(format!("record larger than {LINE_BYTES_MAX} bytes")));
        }
    }
    Ok(())
}

/// Passes the balance of the client to a view that has to report used-up credits.
async fn show_credits(client: &Client, view: &mut (dyn View + Send), out: &mut Out) {
    if let Some(whose) = view.out_of_credit() {
        let line = client.get::<ClientRow>(&format!("/v1/clients/{}", path_segment(&whose))).await;
        view.credits(line.ok().as_ref(), out);
    }
}

async fn prompt_input(prompt: &mut Option<&mut ApprovalPrompt>) -> PromptInput {
    match prompt {
        Some(prompt) => prompt.next().await,
        None => std::future::pending().await,
    }
}

pub(crate) struct JsonLines;

impl View for JsonLines {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        out.json(line);
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}
