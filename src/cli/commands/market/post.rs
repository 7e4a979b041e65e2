//! `ostler market post`, and resuming posted jobs.

use std::path::{Path, PathBuf};

use clap::Args;
use ostler::job_file::{JobFile, JobFileError};
use ostler_actors::new_run_id;
use ostler_kernel::id::AgentId;
use ostler_kernel::market::Stage;
use ostler_server::wire::{JobList, JobRequest, JobRow};

use crate::cli::arguments::bounds::Bounds;
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, bounds, plan};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::findings;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::{now_ms, score_text};
use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, WatchEnd, report_interrupt, watch_one};
use crate::cli::session::{AccessMode, Session, settings};

#[derive(Debug, Args)]
pub(crate) struct PostArgs {
    /// The job: .yaml, .yml, .json or .toml
    job: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
    /// Exit without waiting for the job; requires another process that holds the data folder
    #[arg(long)]
    detach: bool,
}

pub(crate) async fn post(globals: &Globals, args: PostArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let request = read(globals, &args, &mut out)?;
    let mut signals = Signals::listen()?;
    let mut session = Session::open(globals, Path::new(&request.workspace), AccessMode::Create).await?;
    if args.detach && !session.client.is_remote() {
        let what = "--detach: no process holds the data folder to execute the job; omit the option";
        return session.stop_with(Failure::invalid(what.to_owned())).await;
    }
    // The request contains the job's id, so that it is idempotent.
    let begun = session.with_retry(true, async |client| {
        let posted = client.post::<JobRow>("/v1/market", &request).await?;
        wait_for_stage(client, &posted.job.to_string(), Stage::Execution).await
    });
    let begun = match begun.await {
        Ok(begun) => begun,
        Err(refused) => return session.stop_with(refused).await,
    };
    if globals.json {
        out.json(&tagged("job", &at_execution(begun.clone())));
    } else {
        print_contract(&begun, &mut out);
    }
    if begun.stage == Stage::Failed || args.detach {
        session.close(&mut signals).await?;
        return Ok(if begun.stage == Stage::Failed { code::FAILED } else { code::SUCCEEDED });
    }
    finish(session, &mut signals, globals, &begun.job.to_string(), &mut out).await
}

fn read(globals: &Globals, args: &PostArgs, out: &mut Out) -> Result<JobRequest, Failure> {
    let workspace_text = args.bounds.workspace()?;
    let workspace = PathBuf::from(&workspace_text);
    let (config, data) = settings::load_settings(globals, &workspace)?;
    let job = match JobFile::read(&args.job, &config.domains()) {
        Ok(job) => job,
        Err(JobFileError::Content { source_text, findings }) => {
            return Err(findings::report(&source_text, &findings, globals.json, out));
        }
        Err(error) => return Err(Failure::invalid(error.to_string())),
    };
    if let Some(data) = data {
        bounds::check_outside_data(&workspace, &data)?;
    }
    let folder = args.job.parent().unwrap_or(Path::new("."));
    let file = plan::read(&folder.join(&job.plan), job.params.into_iter().collect())?;
    if let Err(findings) = plan::judge(&file, &config) {
        return Err(findings::report_plan(&file, &findings, globals.json, out));
    }
    let mut draft = file.draft().expect("a valid plan was read as a whole").clone();
    if job.usd.is_some() || job.tokens.is_some() {
        let policy = draft.policy.get_or_insert_default();
        policy.usd = job.usd.into_iter().chain(policy.usd).min();
        policy.tokens = job.tokens.into_iter().chain(policy.tokens).min();
    }
    Ok(JobRequest {
        title: job.title,
        client: job.client,
        capabilities: job.capabilities,
        domain: job.domain,
        budget: job.budget,
        deadline_ms: job.deadline.map(|span| now_ms().saturating_add(span.ticks(1_000))),
        oversight: job.oversight,
        plan: draft,
        intent: args.bounds.intent,
        scope: args.bounds.scope.clone(),
        workspace: workspace_text,
        // Makes the request idempotent.
        job: Some(new_run_id().to_string()),
    })
}

/// Waits until a job is at this stage or beyond. A process that is shutting down advances no job.
async fn wait_for_stage(client: &Client, job: &str, stage: Stage) -> Result<JobRow, ApiError> {
    let line: JobRow = client.get(&format!("/v1/market/{}?at={}", path_segment(job), stage.as_str())).await?;
    if line.stage >= stage { Ok(line) } else { Err(ApiError::NotSent(result_text(&line))) }
}

