//! What a run waits for: people, credits, rates of models, another run.

use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ClientRow, RateWaitView, Summary, WaitView, Waiting, WaitingBelow};

use crate::cli::output::approval::{
    budget_answers, budget_deadline, deadline_text, dependents, is_expired, opened_by as parent_text,
};
use crate::cli::output::cells::{fit, fit_name};
use crate::cli::output::hints::{DigestSource, answer_commands};
use crate::cli::output::labels::short_id;
use crate::cli::output::summary::Page;
use crate::cli::output::terminal::{Out, Style};
use crate::cli::output::units::{date, elapsed};
use crate::cli::output::{credits, hints, labels};

/// Text for a run that comes after another run of its agent.
pub(crate) fn blocked_by_text(first: &str) -> String {
    format!(
        "  queued behind run {first} of its agent, which waits for an answer: {}",
        hints::show(short_id(first))
    )
}

/// Most calls that are shown to wait for a rate.
const RATE_WAITS_MAX: usize = 3;

/// Formats the calls that wait for the rate of their model.
pub(crate) fn rate_wait_lines(waits: &[RateWaitView], columns: usize) -> Vec<String> {
    let text = |RateWaitView { node, model, ms }: &RateWaitView| {
        let caller = if node.is_empty() { "a call" } else { node };
        let least = match i64::try_from(*ms) {
            Ok(ms) => format!(", {} at least", elapsed(ms)),
            Err(_) => String::new(),
        };
        fit(&format!("  {caller} waits for the rate of model {model}{least}"), columns)
    };
    let mut lines: Vec<String> = waits.iter().take(RATE_WAITS_MAX).map(text).collect();
    if waits.len() > RATE_WAITS_MAX {
        lines.push(format!("  … and {} more calls", waits.len() - RATE_WAITS_MAX));
    }
    lines
}

/// Most listed waits.
const WAITS_MAX: usize = 3;

/// Formats the nodes that wait for an answer from outside.
fn event_wait_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    for wait in summary.waits.iter().take(WAITS_MAX) {
        lines.extend(event_wait(&summary.run, wait, "", summary.past, page.columns));
    }
    if summary.waits.len() > WAITS_MAX {
        lines.push(format!("  … and {} more waits", summary.waits.len() - WAITS_MAX));
    }
    lines
}

/// Formats a node that waits for an answer from outside; `place`: its run, if it is not the one shown.
fn event_wait(run: &str, wait: &WaitView, place: &str, is_past: bool, columns: usize) -> Vec<String> {
    let WaitView { node, deadline_ms, address } = wait;
    let until = deadline_ms.map(|at| format!(" until {}", date(at))).unwrap_or_default();
    let at = address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
    let mut lines = vec![fit(&format!("  {node} waits for an answer{until}{at}{place}"), columns)];
    if !is_past {
        lines.push(format!("    {}", hints::command("answer", &[short_id(run), node], "--value JSON")));
    }
    lines
}

/// Formats what a run waits for without an approval: attempts in doubt, and answers from outside.
pub(crate) fn unapproved_lines(out: &Out, summary: &Summary) -> Vec<String> {
    let page = Page::of(out);
    let in_doubt = summary.waiting.iter().filter(|waiting| waiting.ask == "in_doubt");
    let mut lines: Vec<String> = in_doubt
        .flat_map(|waiting| {
            let answers = answer_commands(&summary.run, &waiting.node, &waiting.ask, DigestSource::Unseen);
            let answers = answers.iter().map(|answer| format!("    {answer}"));
            std::iter::once(doubt_line(&page, waiting)).chain(answers).collect::<Vec<_>>()
        })
        .collect();
    lines.extend(event_wait_lines(&page, summary));
    if !lines.is_empty() {
        let run = format!("{}  {}", summary.run, fit_name(&summary.plan, page.columns / 2));
        lines.insert(0, out.styled(Style::Warning, &run));
    }
    lines
}

fn doubt_line(page: &Page<'_>, waiting: &Waiting) -> String {
    let met = waiting.why.as_deref().unwrap_or("started");
    let rest = format!(" {}: {met}; outcome unknown", fit_name(&waiting.node, page.columns / 2));
    let doubt = page.out.styled(Style::Warning, "in doubt");
    format!("  {doubt}{}", fit(&rest, page.columns.saturating_sub(10)))
}

