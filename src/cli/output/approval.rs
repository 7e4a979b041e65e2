//! Approval requests as text.

use ostler::finding::harmless_chars;
use ostler_kernel::id::DigestStart;
use ostler_kernel::ledger::Amount;
use ostler_kernel::policy::RULE_OF_TWO;
use ostler_kernel::run::HeldFor;
use ostler_server::wire::{ApprovalView, ParentView, ShortfallView};
use serde_json::{Value, json};

use crate::cli::output::approval_changes::{earlier_lines, file_lines};
use crate::cli::output::approval_steps::{rest_lines, step_lines};
use crate::cli::output::cells::{fit, fit_name};
use crate::cli::output::estimate::estimate_lines;
use crate::cli::output::hints;
use crate::cli::output::labels::short_id;
use crate::cli::output::units::{duration, now_ms, plural};

/// Widest id of a plan in a question, in cells.
const PLAN_COLUMNS_MAX: usize = 60;

/// The question about a call that the budget does not allow, in [`ApprovalView::ask`].
pub(crate) const BUDGET: &str = "budget";

const TEXT_LINES_MIN: usize = 4;

pub(crate) const TEXT_LINES_MAX: usize = 20;

const COLUMNS_MAX: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// At most this many lines of each text, each cut to fit.
    Excerpt(usize),
    Full,
}

impl Detail {
    pub(super) fn lines(self) -> usize {
        match self {
            Detail::Excerpt(most) => most.clamp(TEXT_LINES_MIN, TEXT_LINES_MAX),
            Detail::Full => usize::MAX,
        }
    }

    /// Replaces control characters, cuts the text to one line, and states how much is missing.
    pub(super) fn line(self, text: &str) -> String {
        // A line break must not hide the text after it.
        let text: String = harmless_chars(text).collect();
        let (whole, shown) = (fit(&text, usize::MAX), fit(&text, COLUMNS_MAX));
        if self == Detail::Full || shown == whole {
            return whole;
        }
        // `shown` ends with the ellipsis.
        let more = whole.chars().count() + 1 - shown.chars().count();
        format!("{shown} {}; {} shows all", plural(more, "more character"), show_all_command())
    }
}

/// Formats an approval request; the first line is the question.
pub(crate) fn approval_lines(question: &ApprovalView, detail: Detail) -> Vec<String> {
    let asked = match question.ask.as_str() {
        _ if is_expired(question.deadline_ms) => "deadline passed",
        BUDGET => "raise the budget?",
        "before" => "approve this action?",
        "after" if !question.steps.is_empty() => "start these steps?",
        "after" => "approve this result?",
        _ => "asks",
    };
    let what = match &question.tool {
        Some(tool) => format!("{tool}, impact {}", question.impact),
        None => question.kind.clone(),
    };
    let plan = plan_name(&question.plan);
    let mut lines = vec![format!("{}  {plan}/{}  {asked}  {what}", question.run, question.node)];
    if let Some(parent) = &question.parent {
        lines.push(format!("    {}", detail.line(&opened_by(parent))));
    }
    if let Some(short) = &question.over_budget {
        lines.extend(shortfall_lines(&question.run, &question.node, short));
        let silence = question.deadline_ms.map(budget_deadline).unwrap_or_default();
        let rest = format!("{silence}{}", dependents(&question.blocks));
        lines.extend((!rest.is_empty()).then(|| format!("    {}", rest.trim_start_matches("; "))));
        return lines;
    }
    // The prompt of a planner is written for the model.
    let params = question.params.as_object().filter(|_| question.steps.is_empty());
    for (name, value) in params.into_iter().flatten() {
        value_lines(name, value, detail, &mut lines);
    }
    if let Some(workspace) = &question.workspace {
        lines.push(format!("    in {}", detail.line(workspace)));
    }
    file_lines(&question.files, detail, &mut lines);
    earlier_lines(question, detail, &mut lines);
    lines.extend(question.holds.iter().map(|held| format!("    {}", detail.line(&held_because(held)))));
    for test in &question.tests {
        let argv = detail.line(&json!(test.argv).to_string());
        lines.push(format!("    followed by the test {argv}, impact {}", test.impact));
    }
    for asked in &question.questions {
        lines.push(format!("    question: {}", detail.line(asked)));
    }
    if !question.steps.is_empty() {
        step_lines(&question.steps, detail, &mut lines);
    }
    let estimated = question.estimate.iter().flat_map(estimate_lines);
    lines.extend(estimated.map(|line| format!("    {}", detail.line(&line))));
    match (&question.result, question.result_bytes) {
        (Some(result), _) if !question.steps.is_empty() => rest_lines(question, result, detail, &mut lines),
        (Some(result), _) => match text_of(result) {
            Some(text) => value_lines("result", &json!(text), detail, &mut lines),
            None => value_lines("result", result, detail, &mut lines),
        },
        (None, Some(bytes)) if question.refusal.is_none() => {
            lines.push(format!("    result: {bytes} bytes; {} shows them", show_all_command()));
        }
        (None, _) => {}
    }
    let is_asked_with_file = matches!(question.tool.as_deref(), Some("model.scripted" | "model.cassette"));
    match &question.refusal {
        Some(refusal) if is_asked_with_file && refusal.starts_with("OUT_OF_SCOPE") => lines.push(
            "    its model is not in this process: answer with the option --model scripted:FILE or cassette:FILE of the \
             first command"
                .to_owned(),
        ),
        Some(refusal) => lines.push(format!("    would fail: {}", detail.line(refusal))),
        None => {}
    }
    if question.outdated {
        lines.push(
            "    tools, policy, files or the workspace have changed: the node asks again when it is approved or the run resumes"
                .to_owned(),
        );
    }
    if question.not_looked_at {
        let looks = hints::command("approve", &[short_id(&question.run), &question.node], "");
        lines.push(format!(
            "    its files have not been looked at since it was asked, for lack of time: a yes looks, and at a terminal `{looks}` shows them"
        ));
    }
    let digest = question.digest.as_deref().map(short_digest).unwrap_or_default();
    let silence = question.deadline_ms.map(deadline_text).unwrap_or_default();
    lines.push(format!("    digest {digest}{silence}{}", dependents(&question.blocks)));
    lines
}

