//! Asking the person at the terminal, while the run goes on.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use ostler_server::wire::{
    AnswerRequest, ApprovalList, ApprovalView, Decision, EventLine, RunRef, Summary,
};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;

use super::approve::{Extent, approver, lines};
use super::client::{Client, Refused, part};
use super::live::View;
use super::live::screen::Aside;
use super::signals::{GoesOn, is_foreground};
use super::term::{Out, say, size_of_stdout};
use super::words;

/// What can be typed while a question stands.
const POSSIBLE: &str = "  y or n (and a note); v: all of it; Enter: the run now; ^C leaves it waiting";

/// Asks a person, one question at a time.
pub(crate) struct Asker {
    run: String,
    /// Nodes that ask, in the order they began to.
    open: VecDeque<String>,
    /// The question on the screen.
    shown: Option<ApprovalView>,
    /// Nodes that came to an end while a question stood on the screen, by what they came to.
    meanwhile: BTreeMap<String, usize>,
    /// What is typed, line by line, once somebody was asked.
    typed: Option<mpsc::UnboundedReceiver<String>>,
    /// Whether the process was stopped meanwhile.
    goes_on: GoesOn,
}

/// What comes while a question stands.
#[derive(Debug)]
pub(crate) enum Came {
    /// A line; `None` if nothing more will be typed.
    Line(Option<String>),
    /// The process was stopped, and goes on: a shell has had the terminal since.
    Back,
}

/// What somebody typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Answer(Decision, String),
    /// All that is asked is to be shown.
    Whole,
    /// How the run stands is to be shown.
    Standing,
    Nonsense,
}

impl Asker {
    /// Somebody to ask about this run, if there is a person at this terminal.
    pub(crate) fn new(run: &str) -> Option<Asker> {
        is_person().then(|| Asker {
            run: run.to_owned(),
            open: VecDeque::new(),
            shown: None,
            meanwhile: BTreeMap::new(),
            typed: None,
            goes_on: GoesOn::listen(),
        })
    }

    /// Takes up what the run asks already.
    pub(crate) fn take_up(&mut self, summary: &Summary) {
        let asked = summary.waiting.iter().filter(|waiting| waiting.id.is_some());
        self.open = asked.map(|waiting| waiting.node.clone()).collect();
    }

    /// Whether there is something to ask.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a question stands on the screen.
    pub(crate) fn is_asking(&self) -> bool {
        self.shown.is_some()
    }

    /// A record came: a node asks, or asks no more.
    pub(crate) fn record(&mut self, line: &EventLine) {
        let text = |key: &str| line.body[key].as_str().unwrap_or_default();
        let node = text("node").to_owned();
        let is_shown = self.shown.as_ref().is_some_and(|shown| shown.node == node);
        match line.kind.as_str() {
            "human_request" if text("kind") != "in_doubt" => {
                if !self.open.contains(&node) {
                    self.open.push_back(node);
                } else if is_shown
                    && self.shown.as_ref().and_then(|shown| shown.digest.as_deref()) != Some(text("shown"))
                {
                    self.shown = None; // it is asked anew
                    say("\n  it shows something else by now:");
                }
            }
            "node_transition" if text("from") == "waiting_human" => {
                self.open.retain(|open| *open != node);
                if is_shown {
                    self.shown = None;
                    let (state, why) = (words::state(text("to")), words::reason(text("reason")));
                    say(format!("\n  {node} asks no more, it is {state}: {why}"));
                }
            }
            "node_transition" if self.is_asking() && has_ended(text("to")) => {
                *self.meanwhile.entry(text("to").to_owned()).or_default() += 1;
            }
            "run_closed" => self.open.clear(),
            _ => {}
        }
    }

    /// Puts the next question on the screen, if none stands there.
    pub(crate) async fn show(
        &mut self,
        client: &Client,
        view: &mut (dyn View + Send),
    ) -> Result<(), Refused> {
        while self.shown.is_none()
            && let Some(node) = self.open.front().cloned()
        {
            let path = format!("/v1/approvals?run={}", part(&self.run));
            let list: ApprovalList = client.get(&path).await?;
            match list.approvals.into_iter().find(|question| question.node == node) {
                // It was answered by now, or asks again in a moment.
                None => {
                    self.open.pop_front();
                }
                Some(question) => {
                    view.pause();
                    let meanwhile: Vec<String> = std::mem::take(&mut self.meanwhile)
                        .into_iter()
                        .map(|(state, count)| format!("{count} {state}"))
                        .collect();
                    if !meanwhile.is_empty() {
                        say(format!("  meanwhile: {}", meanwhile.join(", ")));
                    }
                    self.shown = Some(question);
                    self.put();
                }
            }
        }
        Ok(())
    }

    /// Shows the question that stands, and asks for an answer.
    fn put(&mut self) {
        if let Some(question) = &self.shown {
            let half = Extent::Lines(size_of_stdout().1 / 2);
            lines(question, half).iter().for_each(say);
            say(POSSIBLE);
            self.listen();
            // A stop before the question stood there took nothing of it away.
            self.goes_on = GoesOn::listen();
            self.prompt();
        }
    }

