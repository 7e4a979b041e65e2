//! The requests behind the report about a run.

use std::collections::BTreeMap;

use ostler_kernel::policy::{ANSWER, Label};
use ostler_server::wire::{AnswerView, ClientRow, GraphView, Summary};
use serde_json::Value;

use crate::cli::output::approval::text_of;
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::credits::is_short;
use crate::cli::output::hints;
use crate::cli::output::labels::short_id;
use crate::cli::output::summary::figures::model_text;
use crate::cli::output::summary::outputs::{OUTPUT_BYTES_MAX, OUTPUTS_MAX, Output};
use crate::cli::output::summary::{Page, ReportParts, layout};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::{Client, path_segment, read_body};

pub(crate) async fn print_report(client: &Client, summary: &Summary, parts: ReportParts, out: &mut Out) {
    let graph = client.get::<GraphView>(&format!("/v1/runs/{}/graph", path_segment(&summary.run))).await.ok();
    let outputs = match &graph {
        Some(graph) => outputs(client, summary, graph).await,
        None => Vec::new(),
    };
    let page = Page::of(out);
    let short = short(client, summary).await;
    let shown = graph.as_ref().filter(|_| parts.nodes);
    let lines = layout(&page, summary, short.as_ref(), shown, &outputs, parts.verbose);
    out.line(lines.join("\n"));
    print_answer(summary, out);
}

/// Prints the answer of a goal run, if there is one.
pub(crate) fn print_answer(summary: &Summary, out: &mut Out) {
    if let Some(answer) = &summary.answer {
        answer_lines(answer).iter().for_each(|line| out.line(line));
    }
}

/// Prints only the text of the answer. Doubts about the answer, or the end of a run without an answer, go to stderr.
pub(crate) fn print_answer_alone(summary: &Summary, out: &mut Out) {
    let Some(answer) = &summary.answer else {
        let how = match (summary.waits_for_person(), summary.needs_answer()) {
            (true, _) => format!("waits for a person: `{}`", hints::command("approvals", &[], "")),
            (_, true) => format!("waits for an answer: `{}`", hints::show(short_id(&summary.run))),
            _ => format!("is {}: `{}`", summary.status, hints::show(short_id(&summary.run))),
        };
        status_line(format!("run {} {how}", summary.run));
        return;
    };
    for line in reason_lines(answer) {
        status_line(line);
    }
    answer.text.lines().for_each(|line| out.line(harmless_line(line)));
}

/// Prints the answer of a turn, and a line about its run.
pub(crate) fn print_turn(summary: &Summary, out: &mut Out) {
    print_answer(summary, out);
    let usage = summary.models.as_ref().map(model_text).unwrap_or_default();
    let usage = usage.trim_start().split_once(' ').map_or("", |(_, usage)| usage.trim_start());
    let parts = [short_id(&summary.run), usage].into_iter().filter(|part| !part.is_empty());
    out.line(format!("({})", parts.collect::<Vec<_>>().join("; ")));
}

/// Reasons of an incomplete answer that no node shows; notes if the answer is complete.
fn reason_lines(answer: &AnswerView) -> Vec<String> {
    let is_incomplete = answer.labels.contains(&Label::Incomplete);
    let word = if is_incomplete { "incomplete" } else { "note" };
    answer.reasons.iter().map(|reason| format!("{word}: {}", harmless_line(reason))).collect()
}

/// The answer of a goal run: how far it carries, and the text as a whole.
fn answer_lines(answer: &AnswerView) -> Vec<String> {
    let labels: Vec<&str> = answer.labels.iter().map(|label| label.as_str()).collect();
    let rests = match answer.citations.as_slice() {
        [] => String::new(),
        cited => format!(
            "; rests on {}",
            cited.iter().map(|node| fit_name(node, usize::MAX)).collect::<Vec<_>>().join(", ")
        ),
    };
    let mut lines = vec![String::new()];
    lines.extend(reason_lines(answer));
    lines.push(format!("answer ({}{rests}):", labels.join(", ")));
    if answer.text.trim().is_empty() {
        lines.push("(nothing: no model wrote an answer, and there is no result)".to_owned());
    }
    lines.extend(answer.text.lines().map(harmless_line));
    lines
}

pub(crate) async fn outputs(client: &Client, summary: &Summary, graph: &GraphView) -> Vec<Output> {
    let mut outputs = Vec::new();
    let sizes: BTreeMap<&str, Option<u64>> =
        graph.nodes.iter().map(|node| (node.id.as_str(), node.bytes)).collect();
    for node in summary.outputs.keys().take(OUTPUTS_MAX) {
        let bytes = sizes.get(node.as_str()).copied().flatten().unwrap_or(0);
        let value = if bytes <= OUTPUT_BYTES_MAX { value(client, &summary.run, node).await } else { None };
        let text = value.as_ref().and_then(text_of);
        let is_answer = summary.answer.is_some() && node == ANSWER;
        let lines = match (text, &value) {
            // Printed whole below.
            _ if is_answer => Vec::new(),
            (Some(text), _) => text.lines().map(str::to_owned).collect(),
            (None, Some(value)) => vec![value.to_string()],
            (None, None) => Vec::new(),
        };
        outputs.push(Output { node: node.clone(), bytes, is_text: text.is_some(), lines });
    }
    outputs
}

pub(crate) async fn value(client: &Client, run: &str, node: &str) -> Option<Value> {
    let path = format!("/v1/runs/{}/nodes/{}/artifact", path_segment(run), path_segment(node));
    let response = client.request(hyper::Method::GET, &path, "*/*", None).await.ok()?;
    serde_json::from_slice(&read_body(response.into_body()).await.ok()?).ok()
}

/// Returns the client of a run that waits for credits, or `None` if the run does not wait or the client has
/// credits again.
pub(crate) async fn short(client: &Client, summary: &Summary) -> Option<ClientRow> {
    if !summary.out_of_credit || summary.past {
        return None;
    }
    let line =
        client.get::<ClientRow>(&format!("/v1/clients/{}", path_segment(&summary.client))).await.ok()?;
    is_short(&line).then_some(line)
}