/// Why the gate holds a call, in words.
fn held_because(held: &HeldFor) -> String {
    let params = held.params.join(", ");
    let why = match held.code.as_str() {
        RULE_OF_TWO => {
            "the run has read texts of strangers and private data, and this may send them out".to_owned()
        }
        _ => format!("strangers may have chosen {params}"),
    };
    format!("held: {why} ({})", held.code)
}

/// The step or tool that opened a child run.
pub(crate) fn opened_by(parent: &ParentView) -> String {
    format!("opened by step {:?} of {} of run {}", parent.step, parent.node, short_id(&parent.run))
}

/// What a call needs, what is left, and the three answers.
fn shortfall_lines(run: &str, node: &str, short: &ShortfallView) -> Vec<String> {
    let ShortfallView { model, of_client, usd, tokens } = short;
    let whose = if *of_client { "the client's balance" } else { "the budget" };
    let mut lines = vec![format!("    a call of model {model} does not fit {whose}")];
    let line = |[least, needs, left, all]: [Amount; 4]| {
        format!("    needs {least} at least, {needs} in full; {left} of {all} left")
    };
    if let Some(usd) = usd {
        lines.push(line([usd.least, usd.needs, usd.left, usd.budget].map(|usd| Amount::NanoUsd(usd.0))));
    }
    if let Some(tokens) = tokens {
        lines.push(line([tokens.least, tokens.needs, tokens.left, tokens.budget].map(Amount::Tokens)));
    }
    lines.extend(budget_answers(run, node, short).map(|answer| format!("    {answer}")));
    lines
}

/// The commands that answer a question about the budget.
pub(crate) fn budget_answers(run: &str, node: &str, short: &ShortfallView) -> [String; 3] {
    let run = short_id(run);
    let raise = match short.of_client {
        true => format!("deposit with `ostler credit`, then {}", hints::command("approve", &[run, node], "")),
        false => {
            let options: Vec<String> =
                suggested(short).iter().map(|amount| format!("--budget +{}", amount.argument())).collect();
            hints::command("approve", &[run, node], &options.join(" "))
        }
    };
    [
        format!("raise:    {raise}"),
        format!("conclude: {}", hints::command("reject", &[run, node], "")),
        format!("cancel:   {}", hints::command("cancel", &[run], "")),
    ]
}

