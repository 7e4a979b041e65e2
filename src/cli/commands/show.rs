//! `ostler show`.

use std::num::NonZeroU64;
use std::path::Path;

use clap::{Args, ValueEnum};
use ostler_server::wire::{GraphView, Summary};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{positive_integer, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::graph::{dot, mermaid};
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
