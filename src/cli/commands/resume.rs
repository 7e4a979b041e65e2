//! `ostler resume`.

use std::path::Path;

use clap::Args;
use ostler_actors::CHECKPOINTED;
use ostler_kernel::run::RunStatus;
use ostler_server::wire::{RunLine, RunList, Summary};

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::run_name;
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::commands::change_node::post;
use crate::cli::commands::market::post;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::hints;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, WatchEnd, report_interrupt, watch, watch_one};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, a part of it, or @last; without it, all open runs
    #[arg(value_parser = run_name)]
    run: Option<String>,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn resume(globals: &Globals, args: ResumeArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    let mut out = Out::new();
    if args.run.is_none() && has_no_data_folder("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let Some(run) = args.run else {
        return resume_all(session, globals, args.watch, &mut signals, &mut out).await;
    };
    let before = match session.summary(&run).await {
        Ok(summary) => summary,
        Err(failure) => return session.stop_with(failure).await,
    };
    let mut is_over = before.status.is_over();
    if !is_over {
        match post(&mut session, &before.run, "resume").await {
            Ok(_) => {}
            // A run that is queued or waits for a person is active already; it is watched.
            Err(ApiError::Problem(problem)) if problem.code == "invalid_state" => {
                is_over = problem.current.is_none_or(RunStatus::is_over);
            }
            Err(refused) => return session.stop_with(refused).await,
        }
    }
    if is_over && !globals.json {
        status_line(format!("run {} is closed, so nothing is resumed; its result:", before.run));
    }
    watch(session, &mut signals, Watch::from(&before, globals.json, args.watch), &mut out).await
}

async fn resume_all(
    mut session: Session,
    globals: &Globals,
    options: WatchOptions,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<u8, Failure> {
    let list = match session.get::<RunList>("/v1/runs?open=true").await {
        Ok(list) => list,
        Err(refused) => return session.stop_with(refused).await,
    };
    let mut open: Vec<String> = list
        .runs
        .into_iter()
        .filter(|line| !matches!(line.status, RunStatus::Suspended | RunStatus::Quarantined))
        .map(|line| line.run)
        .collect();
    open.reverse();
    let jobs = match post::resume(&mut session).await {
        Ok(jobs) => jobs,
        Err(refused) => return session.stop_with(refused).await,
    };
    let is_new = |job: &String| !open.contains(job);
    let begun: Vec<String> = jobs.into_iter().filter(is_new).collect();
    open.extend(begun);
    if !globals.json
        && let Err(refused) = print_suspended(&mut session, open.is_empty()).await
    {
        return session.stop_with(refused).await;
    }
    if open.is_empty() {
        session.stop().await;
        return Ok(code::SUCCEEDED);
    }
    let (watched, mut worst) = match resume_each(&mut session, open, globals.json, options).await {
        Ok(resumed) => resumed,
        Err(refused) => return session.stop_with(refused).await,
    };
    let labelled = watched.len() > 1;
    for what in watched {
        let run = what.run.clone();
        match watch_one(&mut session, signals, Watch { labelled, ..what }, out).await {
            Ok(WatchEnd::Settled(code)) => worst = worst.max(code),
            Ok(WatchEnd::Interrupted(code)) => {
                report_interrupt(session, signals, &run).await;
                return Ok(code);
            }
            Err(failure) => return session.stop_with(failure).await,
        }
    }
    session.close(signals).await?;
    Ok(worst)
}

/// Resumes runs. Returns those to watch, and the exit code so far.
async fn resume_each(
    session: &mut Session,
    open: Vec<String>,
    json: bool,
    options: WatchOptions,
) -> Result<(Vec<Watch>, u8), ApiError> {
    let (mut watched, mut worst) = (Vec::new(), code::SUCCEEDED);
    for run in open {
        let resumed = match session.get::<Summary>(&format!("/v1/runs/{}", path_segment(&run))).await {
            Ok(before) => post(session, &run, "resume?among_all=true").await.map(|_| before),
            Err(refused) => Err(refused),
        };
        match resumed {
            Ok(before) => watched.push(Watch::from(&before, json, options)),
            // A run that cannot be resumed does not keep others from it.
            Err(ApiError::Problem(problem)) => {
                // Its job may have closed the run meanwhile, which is reported like any end.
                if let Ok(now) = session.summary(&run).await
                    && now.status.is_over()
                {
                    watched.push(Watch::from(&now, json, options));
                    continue;
                }
                status_line(format!("run {run}: not resumed: {}", with_location(&problem.detail)));
                worst = worst.max(code::INTERNAL);
            }
            Err(refused) => return Err(refused),
        }
    }
    Ok((watched, worst))
}

/// Fetches suspended runs, newest first. They are resumed by id only.
pub(crate) async fn suspended_runs(session: &mut Session) -> Result<Vec<RunLine>, ApiError> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let list: RunList = session.get(&format!("/v1/runs?status=suspended{after}")).await?;
        found.extend(list.runs);
        match list.next {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(found),
        }
    }
}

/// Prints the suspended runs: one by one if no run is open, else their number.
async fn print_suspended(session: &mut Session, alone: bool) -> Result<(), ApiError> {
    let found = suspended_runs(session).await?;
    let shown = if alone { found.len().min(SUSPENDED_SHOWN_MAX) } else { 0 };
    if alone {
        status_line("nothing to resume: no run is open");
    }
    for RunLine { run, plan, reason, .. } in &found[..shown] {
        let why = reason.as_deref().unwrap_or(CHECKPOINTED);
        let (command, comes) = hints::suspended(run, why);
        let (plan, why) = (fit_name(plan, usize::MAX), harmless_line(why));
        status_line(format!("run {run} ({plan}) is suspended: {why}; `{command}` {comes}"));
    }
    let rest = found.len() - shown;
    if rest > 0 {
        let (more, were) = (if shown > 0 { "more " } else { "" }, if rest == 1 { "was" } else { "were" });
        let runs = plural(rest, &format!("{more}run"));
        let ps = hints::command("ps", &[], "--state suspended");
        status_line(format!("{runs} {were} suspended and not resumed; `{ps}` shows why"));
    }
    Ok(())
}

const SUSPENDED_SHOWN_MAX: usize = 20;
