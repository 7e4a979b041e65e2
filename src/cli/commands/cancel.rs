//! `ostler cancel`.

use std::path::Path;

use clap::Args;
use ostler_server::wire::{RunRef, Summary};

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::commands::change_node::{post, stop_node};
use crate::cli::exit::{Failure, code};
use crate::cli::output::live::NoView;
use crate::cli::output::summary;
use crate::cli::output::summary::Page;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::follow::{Display, FollowMode, connection_lost, exit_code, follow_until};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::report_interrupt;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Cancel only this node and its dependents
    #[arg(value_parser = node_name)]
    node: Option<String>,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn cancel(globals: &Globals, args: CancelArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    if let Some(node) = &args.node {
        return stop_node(globals, &args.run, node, "cancel", args.metrics).await;
    }
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Cancel, args.metrics).await?;
    let run = match post(&mut session, &args.run, "cancel").await {
        Ok(RunRef { run }) => run,
        Err(refused) => return session.stop_with(refused).await,
    };
    session.only_read();
    // Attempts that change the world run to their end.
    if let Ok(now) = session.summary(&run).await {
        tell_waiting(&now);
    }
    let (mut nothing, mut after) = (NoView, 0);
    let mut display = Display { view: &mut nothing, prompt: None, output: None, text: None, out: &mut out };
    let ended = tokio::select! {
        ended = follow_until(&mut session, &run, &mut after, "settled", FollowMode::Observe, &mut display) => Some(ended),
        code = signals.next() => {
            match session.client.is_remote() {
                true => status_line(format!("{run} is cancelled; it ends in the process that holds the data folder")),
                false => report_interrupt(session, &signals, &run).await,
            }
            return Ok(code);
        }
    };
    if let Some(Err(refused)) = ended {
        return session.stop_with(connection_lost(refused, &run)).await;
    }
    let after = match session.summary(&run).await {
        Ok(after) => after,
        Err(failure) => return session.stop_with(failure).await,
    };
    if globals.json {
        out.json(&after);
    } else {
        let head = summary::header_lines(&Page::of(&out), &after);
        out.line(head.join("\n"));
    }
    session.close(&mut signals).await?;
    // A cancelled run is the requested result.
    Ok(if after.status.is_over() { code::SUCCEEDED } else { exit_code(&after, false) })
}

/// Names the nodes that a cancelled run waits for, if there are any.
fn tell_waiting(now: &Summary) {
    let running = now.nodes.iter().filter(|(_, state)| state.as_str() == "running");
    let names: Vec<&str> = running.map(|(node, _)| node.as_str()).collect();
    let Some((last, others)) = names.split_last() else { return };
    let (nodes, change) = match others {
        [] => ((*last).to_owned(), "changes"),
        others => (format!("{} and {last}", others.join(", ")), "change"),
    };
    status_line(format!("run {} is cancelled; waits for {nodes}, which {change} the world", now.run));
}
