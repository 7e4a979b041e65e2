//! What came of a run, on one screen.

use ostler_server::wire::{GraphView, Standing, Summary};
use serde_json::Value;

use super::approve::waited_for;
use super::client::{Client, part, whole};
use super::live::painted;
use super::term::{Out, Paint, bytes, date, harmless, now_ms, paint_of, short, span};

/// Nodes of which each has a line.
const NODES_MAX: usize = 20;

/// Culprits that are told.
const CULPRITS_MAX: usize = 8;

/// Bytes of an output that is shown.
const OUTPUT_BYTES_MAX: u64 = 4_000;

/// Lines of an output that are shown.
const OUTPUT_LINES_MAX: usize = 24;

/// Tells what came of a run.
pub(crate) async fn tell(client: &Client, summary: &Summary, nodes_told: bool, out: &mut Out) {
    let graph = client.get::<GraphView>(&format!("/v1/runs/{}/graph", part(&summary.run))).await.ok();
    head(summary, out);
    if let (false, Some(graph)) = (nodes_told, &graph) {
        nodes(graph, NODES_MAX, out);
    }
    figures(summary, out);
    culprits(summary, out);
    waiting(summary, out);
    if let Some(graph) = &graph {
        outputs(client, summary, graph, out).await;
    }
}

/// The first line: how it stands.
pub(crate) fn head(summary: &Summary, out: &mut Out) {
    let word = match (&summary.outcome, summary.standing) {
        (Some(outcome), _) => outcome.as_str(),
        (None, standing) => standing.as_str(),
    };
    let state = out.paint(paint_of(word), word);
    let version = if summary.version > 1 { format!(", version {}", summary.version) } else { String::new() };
    let plan = out.paint(Paint::Bold, &summary.plan);
    out.line(format!(
        "{state}  {plan}{version}  {}  {}, {}",
        summary.run,
        date(summary.opened_ms),
        span(summary.makespan_ms)
    ));
    if let Some(reason) = &summary.reason {
        out.line(format!("  set aside: {reason}"));
        out.line(format!("  ostler resume {} takes it up again", summary.run));
    }
}

/// A line for each node; of many, for those that matter most.
pub(crate) fn nodes(graph: &GraphView, most: usize, out: &mut Out) {
    let width = graph.nodes.iter().map(|node| node.id.chars().count()).max().unwrap_or(0).min(28);
    let mut shown: Vec<_> = graph.nodes.iter().collect();
    if shown.len() > most {
        let rank = |state: &str| match state {
            "failed" | "waiting_human" => 0,
            "cancelled" | "running" | "failed_retryable" => 1,
            "blocked" | "ready" => 2,
            "executed" => 3,
            _ => 4,
        };
        shown.sort_by_key(|node| rank(&node.state));
        shown.truncate(most - 1);
    }
    let hidden = graph.nodes.len() - shown.len();
    for node in shown {
        let took = node.busy_ms.map(span).unwrap_or_default();
        let detail = match (node.state.as_str(), &node.failure, &node.reason) {
            ("executed", ..) if node.attempts > 1 => format!("attempt {}", node.attempts),
            ("executed" | "pending" | "ready" | "running", ..) => String::new(),
            ("failed" | "waiting_human" | "failed_retryable", Some(failure), _) => short(failure, 80),
            (_, _, reason) => reason.clone().unwrap_or_default(),
        };
        let state = painted(out, &node.state, 9);
        out.line(format!("  {:<width$}  {state} {took:>9}  {detail}", node.id).trim_end());
    }
    if hidden > 0 {
        out.line(format!("  … and {hidden} more"));
    }
}

/// How it went, in numbers.
pub(crate) fn figures(summary: &Summary, out: &mut Out) {
    let mut states: Vec<(&str, usize)> = Vec::new();
    for state in summary.nodes.values() {
        match states.iter_mut().find(|(name, _)| name == state) {
            Some((_, count)) => *count += 1,
            None => states.push((state, 1)),
        }
    }
    let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    out.line(format!("  nodes          {}", states.join(", ")));
    let rounds: Vec<String> = summary.rounds.iter().take(20).map(ToString::to_string).collect();
    let more =
        if summary.rounds.len() > 20 { format!(", … ({})", summary.rounds.len()) } else { String::new() };
    out.line(format!("  rounds         {}{more}  ({} attempts)", rounds.join(", "), summary.dispatches));
    out.line(format!(
        "  makespan       {}  critical path {}  parallelism {:.2}",
        span(summary.makespan_ms),
        span(summary.critical_path_ms),
        summary.parallelism
    ));
    if let Some(bounds) = summary.reliability {
        out.line(format!(
            "  reliability    at least {:.3}; {:.3} if nodes err independently",
            bounds.always, bounds.independent
        ));
    }
}