/// Resumes a job, and waits until it is at this stage or beyond.
async fn resume_job(session: &mut Session, job: &str, stage: Stage) -> Result<JobRow, ApiError> {
    let resume = format!("/v1/market/{}/resume", path_segment(job));
    // Resuming is idempotent.
    let resume_job = session.with_retry(true, async |client| {
        client.post::<JobRow>(&resume, &serde_json::Value::Null).await?;
        wait_for_stage(client, job, stage).await
    });
    resume_job.await
}

/// Resumes all unfinished jobs, and returns the jobs with newly opened runs.
pub(crate) async fn resume(session: &mut Session) -> Result<Vec<String>, ApiError> {
    let list: JobList = session.get("/v1/market").await?;
    let mut running = Vec::new();
    for line in list.jobs.iter().filter(|line| !is_over(line)) {
        let stage = if line.outcome.is_some() { Stage::Evaluation } else { Stage::Execution };
        let begun = resume_job(session, &line.job.to_string(), stage).await?;
        if is_over(&begun) {
            status_line(result_text(&begun));
        } else if line.stage != stage {
            running.push(begun.job.to_string());
        }
    }
    Ok(running)
}

fn is_over(line: &JobRow) -> bool {
    matches!(line.stage, Stage::Evaluation | Stage::Failed)
}

/// The job as of the opening of its run: a short run may be closed before the first poll.
fn at_execution(line: JobRow) -> JobRow {
    match line.stage {
        Stage::Execution | Stage::Evaluation => JobRow {
            stage: Stage::Execution,
            outcome: None,
            spent: 0,
            composite_pm: None,
            reason: None,
            ..line
        },
        _ => line,
    }
}

/// Prints the winner of the contract, or the failure.
fn print_contract(line: &JobRow, out: &mut Out) {
    let JobRow { job, title, budget, .. } = line;
    if let Some(reason) = &line.reason {
        out.line(format!("job {job} failed: {}", harmless_line(reason)));
        return;
    }
    let (winner, price) = (line.winner.as_ref().map_or("-", AgentId::as_str), line.price.unwrap_or(0));
    let score =
        line.proposals.iter().find(|it| it.agent.as_str() == winner).map_or(0, |proposal| proposal.score);
    out.line(format!(
        "job {job}: {}\n  {winner} won the contract for {price} of at most {budget} credits; its proposal scored {score} of 10000",
        harmless_line(title)
    ));
}

/// Watches the run of a job, prints the result of the job, and closes the session.
async fn finish(
    mut session: Session,
    signals: &mut Signals,
    globals: &Globals,
    job: &str,
    out: &mut Out,
) -> Result<u8, Failure> {
    let watch = Watch {
        run: job.to_owned(),
        before: None,
        json: globals.json,
        options: WatchOptions::default(),
        labelled: false,
        quiet: false,
        turn: None,
    };
    let code = match watch_one(&mut session, signals, watch, out).await {
        Ok(WatchEnd::Settled(code)) => code,
        Ok(WatchEnd::Interrupted(code)) => {
            report_interrupt(session, signals, job).await;
            return Ok(code);
        }
        Err(failure) => return session.stop_with(failure).await,
    };
    let is_over = match session.summary(job).await {
        Ok(summary) => summary.status.is_over(),
        Err(failure) => return session.stop_with(failure).await,
    };
    let stage = if is_over { Stage::Evaluation } else { Stage::Execution };
    let line = match resume_job(&mut session, job, stage).await {
        Ok(line) => line,
        Err(refused) => return session.stop_with(refused).await,
    };
    if globals.json {
        out.json(&tagged("job", &line));
    } else {
        out.line(result_text(&line));
    }
    session.close(signals).await?;
    Ok(code)
}

fn released_text(spent: u64, budget: u64) -> &'static str {
    if spent < budget { ", the rest was released" } else { "" }
}

fn result_text(line: &JobRow) -> String {
    let JobRow { job, spent, budget, .. } = line;
    match (&line.reason, line.stage.as_str()) {
        (Some(reason), _) => {
            let reason = harmless_line(reason);
            format!("job {job} failed: {reason}; {spent} of {budget} credits spent")
        }
        (None, "evaluation") => {
            let score = line.composite_pm.map_or_else(|| "-".to_owned(), score_text);
            let lost = line.outcome.as_deref().filter(|outcome| matches!(*outcome, "failed" | "cancelled"));
            let came = lost.unwrap_or("is done");
            format!(
                "job {job} {came}: score {score}, {spent} of {budget} credits spent{}",
                released_text(*spent, *budget)
            )
        }
        (None, stage) => {
            with_location(&format!("job {job} is in stage {stage}; `ostler resume` continues it"))
        }
    }
}