/// Raises that leave room for a few such calls: of each resource that is short.
fn suggested(short: &ShortfallView) -> Vec<Amount> {
    const CALLS: u64 = 4;
    const CENT: u64 = 10_000_000;
    let usd = short
        .usd
        .filter(|usd| usd.left < usd.needs)
        .map(|usd| Amount::NanoUsd(usd.needs.0.saturating_mul(CALLS).div_ceil(CENT).saturating_mul(CENT)));
    let tokens = short.tokens.filter(|tokens| tokens.left < tokens.needs).map(|tokens| {
        Amount::Tokens(tokens.needs.saturating_mul(CALLS).div_ceil(1_000).saturating_mul(1_000))
    });
    usd.into_iter().chain(tokens).collect()
}

/// What silence does to a call over the budget.
pub(crate) fn budget_deadline(deadline_ms: i64) -> String {
    match deadline_ms.saturating_sub(now_ms()) {
        left @ 1.. => format!("fails in {} unless answered", duration(left)),
        _ => "deadline passed: the call fails when the run resumes".to_owned(),
    }
}

/// The id of a plan, at most [`PLAN_COLUMNS_MAX`] wide. A model may have chosen it: words that could be read as those of the question
/// are in quotes.
fn plan_name(id: &str) -> String {
    let name = fit_name(id, PLAN_COLUMNS_MAX);
    let is_plain = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
    // Neither an end of the quotes, nor a blank that is wider than it looks.
    let quoted = |c: char| if c == '"' || c.is_whitespace() && c != ' ' { '\u{fffd}' } else { c };
    match id.chars().all(is_plain) {
        true => name,
        false => format!("\"{}\"", name.chars().map(quoted).collect::<String>()),
    }
}

pub(super) fn show_all_command() -> String {
    hints::command("approvals", &[], "--json")
}

/// Appends a parameter or result: multi-line texts line by line, other values as JSON.
pub(super) fn value_lines(name: &str, value: &Value, detail: Detail, lines: &mut Vec<String>) {
    let name: String = harmless_chars(name).collect();
    match value.as_str().filter(|text| text.contains('\n')) {
        Some(text) => {
            lines.push(format!("    {name}:"));
            let shown = text.lines().take(detail.lines());
            lines.extend(shown.map(|line| format!("    │ {}", detail.line(line))));
            let more = text.lines().count().saturating_sub(detail.lines());
            if more > 0 {
                let more = plural(more, "more line");
                lines.push(format!("    │ … {more}; {} shows all", show_all_command()));
            }
        }
        None => lines.push(format!("    {name}: {}", detail.line(&value.to_string()))),
    }
}

pub(crate) fn dependents(nodes: &[String]) -> String {
    const NAMED: usize = 4;
    match nodes.len() {
        0 => String::new(),
        count if count > NAMED => {
            format!("; {} and {} more depend on it", nodes[..NAMED].join(", "), count - NAMED)
        }
        1 => format!("; {} depends on it", nodes[0]),
        _ => format!("; {} depend on it", nodes.join(", ")),
    }
}

pub(crate) fn short_digest(digest: &str) -> String {
    let hex = digest.strip_prefix("b3:").unwrap_or(digest);
    format!("b3:{}", &hex[..hex.len().min(DigestStart::DIGITS_MIN)])
}

/// Returns whether the deadline has passed, so that no answer is accepted.
pub(crate) fn is_expired(deadline_ms: Option<i64>) -> bool {
    deadline_ms.is_some_and(|deadline| deadline < now_ms())
}

pub(crate) fn deadline_text(deadline_ms: i64) -> String {
    match deadline_ms.saturating_sub(now_ms()) {
        left @ 1.. => format!("; cancelled in {} unless answered", duration(left)),
        _ => "; deadline passed: cancelled when the run resumes".to_owned(),
    }
}

