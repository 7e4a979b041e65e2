//! The prompt for approvals at the terminal, while the run continues.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::sync::Arc;

use ostler_kernel::ledger::Amount;
use ostler_server::wire::{
    AnswerRequest, ApprovalList, ApprovalView, Decision, EventLine, Raise, RunRef, Summary, WaitingBelow,
};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use crate::cli::arguments::budget;
use crate::cli::output::approval::{Detail, approval_lines};
use crate::cli::output::labels;
use crate::cli::output::live::View;
use crate::cli::output::screen::{StatusWriter, size_of_stdout};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::signals::{ContinueSignal, is_foreground};

const BUDGET_REPLIES: &str = "  +1usd or +100000tokens: raise; c [note]: conclude with what is there; x: cancel the run; Enter: state of the run; ^C: leave unanswered";

const REPLIES: &str = "  y or n [note]; v: view all; Enter: state of the run; ^C: leave unanswered";

pub(crate) struct ApprovalPrompt {
    run: String,
    /// Run and node of each question: of this run, or of a run below it.
    pending: VecDeque<(String, String)>,
    shown: Option<ApprovalView>,
    /// Nodes that ended while the prompt was shown, counted by state.
    meanwhile: BTreeMap<String, usize>,
    lines_typed: Option<TypedLines>,
    resumed: ContinueSignal,
}

#[derive(Debug)]
pub(crate) enum PromptInput {
    /// A line; `None` at the end of input.
    Line(Option<String>),
    /// The process was stopped and continued; meanwhile a shell used the terminal.
    Resumed,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Answer(Decision, String),
    /// Raise the budget and go on.
    Raise(Raise),
    /// Cancel the run.
    Cancel,
    /// Show the whole request.
    ShowAll,
    /// Show the state of the run.
    ShowRun,
    Invalid,
}

impl ApprovalPrompt {
    /// Returns a prompt for this run, or `None` without an interactive terminal. `lines_typed`: its lines are read already.
    pub(crate) fn new(run: &str, lines_typed: Option<TypedLines>) -> Option<ApprovalPrompt> {
        is_interactive().then(|| ApprovalPrompt {
            run: run.to_owned(),
            pending: VecDeque::new(),
            shown: None,
            meanwhile: BTreeMap::new(),
            lines_typed,
            resumed: ContinueSignal::listen(),
        })
    }

    /// Takes over the approvals that the run already waits for.
    pub(crate) fn load_pending(&mut self, summary: &Summary) {
        let waiting_nodes = summary.waiting.iter().filter(|waiting| waiting.id.is_some());
        self.pending = waiting_nodes.map(|waiting| (self.run.clone(), waiting.node.clone())).collect();
    }

    /// Takes over the approvals in runs below that the run waits for.
    pub(crate) fn load_below(&mut self, summary: &Summary) {
        for WaitingBelow { run, waiting, .. } in &summary.waiting_below {
            let asking = waiting.iter().filter(|waiting| waiting.id.is_some());
            self.pending.extend(asking.map(|waiting| (run.clone(), waiting.node.clone())));
        }
    }