    /// Asks for an answer.
    pub(crate) fn prompt(&self) {
        if let Some(question) = &self.shown {
            let mut to = Aside;
            let _ = write!(to, "  {} > ", question.node);
            let _ = to.flush();
        }
    }

    /// From here on what is typed counts; what was typed before was for something else.
    fn listen(&mut self) {
        match &mut self.typed {
            Some(typed) => {
                let _ = tcflush(stdin(), QueueSelector::IFlush);
                while typed.try_recv().is_ok() {}
            }
            None => self.typed = Some(typed_from_now()),
        }
    }

    /// Waits for a line, or for the process to be back. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Came {
        let Some(typed) = &mut self.typed else { return std::future::pending().await };
        tokio::select! {
            line = typed.recv() => Came::Line(line),
            () = self.goes_on.next() => Came::Back,
        }
    }

    /// Takes what came while a question stands on the screen: an answer, or a wish to see more first.
    pub(crate) async fn take(
        &mut self,
        came: Came,
        client: &Client,
        view: &mut (dyn View + Send),
        out: &Out,
    ) -> Result<(), Refused> {
        let line = match came {
            Came::Line(Some(line)) => line,
            Came::Line(None) => {
                say("  left waiting");
                self.open.clear();
                self.shown = None;
                return Ok(());
            }
            Came::Back => {
                say("");
                self.put();
                return Ok(());
            }
        };
        match read(&line) {
            Typed::Answer(decision, note) => return self.answer(decision, note, client).await,
            Typed::Whole => self.show_whole(client).await?,
            Typed::Standing => view.standing(out).iter().for_each(say),
            Typed::Nonsense => say(format!("  {:?} is no answer. Possible are:\n{POSSIBLE}", line.trim())),
        }
        self.prompt();
        Ok(())
    }

    /// Shows all of the question on the screen, however large.
    async fn show_whole(&self, client: &Client) -> Result<(), Refused> {
        let Some(question) = &self.shown else { return Ok(()) };
        let whole: Result<ApprovalView, _> =
            client.get(&format!("/v1/approvals/{}", part(&question.id))).await;
        match whole {
            Ok(whole) => lines(&whole, Extent::Whole).iter().for_each(say),
            // It was withdrawn in this moment: the records tell.
            Err(Refused::Problem(problem)) => say(format!("  {}", problem.detail)),
            Err(gone) => return Err(gone),
        }
        Ok(())
    }

    async fn answer(&mut self, decision: Decision, note: String, client: &Client) -> Result<(), Refused> {
        let Some(question) = self.shown.take() else { return Ok(()) };
        let digest = question.digest.clone().unwrap_or_default();
        let request = AnswerRequest { decision, digest, note, by: approver() };
        let path = format!("/v1/approvals/{}", part(&question.id));
        match client.post::<RunRef>(&path, &request).await {
            Ok(_) => self.open.retain(|open| *open != question.node),
            // It was withdrawn or asked anew in this moment: the records tell, or it is shown again.
            Err(Refused::Problem(problem)) => say(format!("  not taken: {}", problem.detail)),
            Err(gone) => {
                self.shown = Some(question);
                return Err(gone);
            }
        }
        Ok(())
    }
}

/// Whether there is a person at this terminal.
pub(crate) fn is_person() -> bool {
    stdin().is_terminal() && stderr().is_terminal() && is_foreground()
}

/// The lines that are typed from now on.
pub(crate) fn typed_from_now() -> mpsc::UnboundedReceiver<String> {
    let _ = tcflush(stdin(), QueueSelector::IFlush);
    let (sender, typed) = mpsc::unbounded_channel();
    // Reading a terminal cannot be given up; a thread of its own ends with the process.
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        // It ended behind the prompt: what is said next begins a line.
        say("");
    });
    typed
}

/// Whether nothing follows a node's state of this name.
fn has_ended(state: &str) -> bool {
    matches!(state, "executed" | "failed" | "cancelled" | "skipped")
}

/// Reads an answer: a clear yes or no, and a note; or what else is wanted.
pub(crate) fn read(line: &str) -> Typed {
    let line = line.trim();
    let (word, note) = line.split_once(|c: char| c.is_whitespace() || c == ',').unwrap_or((line, ""));
    let decision = match word.to_lowercase().as_str() {
        "y" | "yes" | "approve" => Decision::Approve,
        "n" | "no" | "reject" => Decision::Reject,
        "v" | "view" if note.is_empty() => return Typed::Whole,
        "" => return Typed::Standing,
        _ => return Typed::Nonsense,
    };
    Typed::Answer(decision, note.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_or_no_is_an_answer() {
        let answer = |decision, note: &str| Typed::Answer(decision, note.to_owned());
        for (line, expected) in [
            ("y", answer(Decision::Approve, "")),
            (" Yes, looks good ", answer(Decision::Approve, "looks good")),
            ("n too early", answer(Decision::Reject, "too early")),
            ("no", answer(Decision::Reject, "")),
            ("", Typed::Standing),
            (" V ", Typed::Whole),
            ("v all", Typed::Nonsense),
            ("yep", Typed::Nonsense),
            ("maybe y", Typed::Nonsense),
        ] {
            assert_eq!(read(line), expected, "{line:?}");
        }
    }
}