/// Formats the questions in runs below a run, with the commands that answer them.
pub(crate) fn below_lines(below: &[WaitingBelow], out: &Out) -> Vec<String> {
    let mut lines = Vec::new();
    for WaitingBelow { run, opened_by, suspended, waiting, waits, .. } in below {
        let by = opened_by.as_ref().map(|parent| format!(", {}", parent_text(parent))).unwrap_or_default();
        if *suspended {
            lines.push(fit(&format!("  run {run}{by}, is suspended"), out.columns()));
            lines.push(format!("    {}", hints::resume(short_id(run))));
        }
        for question in waiting {
            let seen = DigestSource::on(out, question.digest.as_deref());
            lines.push(fit(
                &format!("  {} waits for a person in run {run}{by}", question.node),
                out.columns(),
            ));
            if !is_expired(question.deadline_ms) {
                let answers = answer_commands(short_id(run), &question.node, &question.ask, seen);
                lines.extend(answers.iter().map(|answer| format!("    {answer}")));
            }
        }
        let place = format!(" in run {run}{by}");
        for wait in waits.iter().take(WAITS_MAX) {
            lines.extend(event_wait(run, wait, &place, false, out.columns()));
        }
    }
    lines
}

/// Formats the waiting nodes in at most `most` rows, at least one entry. `short`: the client, if it lacks
/// credits.
pub(crate) fn waiting_lines(
    page: &Page<'_>,
    summary: &Summary,
    short: Option<&ClientRow>,
    most: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rows = 0;
    for (at, waiting) in summary.waiting.iter().enumerate() {
        let is_suspended = summary.status == RunStatus::Suspended;
        let answers = match summary.past || is_suspended || is_expired(waiting.deadline_ms) {
            true => Vec::new(),
            false if waiting.over_budget.is_some() => {
                let short = waiting.over_budget.iter();
                short.flat_map(|short| budget_answers(&summary.run, &waiting.node, short)).collect()
            }
            false => {
                let seen = DigestSource::on(page.out, waiting.digest.as_deref());
                answer_commands(&summary.run, &waiting.node, &waiting.ask, seen)
            }
        };
        let answers: Vec<String> = answers.iter().map(|answer| format!("    {answer}")).collect();
        let needed = 1 + answers.iter().map(|answer| page.rows_of(answer)).sum::<usize>();
        if at > 0 && rows + needed + 1 > most {
            let show = hints::show(short_id(&summary.run));
            lines.push(format!("  … and {} more: {show}", summary.waiting.len() - at));
            break;
        }
        rows += needed;
        let node = fit_name(&waiting.node, page.columns / 2);
        lines.push(if waiting.ask == "in_doubt" {
            doubt_line(page, waiting)
        } else {
            let what = match waiting.ask == "after" && summary.goal.is_some() {
                true => "approval of the plan",
                false => labels::request(&waiting.ask),
            };
            let (silence, listed) = match waiting.deadline_ms {
                _ if summary.past => (String::new(), String::new()),
                deadline => {
                    let listed = format!(" ({})", hints::command("approvals", &[], ""));
                    let silence = match waiting.over_budget {
                        Some(_) => deadline.map(|at| format!("; {}", budget_deadline(at))),
                        None => deadline.map(deadline_text),
                    };
                    (silence.unwrap_or_default(), listed)
                }
            };
            let rest = format!(" {node}: {what}{listed}{silence}{}", dependents(&waiting.blocks));
            let waits = page.out.styled(Style::Warning, "waits");
            format!("  {waits}{}", fit(&rest, page.columns.saturating_sub(7)))
        });
        lines.extend(answers);
    }
    lines.extend(event_wait_lines(page, summary));
    lines.extend(below_lines(&summary.waiting_below, page.out));
    lines.extend(rate_wait_lines(&summary.rate_waits, page.columns));
    lines.extend(summary.blocked_by.as_deref().map(blocked_by_text));
    let resume = format!("{} resumes it", hints::resume(&summary.run));
    match (short, summary.is_idle() && !summary.past) {
        (Some(short), true) => {
            lines.push(format!("  {}", credits::waits(short)));
            lines.push(format!("  then {resume}"));
        }
        (Some(short), false) => lines.push(format!("  {}", credits::waits(short))),
        (None, true) => lines.push(format!("  not executing: {resume}")),
        (None, false) => {}
    }
    lines
}