/// The first culprit of every loss.
pub(crate) fn culprits(summary: &Summary, out: &mut Out) {
    for culprit in summary.culprits.iter().take(CULPRITS_MAX) {
        let what = culprit.message.as_deref().unwrap_or(&culprit.reason);
        let lost: Vec<&str> = culprit.lost.iter().map(String::as_str).take(6).collect();
        let more = culprit.lost.len() - lost.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let lost = if lost.is_empty() {
            String::new()
        } else {
            format!("  (lost with it: {}{more})", lost.join(", "))
        };
        let state = out.paint(Paint::Bad, &culprit.state);
        out.line(format!("  {state} {}: {}{lost}", culprit.node, short(what, 200)));
    }
    if summary.culprits.len() > CULPRITS_MAX {
        out.line(format!("  … and {} more", summary.culprits.len() - CULPRITS_MAX));
    }
}

/// How long a question stays open.
pub(crate) fn silence(deadline_ms: i64) -> String {
    match deadline_ms - now_ms() {
        left @ 1.. => format!("; silence cancels it in {}", span(left)),
        _ => "; its time is over: it is cancelled when the run goes on".to_owned(),
    }
}

/// What a person has to do.
pub(crate) fn waiting(summary: &Summary, out: &mut Out) {
    for waiting in summary.waiting.iter().take(CULPRITS_MAX) {
        let (run, node) = (&summary.run, &waiting.node);
        if waiting.ask == "in_doubt" {
            let doubt = out.paint(Paint::Care, "in doubt");
            out.line(format!(
                "  {doubt} {node}: it was started, and what became of it is not known. Settle it:"
            ));
            out.line(format!(
                "    ostler resolve {run} {node} --done RESULT.json   it was done; this is its result"
            ));
            out.line(format!("    ostler resolve {run} {node} --redo               do it again"));
            out.line(format!("    ostler resolve {run} {node} --fail               it counts as failed"));
        } else {
            let what = match waiting.ask.as_str() {
                "before" => "leave to start",
                "after" => "leave to publish its result",
                _ => "an answer",
            };
            let silence = waiting.deadline_ms.map(silence).unwrap_or_default();
            let waited_for = waited_for(&waiting.holds_up);
            let state = out.paint(Paint::Care, "waits");
            out.line(format!("  {state} {node}: a person is asked for {what}{silence}{waited_for}"));
            out.line("    ostler approvals   shows it");
            out.line(format!("    ostler approve {run} {node}"));
            out.line(format!("    ostler reject {run} {node} --note WHY"));
        }
    }
    if summary.standing == Standing::Open {
        out.line(format!("  nobody drives it: ostler resume {}", summary.run));
    }
}

async fn outputs(client: &Client, summary: &Summary, graph: &GraphView, out: &mut Out) {
    for node in graph.nodes.iter().filter(|node| summary.outputs.contains_key(&node.id)) {
        let (run, size) = (&summary.run, node.bytes.unwrap_or(0));
        let content = if size <= OUTPUT_BYTES_MAX { content(client, run, &node.id).await } else { None };
        let text = content.as_ref().and_then(text_of);
        let path = if text.is_some() { " --path text" } else { "" };
        out.line(format!(
            "  output         {}  {}  ostler artifact {run}/{}{path}",
            node.id,
            bytes(size),
            node.id
        ));
        match (text, &content) {
            (Some(text), _) => show(text, out),
            (None, Some(value)) => show(&value.to_string(), out),
            (None, None) => {}
        }
        if out.is_gone() {
            return;
        }
    }
}

async fn content(client: &Client, run: &str, node: &str) -> Option<Value> {
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

fn show(text: &str, out: &mut Out) {
    for line in text.lines().take(OUTPUT_LINES_MAX) {
        let line: String = line.chars().map(harmless).collect();
        out.line(format!("  │ {}", short(&line, 160)));
    }
    let more = text.lines().count().saturating_sub(OUTPUT_LINES_MAX);
    if more > 0 {
        out.line(format!("  │ … {more} more lines"));
    }
}
