//! What came of a run, on one screen.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::gate::REMEDY;
use ostler_server::wire::{ClientLine, RootCause, GraphNode, GraphView, Standing, Summary};
use serde_json::Value;

use super::advice;
use super::approve::waited_for;
use super::cells::{fit, fit_name, padded, visible, width, wrapped};
use super::client::{Client, part, whole};
use super::clients;
use super::pages;
use super::term::{Out, Paint, bytes, count, date, now_ms, paint_of, span, took};
use super::words;

/// Columns for who is no terminal.
const COLUMNS_ELSE: usize = 160;

/// Rows of a summary: at least those of the smallest usual terminal, less one for what is typed next.
const ROWS_MIN: usize = 23;
const ROWS_MAX: usize = 40;

/// Columns of a node's name in a table.
const NAME_MAX: usize = 28;

/// Columns of a plan's name that are always there.
const PLAN_MIN: usize = 12;

/// Culprits that are told where not all of them are.
const CULPRITS_MAX: usize = 8;

/// Rounds that are told.
const ROUNDS_MAX: usize = 20;

/// Outputs that are looked at.
const OUTPUTS_MAX: usize = 8;

/// Bytes of an output that is shown.
const OUTPUT_BYTES_MAX: u64 = 4_000;

/// How a node stands whose attempt ended with its process, and is done again.
const CUT_OFF: &str = "cut off";

/// Lines of an output that are shown.
const OUTPUT_LINES_MAX: usize = 24;

/// How much there is to write on, and whether in colours.
pub(crate) struct Sheet<'a> {
    out: &'a Out,
    columns: usize,
    rows: usize,
}

impl<'a> Sheet<'a> {
    /// The terminal, or what stands for it in a pipe.
    pub(crate) fn of(out: &'a Out) -> Sheet<'a> {
        if out.is_terminal() {
            let (columns, rows) = out.size();
            Sheet { out, columns: columns.max(PLAN_MIN), rows: (rows.max(1) - 1).clamp(ROWS_MIN, ROWS_MAX) }
        } else {
            Sheet { out, columns: COLUMNS_ELSE, rows: ROWS_MAX }
        }
    }

    /// Rows that a line takes: a command is not cut, and may need two.
    fn rows_of(&self, line: &str) -> usize {
        visible(line).div_ceil(self.columns).max(1)
    }
}

/// Ids begin with the time: their ends tell runs apart in fewer characters.
pub(crate) fn ending(run: &str) -> &str {
    run.rsplit('-').next().unwrap_or(run)
}

/// Whether silence has ended a question: no answer is taken any more.
pub(crate) fn is_over(deadline_ms: Option<i64>) -> bool {
    deadline_ms.is_some_and(|deadline| deadline < now_ms())
}

/// What a yes is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen<'a> {
    /// What was shown here, with this digest.
    Here(&'a str),
    /// What the command shows before it asks: there is a terminal.
    AtTerminal,
    /// What has to be looked at first.
    NotYet,
}

impl Seen<'_> {
    /// Of what is told on `out` without being shown.
    pub(crate) fn on(out: &Out) -> Seen<'static> {
        if out.is_terminal() { Seen::AtTerminal } else { Seen::NotYet }
    }
}

/// The commands that answer what a node waits for; the first is the one that is meant most often.
pub(crate) fn answers(run: &str, node: &str, ask: &str, seen: Seen<'_>) -> Vec<String> {
    let run = ending(run);
    if ask == "in_doubt" {
        return ["--done FILE", "--redo", "--fail"]
            .map(|how| advice::command("resolve", &[run, node], how))
            .into();
    }
    let yes = match seen {
        Seen::Here(digest) => advice::command("approve", &[run, node], &format!("--digest {digest}")),
        Seen::AtTerminal => advice::command("approve", &[run, node], ""),
        Seen::NotYet => advice::command("approvals", &[], ""),
    };
    vec![yes, advice::command("reject", &[run, node], "--note WHY")]
}