    /// Takes over a question in a run below, for which a call waits.
    pub(crate) fn add(&mut self, question: &ApprovalView) {
        self.pending.push_back((question.run.clone(), question.node.clone()));
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(crate) fn is_prompting(&self) -> bool {
        self.shown.is_some()
    }

    pub(crate) fn record(&mut self, line: &EventLine) {
        let text = |key: &str| line.body[key].as_str().unwrap_or_default();
        let node = text("node").to_owned();
        let asked = (self.run.clone(), node.clone());
        let is_shown = self.shown.as_ref().is_some_and(|shown| shown.run == asked.0 && shown.node == node);
        match line.kind.as_str() {
            "human_request" if !matches!(text("kind"), "in_doubt" | "wait") => {
                if !self.pending.contains(&asked) {
                    self.pending.push_back(asked);
                } else if is_shown
                    && self.shown.as_ref().and_then(|shown| shown.digest.as_deref()) != Some(text("shown"))
                {
                    self.shown = None; // The prompt is shown again.
                    status_line("\n  the content has changed:");
                }
            }
            "node_transition" if text("from") == "waiting_human" => {
                self.pending.retain(|pending| *pending != asked);
                if is_shown {
                    self.shown = None;
                    let (state, why) = (labels::state(text("to")), labels::reason(text("reason")));
                    status_line(format!("\n  {node} no longer asks: {state}, {why}"));
                }
            }
            "node_transition" if self.is_prompting() && has_ended(text("to")) => {
                *self.meanwhile.entry(text("to").to_owned()).or_default() += 1;
            }
            "run_closed" => self.pending.clear(),
            _ => {}
        }
    }

    /// Shows the next pending approval, if none is on the screen.
    pub(crate) async fn show_next(
        &mut self,
        client: &Client,
        view: &mut (dyn View + Send),
    ) -> Result<(), ApiError> {
        while self.shown.is_none()
            && let Some((run, node)) = self.pending.front().cloned()
        {
            let path = format!("/v1/approvals?run={}", path_segment(&run));
            let list: ApprovalList = client.get(&path).await?;
            match list.approvals.into_iter().find(|question| question.node == node) {
                // The approval was answered, or is being replaced.
                None => {
                    self.pending.pop_front();
                }
                Some(mut question) => {
                    if question.not_looked_at {
                        let path = format!("/v1/approvals/{}", path_segment(&question.id));
                        match client.get(&path).await {
                            Ok(looked_at) => question = looked_at,
                            // It was withdrawn meanwhile; the record of that follows.
                            Err(ApiError::Problem(_)) => {}
                            Err(gone) => return Err(gone),
                        }
                    }
                    view.pause();
                    let meanwhile: Vec<String> = std::mem::take(&mut self.meanwhile)
                        .into_iter()
                        .map(|(state, count)| format!("{count} {state}"))
                        .collect();
                    if !meanwhile.is_empty() {
                        status_line(format!("  meanwhile: {}", meanwhile.join(", ")));
                    }
                    self.shown = Some(question);
                    self.display();
                }
            }
        }
        Ok(())
    }

    /// Shows the current approval, and prompts for a reply.
    fn display(&mut self) {
        if let Some(question) = &self.shown {
            let half = Detail::Excerpt(size_of_stdout().1 / 2);
            approval_lines(question, half).iter().for_each(status_line);
            status_line(replies(question));
            self.listen();
            // A stop before this point removed nothing from the screen.
            self.resumed = ContinueSignal::listen();
            self.prompt();
        }
    }

    pub(crate) fn prompt(&self) {
        if let Some(question) = &self.shown {
            let mut to = StatusWriter;
            let _ = write!(to, "  {} > ", question.node);
            let _ = to.flush();
        }
    }

    /// Discards input typed before the prompt.
    fn listen(&mut self) {
        match &self.lines_typed {
            Some(lines_typed) => lines_typed.discard(),
            None => self.lines_typed = Some(TypedLines::read()),
        }
    }

    pub(crate) async fn next(&mut self) -> PromptInput {
        let Some(lines_typed) = &self.lines_typed else { return std::future::pending().await };
        tokio::select! {
            line = lines_typed.next() => PromptInput::Line(line),
            () = self.resumed.next() => PromptInput::Resumed,
        }
    }

    pub(crate) async fn handle(
        &mut self,
        input: PromptInput,
        client: &Client,
        view: &mut (dyn View + Send),
        out: &Out,
    ) -> Result<(), ApiError> {
        let line = match input {
            PromptInput::Line(Some(line)) => line,
            PromptInput::Line(None) => {
                status_line("  left unanswered");
                self.pending.clear();
                self.shown = None;
                return Ok(());
            }
            PromptInput::Resumed => {
                status_line("");
                self.display();
                return Ok(());
            }
        };
        let Some(question) = &self.shown else { return Ok(()) };
        let possible = replies(question);
        let reply =
            if question.over_budget.is_some() { parse_budget_reply(&line) } else { parse_reply(&line) };
        match reply {
            Reply::Answer(decision, note) => return self.answer(decision, note, None, client).await,
            Reply::Raise(raise) => {
                return self.answer(Decision::Approve, String::new(), Some(raise), client).await;
            }
            Reply::Cancel => return self.cancel(client).await,
            Reply::ShowAll => self.show_full(client).await?,
            Reply::ShowRun => view.status_lines(out).iter().for_each(status_line),
            Reply::Invalid => {
                status_line(format!("  {:?}: not an answer. Possible are:\n{possible}", line.trim()))
            }
        }
        self.prompt();
        Ok(())
    }

    async fn show_full(&self, client: &Client) -> Result<(), ApiError> {
        let Some(question) = &self.shown else { return Ok(()) };
        let whole: Result<ApprovalView, _> =
            client.get(&format!("/v1/approvals/{}", path_segment(&question.id))).await;
        match whole {
            Ok(whole) => approval_lines(&whole, Detail::Full).iter().for_each(status_line),
            // The request was withdrawn; the record of that follows.
            Err(ApiError::Problem(problem)) => status_line(format!("  {}", problem.detail)),
            Err(gone) => return Err(gone),
        }
        Ok(())
    }

    async fn cancel(&mut self, client: &Client) -> Result<(), ApiError> {
        let path = format!("/v1/runs/{}/cancel", path_segment(&self.run));
        match client.post::<RunRef>(&path, &Value::Null).await {
            Ok(_) => self.pending.clear(),
            Err(ApiError::Problem(problem)) => status_line(format!("  not accepted: {}", problem.detail)),
            Err(gone) => return Err(gone),
        }
        self.shown = None;
        Ok(())
    }

    async fn answer(
        &mut self,
        decision: Decision,
        note: String,
        raise: Option<Raise>,
        client: &Client,
    ) -> Result<(), ApiError> {
        let Some(question) = self.shown.take() else { return Ok(()) };
        let digest = question.digest.clone().unwrap_or_default();
        let request = AnswerRequest { decision, digest, note, raise, also: None };
        let path = format!("/v1/approvals/{}", path_segment(&question.id));
        match client.post::<RunRef>(&path, &request).await {
            Ok(_) => self.pending.retain(|(run, node)| *run != question.run || *node != question.node),
            // The request was withdrawn or replaced; the records show which.
            Err(ApiError::Problem(problem)) => status_line(format!("  not accepted: {}", problem.detail)),
            Err(gone) => {
                self.shown = Some(question);
                return Err(gone);
            }
        }
        Ok(())
    }
}

/// Returns whether a person can be prompted at this terminal.
pub(crate) fn is_interactive() -> bool {
    stdin().is_terminal() && stderr().is_terminal() && is_foreground()
}

/// The lines typed at the terminal. One thread reads them for the whole process: clones share them.
#[derive(Clone)]
pub(crate) struct TypedLines(Arc<Mutex<mpsc::UnboundedReceiver<String>>>);

impl TypedLines {
    /// Discards what was typed before, and reads from then on. Call once.
    pub(crate) fn read() -> TypedLines {
        let _ = tcflush(stdin(), QueueSelector::IFlush);
        let (sender, lines_typed) = mpsc::unbounded_channel();
        // A blocking read of a terminal cannot be cancelled; the thread ends with the process.
        std::thread::spawn(move || {
            for line in stdin().lock().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
            // The cursor stands behind the prompt; start a new line.
            status_line("");
        });
        TypedLines(Arc::new(Mutex::new(lines_typed)))
    }

