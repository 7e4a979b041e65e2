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
use crate::cli::session::watch_run::{
    Watch, WatchEnd, report_early_interrupt, report_interrupt, watch, watch_one,
};
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
    let begun = match signals.during(begin_one(&mut session, &run)).await {
        Ok(begun) => begun,
        Err(code) => {
            report_interrupt(session, &signals, &run).await;
            return Ok(code);
        }
    };
    let (before, is_over) = match begun {
        Ok(begun) => begun,
        Err(failure) => return session.stop_with(failure).await,
    };
    if is_over && !globals.json {
        status_line(format!("run {} is closed, so nothing is resumed; its result:", before.run));
    }
    watch(session, &mut signals, Watch::from(&before, globals.json, args.watch), &mut out).await
}

/// Resumes a run. Returns it as it was before, and whether it is closed.
async fn begin_one(session: &mut Session, run: &str) -> Result<(Summary, bool), Failure> {
    let before = session.summary(run).await?;
    if before.status.is_over() {
        return Ok((before, true));
    }
    match post(session, &before.run, "resume").await {
        Ok(_) => Ok((before, false)),
        // A run that is queued or waits for a person is active already; it is watched.
        Err(ApiError::Problem(problem)) if problem.code == "invalid_state" => {
            Ok((before, problem.current.is_none_or(RunStatus::is_over)))
        }
        Err(refused) => Err(refused.into()),
    }
}

/// Resumed runs to watch, and the exit code so far.
type Begun = (Vec<Watch>, u8);

async fn resume_all(
    mut session: Session,
    globals: &Globals,
    options: WatchOptions,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<u8, Failure> {
    let begun = match signals.during(begin_all(&mut session, globals, options)).await {
        Ok(begun) => begun,
        Err(code) => {
            report_early_interrupt(session, signals).await;
            return Ok(code);
        }
    };
    let (watched, mut worst) = match begun {
        Ok(begun) => begun,
        Err(refused) => return session.stop_with(refused).await,
    };
    if watched.is_empty() && worst == code::SUCCEEDED {
        session.stop().await;
        return Ok(code::SUCCEEDED);
    }
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

/// Resumes all open runs and market jobs.
async fn begin_all(
    session: &mut Session,
    globals: &Globals,
    options: WatchOptions,
) -> Result<Begun, ApiError> {
    let list: RunList = session.get("/v1/runs?open=true").await?;
    let is_resumed = |line: &RunLine| !matches!(line.status, RunStatus::Suspended | RunStatus::Quarantined);
    let open: Vec<RunLine> = list.runs.into_iter().rev().filter(is_resumed).collect();
    let jobs = post::resume(session).await?;
    let is_new = |job: &String| open.iter().all(|line| line.run != *job);
    let jobs: Vec<String> = jobs.into_iter().filter(is_new).collect();
    if !globals.json {
        print_suspended(session, open.is_empty() && jobs.is_empty()).await?;
    }
    let mut begun = (Vec::new(), code::SUCCEEDED);
    for line in open {
        let what = Watch::from_line(&line, globals.json, options);
        resume_among_all(session, what, &mut begun).await?;
    }
    for job in jobs {
        let before: Summary = session.get(&format!("/v1/runs/{}", path_segment(&job))).await?;
        resume_among_all(session, Watch::from(&before, globals.json, options), &mut begun).await?;
    }
    Ok(begun)
}

/// A run that cannot be resumed does not keep others from it.
async fn resume_among_all(session: &mut Session, what: Watch, begun: &mut Begun) -> Result<(), ApiError> {
    let (watched, worst) = begun;
    match post(session, &what.run, "resume?among_all=true").await {
        Ok(_) => watched.push(what),
        Err(ApiError::Problem(problem)) => {
            // Its job or its parent may have closed the run meanwhile, which is reported like any end.
            if session.summary(&what.run).await.is_ok_and(|now| now.status.is_over()) {
                watched.push(what);
                return Ok(());
            }
            status_line(format!("run {}: not resumed: {}", what.run, with_location(&problem.detail)));
            let unproven = Failure::from(ApiError::Problem(problem)).code == code::UNPROVEN;
            *worst = (*worst).max(if unproven { code::UNPROVEN } else { code::INTERNAL });
        }
        Err(refused) => return Err(refused),
    }
    Ok(())
}

/// Fetches suspended runs, newest first. They are resumed by id only.
pub(crate) async fn suspended_runs(session: &mut Session) -> Result<Vec<RunLine>, ApiError> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let list: RunList = session.get(&format!("/v1/runs?status=suspended{after}")).await?;
        list.runs.iter().for_each(|line| hints::know_model(&line.run, line.model_file.as_deref()));
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
    match found.len() {
        _ if !alone => {}
        0 => status_line("nothing to resume: no run is open"),
        1 => status_line("nothing resumes without its name: one run is suspended"),
        many => status_line(format!("nothing resumes without its name: {many} runs are suspended")),
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
