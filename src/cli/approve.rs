//! `approvals`, `approve`, `reject`: what waits for a person, and their answer.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;

use clap::Args;
use ostler_server::wire::{
    AnswerRequest, ApprovalList, ApprovalView, Decision, ProblemDetails, RunRef, Standing, Summary,
    UnreadableRun, Waiting,
};
use serde_json::{Value, json};

use super::Globals;
use super::advice::{self, placed};
use super::ask::{self, Typed};
use super::cells::{fit, fit_name, harmless, harmless_lines};
use super::client::{Client, Refused, part};
use super::exit::{Failure, code};
use super::live::screen::Aside;
use super::measured::Measured;
use super::number::{node_name, run_name};
use super::session::{Session, Want, is_empty};
use super::signals::{GoesOn, Signals};
use super::steer;
use super::summary::{Seen, answers, ending, is_over, silence, text_of};
use super::term::{Out, Paint, count, say};
use super::words;

/// Hex digits of a digest that are shown.
const DIGEST_SHOWN: usize = 16;

/// Hex digits of a digest that `--digest` takes at least.
const DIGEST_GIVEN_MIN: usize = 8;

/// Lines of a text that is shown.
const TEXT_LINES_MIN: usize = 4;
const TEXT_LINES_MAX: usize = 20;

/// Columns of a line that is shown.
const COLUMNS_MAX: usize = 160;

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node that asks
    #[arg(value_parser = node_name)]
    node: String,
    /// Say why, for the record; a refused result may be tried again with it
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    note: String,
    /// Only if this is what is asked: a digest as `ostler approvals` shows it. Who approves without a terminal says by it
    /// what was looked at
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    measured: Measured,
}

pub(crate) async fn approvals(globals: &Globals) -> Result<u8, Failure> {
    let mut out = Out::new();
    if is_empty("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let told = list(&mut session, globals, &mut out).await;
    session.stop().await;
    told.map(|()| code::SUCCEEDED)
}

async fn list(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let (mut next, mut told): (Option<String>, usize) = (None, 0);
    loop {
        let after = next.map(|cursor| format!("?after={}", part(&cursor))).unwrap_or_default();
        let page: ApprovalList = session.get(&format!("/v1/approvals{after}")).await?;
        for UnreadableRun { run, detail } in &page.unreadable {
            told += 1;
            let detail = harmless_lines(detail);
            say(format!("what run {run} asks is not known: it cannot be read: {detail}"));
        }
        for question in &page.approvals {
            told += 1;
            if globals.json {
                // Machines get all of it, however large.
                let whole: ApprovalView =
                    session.get(&format!("/v1/approvals/{}", part(&question.id))).await?;
                let mut line = serde_json::to_value(&whole).expect("a question is names, numbers and JSON");
                line["type"] = json!("approval");
                line["too_late"] = json!(is_over(question.deadline_ms));
                out.json(&line);
            } else {
                tell(question, out);
            }
        }
        next = page.next;
        if next.is_none() || out.is_gone() {
            break;
        }
    }
    if told == 0 && !globals.json {
        say("nothing waits for an approval");
    }
    Ok(())
}

fn tell(question: &ApprovalView, out: &mut Out) {
    let paint = if is_over(question.deadline_ms) { Paint::Dim } else { Paint::Care };
    let mut lines = listed(question).into_iter();
    if let Some(head) = lines.next() {
        out.line(out.paint(paint, &head));
    }
    lines.for_each(|line| out.line(line));
}

/// A question in the list of all: what is asked, and the commands that answer it, or that end it where no answer is
/// taken any more.
fn listed(question: &ApprovalView) -> Vec<String> {
    let mut lines = lines(question, Extent::Lines(TEXT_LINES_MAX));
    if is_over(question.deadline_ms) {
        lines.push(format!("    {}", advice::resume(ending(&question.run))));
        return lines;
    }
    let digest = question.digest.as_deref().map(short_digest);
    let seen = digest.as_deref().map_or(Seen::NotYet, Seen::Here);
    let answers = answers(&question.run, &question.node, &question.ask, seen);
    lines.extend(answers.iter().map(|answer| format!("    {answer}")));
    lines
}

/// How much of a question is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// So many lines of every text at most, and of each line what fits.
    Lines(usize),
    Whole,
}

