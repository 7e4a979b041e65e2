//! `ostler logs`.

use std::num::NonZeroU64;
use std::path::Path;

use clap::Args;
use ostler_server::wire::{GraphView, OutputRow, Summary};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{node_name, positive_integer, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_lines;
use crate::cli::output::hints;
use crate::cli::output::printed::{OUTPUT_NAME_MAX, note, output_lines};
use crate::cli::output::terminal::{Out, reader_gone, status_line};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::output_reader::OutputReader;
use crate::cli::session::{AccessMode, RECONNECTS_MAX, Session};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Only the output of this node, without its name before each line
    #[arg(value_parser = node_name)]
    node: Option<String>,
    /// Only the output of this attempt of the node, from 1
    #[arg(long, value_name = "NUMBER", requires = "node", allow_negative_numbers = true, value_parser = positive_integer)]
    attempt: Option<NonZeroU64>,
    /// Continue while the run executes
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn logs(globals: &Globals, args: LogsArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let printed = tokio::select! {
        printed = print_output(&mut session, globals, &args, &mut out) => printed,
        () = reader_gone(), if args.follow => Ok(()),
    };
    session.stop().await;
    printed.map(|()| code::SUCCEEDED)
}

async fn print_output(
    session: &mut Session,
    globals: &Globals,
    args: &LogsArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let summary: Summary = session.get(&format!("/v1/runs/{}", path_segment(&args.run))).await?;
    let attempt = args.attempt.map(NonZeroU64::get);
    let mut output = OutputReader::of(&summary.run, args.node.as_deref(), attempt);
    let mut count = 0_u64;
    for reconnects in 0.. {
        match print_connected(session, globals, args, &mut output, &mut count, out).await {
            Ok(()) => break,
            // Whoever holds the data folder next has the output too.
            Err(ApiError::ConnectionLost(_) | ApiError::NotSent(_)) if reconnects < RECONNECTS_MAX => {
                session.reconnect(AccessMode::Read).await?;
            }
            Err(refused) => return Err(refused.into()),
        }
    }
    if count == 0
        && let (Some(node), Some(attempt)) = (&args.node, attempt)
    {
        check_attempt(session, &summary.run, node, attempt).await?;
    }
    if count == 0 && !globals.json {
        let what = match (&args.node, attempt) {
            (Some(node), Some(attempt)) => format!("attempt {attempt} of node {node}"),
            (Some(node), None) => format!("node {node}"),
            (None, _) => "no program of this run".to_owned(),
        };
        let printed = if args.node.is_some() { "printed nothing" } else { "printed anything" };
        let show = hints::show(&summary.run);
        status_line(format!("{what} {printed}; `{show}` shows the results of nodes"));
    }
    Ok(())
}

/// Refuses an attempt that the node never had.
async fn check_attempt(session: &mut Session, run: &str, node: &str, attempt: u64) -> Result<(), Failure> {
    let graph: GraphView = session.get(&format!("/v1/runs/{}/graph", path_segment(run))).await?;
    let known = graph.nodes.iter().find(|known| known.id == node).map_or(0, |known| known.attempts);
    if attempt <= u64::from(known) {
        return Ok(());
    }
    let had = plural(known as usize, "attempt");
    Err(Failure::invalid(format!(
        "attempt {attempt}: node {node} had {had}; omit --attempt for the output of all"
    )))
}

async fn print_connected(
    session: &Session,
    globals: &Globals,
    args: &LogsArgs,
    output: &mut OutputReader,
    count: &mut u64,
    out: &mut Out,
) -> Result<(), ApiError> {
    match args.follow && session.client.is_remote() {
        true => output.connect(&session.client).await?,
        false => output.connect_until_now(&session.client).await?,
    }
    while let Some(row) = output.next().await? {
        *count += 1;
        if globals.json {
            out.json(&row);
        } else if args.node.is_some() {
            print_bare(&row, out);
        } else {
            let name_max = out.name_width(OUTPUT_NAME_MAX);
            output_lines(&row, name_max).iter().for_each(|line| out.line(line));
        }
        if out.is_closed() {
            break;
        }
    }
    Ok(())
}

/// Prints lines as the program did; at a terminal without control characters.
fn print_bare(row: &OutputRow, out: &mut Out) {
    if let Some(note) = note(&row.chunk) {
        out.line(note);
    }
    if row.chunk.lost.is_some() {
        return;
    }
    match out.is_terminal() {
        true => out.line(harmless_lines(&row.chunk.text)),
        false => out.line(&row.chunk.text),
    }
}