/// How long a question stays open.
pub(crate) fn silence(deadline_ms: i64) -> String {
    match deadline_ms - now_ms() {
        left @ 1.. => format!("; silence cancels it in {}", span(left)),
        _ => "; its time is over: it is cancelled when the run goes on".to_owned(),
    }
}

/// Tells what came of a run.
pub(crate) async fn tell(client: &Client, summary: &Summary, nodes_told: bool, out: &mut Out) {
    let graph = client.get::<GraphView>(&format!("/v1/runs/{}/graph", part(&summary.run))).await.ok();
    let outputs = match &graph {
        Some(graph) => outputs(client, summary, graph).await,
        None => Vec::new(),
    };
    let sheet = Sheet::of(out);
    let short = clients::short(client, summary).await;
    let lines = page(&sheet, summary, short.as_ref(), graph.as_ref().filter(|_| !nodes_told), &outputs);
    out.line(lines.join("\n"));
}

/// An output, as far as it is shown.
struct Output {
    node: String,
    bytes: u64,
    /// It is nothing but text.
    is_text: bool,
    lines: Vec<String>,
}

/// All of it, in no more rows than there are.
fn page(
    sheet: &Sheet<'_>,
    summary: &Summary,
    short: Option<&ClientLine>,
    graph: Option<&GraphView>,
    outputs: &[Output],
) -> Vec<String> {
    let head = head(sheet, summary);
    let figures = figures(sheet, summary);
    let mut left = sheet.rows.saturating_sub(head.len() + figures.len());
    let take = |lines: Vec<String>, left: &mut usize| {
        *left = left.saturating_sub(lines.iter().map(|line| sheet.rows_of(line)).sum());
        lines
    };
    let waiting = take(waiting(sheet, summary, short, left / 2), &mut left);
    let culprits = take(culprits(sheet, summary, CULPRITS_MAX, left / 2), &mut left);
    let (mut told, rest) = outputs_told(sheet, summary, outputs, left / 2);
    left = left.saturating_sub(rest);
    let nodes = match graph {
        Some(graph) if graph.nodes.len() <= left => nodes(sheet, graph),
        Some(graph) => {
            let nodes = count(graph.nodes.len(), "node");
            vec![format!("  {nodes}: {} lists them", advice::show(ending(&summary.run)))]
        }
        None => Vec::new(),
    };
    left = left.saturating_sub(nodes.len());
    let outputs = told.iter_mut().flat_map(|(line, output)| {
        let content = output.map_or_else(Vec::new, |output| content(sheet, output, left));
        left -= content.len();
        std::iter::once(std::mem::take(line)).chain(content)
    });
    let outputs: Vec<String> = outputs.collect();
    [head, nodes, figures, culprits, waiting, outputs].concat()
}

/// The first line: how it stands.
pub(crate) fn head(sheet: &Sheet<'_>, summary: &Summary) -> Vec<String> {
    let word = match (&summary.outcome, summary.standing) {
        (Some(outcome), standing) if standing != Standing::Quarantined => outcome.as_str(),
        (_, standing) => standing.as_str(),
    };
    let version = if summary.version > 1 { format!(", version {}", summary.version) } else { String::new() };
    let took = took(summary.makespan_ms);
    let rest = width(word) + width(&version) + width(&summary.run) + width(&took) + 6;
    let plan = fit_name(&summary.plan, sheet.columns.saturating_sub(rest).max(PLAN_MIN));
    let mut when = format!("{}, ", date(summary.opened_ms));
    if rest + width(&plan) + width(&when) > sheet.columns {
        when = String::new();
    }
    let (state, plan) = (sheet.out.paint(paint_of(word), word), sheet.out.paint(Paint::Bold, &plan));
    let mut lines = vec![format!("{state}  {plan}{version}  {}  {when}{took}", summary.run)];
    if let Some(reason) = &summary.reason {
        lines.push(fit(&format!("  set aside: {reason}"), sheet.columns));
        if !summary.past && summary.standing != Standing::Quarantined {
            lines.push(format!("  {} takes it up again", advice::resume(&summary.run)));
        }
    }
    lines
}