impl Extent {
    /// Lines of a text that are shown.
    fn lines(self) -> usize {
        match self {
            Extent::Lines(most) => most.clamp(TEXT_LINES_MIN, TEXT_LINES_MAX),
            Extent::Whole => usize::MAX,
        }
    }

    /// As much of a text as is shown in a line, and nothing that a terminal obeys. What is left out is told.
    fn line(self, text: &str) -> String {
        // A line break is not to hide what follows.
        let text: String = text.chars().map(harmless).collect();
        let (whole, shown) = (fit(&text, usize::MAX), fit(&text, COLUMNS_MAX));
        if self == Extent::Whole || shown == whole {
            return whole;
        }
        // `shown` ends in the sign of something cut out.
        let more = whole.chars().count() + 1 - shown.chars().count();
        format!("{shown} {}, {} shows all", count(more, "more character"), all())
    }
}

/// A question as people read it; the first line says what is asked.
pub(crate) fn lines(question: &ApprovalView, extent: Extent) -> Vec<String> {
    let asked = match question.ask.as_str() {
        _ if is_over(question.deadline_ms) => "too late to answer",
        "before" => "may this be done?",
        "after" => "may this result be published?",
        _ => "asks",
    };
    let what = match &question.tool {
        Some(tool) => format!("{tool}, impact {}", question.impact),
        None => question.kind.clone(),
    };
    let plan = fit_name(&question.plan, usize::MAX);
    let mut lines = vec![format!("{}  {plan}/{}  {asked}  {what}", question.run, question.node)];
    for (name, value) in question.params.as_object().into_iter().flatten() {
        field(name, value, extent, &mut lines);
    }
    if let Some(workspace) = &question.workspace {
        lines.push(format!("    in {}", extent.line(workspace)));
    }
    for test in &question.tests {
        let argv = extent.line(&json!(test.argv).to_string());
        lines.push(format!("    and then the test {argv}, impact {}", test.impact));
    }
    match (&question.result, question.result_bytes) {
        (Some(result), _) => match text_of(result) {
            Some(text) => field("result", &json!(text), extent, &mut lines),
            None => field("result", result, extent, &mut lines),
        },
        (None, Some(bytes)) if question.refusal.is_none() => {
            lines.push(format!("    result: {bytes} bytes, {} shows them", all()));
        }
        (None, _) => {}
    }
    if let Some(refusal) = &question.refusal {
        lines.push(format!("    it would come to nothing: {}", extent.line(refusal)));
    }
    if question.outdated {
        lines.push(
            "    tools or the policy have changed since: it is asked anew when the run goes on".to_owned(),
        );
    }
    let digest = question.digest.as_deref().map(short_digest).unwrap_or_default();
    let silence = question.deadline_ms.map(silence).unwrap_or_default();
    lines.push(format!("    digest {digest}{silence}{}", waited_for(&question.blocks)));
    lines
}

/// The command that shows all of every question.
fn all() -> String {
    advice::command("approvals", &[], "--json")
}

/// A parameter or a result: texts as they are read, anything else as JSON.
fn field(name: &str, value: &Value, extent: Extent, lines: &mut Vec<String>) {
    let name: String = name.chars().map(harmless).collect();
    match value.as_str().filter(|text| text.contains('\n')) {
        Some(text) => {
            lines.push(format!("    {name}:"));
            let shown = text.lines().take(extent.lines());
            lines.extend(shown.map(|line| format!("    │ {}", extent.line(line))));
            let more = text.lines().count().saturating_sub(extent.lines());
            if more > 0 {
                let more = count(more, "more line");
                lines.push(format!("    │ … {more}, {} shows all", all()));
            }
        }
        None => lines.push(format!("    {name}: {}", extent.line(&value.to_string()))),
    }
}

