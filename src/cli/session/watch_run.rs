//! Watching a run until it settles, and reporting the result.

use ostler_kernel::run::RunStatus;
use ostler_server::wire::{RunLine, RunRef, Summary};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cli::arguments::Globals;
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::exit::{Failure, code};
use crate::cli::output::changes::Roots;
use crate::cli::output::hints;
use crate::cli::output::live::plain::{Plain, PriorState};
use crate::cli::output::live::{Live, NoView, View};
use crate::cli::output::summary::ReportParts;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::approval_prompt::{ApprovalPrompt, TypedLines};
use crate::cli::session::follow::{Display, FollowMode, JsonLines, connection_lost, exit_code, follow_until};
use crate::cli::session::holder::disk_full_text;
use crate::cli::session::output_reader::OutputReader;
use crate::cli::session::signals::Signals;
use crate::cli::session::text_reader::TextReader;
use crate::cli::session::{Session, report};

pub(crate) struct Watch {
    pub(crate) run: String,
    /// State before watching; `None`: the run is new.
    pub(crate) before: Option<PriorState>,
    pub(crate) json: bool,
    pub(crate) options: WatchOptions,
    /// Several runs are watched; each line names its run.
    pub(crate) labelled: bool,
    /// Only the answer of a goal is printed; everything else goes to stderr.
    pub(crate) quiet: bool,
    /// A turn of a conversation: its report is the answer, and its approvals read these lines.
    pub(crate) turn: Option<Turn>,
}

/// A turn of a conversation.
pub(crate) struct Turn {
    /// Lines typed at the terminal; `None` elsewhere.
    pub(crate) lines_typed: Option<TypedLines>,
}

impl Watch {
    pub(crate) fn from(before: &Summary, json: bool, options: WatchOptions) -> Watch {
        let Summary { run, seq, client, out_of_credit, reason, .. } = before;
        let (out_of_credit, suspended) = (*out_of_credit, reason.is_some());
        let before = PriorState { seq: *seq, client: client.clone(), out_of_credit, suspended };
        Watch {
            run: run.clone(),
            before: Some(before),
            json,
            options,
            labelled: false,
            quiet: false,
            turn: None,
        }
    }

    /// The same from a line of a list, which costs no reading of the run. A line without a record shows the run from its start.
    pub(crate) fn from_line(before: &RunLine, json: bool, options: WatchOptions) -> Watch {
        let RunLine { run, seq, client, out_of_credit, reason, .. } = before;
        let (out_of_credit, suspended) = (*out_of_credit, reason.is_some());
        let before = seq.map(|seq| PriorState { seq, client: client.clone(), out_of_credit, suspended });
        Watch { run: run.clone(), before, json, options, labelled: false, quiet: false, turn: None }
    }
}

/// Watches a run until it settles, prints the report, closes the session, and returns the exit code.
pub(crate) async fn watch(
    mut session: Session,
    signals: &mut Signals,
    watch: Watch,
    out: &mut Out,
) -> Result<u8, Failure> {
    let run = watch.run.clone();
    let ended = watch_one(&mut session, signals, watch, out).await;
    close_watch(session, signals, &run, ended).await
}

/// Closes the session of a watched run, and returns the exit code.
pub(crate) async fn close_watch(
    session: Session,
    signals: &mut Signals,
    run: &str,
    ended: Result<WatchEnd, Failure>,
) -> Result<u8, Failure> {
    match ended {
        Ok(WatchEnd::Settled(code)) => {
            session.close(signals).await?;
            Ok(code)
        }
        Ok(WatchEnd::Interrupted(code)) => {
            report_interrupt(session, signals, run).await;
            Ok(code)
        }
        Err(failure) => {
            session.stop().await;
            Err(failure)
        }
    }
}

/// Closes the session after ^C, and states what becomes of the run.
pub(crate) async fn report_interrupt(session: Session, signals: &Signals, run: &str) {
    if session.client.is_remote() {
        status_line(format!(
            "the run continues in the process that holds the data folder; `{}` cancels it",
            hints::command("cancel", &[run], "")
        ));
    } else {
        stop_at_once(session, signals, &hints::resume(run)).await;
    }
}

