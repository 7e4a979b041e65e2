//! `ostler rerun`.

use std::path::{Path, PathBuf};

use clap::Args;
use ostler_kernel::plan::PlanDraft;
use ostler_server::STALE_EDITS;
use ostler_server::wire::{Invoice, RerunRequest, RunRef};

use super::earlier_edits::{self, EarlierEdits, Repetition};
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption, plan};
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;
use crate::cli::output::{findings, invoice};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, watch};
use crate::cli::session::{AccessMode, Session, settings};

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Execute this node and everything below it, although results are recorded
    #[arg(long, value_name = "NODE", value_parser = node_name)]
    from: Option<String>,
    /// Take this plan in the place of the run's; its edits, and the results of what is the same, stay
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Value of the parameter ${KEY} of the plan
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = plan::key_value, requires = "plan")]
    params: Vec<(String, String)>,
    #[command(flatten)]
    earlier: EarlierEdits,
    /// Print what would be executed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

impl RerunArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.dry_run
    }
}

pub(crate) async fn rerun(globals: &Globals, args: RerunArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    let path = format!("/v1/runs/{}/rerun", path_segment(&args.run));
    let plan = match &args.plan {
        Some(file) => Some(read_plan(globals, file, args.params)?),
        None => None,
    };
    let request = RerunRequest { from: args.from, plan, earlier_edits: args.earlier.into() };
    if args.dry_run {
        return print_invoice(globals, &format!("{path}/invoice"), &request).await;
    }
    open_and_watch(globals, &path, request, args.watch, args.metrics).await
}

/// Reads and judges the plan that takes the place of the run's.
fn read_plan(globals: &Globals, file: &Path, params: Vec<(String, String)>) -> Result<PlanDraft, Failure> {
    let mut file = plan::read_named(file, params)?;
    let (config, _) = settings::load_settings(globals, Path::new("."))?;
    if let Some(model) = globals.chosen_model(&config, None)? {
        file.ask(&model);
    }
    plan::judge(&file, &config)
        .map_err(|findings| findings::report_plan(&file, &findings, globals.json, &mut Out::new()))?;
    Ok(file.draft().expect("a valid plan was read as a whole").clone())
}

/// Prints what a repetition would execute at most, and changes nothing.
pub(super) async fn print_invoice<R: serde::Serialize + Sync>(
    globals: &Globals,
    path: &str,
    request: &R,
) -> Result<u8, Failure> {
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let invoice: Result<Invoice, ApiError> = session.post_idempotent(path, request).await;
    session.stop().await;
    invoice::print(&invoice?, globals.json, &mut Out::new());
    Ok(code::SUCCEEDED)
}

/// Opens the requested run, and shows its progress.
pub(super) async fn open_and_watch<R: Repetition>(
    globals: &Globals,
    path: &str,
    mut request: R,
    options: WatchOptions,
    metrics: MetricsOption,
) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, metrics).await?;
    let mut opened = session.post::<RunRef>(path, &request).await;
    if let Err(ApiError::Problem(problem)) = &opened
        && problem.code == STALE_EDITS
        && !globals.json
        && let Some(edits) = earlier_edits::decide(problem, &mut signals).await
    {
        request.decide(edits);
        opened = session.post::<RunRef>(path, &request).await;
    }
    let run = match opened {
        Ok(RunRef { run }) => run,
        Err(refused) => return session.stop_with(refused).await,
    };
    let what =
        Watch { run, before: None, json: globals.json, options, labelled: false, quiet: false, turn: None };
    watch(session, &mut signals, what, &mut out).await
}