/// A line for each node.
pub(crate) fn nodes(sheet: &Sheet<'_>, graph: &GraphView) -> Vec<String> {
    let names = graph.nodes.iter().map(|node| width(&node.id)).max().unwrap_or(0).min(NAME_MAX);
    graph.nodes.iter().map(|node| node_told(sheet, node, names)).collect()
}

fn node_told(sheet: &Sheet<'_>, node: &GraphNode, names: usize) -> String {
    let took = node.busy_ms.map(took).unwrap_or_default();
    let word = if node.interrupted { CUT_OFF } else { words::state(&node.state) };
    let detail = match (node.state.as_str(), &node.failure, &node.reason) {
        _ if node.interrupted => "its process ended; it is done again when the run goes on".to_owned(),
        ("executed", ..) if node.attempts > 1 => format!("attempt {}", node.attempts),
        ("executed" | "pending" | "ready" | "running", ..) => String::new(),
        ("failed" | "waiting_human" | "failed_retryable", Some(failure), reason) => {
            words::loss(reason.as_deref().unwrap_or_default(), Some(failure))
        }
        (_, _, reason) => reason.as_deref().map(words::reason).unwrap_or_default(),
    };
    let paint = if node.interrupted { Paint::Care } else { paint_of(&node.state) };
    let state = sheet.out.paint(paint, &padded(word, 9));
    let name = padded(&node.id, names);
    let before = 2 + width(&name) + 2 + width(word).max(9) + 1 + width(&took).max(9) + 2;
    let detail = fit(&detail, sheet.columns.saturating_sub(before));
    format!("  {name}  {state} {took:>9}  {detail}").trim_end().to_owned()
}

/// How it went, in numbers.
pub(crate) fn figures(sheet: &Sheet<'_>, summary: &Summary) -> Vec<String> {
    let mut states: Vec<(&str, usize)> = Vec::new();
    let cut_off: BTreeSet<&String> = summary.interrupted.iter().collect();
    for (node, state) in &summary.nodes {
        let state = if cut_off.contains(node) { CUT_OFF } else { state };
        match states.iter_mut().find(|(name, _)| *name == state) {
            Some((_, count)) => *count += 1,
            None => states.push((state, 1)),
        }
    }
    let states: Vec<String> =
        states.iter().map(|(state, count)| format!("{count} {}", words::state(state))).collect();
    let attempts = format!("  ({})", count(summary.dispatches as usize, "attempt"));
    let before = "  rounds         ";
    let rounds = rounds(&summary.rounds, &attempts, sheet.columns.saturating_sub(before.len()));
    let mut lines = vec![
        fit(&format!("  nodes          {}", states.join(", ")), sheet.columns),
        fit(&format!("{before}{rounds}"), sheet.columns),
        fit(&makespan(summary), sheet.columns),
    ];
    // Of a run that lost what it was for, there is no result to rely on.
    if let (Some(bounds), Some("succeeded" | "concluded")) = (summary.reliability, summary.outcome.as_deref())
    {
        let text = format!(
            "  reliability    at least {:.3}; {:.3} if nodes err independently",
            bounds.always, bounds.independent
        );
        lines.push(fit(&text, sheet.columns));
    }
    if summary.cost > 0 {
        let budget = summary.budget.map(|budget| format!(" of {budget}")).unwrap_or_default();
        let text = format!("  cost           {}{budget}", count(summary.cost as usize, "credit"));
        lines.push(fit(&text, sheet.columns));
    }
    if let Some(parent) = &summary.parent {
        let text =
            format!("  opened by      step {:?} of {} of run {}", parent.step, parent.node, parent.run);
        lines.push(fit(&text, sheet.columns));
    }
    lines
}