/// Who cannot go on before.
pub(crate) fn waited_for(nodes: &[String]) -> String {
    const NAMED: usize = 4;
    match nodes.len() {
        0 => String::new(),
        count if count > NAMED => {
            format!("; {} and {} more wait for it", nodes[..NAMED].join(", "), count - NAMED)
        }
        1 => format!("; {} waits for it", nodes[0]),
        _ => format!("; {} wait for it", nodes.join(", ")),
    }
}

/// The beginning of a digest, enough to tell it from others.
fn short_digest(digest: &str) -> String {
    let hex = digest.strip_prefix("b3:").unwrap_or(digest);
    format!("b3:{}", &hex[..hex.len().min(DIGEST_SHOWN)])
}

/// Who answers: the name of the user, as the shell has it.
pub(crate) fn approver() -> Option<String> {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok()?;
    let fits = (1..=64).contains(&name.len()) && !name.chars().any(char::is_control);
    fits.then_some(name)
}

pub(crate) async fn answer(globals: &Globals, args: AnswerArgs, decision: Decision) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, Path::new("."), Want::Drive, args.measured).await?;
    let person = ask::is_person() && !globals.json;
    let before = match send(&mut session, &mut signals, &args, decision, person).await {
        Ok(Ok(before)) => before,
        Ok(Err(code)) => {
            let reject = advice::command("reject", &[&args.run, &args.node], "--note WHY");
            say(format!("left waiting; `{reject}` says no"));
            session.stop().await;
            return Ok(code);
        }
        Err(failure) => return steer::fail(session, failure).await,
    };
    let done = match decision {
        Decision::Approve => "approved",
        Decision::Reject => "rejected",
    };
    let (node, told) = (args.node.as_str(), format!("{done} {}", args.node));
    let done = steer::Done { node, word: done.to_owned(), told };
    steer::go_on(session, &mut signals, globals, before, done, &mut out).await
}

/// Sends the answer to whoever holds the data folder. A yes is for what somebody has seen: what `--digest` names, or what
/// the person at the terminal is shown here. Gives the run as it stood before; or, if they would not say yes, the exit
/// code.
async fn send(
    session: &mut Session,
    signals: &mut Signals,
    args: &AnswerArgs,
    decision: Decision,
    person: bool,
) -> Result<Result<Summary, u8>, Failure> {
    let before = session.summary(&args.run).await?;
    let question = asked(&before, &args.node)?;
    let path = format!("/v1/approvals/{}", part(question.id.as_deref().unwrap_or_default()));
    let mut digest = question.digest.clone().unwrap_or_default();
    let mut note = args.note.clone();
    match (&args.digest, decision) {
        (Some(given), _) => check_digest(given, &digest, &before.run, &args.node)?,
        (None, Decision::Reject) => {}
        (None, Decision::Approve) if person => {
            let question: ApprovalView = session.get(&path).await?;
            match consent(&question, signals).await {
                Ok(typed) if note.is_empty() => note = typed,
                Ok(_) => {}
                Err(code) => return Ok(Err(code)),
            }
            digest = question.digest.unwrap_or_default();
        }
        (None, Decision::Approve) => {
            return Err(Failure::invalid(placed(&format!(
                "a yes is for what you have seen: `ostler approvals` shows what node {} asks, and the --digest to give",
                args.node
            ))));
        }
    }
    let request = AnswerRequest { decision, digest, note, by: approver() };
    let lost = Cell::new(false);
    let answered = session.asked(true, async |client| {
        match client.post::<RunRef>(&path, &request).await {
            // The process that held the data folder ended; whether it took the answer is known by now.
            Err(Refused::Problem(problem))
                if lost.get() && was_answered(client, &problem, &before.run, &args.node).await? =>
            {
                Ok(())
            }
            answered => {
                lost.set(lost.get() || matches!(answered, Err(Refused::Gone(_))));
                answered.map(|_| ())
            }
        }
    });
    answered.await?;
    Ok(Ok(before))
}