/// Closes the session after ^C before any run is watched.
pub(crate) async fn report_early_interrupt(session: Session, signals: &Signals) {
    if session.client.is_remote() {
        status_line("stopped; the runs continue in the process that holds the data folder");
    } else {
        stop_at_once(session, signals, &hints::command("resume", &[], "")).await;
    }
}

async fn stop_at_once(session: Session, signals: &Signals, resume: &str) {
    signals.kill_on_exit(session.programs());
    if let Some(stopping) = session.stopping_text() {
        status_line(stopping);
    }
    signals.set_exit_message(format!("stopped at once, state is kept: `{resume}` continues"));
    session.stop().await;
    status_line(format!("stopped, state is kept: `{resume}` continues"));
}

pub(crate) enum WatchEnd {
    Settled(u8),
    Interrupted(u8),
}

pub(crate) async fn watch_one(
    session: &mut Session,
    signals: &mut Signals,
    watch: Watch,
    out: &mut Out,
) -> Result<WatchEnd, Failure> {
    let Watch { run, before, json, options, labelled, quiet, turn } = watch;
    let after = before.as_ref().map_or(0, |before| before.seq);
    let (mut view, after): (Box<dyn View + Send>, u64) = match (json, out.is_screen()) {
        (true, _) => (Box::new(JsonLines::default()), after),
        _ if quiet => (Box::new(NoView), after),
        // The tree shows all nodes, so it needs all records.
        (false, true) => (Box::new(Live::new()), 0),
        (false, false) => {
            let plain = before.map_or_else(Plain::default, Plain::after);
            (Box::new(if labelled { plain.labelled(&run) } else { plain }), after)
        }
    };
    let lines_typed = turn.as_ref().and_then(|turn| turn.lines_typed.clone());
    let mut prompt = if json { None } else { ApprovalPrompt::new(&run, lines_typed) };
    if let Some(prompt) = prompt.as_mut().filter(|_| after > 0) {
        prompt.load_pending(&session.summary(&run).await?);
    }
    let mut disk_full = session.disk_full_changes();
    if let Some(disk_full) = disk_full.as_mut().filter(|disk_full| disk_full.borrow().is_some()) {
        // The disk may have been full before.
        disk_full.mark_changed();
    }
    let mut output = options.logs.then(|| OutputReader::of(&run, None, None));
    let mut text = view.shows_text().then(|| TextReader::of(&run));
    let followed = {
        let (prompt, output, text) = (prompt.as_mut(), output.as_mut(), text.as_mut());
        let mut display = Display { view: &mut *view, prompt, output, text, out };
        let followed = follow_and_prompt(session, &run, after, &mut display);
        tokio::pin!(followed);
        loop {
            tokio::select! {
                followed = &mut followed => break Ok(followed),
                () = report_disk_space(&mut disk_full) => {}
                code = signals.next() => break Err(code),
            }
        }
    };
    if !matches!(followed, Ok(Ok(()))) && prompt.as_ref().is_some_and(ApprovalPrompt::is_prompting) {
        // The next message starts a new line.
        status_line("");
    }
    if followed.is_err() {
        view.leave_state(out);
    }
    view.end(out);
    match followed {
        Err(code) => return Ok(WatchEnd::Interrupted(code)),
        Ok(Err(refused)) => return Err(connection_lost(refused, &run)),
        Ok(Ok(())) => {}
    }
    if let Some(changes) = view.changes() {
        changes.print(&run, json, Roots::WithNodesBelow, out);
    }
    let summary = session.summary(&run).await?;
    if json {
        out.json(&summary);
    } else if quiet {
        report::print_answer_alone(&summary, out);
    } else if turn.is_some() && summary.answer.is_some() {
        report::print_turn(&summary, out);
    } else {
        let shown = ReportParts { nodes: !view.has_shown_nodes(), verbose: options.verbose };
        report::print_report(&session.client, &summary, shown, out).await;
    }
    Ok(WatchEnd::Settled(exit_code(&summary, options.strict)))
}