/// How long it took, and how much of that its nodes were at work. Of work that took no time that is measured, nobody can say how
/// much of it went on at once.
fn makespan(summary: &Summary) -> String {
    let (path, parallelism) = match (summary.dispatches, summary.critical_path_ms) {
        (0, _) => ("-".to_owned(), "-".to_owned()),
        (_, ..1) => (took(0), "-".to_owned()),
        (_, path) => (took(path), format!("{:.2}", summary.parallelism)),
    };
    let whole = took(summary.makespan_ms);
    format!("  makespan       {whole}  critical path {path}  parallelism {parallelism}")
}

/// The first rounds, as many as fit; how many there are, if that is not all of them; and beside them how many attempts that
/// were, if there is room for a round too.
fn rounds(rounds: &[u32], attempts: &str, columns: usize) -> String {
    let many = rounds.len();
    let told = |some: usize| {
        if many == 0 {
            return "-".to_owned();
        }
        let mut told: Vec<String> = rounds[..some].iter().map(ToString::to_string).collect();
        if some < many {
            told.push(format!("… {many} in all"));
        }
        told.join(", ")
    };
    let most = many.min(ROUNDS_MAX);
    let fitting =
        |least: usize, columns: usize| (least..=most).rev().map(told).find(|told| width(told) <= columns);
    let beside = columns.checked_sub(width(attempts)).and_then(|columns| fitting(most.min(1), columns));
    match beside {
        Some(told) => told + attempts,
        None => fitting(0, columns).unwrap_or_else(|| fit(&told(most), columns)),
    }
}

/// The first culprit of every loss: `most` of them, in no more than so many rows, of which there is one at least. What there is room
/// for beside their first lines goes to those that come first.
pub(crate) fn culprits(sheet: &Sheet<'_>, summary: &Summary, most: usize, rows: usize) -> Vec<String> {
    let many = summary.root_causes.len();
    let most = most.min(rows);
    let told = if many <= most { many } else { most.saturating_sub(1) };
    let mut spare = rows.saturating_sub(told + usize::from(told < many));
    let mut lines = Vec::new();
    for culprit in &summary.root_causes[..told] {
        let of_it = culprit_told(sheet, culprit, spare.saturating_add(1));
        spare = spare.saturating_sub(of_it.len() - 1);
        lines.extend(of_it);
    }
    if told < many {
        lines.push(format!("  … and {} more: {}", many - told, advice::show(ending(&summary.run))));
    }
    lines
}

/// What was lost first, and below it what would mend it, in no more than `rows` rows, of which there is one at least.
fn culprit_told(sheet: &Sheet<'_>, culprit: &RootCause, rows: usize) -> Vec<String> {
    let what = words::loss(&culprit.reason, culprit.message.as_deref());
    let (what, mend) = match what.split_once(REMEDY) {
        Some((what, mend)) => (what.to_owned(), Some(format!("if it is meant to, {mend}"))),
        None => (what, None),
    };
    let mend = mend.or_else(|| words::mend(&what).map(str::to_owned));
    let page = what.split(": ").find(|word| pages::is_of_gate(word));
    let page = page.map(|code| format!("`ostler help {code}` tells more"));
    let mut lost = match culprit.lost.as_slice() {
        [] => String::new(),
        lost => format!("  (lost with it: {})", lost.join(", ")),
    };
    if width(&lost) > sheet.columns / 2 {
        lost = format!("  ({} lost with it)", culprit.lost.len());
    }
    let state = sheet.out.paint(Paint::Bad, &culprit.state);
    // What concerns the plan as a whole is told of its results.
    let node = if culprit.node == "*" { "what it gave" } else { &culprit.node };
    let node = fit_name(node, sheet.columns / 2);
    let before = 2 + width(&culprit.state) + 1 + width(&node) + 2;
    let below = sheet.columns.saturating_sub(BELOW.len());
    let room = rows.min(REASON_LINES_MAX);
    let told = reason_told(&what, &lost, sheet.columns.saturating_sub(before), below, room);
    let left = rows - told.len();
    let mut told = told.into_iter();
    let first = format!("  {state} {node}: {}", told.next().unwrap_or_default());
    let beside = [mend, page].into_iter().flatten().take(left).map(|line| fit(&line, below));
    std::iter::once(first).chain(told.chain(beside).map(|line| format!("{BELOW}{line}"))).collect()
}

