//! `ostler rerun`.

use std::path::Path;

use clap::Args;
use ostler_server::wire::{RerunRequest, RunRef};

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::Failure;
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, watch};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Execute this node and everything below it, although results are recorded
    #[arg(long, value_name = "NODE", value_parser = node_name)]
    from: Option<String>,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn rerun(globals: &Globals, args: RerunArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    let path = format!("/v1/runs/{}/rerun", path_segment(&args.run));
    open_and_watch(globals, &path, &RerunRequest { from: args.from }, args.watch, args.metrics).await
}

/// Opens the requested run, and shows its progress.
pub(super) async fn open_and_watch<R: serde::Serialize + Sync>(
    globals: &Globals,
    path: &str,
    request: &R,
    options: WatchOptions,
    metrics: MetricsOption,
) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, metrics).await?;
    let run = match session.post::<RunRef>(path, request).await {
        Ok(RunRef { run }) => run,
        Err(refused) => return session.stop_with(refused).await,
    };
    let what =
        Watch { run, before: None, json: globals.json, options, labelled: false, quiet: false, turn: None };
    watch(session, &mut signals, what, &mut out).await
}