/// Returns the text of a result that consists of one text.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(members) if members.len() == 1 => members.get("text")?.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_line_by_line_and_no_terminal_obeys_it() {
        let mut lines = Vec::new();
        value_lines("text", &json!("a\n\u{1b}[2J\n"), Detail::Excerpt(TEXT_LINES_MAX), &mut lines);
        value_lines("n", &json!({"x": 1}), Detail::Excerpt(TEXT_LINES_MAX), &mut lines);
        assert_eq!(lines, ["    text:", "    │ a", "    │ \u{fffd}[2J", "    n: {\"x\":1}"]);
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
        let some = approval_lines(&question, Detail::Excerpt(TEXT_LINES_MAX));
        assert_eq!(some.iter().filter(|line| line.contains("shows all")).count(), 3, "{some:#?}");
        assert!(some[3].ends_with("… 5 more characters; ostler approvals --json shows all"), "{some:#?}");
        let is_told = |lines: &[String]| lines.iter().any(|line| line.contains("not been looked at"));
        let late = ApprovalView { not_looked_at: true, ..question.clone() };
        assert!(!is_told(&some) && is_told(&approval_lines(&late, Detail::Excerpt(TEXT_LINES_MAX))));
        let all = approval_lines(&question, Detail::Full);
        assert_eq!(
            all.iter().filter(|line| line.contains("; rm") && !line.contains("…")).count(),
            3,
            "{all:#?}"
        );
    }

    #[test]
    fn a_question_about_the_budget_says_what_is_missing_and_what_to_type() {
        let question: ApprovalView = serde_json::from_value(json!({
            "id": "i", "run": "r-12", "plan": "p", "client": "c", "node": "n", "ask": "budget", "kind": "model",
            "tool": "model.default", "effect": "none", "impact": 0, "params": {"prompt": "a long text"},
            "over_budget": {"model": "default", "of_client": false,
                "usd": {"least": "0.02", "needs": "0.05", "left": "0.01", "budget": "0.50"},
                "tokens": {"least": 10, "needs": 20, "left": 900, "budget": 1000}},
            "digest": "b3:00", "outdated": false, "asked_ms": 0, "deadline_ms": null, "holds_up": [],
        }))
        .expect("a question");
        let lines = approval_lines(&question, Detail::Full);
        let run = short_id("r-12");
        let expected = [
            "r-12  p/n  raise the budget?  model.default, impact 0".to_owned(),
            "    a call of model default does not fit the budget".to_owned(),
            "    needs 0.02 usd at least, 0.05 usd in full; 0.01 usd of 0.50 usd left".to_owned(),
            "    needs 10 tokens at least, 20 tokens in full; 900 tokens of 1000 tokens left".to_owned(),
            format!("    raise:    ostler approve {run} n --budget +0.20usd"),
            format!("    conclude: ostler reject {run} n"),
            format!("    cancel:   ostler cancel {run}"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_questions_of_a_contract_stand_before_the_result() {
        let question: ApprovalView = serde_json::from_value(json!({
            "id": "i", "run": "r", "plan": "p", "client": "c", "node": "n", "ask": "after", "kind": "tool",
            "effect": "none", "impact": 0, "params": {}, "questions": ["Is it polite?\nReally?"],
            "result": {"text": "hello"}, "digest": "b3:00", "outdated": false, "asked_ms": 0, "holds_up": [],
        }))
        .expect("a question");
        let lines = approval_lines(&question, Detail::Full);
        assert_eq!(lines[1..3], ["    question: Is it polite?\u{fffd}Really?", "    result: \"hello\""]);
    }

    #[test]
    fn of_a_long_text_the_beginning_is_shown_or_all_of_it() {
        let (long, many) = ("x".repeat(COLUMNS_MAX + 40), TEXT_LINES_MAX + 7);
        let text = json!(format!("{long}\n").repeat(many));
        for (detail, plural, last) in [
            (
                Detail::Excerpt(TEXT_LINES_MAX),
                TEXT_LINES_MAX + 2,
                "    │ … 7 more lines; ostler approvals --json shows all",
            ),
            (Detail::Full, many + 1, &*format!("    │ {long}")),
        ] {
            let mut lines = Vec::new();
            value_lines("text", &text, detail, &mut lines);
            assert_eq!((lines.len(), lines[lines.len() - 1].as_str()), (plural, last), "{detail:?}");
        }
    }

    #[test]
    fn an_id_of_a_plan_is_no_question() {
        for (id, shown) in [
            ("deploy", "deploy".to_owned()),
            ("sub.agent-1:2", "sub.agent-1:2".to_owned()),
            ("go  approve?", "\"go  approve?\"".to_owned()),
            ("a/b", "\"a/b\"".to_owned()),
        ] {
            assert_eq!(plan_name(id), shown);
        }
        let long = plan_name(&format!("x{}", "\u{a0}".repeat(400)));
        assert!(crate::cli::output::cells::width(&long) <= PLAN_COLUMNS_MAX + 2, "{long}");
    }
}