/// A reason and what was lost with it, in no more than `most` lines: the first has `first` columns, the others `below`.
fn reason_told(reason: &str, lost: &str, first: usize, below: usize, most: usize) -> Vec<String> {
    if most <= 1 {
        return vec![fit(reason, first.saturating_sub(width(lost))) + lost];
    }
    let has_room = |lines: &[String]| {
        let room = if lines.len() == 1 { first } else { below };
        lines.last().is_some_and(|last| width(last) + width(lost) <= room)
    };
    let mut lines = wrapped(reason, first, below, most);
    if !has_room(&lines) && lines.len() == most {
        lines = wrapped(reason, first, below, most - 1);
    }
    if !has_room(&lines) {
        lines.push(lost.trim_start().to_owned());
    } else if let Some(last) = lines.last_mut() {
        last.push_str(lost);
    }
    lines
}

/// What comes before the lines below the first of a culprit.
const BELOW: &str = "    ";

/// Lines of a reason that are told.
const REASON_LINES_MAX: usize = 5;

/// What a run waits for that comes behind another one of its agent.
pub(crate) fn behind(first: &str) -> String {
    format!(
        "  waits behind run {first} of its agent, which waits for a person: {}",
        advice::show(ending(first))
    )
}

/// What a person has to do, in no more than `most` rows, of which there are some at least. `short`: the client, if it has
/// to get credits first.
pub(crate) fn waiting(
    sheet: &Sheet<'_>,
    summary: &Summary,
    short: Option<&ClientLine>,
    most: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rows = 0;
    for (at, waiting) in summary.waiting.iter().enumerate() {
        let is_set_aside = summary.standing == Standing::Checkpointed;
        let answers = match summary.past || is_set_aside || is_over(waiting.deadline_ms) {
            true => Vec::new(),
            false => answers(&summary.run, &waiting.node, &waiting.ask, Seen::on(sheet.out)),
        };
        let answers: Vec<String> = answers.iter().map(|answer| format!("    {answer}")).collect();
        let needed = 1 + answers.iter().map(|answer| sheet.rows_of(answer)).sum::<usize>();
        if at > 0 && rows + needed + 1 > most {
            let show = advice::show(ending(&summary.run));
            lines.push(format!("  … and {} more: {show}", summary.waiting.len() - at));
            break;
        }
        rows += needed;
        let node = fit_name(&waiting.node, sheet.columns / 2);
        lines.push(if waiting.ask == "in_doubt" {
            let met = waiting.why.as_deref().unwrap_or("it was started");
            let rest = format!(" {node}: {met}; what became of it is not known");
            let doubt = sheet.out.paint(Paint::Care, "in doubt");
            format!("  {doubt}{}", fit(&rest, sheet.columns.saturating_sub(10)))
        } else {
            let what = words::asked(&waiting.ask);
            let (silence, listed) = match waiting.deadline_ms {
                _ if summary.past => (String::new(), String::new()),
                deadline => {
                    let listed = format!(" ({})", advice::command("approvals", &[], ""));
                    (deadline.map(silence).unwrap_or_default(), listed)
                }
            };
            let rest = format!(" {node}: {what}{listed}{silence}{}", waited_for(&waiting.blocks));
            let waits = sheet.out.paint(Paint::Care, "waits");
            format!("  {waits}{}", fit(&rest, sheet.columns.saturating_sub(7)))
        });
        lines.extend(answers);
    }
    lines.extend(summary.blocked_by.as_deref().map(behind));
    let resume = format!("{} goes on", advice::resume(&summary.run));
    match (short, summary.standing == Standing::Open && !summary.past) {
        (Some(short), true) => {
            lines.push(format!("  {}", clients::waits(short)));
            lines.push(format!("  then {resume}"));
        }
        (Some(short), false) => lines.push(format!("  {}", clients::waits(short))),
        (None, true) => lines.push(format!("  it stands still: {resume}")),
        (None, false) => {}
    }
    lines
}

