//! `ostler show`.

use std::num::NonZeroU64;
use std::path::Path;

use clap::{Args, ValueEnum};
use ostler_server::wire::{GraphView, Summary};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{positive_integer, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::summary;
use crate::cli::output::summary::{Page, figures, root_causes, waiting};
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session, report};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Dot,
    Mermaid,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Show the run as of this record
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true, value_parser = positive_integer)]
    at: Option<NonZeroU64>,
    /// Output format [default: text, or json with --json]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

pub(crate) async fn show(globals: &Globals, args: ShowArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let format = match (args.format, globals.json) {
        (None | Some(Format::Json), true) => Format::Json,
        (format, false) => format.unwrap_or(Format::Text),
        (Some(_), true) => {
            let what = "--json: conflicts with --format; omit one of them";
            return Err(Failure::invalid(what));
        }
    };
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let shown = print(&mut session, args, format, &mut out).await;
    session.stop().await;
    shown.map(|()| code::SUCCEEDED)
}

async fn print(session: &mut Session, args: ShowArgs, format: Format, out: &mut Out) -> Result<(), Failure> {
    let at = args.at.map(|at| format!("?at={at}")).unwrap_or_default();
    let path = format!("/v1/runs/{}", path_segment(&args.run));
    if format == Format::Json {
        let summary: Summary = session.get(&format!("{path}{at}")).await?;
        hints::know_model(&summary.run, summary.model_file.as_deref());
        out.json(&summary);
        return Ok(());
    }
    let graph: GraphView = session.get(&format!("{path}/graph{at}")).await?;
    match format {
        Format::Dot => out.raw(dot(&graph).as_bytes()),
        Format::Mermaid => out.raw(mermaid(&graph).as_bytes()),
        Format::Text | Format::Json => {
            let summary: Summary = session.get(&format!("{path}{at}")).await?;
            hints::know_model(&summary.run, summary.model_file.as_deref());
            let short = report::short(&session.client, &summary).await;
            let page = Page::of(out);
            let lines = [
                summary::header_lines(&page, &summary),
                root_causes::root_cause_lines(&page, &summary, usize::MAX, usize::MAX),
                waiting::waiting_lines(&page, &summary, short.as_ref(), usize::MAX),
                summary::node_lines(&page, &graph),
                figures::figure_lines(&page, &summary, true),
            ];
            out.line(lines.concat().join("\n"));
            report::print_answer(&summary, out);
        }
    }
    Ok(())
}

fn colour(state: &str) -> &'static str {
    match state {
        "executed" => "#b7e4c7",
        "failed" => "#f4a6a6",
        "cancelled" => "#e5c1c1",
        "skipped" => "#e5e5e5",
        "running" => "#a9d6f5",
        "waiting_human" | "failed_retryable" | "blocked" => "#fbe3a4",
        _ => "#ffffff",
    }
}

fn dot(graph: &GraphView) -> String {
    let mut text = format!("digraph {:?} {{\n  node [shape=box, style=filled]\n", graph.plan);
    for node in &graph.nodes {
        let uses = node.uses.as_deref().unwrap_or(&node.kind);
        let label = format!("{}\\n{}\\n{}", node.id, uses.replace('"', "'"), node.state);
        let outline = if graph.outputs.contains(&node.id) { ", penwidth=2" } else { "" };
        text += &format!(
            "  \"{}\" [label=\"{label}\", fillcolor=\"{}\"{outline}]\n",
            node.id,
            colour(&node.state)
        );
    }
    for edge in &graph.edges {
        let style = if edge.on == "terminal" { " [style=dashed]" } else { "" };
        text += &format!("  \"{}\" -> \"{}\"{style}\n", edge.from, edge.to);
    }
    text + "}\n"
}

fn mermaid(graph: &GraphView) -> String {
    // Mermaid does not accept all characters of node ids in names.
    let name = |id: &str| {
        graph.nodes.iter().position(|node| node.id == id).map_or_else(String::new, |at| format!("n{at}"))
    };
    let mut text = "flowchart TD\n".to_owned();
    for node in &graph.nodes {
        let uses = node.uses.as_deref().unwrap_or(&node.kind).replace('"', "'");
        let name = name(&node.id);
        text += &format!("  {name}[\"{}<br/>{uses}<br/>{}\"]\n", node.id, node.state);
        text += &format!("  style {name} fill:{}\n", colour(&node.state));
    }
    for edge in &graph.edges {
        let arrow = if edge.on == "terminal" { "-.->" } else { "-->" };
        text += &format!("  {} {arrow} {}\n", name(&edge.from), name(&edge.to));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use ostler_server::wire::{GraphEdge, GraphNode};

    fn graph() -> GraphView {
        let node = |id: &str, state: &str, uses: Option<&str>| GraphNode {
            id: id.to_owned(),
            kind: "tool".to_owned(),
            uses: uses.map(str::to_owned),
            level: 0,
            state: state.to_owned(),
            reason: None,
            since_ms: 0,
            attempts: 1,
            interrupted: false,
            busy_ms: None,
            failure: None,
            artifact: None,
            bytes: None,
        };
        GraphView {
            run: "r".to_owned(),
            plan: "p".to_owned(),
            version: 1,
            nodes: vec![node("a.b", "executed", Some("fs.list")), node("end", "pending", None)],
            edges: vec![GraphEdge {
                from: "a.b".to_owned(),
                to: "end".to_owned(),
                on: "terminal".to_owned(),
            }],
            outputs: vec!["end".to_owned()],
        }
    }

    #[test]
    fn dot_marks_states_outputs_and_terminal_edges() {
        expect![[r##"
            digraph "p" {
              node [shape=box, style=filled]
              "a.b" [label="a.b\nfs.list\nexecuted", fillcolor="#b7e4c7"]
              "end" [label="end\ntool\npending", fillcolor="#ffffff", penwidth=2]
              "a.b" -> "end" [style=dashed]
            }
        "##]]
        .assert_eq(&dot(&graph()));
    }

    #[test]
    fn mermaid_gives_names_that_it_takes() {
        expect![[r#"
            flowchart TD
              n0["a.b<br/>fs.list<br/>executed"]
              style n0 fill:#b7e4c7
              n1["end<br/>tool<br/>pending"]
              style n1 fill:#ffffff
              n0 -.-> n1
        "#]]
        .assert_eq(&mermaid(&graph()));
    }
}
