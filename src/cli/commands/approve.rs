//! `ostler approve` and `ostler reject`.

use std::cell::Cell;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::Path;

use clap::Args;
use ostler_kernel::grant::{GRANT_MS_MAX, pattern};
use ostler_kernel::id::DigestStart;
use ostler_kernel::ledger::Amount;
use ostler_kernel::plan::{HumanDuration, nearest};
use ostler_kernel::run::RunStatus;
use ostler_server::wire::{
    AnswerRequest, ApprovalView, Decision, GrantRequest, ProblemDetails, Raise, RunRef, Summary, Waiting,
};

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::{Globals, ModelOption, budget};
use crate::cli::exit::{Failure, code};
use crate::cli::output::approval::{
    BUDGET, Detail, TEXT_LINES_MAX, approval_lines, is_expired, short_digest,
};
use crate::cli::output::hints::with_location;
use crate::cli::output::screen::StatusWriter;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::{hints, labels};
use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::approval_prompt::{Reply, TypedLines};
use crate::cli::session::signals::{ContinueSignal, Signals};
use crate::cli::session::{AccessMode, Session, approval_prompt, watch_run};

/// Most pairs of letters compared in the search for a node of a similar name.
const PAIRS_MAX: usize = 100_000;

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node that waits for the approval
    #[arg(value_parser = node_name)]
    node: String,
    /// Reason, for the record; a rejected result may be retried with it
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    note: String,
    /// Answer only if the content has this digest, as `ostler approvals` lists it; required to approve
    /// without a terminal
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    answer: AnswerArgs,
    /// By how much the budget grows, if the node asks about its budget: +1usd or +100000tokens; repeatable
    #[arg(long, value_name = "AMOUNT", allow_hyphen_values = true, value_parser = budget::raise)]
    budget: Vec<Amount>,
    /// Also approve further calls of the same client and tool with these words, such as "git push *"; a last
    /// * stands for any further words
    #[arg(long, value_name = "PATTERN", requires = "valid", value_parser = granted)]
    also: Option<String>,
    /// Time for which --also holds, at most 24h
    #[arg(id = "valid", long = "for", value_name = "TIME", requires = "also", value_parser = validity)]
    valid: Option<NonZeroU32>,
}

