//! `ostler undo`.

use std::path::Path;

use clap::Args;

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::run_name;
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::commands::change_node::post;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, watch};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn undo(globals: &Globals, args: UndoArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let globals = &args.model.add_to(globals)?;
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let before = match session.summary(&args.run).await {
        Ok(before) => before,
        Err(failure) => return session.stop_with(failure).await,
    };
    if let Err(refused) = post(&mut session, &before.run, "undo").await {
        return session.stop_with(refused).await;
    }
    let what = Watch::from(&before, globals.json, WatchOptions::default());
    // The outcome of the run stays what it was; what counts is whether its effects are undone.
    match watch(session, &mut signals, what, &mut out).await? {
        code::FAILED if before.status.is_over() => Ok(code::SUCCEEDED),
        code => Ok(code),
    }
}