/// The outputs that are told, in no more than `most` lines, and the rows that takes.
fn outputs_told<'o>(
    sheet: &Sheet<'_>,
    summary: &Summary,
    outputs: &'o [Output],
    most: usize,
) -> (Vec<(String, Option<&'o Output>)>, usize) {
    let all = summary.outputs.len();
    let mut told: Vec<(String, Option<&Output>)> = Vec::new();
    let mut rows = 0;
    for output in outputs {
        let line = output_line(sheet, &summary.run, output);
        let needed = sheet.rows_of(&line);
        let is_last = told.len() + 1 == all;
        if !told.is_empty() && rows + needed + usize::from(!is_last) > most {
            break;
        }
        rows += needed;
        told.push((line, Some(output)));
    }
    if told.len() < all {
        let more = count(all - told.len(), "more output");
        let artifact = advice::command("artifact", &[&format!("{}/NODE", ending(&summary.run))], "");
        told.push((format!("  … and {more}: {artifact}"), None));
        rows += 1;
    }
    (told, rows)
}

fn output_line(sheet: &Sheet<'_>, run: &str, output: &Output) -> String {
    let (node, size) = (&output.node, bytes(output.bytes));
    let path = if output.is_text { "--path text" } else { "" };
    let line = |run: &str| {
        let artifact = advice::command("artifact", &[&format!("{run}/{node}")], path);
        format!("  output         {node}  {size}  {artifact}")
    };
    let whole = line(run);
    if width(&whole) <= sheet.columns { whole } else { line(ending(run)) }
}

/// The beginning of an output, in no more than `most` lines.
fn content(sheet: &Sheet<'_>, output: &Output, most: usize) -> Vec<String> {
    let many = output.lines.len();
    let most = most.min(OUTPUT_LINES_MAX);
    let told = if many <= most { many } else { most.saturating_sub(1) };
    let mut lines: Vec<String> =
        output.lines[..told].iter().map(|line| fit(&format!("  │ {line}"), sheet.columns)).collect();
    if told < many && most > 0 {
        lines.push(format!("  │ … {}", count(many - told, "more line")));
    }
    lines
}

/// The first outputs.
async fn outputs(client: &Client, summary: &Summary, graph: &GraphView) -> Vec<Output> {
    let mut outputs = Vec::new();
    let sizes: BTreeMap<&str, Option<u64>> =
        graph.nodes.iter().map(|node| (node.id.as_str(), node.bytes)).collect();
    for node in summary.outputs.keys().take(OUTPUTS_MAX) {
        let bytes = sizes.get(node.as_str()).copied().flatten().unwrap_or(0);
        let value = if bytes <= OUTPUT_BYTES_MAX { value(client, &summary.run, node).await } else { None };
        let text = value.as_ref().and_then(text_of);
        let lines = match (text, &value) {
            (Some(text), _) => text.lines().map(str::to_owned).collect(),
            (None, Some(value)) => vec![value.to_string()],
            (None, None) => Vec::new(),
        };
        outputs.push(Output { node: node.clone(), bytes, is_text: text.is_some(), lines });
    }
    outputs
}

async fn value(client: &Client, run: &str, node: &str) -> Option<Value> {
    let path = format!("/v1/runs/{}/nodes/{}/artifact", part(run), part(node));
    let response = client.ask(hyper::Method::GET, &path, "*/*", None).await.ok()?;
    serde_json::from_slice(&whole(response.into_body()).await.ok()?).ok()
}

/// The text of a result that is nothing but text.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(members) if members.len() == 1 => members.get("text")?.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