fn granted(text: &str) -> Result<String, String> {
    pattern(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn validity(text: &str) -> Result<NonZeroU32, String> {
    let ms = match HumanDuration::with_unit(text) {
        Some(HumanDuration::Millis(ms)) if (1..=GRANT_MS_MAX).contains(&ms) => u32::try_from(ms).ok(),
        _ => None,
    };
    ms.and_then(NonZeroU32::new).ok_or_else(|| "give a duration of at most 24h, such as 30m or 1h".to_owned())
}

pub(crate) async fn approve(globals: &Globals, args: ApproveArgs) -> Result<u8, Failure> {
    let also = args.also.zip(args.valid).map(|(pattern, valid_ms)| GrantRequest { pattern, valid_ms });
    let given = Given { decision: Decision::Approve, raise: budget::raise_of(&args.budget), also };
    answer(globals, args.answer, given).await
}

pub(crate) async fn reject(globals: &Globals, args: AnswerArgs) -> Result<u8, Failure> {
    answer(globals, args, Given { decision: Decision::Reject, raise: None, also: None }).await
}

/// Decision, note, budget and grant of one answer.
struct Given {
    decision: Decision,
    raise: Option<Raise>,
    also: Option<GrantRequest>,
}

async fn answer(globals: &Globals, args: AnswerArgs, given: Given) -> Result<u8, Failure> {
    let decision = given.decision;
    let mut out = Out::new();
    let globals = &args.model.add_to(globals)?;
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let person = approval_prompt::is_interactive() && !globals.json;
    let before = match send(&mut session, &mut signals, &args, given, person).await {
        Ok(Ok(before)) => before,
        Ok(Err(code)) => {
            let reject = hints::command("reject", &[&args.run, &args.node], "--note WHY");
            status_line(format!("not answered; `{reject}` rejects it"));
            session.stop().await;
            return Ok(code);
        }
        Err(failure) => return session.stop_with(failure).await,
    };
    let asks_budget = before.waiting.iter().any(|waiting| waiting.node == args.node && waiting.ask == BUDGET);
    let done = match decision {
        Decision::Approve => "approved",
        Decision::Reject if asks_budget => "within its budget",
        Decision::Reject => "rejected",
    };
    let (node, text) = (args.node.as_str(), format!("{done} {}", args.node));
    let done = watch_run::Done { node, word: done.to_owned(), text, answers: true };
    watch_run::go_on(session, &mut signals, globals, before, done, &mut out).await.map(watch_run::answered)
}

/// Sends the answer. An approval names content that the approver has seen: by `--digest`, or at the prompt
/// here. Returns the run as it was before, or the exit code if the prompt was declined.
async fn send(
    session: &mut Session,
    signals: &mut Signals,
    args: &AnswerArgs,
    Given { decision, raise, also }: Given,
    person: bool,
) -> Result<Result<Summary, u8>, Failure> {
    let before = session.summary(&args.run).await?;
    let question = pending_question(&before, &args.node)?;
    let path = format!("/v1/approvals/{}", path_segment(question.id.as_deref().unwrap_or_default()));
    let mut digest = question.digest.clone().unwrap_or_default();
    let mut note = args.note.clone();
    match (&args.digest, decision) {
        (Some(given), _) => check_digest(given, &digest, &before.run, &args.node)?,
        (None, Decision::Reject) => {}
        // The amount says what is approved.
        (None, Decision::Approve) if question.ask == BUDGET => {}
        (None, Decision::Approve) if person => {
            let question: ApprovalView = session.get(&path).await?;
            match confirm(&question, signals).await {
                Ok(lines_typed) if note.is_empty() => note = lines_typed,
                Ok(_) => {}
                Err(code) => return Ok(Err(code)),
            }
            digest = question.digest.unwrap_or_default();
        }
        (None, Decision::Approve) => {
            return Err(Failure::invalid(with_location(&format!(
                "node {}: an approval without a terminal needs --digest; `ostler approvals` shows the content and its digest",
                args.node
            ))));
        }
    }
    let request = AnswerRequest { decision, digest, note, raise, also };
    let lost = Cell::new(false);
    let answered = session.with_retry(true, async |client| {
        match client.post::<RunRef>(&path, &request).await {
            // The previous holder of the data folder ended, and may have accepted the answer.
            Err(ApiError::Problem(problem))
                if lost.get() && was_answered(client, &problem, &before.run, &args.node).await? =>
            {
                Ok(())
            }
            answered => {
                lost.set(lost.get() || matches!(answered, Err(ApiError::ConnectionLost(_))));
                answered.map(|_| ())
            }
        }
    });
    answered.await?;
    Ok(Ok(before))
}

/// Returns whether a repeated answer was refused because the first one was accepted.
async fn was_answered(
    client: &Client,
    problem: &ProblemDetails,
    run: &str,
    node: &str,
) -> Result<bool, ApiError> {
    match problem.code.as_str() {
        "already_answered" => Ok(true),
        "invalid_state" => {
            let now: Summary = client.get(&format!("/v1/runs/{}", path_segment(run))).await?;
            Ok(now.waiting.iter().all(|waiting| waiting.node != node))
        }
        _ => Ok(false),
    }
}

/// Shows the request and prompts for an approval. Returns the note, or the exit code for any other reply.
async fn confirm(question: &ApprovalView, signals: &mut Signals) -> Result<String, u8> {
    let show = || approval_lines(question, Detail::Excerpt(TEXT_LINES_MAX)).into_iter().for_each(status_line);
    show();
    let lines_typed = TypedLines::read();
    let mut resumed = ContinueSignal::listen();
    loop {
        let mut to = StatusWriter;
        let _ = write!(to, "  approve {}? y [note], v to view all, or N > ", question.node);
        let _ = to.flush();
        let line = tokio::select! {
            line = lines_typed.next() => line,
            () = resumed.next() => {
                status_line("");
                show();
                continue;
            }
            code = signals.next() => {
                status_line("");
                return Err(code);
            }
        };
        match line.as_deref().map(approval_prompt::parse_reply) {
            Some(Reply::Answer(Decision::Approve, note)) => return Ok(note),
            Some(Reply::ShowAll) => approval_lines(question, Detail::Full).into_iter().for_each(status_line),
            Some(Reply::Invalid) => {}
            Some(Reply::Answer(Decision::Reject, _) | Reply::Raise(_) | Reply::Cancel | Reply::ShowRun)
            | None => return Err(code::WAITS),
        }
    }
}

/// Returns the pending request of the node, or an error that explains why there is none.
fn pending_question<'a>(run: &'a Summary, node: &str) -> Result<&'a Waiting, Failure> {
    let id = &run.run;
    match run.waiting.iter().find(|waiting| waiting.node == node) {
        Some(_) if run.status == RunStatus::Suspended => Err(Failure::invalid(format!(
            "run {id}: suspended; `{}` resumes it, then node {node} can be answered",
            hints::resume(id)
        ))),
        Some(question) if is_expired(question.deadline_ms) => Err(Failure::invalid(format!(
            "node {node}: the deadline has passed; it is cancelled when the run resumes (`{}`)",
            hints::resume(id)
        ))),
        Some(question) if question.id.is_some() => Ok(question),
        Some(_) => Err(Failure::invalid(format!(
            "node {node}: in doubt, which no approval resolves; use `{}` with --done FILE, --redo or --fail",
            hints::command("resolve", &[id, node], "")
        ))),
        None => Err(Failure::invalid(match run.nodes.get(node) {
            None => {
                let names = run.waiting.iter().map(|waiting| waiting.node.as_str());
                let names = names.chain(run.nodes.keys().map(String::as_str));
                let help = match nearest(node, names, &mut PAIRS_MAX.clone()) {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => format!("`{}` lists its nodes", hints::show(id)),
                };
                format!("run {id}: no node {node}; {help}")
            }
            Some(state) if run.status.is_over() => {
                format!(
                    "run {id}: closed, and node {node} is {}; no approval is pending",
                    labels::state(state)
                )
            }
            Some(_) if run.waits.iter().any(|wait| wait.node == node) => format!(
                "node {node}: waits for an answer from outside, which is no approval; `{}` gives it",
                hints::command("answer", &[id, node], "--value JSON")
            ),
            Some(state) => with_location(&format!(
                "node {node}: {}, no approval is pending; `ostler approvals` lists pending ones",
                labels::state(state)
            )),
        })),
    }
}

/// Rejects a digest that does not match the current content.
fn check_digest(given: &str, shown: &str, run: &str, node: &str) -> Result<(), Failure> {
    let start: DigestStart = given.parse().map_err(|error| {
        Failure::invalid(with_location(&format!("--digest: {error}; `ostler approvals` shows the digest")))
    })?;
    if shown.parse().is_ok_and(|shown| start.begins(shown)) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "node {node} of run {run}: expected digest {given}, found {}; review the new content",
        short_digest(shown)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_taken_by_its_beginning() {
        let shown = format!("b3:0123456789abcdef0123456789abcdef{}", "0".repeat(32));
        for (given, taken) in [
            ("0123456789abcdef0123456789abcdef", true),
            ("b3:0123456789ABCDEF0123456789ABCDEF0", true),
            (shown.as_str(), true),
            ("0123456789abcdef0123456789abcde", false),
            ("b3:", false),
            ("1123456789abcdef0123456789abcdef", false),
            ("0123456789abcdef0123456789abcdez", false),
        ] {
            assert_eq!(check_digest(given, &shown, "r", "n").is_ok(), taken, "{given}");
        }
    }
}