/// Reports that the disk is full, or has space again.
async fn report_disk_space(disk_full: &mut Option<watch::Receiver<Option<String>>>) {
    let Some(changes) = disk_full else { return std::future::pending().await };
    if changes.changed().await.is_err() {
        *disk_full = None;
        return;
    }
    let why = changes.borrow_and_update().clone();
    status_line(match why {
        Some(why) => {
            let cost = "^C stops; an attempt whose result is not recorded is in doubt then";
            format!("{}; {cost}", disk_full_text(&why))
        }
        None => "the disk has space again".to_owned(),
    });
}

/// Streams records to the view until the run settles, and prompts for its approvals.
async fn follow_and_prompt(
    session: &mut Session,
    run: &str,
    mut after: u64,
    display: &mut Display<'_>,
) -> Result<(), ApiError> {
    loop {
        // While a prompt is open, the run counts as settled although it will continue.
        let asks = display.prompt.as_ref().is_some_and(|prompt| prompt.has_pending());
        let until = if asks { "closed" } else { "settled" };
        follow_until(session, run, &mut after, until, FollowMode::Execute, display).await?;
        if asks || display.prompt.as_ref().is_some_and(|prompt| prompt.has_pending()) {
            continue;
        }
        let Some(prompt) = display.prompt.as_mut() else { return Ok(()) };
        prompt.load_below(&session.get(&format!("/v1/runs/{}", path_segment(run))).await?);
        if !prompt.has_pending() {
            return Ok(());
        }
    }
}

/// Exit code of a command that answered a request of a run: it has done its part, though other requests wait.
pub(crate) fn answered(code: u8) -> u8 {
    if code == code::WAITS { code::SUCCEEDED } else { code }
}

pub(crate) struct Done<'a> {
    pub(crate) node: &'a str,
    pub(crate) word: String,
    pub(crate) text: String,
    /// What the run waited for has come: the runs above, which wait for this one, go on too.
    pub(crate) answers: bool,
}

/// Watches the run, or the open run at the top that waits for it, if this process executes it; else prints the effect and
/// returns.
pub(crate) async fn go_on(
    mut session: Session,
    signals: &mut Signals,
    globals: &Globals,
    before: Summary,
    done: Done<'_>,
    out: &mut Out,
) -> Result<u8, Failure> {
    if !session.client.is_remote() {
        let above = match done.answers {
            true => resume_above(&mut session, &before).await,
            false => Ok(None),
        };
        let before = match above {
            Ok(above) => above.unwrap_or(before),
            Err(failure) => return session.stop_with(failure).await,
        };
        let what = Watch::from(&before, globals.json, WatchOptions::default());
        return watch(session, signals, what, out).await;
    }
    let (run, Done { node, word, text, .. }) = (&before.run, done);
    if globals.json {
        out.json(&json!({"type": "done", "run": run, "node": node, "done": word}));
    } else {
        out.line(format!("{text}; the run continues in the process that holds the data folder"));
    }
    session.stop().await;
    Ok(code::SUCCEEDED)
}

/// Resumes the open run at the top of those that opened this one. `None`: there is none, or it goes on only by its name.
async fn resume_above(session: &mut Session, run: &Summary) -> Result<Option<Summary>, Failure> {
    // A run that itself goes on only by its name keeps those above waiting.
    if matches!(run.status, RunStatus::Suspended | RunStatus::Quarantined) {
        return Ok(None);
    }
    let mut top: Option<Summary> = None;
    while let Some(parent) = top.as_ref().unwrap_or(run).parent.clone() {
        let above = session.summary(&parent.run).await?;
        if above.status.is_over() || matches!(above.status, RunStatus::Suspended | RunStatus::Quarantined) {
            break;
        }
        top = Some(above);
    }
    let Some(top) = top else { return Ok(None) };
    match session.post::<RunRef>(&format!("/v1/runs/{}/resume", top.run), &Value::Null).await {
        Ok(_) => Ok(Some(top)),
        Err(ApiError::Problem(problem)) if problem.code == "invalid_state" => Ok(Some(top)),
        Err(refused) => Err(refused.into()),
    }
}