    /// The next line; `None` at the end of input. Dropping the future loses no line.
    pub(crate) async fn next(&self) -> Option<String> {
        self.0.lock().await.recv().await
    }

    /// Discards input typed so far.
    fn discard(&self) {
        let _ = tcflush(stdin(), QueueSelector::IFlush);
        if let Ok(mut lines_typed) = self.0.try_lock() {
            while lines_typed.try_recv().is_ok() {}
        }
    }
}

fn has_ended(state: &str) -> bool {
    matches!(state, "executed" | "failed" | "cancelled" | "skipped")
}

fn replies(question: &ApprovalView) -> &'static str {
    if question.over_budget.is_some() { BUDGET_REPLIES } else { REPLIES }
}

/// Parses a reply to a question about the budget: an amount to raise it by, or one of the two other answers.
fn parse_budget_reply(line: &str) -> Reply {
    let line = line.trim();
    if line.is_empty() {
        return Reply::ShowRun;
    }
    let amounts: Result<Vec<Amount>, String> = line.split_whitespace().map(budget::raise).collect();
    if let Some(raise) = amounts.ok().and_then(|amounts| budget::raise_of(&amounts)) {
        return Reply::Raise(raise);
    }
    let (word, note) = line.split_once(|c: char| c.is_whitespace() || c == ',').unwrap_or((line, ""));
    match word.to_lowercase().as_str() {
        "c" | "conclude" | "n" | "no" => Reply::Answer(Decision::Reject, note.trim().to_owned()),
        // After a deposit, where the client's balance was too small.
        "y" | "yes" => Reply::Answer(Decision::Approve, note.trim().to_owned()),
        "x" | "cancel" if note.is_empty() => Reply::Cancel,
        _ => Reply::Invalid,
    }
}