/// Whether an answer is refused that was sent a second time because the first was taken.
async fn was_answered(
    client: &Client,
    problem: &ProblemDetails,
    run: &str,
    node: &str,
) -> Result<bool, Refused> {
    match problem.code.as_str() {
        "already_answered" => Ok(true),
        "invalid_state" => {
            let now: Summary = client.get(&format!("/v1/runs/{}", part(run))).await?;
            Ok(now.waiting.iter().all(|waiting| waiting.node != node))
        }
        _ => Ok(false),
    }
}

/// Shows a question to the person at the terminal, and waits for a yes: the note that is typed with it. Anything else is
/// the exit code.
async fn consent(question: &ApprovalView, signals: &mut Signals) -> Result<String, u8> {
    let show = || lines(question, Extent::Lines(TEXT_LINES_MAX)).into_iter().for_each(say);
    show();
    let mut typed = ask::typed_from_now();
    let mut goes_on = GoesOn::listen();
    loop {
        let mut to = Aside;
        let _ = write!(to, "  approve {}? y (and a note), v for all of it, or N > ", question.node);
        let _ = to.flush();
        let line = tokio::select! {
            line = typed.recv() => line,
            () = goes_on.next() => {
                say("");
                show();
                continue;
            }
            code = signals.next() => {
                say("");
                return Err(code);
            }
        };
        match line.as_deref().map(ask::read) {
            Some(Typed::Answer(Decision::Approve, note)) => return Ok(note),
            Some(Typed::Whole) => lines(question, Extent::Whole).into_iter().for_each(say),
            Some(Typed::Nonsense) => {}
            Some(Typed::Answer(Decision::Reject, _) | Typed::Standing) | None => return Err(code::WAITS),
        }
    }
}

/// What the node asks, or why it asks nothing that is answered by yes or no.
fn asked<'a>(run: &'a Summary, node: &str) -> Result<&'a Waiting, Failure> {
    let id = &run.run;
    match run.waiting.iter().find(|waiting| waiting.node == node) {
        Some(_) if run.standing == Standing::Checkpointed => Err(Failure::invalid(format!(
            "the run {id} was set aside: `{}` takes it up, and node {node} is answered then",
            advice::resume(id)
        ))),
        Some(question) if is_over(question.deadline_ms) => Err(Failure::invalid(format!(
            "the time to answer node {node} is over: silence cancels it when the run goes on (`{}`)",
            advice::resume(id)
        ))),
        Some(question) if question.id.is_some() => Ok(question),
        Some(_) => Err(Failure::invalid(format!(
            "node {node} is in doubt: `{}` settles that, with --done FILE, --redo or --fail",
            advice::command("resolve", &[id, node], "")
        ))),
        None => Err(Failure::invalid(match run.nodes.get(node) {
            None => format!("no node {node} in run {id}"),
            Some(state) if run.standing == Standing::Closed => {
                format!(
                    "the run {id} is over, and node {node} is {}: nobody is asked any more",
                    words::state(state)
                )
            }
            Some(state) => placed(&format!(
                "node {node} is {}: it asks nobody; `ostler approvals` lists who does",
                words::state(state)
            )),
        })),
    }
}

