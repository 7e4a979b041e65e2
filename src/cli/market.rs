//! `ostler market`: offering to do jobs, posting them, and how they stand.

mod jobs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use ostler::job_file::{JobFile, JobFileError};
use ostler_actors::new_run_id;
use ostler_kernel::market::Stage;
use ostler_server::wire::{JobLine, JobList, JobRequest, OfferRequest, OfferView, Standing};

use super::advice::{self, placed};
use super::bounds::{self, Bounds};
use super::cells::harmless_line;
use super::client::{Client, Refused, part};
use super::evaluate::share;
use super::exit::{Failure, code};
use super::follow::{Ended, Watch, interrupted, one};
use super::number::{self, from_zero};
use super::ps::tagged;
use super::session::{self, Session, Want};
use super::signals::Signals;
use super::steer::fail;
use super::term::{Out, now_ms, say, span};
use super::{Globals, check, findings};
use jobs::listed;

#[derive(Debug, Args)]
pub(crate) struct MarketArgs {
    #[command(subcommand)]
    command: MarketCommand,
}

#[derive(Debug, Subcommand)]
enum MarketCommand {
    /// Post a job, and run it with the agent that gets the contract
    ///
    /// A job file names a title, what an agent must be able to do, a budget and a plan. The agents of its client propose; the contract
    /// goes by what they can do, their reputation and their price. Its budget is reserved out of the client's credits, and what is left
    /// of it is given back at the end.
    #[command(
        after_help = "Examples:\n  ostler market post job.yaml\n  ostler market post job.yaml --detach"
    )]
    Post(PostArgs),
    /// List jobs, the newest first: where each is, who does it, what came of it
    #[command(after_help = "Examples:\n  ostler market ls\n  ostler market ls --json")]
    Ls,
    /// Let an agent offer to do jobs: what it can do, and for how much
    ///
    /// The agent is there: `ostler spawn` makes it, and what it says then is its first offer. What it offers here replaces what it
    /// offered before; what it says of itself stays.
    #[command(
        after_help = "Examples:\n  ostler market offer jurist --can contracts --price 400\n  ostler market offer jurist --can contracts --can gdpr --domain legal --time 10m"
    )]
    Offer(OfferArgs),
}

#[derive(Debug, Args)]
struct PostArgs {
    /// The job: .yaml, .yml, .json or .toml
    job: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
    /// Do not wait for its end, if another process holds the data folder and goes on with it
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["capabilities", "domain", "price", "time"])))]
struct OfferArgs {
    /// The agent
    agent: String,
    /// Whose agent it is; it is refused if it is another one's
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// What it can do; may be given more than once
    #[arg(long = "can", value_name = "CAPABILITY")]
    capabilities: Vec<String>,
    /// What its work is about, which says how its runs are judged
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Credits that it asks for a job [default: the budget of the job]
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true, value_parser = from_zero)]
    price: Option<u64>,
    /// How long its attempts take for a job, one after the other, such as 10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    time: Option<u64>,
}

fn time(text: &str) -> Result<u64, String> {
    let span = number::span(text)?;
    u64::try_from(span.ticks(1_000)).map_err(|_| "give a time of 0 or more".to_owned())
}

pub(crate) async fn market(globals: &Globals, args: MarketArgs) -> Result<u8, Failure> {
    match args.command {
        MarketCommand::Post(args) => post(globals, args).await,
        MarketCommand::Ls => ls(globals).await,
        MarketCommand::Offer(args) => offer(globals, args).await,
    }
}

async fn offer(globals: &Globals, args: OfferArgs) -> Result<u8, Failure> {
    let OfferArgs { agent, client, capabilities, domain, price, time } = args;
    let capabilities: BTreeSet<String> = capabilities.into_iter().collect();
    let request = OfferRequest { client, capabilities, domain, price, time_ms: time };
    // The agent is there, or nothing is to be made.
    let (_, data) = session::settings(globals, Path::new("."))?;
    if let Some(nothing) = session::nothing_of("agent", data.as_deref())? {
        let spawn = advice::command("spawn", &[&agent], "");
        return Err(Failure::invalid(format!("{nothing}; `{spawn}` makes one")));
    }
    let mut session = Session::open(globals, Path::new("."), Want::Drive).await?;
    let path = format!("/v1/agents/{}/offer", part(&agent));
    let offered = session.post_again::<OfferView>(&path, &request).await;
    session.stop().await;
    let offered = offered?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("offer", &offered));
        return Ok(code::SUCCEEDED);
    }
    let OfferView { agent, offer } = offered;
    let client = offer.client.as_ref().map(|client| format!(" of client {client}")).unwrap_or_default();
    out.line(format!("{agent}{client} offers: {}", terms(&offer)));
    Ok(code::SUCCEEDED)
}

