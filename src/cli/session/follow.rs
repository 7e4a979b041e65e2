//! Streaming the records of a run, and reconnecting when the process that holds the data folder ends.

use futures::StreamExt;
use hyper::Method;
use ostler_actors::CHECKPOINTED;
use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ClientRow, EventLine, OutputRow, RunRef, Summary, TextRow};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use crate::cli::exit::{Failure, code};
use crate::cli::output::changes::Changes;
use crate::cli::output::hints;
use crate::cli::output::live::{REDRAW, View};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::{ApiError, CONNECTION_LOST, Client, path_segment};
use crate::cli::session::approval_prompt::{ApprovalPrompt, PromptInput};
use crate::cli::session::output_reader::OutputReader;
use crate::cli::session::questions_below::QuestionsBelow;
use crate::cli::session::text_reader::TextReader;
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

/// Destinations of the records, output and prompts of a run.
pub(crate) struct Display<'a> {
    pub(crate) view: &'a mut (dyn View + Send),
    /// Prompts for approvals, if a person can answer.
    pub(crate) prompt: Option<&'a mut ApprovalPrompt>,
    /// The output of programs, if it is wanted.
    pub(crate) output: Option<&'a mut OutputReader>,
    /// What models write, if the view shows it.
    pub(crate) text: Option<&'a mut TextReader>,
    pub(crate) out: &'a mut Out,
}

/// Streams records after `after` to the view until the run is `settled` or `closed`, or until a prompt that
/// had pending approvals has none. Reconnects if the process that executes the run ends.
pub(crate) async fn follow_until(
    session: &mut Session,
    run: &str,
    after: &mut u64,
    until: &str,
    mode: FollowMode,
    display: &mut Display<'_>,
) -> Result<(), ApiError> {
    let path = format!("/v1/runs/{}", path_segment(run));
    for _ in 0..RECONNECTS_MAX {
        let lost = match stream_events(&session.client, &path, after, until, display).await {
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
                hints::know_model(&summary.run, summary.model_file.as_deref());
                let could_go_on =
                    matches!(summary.status, RunStatus::Queued | RunStatus::Running | RunStatus::Waiting);
                return match could_go_on && !summary.needs_answer() {
                    true => Err(ApiError::ConnectionLost(lost)),
                    false => {
                        display.prompt = None;
                        stream_events(&session.client, &path, after, "now", display).await
                    }
                };
            }
        }
    }
    stream_events(&session.client, &path, after, until, display).await
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

/// Exit code of a run. `strict`: failed nodes count although the outputs hold.
pub(crate) fn exit_code(summary: &Summary, strict: bool) -> u8 {
    match summary.status {
        RunStatus::Succeeded | RunStatus::Concluded if strict && summary.failed() > 0 => code::FAILED,
        RunStatus::Succeeded | RunStatus::Concluded => code::SUCCEEDED,
        RunStatus::Failed | RunStatus::Cancelled => code::FAILED,
        RunStatus::Waiting if summary.needs_answer() => code::WAITS,
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
    display: &mut Display<'_>,
) -> Result<(), ApiError> {
    let Display { view, prompt, output, text, out } = display;
    if let Some(output) = output {
        output.connect(client).await?;
    }
    if let Some(text) = text {
        match text.connect(client).await {
            // The run is shown without it: a holder of another version may have no such text.
            Ok(()) | Err(ApiError::Problem(_)) => {}
            Err(lost) => return Err(lost),
        }
    }
    let had_open = prompt.as_ref().is_some_and(|prompt| prompt.has_pending());
    let mut below = QuestionsBelow::of(path);
    let path = format!("{path}/events?after={after}&until={until}");
    let response = client.request(Method::GET, &path, "application/x-ndjson", None).await?;
    let mut bytes = response.into_body().into_data_stream();
    show_credits(client, &mut **view, out).await;
    let mut rest: Vec<u8> = Vec::new();
    let mut ticks = tokio::time::interval(REDRAW);
    // No redraw happens while a prompt is shown; afterwards one redraw covers the gap.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let gone = |what: String| ApiError::ConnectionLost(format!("{CONNECTION_LOST}: {what}"));
    loop {
        let mut asking = false;
        if let Some(prompt) = prompt {
            prompt.show_next(client, &mut **view).await?;
            if had_open && !prompt.has_pending() {
                return Ok(());
            }
            asking = prompt.is_prompting();
        }
        let chunk = tokio::select! {
            chunk = bytes.next() => chunk,
            row = output_row(output), if !asking => {
                view.output(&row, out);
                continue;
            }
            row = text_row(text), if !asking => {
                view.writes(&row, out);
                continue;
            }
            () = drawing_due(&**view), if !asking => {
                view.draw(out);
                continue;
            }
            _ = ticks.tick(), if view.moves() && !asking => {
                view.tick(out);
                continue;
            }
            () = below.due(), if view.shows_questions_below() && !asking => {
                for question in below.look(client).await {
                    match prompt {
                        Some(prompt) => prompt.add(&question),
                        None => view.asks_below(&question, out),
                    }
                }
                continue;
            }
            came = prompt_input(prompt), if asking => {
                if let Some(prompt) = prompt {
                    prompt.handle(came, client, &mut **view, out).await?;
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
            below.record();
            show_credits(client, &mut **view, out).await;
            if let Some(prompt) = prompt {
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
    // The output of a settled run has an end too.
    if let Some(output) = output {
        while let Ok(Some(row)) = output.next().await {
            view.output(&row, out);
        }
    }
    Ok(())
}

/// The next row of output; never returns without one. A lost connection ends the records too, which is reported.
async fn output_row(output: &mut Option<&mut OutputReader>) -> OutputRow {
    if let Some(output) = output
        && let Ok(Some(row)) = output.next().await
    {
        return row;
    }
    std::future::pending().await
}

/// The next piece of what a model writes; never returns without one, as [`output_row`].
async fn text_row(text: &mut Option<&mut TextReader>) -> TextRow {
    if let Some(text) = text
        && let Ok(Some(row)) = text.next().await
    {
        return row;
    }
    std::future::pending().await
}

/// Waits until the view wants to draw; never returns if nothing has changed.
async fn drawing_due(view: &(dyn View + Send)) {
    match view.draws_at() {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
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

#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    changes: Changes,
}

impl View for JsonLines {
    fn output(&mut self, row: &OutputRow, out: &mut Out) {
        out.json(row);
    }

    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.changes.record(line);
        out.json(line);
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}