/// Refuses a digest that is not that of what is shown.
fn check_digest(given: &str, shown: &str, run: &str, node: &str) -> Result<(), Failure> {
    let hex = given.strip_prefix("b3:").unwrap_or(given).to_ascii_lowercase();
    if hex.len() < DIGEST_GIVEN_MIN || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::invalid(placed(&format!(
            "{given:?} is no digest: give {DIGEST_GIVEN_MIN} or more of its hex digits, as `ostler approvals` shows them"
        ))));
    }
    if shown.strip_prefix("b3:").unwrap_or(shown).starts_with(&hex) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "node {node} of run {run} shows {}, and the answer is for {given}: look at it again",
        short_digest(shown)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_taken_by_its_beginning() {
        let shown = format!("b3:0123456789abcdef{}", "0".repeat(48));
        for (given, taken) in [
            ("01234567", true),
            ("b3:0123456789ABCDEF", true),
            (shown.as_str(), true),
            ("0123456", false),
            ("b3:", false),
            ("11234567", false),
            ("0123456z", false),
        ] {
            assert_eq!(check_digest(given, &shown, "r", "n").is_ok(), taken, "{given}");
        }
    }

    #[test]
    fn a_text_is_shown_line_by_line_and_no_terminal_obeys_it() {
        let mut lines = Vec::new();
        field("text", &json!("a\n\u{1b}[2J\n"), Extent::Lines(TEXT_LINES_MAX), &mut lines);
        field("n", &json!({"x": 1}), Extent::Lines(TEXT_LINES_MAX), &mut lines);
        assert_eq!(lines, ["    text:", "    │ a", "    │ \u{fffd}[2J", "    n: {\"x\":1}"]);
    }

    #[test]
    fn a_question_whose_time_is_over_says_so_first_and_offers_no_answer() {
        let mut question: ApprovalView = serde_json::from_value(json!({
            "id": "i", "run": "r-12", "plan": "p", "client": "c", "node": "n", "ask": "before", "kind": "tool",
            "tool": "fs.write", "effect": "write", "impact": 1, "params": {}, "tests": [], "digest": "b3:00",
            "outdated": false, "asked_ms": 0, "holds_up": [],
        }))
        .expect("a question");
        for (deadline_ms, asked, last) in [
            (None, "may this be done?", "ostler reject 12 n --note WHY"),
            (Some(i64::MAX), "may this be done?", "ostler reject 12 n --note WHY"),
            (Some(1), "too late to answer", "ostler resume 12"),
        ] {
            question.deadline_ms = deadline_ms;
            let lines = listed(&question);
            assert_eq!(lines[0], format!("r-12  p/n  {asked}  fs.write, impact 1"));
            assert_eq!(lines[lines.len() - 1].trim(), last);
            let offers = lines.iter().any(|line| line.contains("ostler approve"));
            assert_eq!(offers, deadline_ms != Some(1), "{lines:#?}");
        }
    }

    #[test]
    fn what_is_cut_of_a_line_is_told_and_all_of_it_is_all() {
        let long = "x".repeat(COLUMNS_MAX) + "; rm";
        let question: ApprovalView = serde_json::from_value(json!({
            "id": "i", "run": "r", "plan": "p", "client": "c", "node": "n", "ask": "before", "kind": "tool",
            "effect": "write", "impact": 1, "params": {}, "workspace": format!("/work\n{long}"),
            "tests": [{"argv": ["sh", "-c", long], "effect": "write", "impact": 2}],
            "refusal": long, "digest": "b3:00", "outdated": false, "asked_ms": 0, "holds_up": [],
        }))
        .expect("a question");
        let some = lines(&question, Extent::Lines(TEXT_LINES_MAX));
        assert_eq!(some.iter().filter(|line| line.contains("shows all")).count(), 3, "{some:#?}");
        assert!(some[3].ends_with("… 5 more characters, ostler approvals --json shows all"), "{some:#?}");
        let all = lines(&question, Extent::Whole);
        assert_eq!(
            all.iter().filter(|line| line.contains("; rm") && !line.contains("…")).count(),
            3,
            "{all:#?}"
        );
    }

    #[test]
    fn of_a_long_text_the_beginning_is_shown_or_all_of_it() {
        let (long, many) = ("x".repeat(COLUMNS_MAX + 40), TEXT_LINES_MAX + 7);
        let text = json!(format!("{long}\n").repeat(many));
        for (extent, count, last) in [
            (
                Extent::Lines(TEXT_LINES_MAX),
                TEXT_LINES_MAX + 2,
                "    │ … 7 more lines, ostler approvals --json shows all",
            ),
            (Extent::Whole, many + 1, &*format!("    │ {long}")),
        ] {
            let mut lines = Vec::new();
            field("text", &text, extent, &mut lines);
            assert_eq!((lines.len(), lines[lines.len() - 1].as_str()), (count, last), "{extent:?}");
        }
    }
}