/// Parses a reply: an unambiguous yes or no with a note, or a command.
pub(crate) fn parse_reply(line: &str) -> Reply {
    let line = line.trim();
    let (word, note) = line.split_once(|c: char| c.is_whitespace() || c == ',').unwrap_or((line, ""));
    let decision = match word.to_lowercase().as_str() {
        "y" | "yes" | "approve" => Decision::Approve,
        "n" | "no" | "reject" => Decision::Reject,
        "v" | "view" if note.is_empty() => return Reply::ShowAll,
        "" => return Reply::ShowRun,
        _ => return Reply::Invalid,
    };
    Reply::Answer(decision, note.trim().to_owned())
}

pub(crate) fn user_name() -> Option<String> {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok()?;
    let fits = (1..=64).contains(&name.len()) && !name.chars().any(char::is_control);
    fits.then_some(name)
}

#[cfg(test)]
mod tests {
    use ostler_server::wire::Usd;

    use super::*;

    #[test]
    fn a_question_about_the_budget_has_three_answers() {
        let raise = |usd: Option<u64>, tokens: Option<u64>| {
            Reply::Raise(Raise { usd: usd.map(Usd), tokens: tokens.and_then(std::num::NonZeroU64::new) })
        };
        for (line, expected) in [
            ("+1usd", raise(Some(1_000_000_000), None)),
            (" +0.5usd +1000tokens ", raise(Some(500_000_000), Some(1_000))),
            ("c enough", Reply::Answer(Decision::Reject, "enough".to_owned())),
            ("conclude", Reply::Answer(Decision::Reject, String::new())),
            ("x", Reply::Cancel),
            ("", Reply::ShowRun),
            ("0.5usd", Reply::Invalid),
            ("1", Reply::Invalid),
            ("+5credits", Reply::Invalid),
            ("more", Reply::Invalid),
        ] {
            assert_eq!(parse_budget_reply(line), expected, "{line:?}");
        }
    }

    #[test]
    fn only_a_clear_yes_or_no_is_an_answer() {
        let answer = |decision, note: &str| Reply::Answer(decision, note.to_owned());
        for (line, expected) in [
            ("y", answer(Decision::Approve, "")),
            (" Yes, looks good ", answer(Decision::Approve, "looks good")),
            ("n too early", answer(Decision::Reject, "too early")),
            ("no", answer(Decision::Reject, "")),
            ("", Reply::ShowRun),
            (" V ", Reply::ShowAll),
            ("v all", Reply::Invalid),
            ("yep", Reply::Invalid),
            ("maybe y", Reply::Invalid),
        ] {
            assert_eq!(parse_reply(line), expected, "{line:?}");
        }
    }
}
