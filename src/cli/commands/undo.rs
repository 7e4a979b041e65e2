//! `ostler undo`.

use std::path::Path;

use clap::Args;
use ostler_kernel::run::Undone;
use ostler_server::wire::{RunRef, Summary, UndoRequest};

use crate::cli::arguments::bounds::intent;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::run_name;
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, WatchEnd, close_watch, watch_one};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Highest impact of the calls that undo: 0 observe, 1 operate, 2 control [default: the intent of the run]
    #[arg(long, value_name = "0..2", allow_negative_numbers = true, value_parser = intent)]
    intent: Option<u8>,
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
    if before.status.is_over() && before.undo.as_ref().is_some_and(|undo| undo.state == Undone::Undone) {
        session.stop().await;
        if globals.json {
            out.json(&before);
        } else {
            out.line(format!("run {} is undone already", before.run));
        }
        return Ok(code::SUCCEEDED);
    }
    let undo = format!("/v1/runs/{}/undo", path_segment(&before.run));
    let begun: Result<RunRef, ApiError> = session.post(&undo, &UndoRequest { intent: args.intent }).await;
    if let Err(refused) = begun {
        return session.stop_with(refused).await;
    }
    let what = Watch::from(&before, globals.json, WatchOptions::default());
    let ended = match watch_one(&mut session, &mut signals, what, &mut out).await {
        Ok(WatchEnd::Settled(code)) => session
            .summary(&before.run)
            .await
            .map(|after| WatchEnd::Settled(if after.status.is_over() { exit_code(&after) } else { code })),
        ended => ended,
    };
    close_watch(session, &mut signals, &before.run, ended).await
}

/// The undo leaves the outcome of the run, which says nothing about the undo.
fn exit_code(after: &Summary) -> u8 {
    match after.undo.as_ref().map(|undo| undo.state) {
        Some(Undone::Undone) => code::SUCCEEDED,
        Some(Undone::Partly) | None => code::FAILED,
    }
}