/// What is offered, and for how much.
pub(crate) fn terms(offer: &OfferRequest) -> String {
    let can = match offer.capabilities.len() {
        0 => "no jobs that ask for a capability".to_owned(),
        _ => offer.capabilities.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let price = offer.price.map_or_else(|| "the budget".to_owned(), |price| format!("{price} credits"));
    let time = offer.time_ms.map(|ms| format!(", in {}", span(ms as i64))).unwrap_or_default();
    let domain = offer.domain.as_ref().map(|domain| format!(", judged as {domain}")).unwrap_or_default();
    format!("{can}; for {price}{time}{domain}")
}

async fn ls(globals: &Globals) -> Result<u8, Failure> {
    if session::is_empty("job", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let list = session.get::<JobList>("/v1/market").await;
    session.stop().await;
    let mut list = list?;
    list.jobs.reverse();
    let mut out = Out::new();
    if globals.json {
        list.jobs.iter().for_each(|line| out.json(&tagged("job", line)));
        return Ok(code::SUCCEEDED);
    }
    if list.jobs.is_empty() {
        say(placed("there is no job yet: `ostler market post FILE` posts one"));
        return Ok(code::SUCCEEDED);
    }
    let columns = out.columns();
    listed(&list.jobs, columns, &out).iter().for_each(|line| out.line(line));
    Ok(code::SUCCEEDED)
}

async fn post(globals: &Globals, args: PostArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let request = read(globals, &args, &mut out)?;
    let mut signals = Signals::listen()?;
    let mut session = Session::open(globals, Path::new(&request.workspace), Want::Begin).await?;
    if args.detach && !session.client.is_remote() {
        let what =
            "--detach leaves the job to the process that holds the data folder, and none does: leave it out";
        return fail(session, Failure::invalid(what.to_owned())).await;
    }
    // It names the job: posted twice, it is one, and whoever holds the data folder by then takes it on.
    let begun = session.asked(true, async |client| {
        let posted = client.post::<JobLine>("/v1/market", &request).await?;
        at(client, &posted.job, Stage::Execution).await
    });
    let begun = match begun.await {
        Ok(begun) => begun,
        Err(refused) => return fail(session, refused).await,
    };
    if globals.json {
        out.json(&tagged("job", &as_begun(begun.clone())));
    } else {
        contract(&begun, &mut out);
    }
    if begun.stage == "failed" || args.detach {
        session.close(&mut signals).await?;
        return Ok(if begun.stage == "failed" { code::FAILED } else { code::SUCCEEDED });
    }
    finish(session, &mut signals, globals, &begun.job, &mut out).await
}

/// The request that a job file makes.
fn read(globals: &Globals, args: &PostArgs, out: &mut Out) -> Result<JobRequest, Failure> {
    let workspace_text = args.bounds.workspace()?;
    let workspace = PathBuf::from(&workspace_text);
    let (config, data) = session::settings(globals, &workspace)?;
    let job = match JobFile::read(&args.job, &config.domains()) {
        Ok(job) => job,
        Err(JobFileError::Content { source_text, findings }) => {
            return Err(findings::tell(&source_text, &findings, globals.json, out));
        }
        Err(error) => return Err(Failure::invalid(error.to_string())),
    };
    if let Some(data) = data {
        bounds::apart(&workspace, &data)?;
    }
    let folder = args.job.parent().unwrap_or(Path::new("."));
    let file = check::read(&folder.join(&job.plan), job.params.into_iter().collect())?;
    if let Err(findings) = check::judge(&file, &config) {
        return Err(findings::tell_plan(&file, &findings, globals.json, out));
    }
    Ok(JobRequest {
        title: job.title,
        client: job.client,
        capabilities: job.capabilities,
        domain: job.domain,
        budget: job.budget,
        deadline_ms: job.deadline.map(|span| now_ms().saturating_add(span.ticks(1_000))),
        oversight: job.oversight,
        plan: file.draft().expect("a valid plan was read as a whole").clone(),
        intent: args.bounds.intent,
        scope: args.bounds.scope.clone(),
        workspace: workspace_text,
        // So that it is one job, however often it has to be asked for.
        job: Some(new_run_id().to_string()),
    })
}

/// A job, once it is at this stage or beyond. A process that ends takes no job on any more, and leaves this one to the next.
async fn at(client: &Client, job: &str, stage: Stage) -> Result<JobLine, Refused> {
    let line: JobLine = client.get(&format!("/v1/market/{}?at={}", part(job), stage.as_str())).await?;
    let is_there = Stage::ALL.iter().any(|at| *at >= stage && at.as_str() == line.stage);
    if is_there { Ok(line) } else { Err(Refused::NotThere(outcome(&line))) }
}

/// A job that is taken on if it is not over, once it is at this stage or beyond.
async fn taken_on(session: &mut Session, job: &str, stage: Stage) -> Result<JobLine, Refused> {
    let resume = format!("/v1/market/{}/resume", part(job));
    // Taken on twice, it is one job: whoever holds the data folder by now does.
    let taken_on = session.asked(true, async |client| {
        client.post::<JobLine>(&resume, &serde_json::Value::Null).await?;
        at(client, job, stage).await
    });
    taken_on.await
}

/// Takes on all jobs that are not over. Gives those whose runs were opened by that.
pub(crate) async fn resume(session: &mut Session) -> Result<Vec<String>, Refused> {
    let list: JobList = session.get("/v1/market").await?;
    let mut running = Vec::new();
    for line in list.jobs.iter().filter(|line| !is_over(line)) {
        let stage = if line.outcome.is_some() { Stage::Evaluation } else { Stage::Execution };
        let begun = taken_on(session, &line.job, stage).await?;
        if is_over(&begun) {
            say(outcome(&begun));
        } else if line.stage != stage.as_str() {
            running.push(begun.job);
        }
    }
    Ok(running)
}

fn is_over(line: &JobLine) -> bool {
    matches!(line.stage.as_str(), "evaluation" | "failed")
}

/// A job as it stood when its run was opened: a short one may be over before anybody has asked.
fn as_begun(line: JobLine) -> JobLine {
    match line.stage.as_str() {
        "execution" | "evaluation" => JobLine {
            stage: "execution".to_owned(),
            outcome: None,
            spent: 0,
            composite_pm: None,
            reason: None,
            ..line
        },
        _ => line,
    }
}

/// Tells who got the contract, and why.
fn contract(line: &JobLine, out: &mut Out) {
    let JobLine { job, title, budget, .. } = line;
    if let Some(reason) = &line.reason {
        out.line(format!("job {job} failed: {}", harmless_line(reason)));
        return;
    }
    let (winner, price) = (line.winner.as_deref().unwrap_or("-"), line.price.unwrap_or(0));
    let score = line.proposals.iter().find(|it| it.agent == winner).map_or(0, |proposal| proposal.score);
    out.line(format!(
        "job {job}: {}\n  {winner} has the contract, for {price} of at most {budget} credits; its proposal scores {score} of 10000",
        harmless_line(title)
    ));
}

/// Watches the run of a job to its end, tells what came of the job, and lets go of the data folder.
async fn finish(
    mut session: Session,
    signals: &mut Signals,
    globals: &Globals,
    job: &str,
    out: &mut Out,
) -> Result<u8, Failure> {
    let watch = Watch { run: job.to_owned(), before: None, json: globals.json, among: false };
    let code = match one(&mut session, signals, watch, out).await {
        Ok(Ended::Settled(code)) => code,
        Ok(Ended::Interrupted(code)) => {
            interrupted(session, signals, job).await;
            return Ok(code);
        }
        Err(failure) => return fail(session, failure).await,
    };
    let is_over = match session.summary(job).await {
        Ok(summary) => summary.standing == Standing::Closed,
        Err(failure) => return fail(session, failure).await,
    };
    let stage = if is_over { Stage::Evaluation } else { Stage::Execution };
    let line = match taken_on(&mut session, job, stage).await {
        Ok(line) => line,
        Err(refused) => return fail(session, refused).await,
    };
    if globals.json {
        out.json(&tagged("job", &line));
    } else {
        out.line(outcome(&line));
    }
    session.close(signals).await?;
    Ok(code)
}

/// What is said of credits that were reserved and not spent.
fn rest(spent: u64, budget: u64) -> &'static str {
    if spent < budget { ", the rest is free" } else { "" }
}

/// What came of a job, in a line.
fn outcome(line: &JobLine) -> String {
    let JobLine { job, spent, budget, .. } = line;
    match (&line.reason, line.stage.as_str()) {
        (Some(reason), _) => {
            let reason = harmless_line(reason);
            format!("job {job} failed: {reason}; {spent} of {budget} credits spent")
        }
        (None, "evaluation") => {
            let score = line.composite_pm.map_or_else(|| "-".to_owned(), share);
            let lost = line.outcome.as_deref().filter(|outcome| matches!(*outcome, "failed" | "cancelled"));
            let came = lost.unwrap_or("is done");
            format!(
                "job {job} {came}: score {score}, {spent} of {budget} credits spent{}",
                rest(*spent, *budget)
            )
        }
        (None, stage) => {
            placed(&format!("job {job} is at the stage {stage}; `ostler resume` goes on with it"))
        }
    }
}
