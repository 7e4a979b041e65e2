//! `resume`, `checkpoint`, `interject`, `cancel`, `skip`, `resolve`: changing how a run goes on.

use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::Args;
use ostler_actors::CHECKPOINTED;
use ostler_kernel::agent::AgentState;
use ostler_kernel::plan::HumanDuration;
use ostler_server::wire::{
    Resolution, InterjectRequest, Interjected, ResolveRequest, RunLine, RunList, RunRef, Standing, Summary,
};
use serde_json::{Value, json};

use super::Globals;
use super::advice::{self, placed};
use super::cells::{fit_name, harmless_line};
use super::client::{Refused, part};
use super::exit::{Failure, code};
use super::follow::{Ended, Part, Watch, code_of, interrupted, lost, one, to_rest, watch};
use super::market;
use super::measured::Measured;
use super::number::{node_name, run_name, span};
use super::session::{Session, Want, is_empty};
use super::signals::Signals;
use super::term::{Out, count, say};
use super::words;

/// Bytes of a result that a person gives.
const RESULT_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, a part of it, or @last; absent: all that are open
    #[arg(value_parser = run_name)]
    run: Option<String>,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Only this node; what depends on it is lost with it
    #[arg(value_parser = node_name)]
    node: Option<String>,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
}

#[derive(Debug, Args)]
pub(crate) struct InterjectArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// What a person is to decide about
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// How long the answer may take; then the run is cancelled
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = span)]
    within: HumanDuration,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Debug, Args)]
pub(crate) struct SkipArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node to do without
    #[arg(value_parser = node_name)]
    node: String,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node whose attempt is in doubt
    #[arg(value_parser = node_name)]
    node: String,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct HowArgs {
    /// It was done: its result, a JSON file, or - for stdin
    #[arg(long, value_name = "FILE")]
    done: Option<PathBuf>,
    /// Do it again
    #[arg(long)]
    redo: bool,
    /// It counts as failed
    #[arg(long)]
    fail: bool,
}

/// Ends with what went wrong, after letting go of the data folder.
pub(crate) async fn fail<T>(session: Session, failure: impl Into<Failure>) -> Result<T, Failure> {
    session.stop().await;
    Err(failure.into())
}

async fn post(session: &mut Session, run: &str, what: &str) -> Result<RunRef, Refused> {
    session.post(&format!("/v1/runs/{}/{what}", part(run)), &Value::Null).await
}

pub(crate) async fn resume(globals: &Globals, args: ResumeArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    if args.run.is_none() && is_empty("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, Path::new("."), Want::Drive, args.measured).await?;
    let Some(run) = args.run else { return resume_all(session, globals, &mut signals, &mut out).await };
    let before = match session.summary(&run).await {
        Ok(summary) => summary,
        Err(failure) => return fail(session, failure).await,
    };
    let mut is_over = before.standing == Standing::Closed;
    if !is_over {
        match post(&mut session, &before.run, "resume").await {
            Ok(_) => {}
            // Where it waits for its turn or for a person, it is driven already, and watched.
            Err(Refused::Problem(problem)) if problem.code == "invalid_state" => {
                is_over = problem.current.is_none_or(AgentState::is_terminal);
            }
            Err(refused) => return fail(session, refused).await,
        }
    }
    if is_over && !globals.json {
        say(format!("run {} is over, nothing is left to resume; this is what came of it:", before.run));
    }
    watch(session, &mut signals, Watch::from(&before, globals.json), &mut out).await
}

async fn resume_all(
    mut session: Session,
    globals: &Globals,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<u8, Failure> {
    let list = match session.get::<RunList>("/v1/runs?open=true").await {
        Ok(list) => list,
        Err(refused) => return fail(session, refused).await,
    };
    let mut open: Vec<String> = list
        .runs
        .into_iter()
        .filter(|line| !matches!(line.standing, Standing::Checkpointed | Standing::Quarantined))
        .map(|line| line.run)
        .collect();
    open.reverse();
    let jobs = match market::resume(&mut session).await {
        Ok(jobs) => jobs,
        Err(refused) => return fail(session, refused).await,
    };
    let is_new = |job: &String| !open.contains(job);
    let begun: Vec<String> = jobs.into_iter().filter(is_new).collect();
    open.extend(begun);
    if !globals.json
        && let Err(refused) = tell_set_aside(&mut session, open.is_empty()).await
    {
        return fail(session, refused).await;
    }
    if open.is_empty() {
        session.stop().await;
        return Ok(code::SUCCEEDED);
    }
    let (mut watched, mut worst) = (Vec::new(), code::SUCCEEDED);
    for run in open {
        let resumed = match session.get::<Summary>(&format!("/v1/runs/{}", part(&run))).await {
            Ok(before) => post(&mut session, &run, "resume?among_all=true").await.map(|_| before),
            Err(refused) => Err(refused),
        };
        match resumed {
            Ok(before) => watched.push(Watch::from(&before, globals.json)),
            // One run that cannot be taken up keeps no other from it.
            Err(Refused::Problem(problem)) => {
                // Its job may have ended it meanwhile: that is told as any end.
                if let Ok(now) = session.summary(&run).await
                    && now.standing == Standing::Closed
                {
                    watched.push(Watch::from(&now, globals.json));
                    continue;
                }
                say(format!("run {run} is not taken up: {}", placed(&problem.detail)));
                worst = worst.max(code::INTERNAL);
            }
            Err(refused) => return fail(session, refused).await,
        }
    }
    let among = watched.len() > 1;
    for what in watched {
        let run = what.run.clone();
        match one(&mut session, signals, Watch { among, ..what }, out).await {
            Ok(Ended::Settled(code)) => worst = worst.max(code),
            Ok(Ended::Interrupted(code)) => {
                interrupted(session, signals, &run).await;
                return Ok(code);
            }
            Err(failure) => return fail(session, failure).await,
        }
    }
    session.close(signals).await?;
    Ok(worst)
}

/// Runs that were set aside, newest first: they are taken up by name only.
pub(crate) async fn set_aside(session: &mut Session) -> Result<Vec<RunLine>, Refused> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let list: RunList = session.get(&format!("/v1/runs?set_aside=true{after}")).await?;
        found.extend(list.runs);
        match list.next {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(found),
        }
    }
}

/// Tells of the runs that were set aside: each of them, if there are no others.
async fn tell_set_aside(session: &mut Session, alone: bool) -> Result<(), Refused> {
    let found = set_aside(session).await?;
    let told = if alone { found.len().min(SET_ASIDE_TOLD_MAX) } else { 0 };
    if alone {
        say("nothing to resume: no run is open");
    }
    for RunLine { run, plan, reason, .. } in &found[..told] {
        let why = reason.as_deref().unwrap_or(CHECKPOINTED);
        let (command, comes) = advice::set_aside(run, why);
        let (plan, why) = (fit_name(plan, usize::MAX), harmless_line(why));
        say(format!("run {run} ({plan}) was set aside: {why}; `{command}` {comes}"));
    }
    let rest = found.len() - told;
    if rest > 0 {
        let (more, were) = (if told > 0 { "more " } else { "" }, if rest == 1 { "was" } else { "were" });
        let runs = count(rest, &format!("{more}run"));
        let ps = advice::command("ps", &[], "--state checkpointed");
        say(format!(
            "{runs} {were} set aside and {} not taken up: `{ps}` tells why",
            if rest == 1 { "is" } else { "are" }
        ));
    }
    Ok(())
}

/// Runs that were set aside and are told one by one.
const SET_ASIDE_TOLD_MAX: usize = 20;

/// Lets a run come to rest.
pub(crate) async fn checkpoint(globals: &Globals, args: CheckpointArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), Want::Drive).await?;
    let posted = post(&mut session, &args.run, "checkpoint").await;
    session.stop().await;
    let RunRef { run } = posted?;
    if globals.json {
        out.json(&json!({"type": "checkpointed", "run": run}));
    } else {
        out.line(format!("run {run} rests; `{}` goes on with it", advice::resume(&run)));
    }
    Ok(code::SUCCEEDED)
}

/// Holds a run until a person has answered.
pub(crate) async fn interject(globals: &Globals, args: InterjectArgs) -> Result<u8, Failure> {
    let wait_ms = u64::try_from(args.within.ticks(1_000)).ok().and_then(NonZeroU64::new);
    let wait_ms = wait_ms.ok_or_else(|| Failure::invalid("--within: give a time above 0, such as 10m"))?;
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, Path::new("."), Want::Drive, args.measured).await?;
    let before = match session.summary(&args.run).await {
        Ok(before) => before,
        Err(failure) => return fail(session, failure).await,
    };
    let request = InterjectRequest { text: args.text, wait_ms };
    let path = format!("/v1/runs/{}/interject", part(&before.run));
    let node = match session.post::<Interjected>(&path, &request).await {
        Ok(Interjected { node, .. }) => node,
        Err(refused) => return fail(session, refused).await,
    };
    let (run, of) = (&before.run, [before.run.as_str(), &node]);
    let told = format!(
        "run {run} is held: {node} asks; `{}` lets it go on, `{}` cancels it",
        advice::command("approve", &of, ""),
        advice::command("reject", &of, "")
    );
    let done = Done { node: &node, word: "held".to_owned(), told };
    go_on(session, &mut signals, globals, before.clone(), done, &mut out).await
}

pub(crate) async fn skip(globals: &Globals, args: SkipArgs) -> Result<u8, Failure> {
    stop_node(globals, &args.run, &args.node, "skip", args.measured).await
}

async fn stop_node(
    globals: &Globals,
    run: &str,
    node: &str,
    how: &str,
    measured: Measured,
) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, Path::new("."), Want::Drive, measured).await?;
    let before = match session.summary(run).await {
        Ok(before) => before,
        Err(failure) => return fail(session, failure).await,
    };
    let what = format!("nodes/{}/{how}", part(node));
    if let Err(refused) = post(&mut session, &before.run, &what).await {
        return fail(session, refused).await;
    }
    let state = match session.summary(&before.run).await {
        Ok(mut after) => after.nodes.remove(node).unwrap_or_default(),
        Err(failure) => return fail(session, failure).await,
    };
    let done = stopped(&before, node, state);
    let was_in_doubt = before.waiting.iter().any(|waiting| waiting.node == node && waiting.id.is_none());
    if was_in_doubt && !globals.json {
        say(format!("{node} was in doubt: nobody knows whether it took effect, and nobody asks any more"));
    }
    go_on(session, &mut signals, globals, before, done, &mut out).await
}

/// What became of a node that was to be stopped.
fn stopped<'n>(before: &Summary, node: &'n str, state: String) -> Done<'n> {
    let told = match state.as_str() {
        "cancelled" | "skipped" => format!("{state} {node}"),
        "running" => format!(
            "{node} acts on the world right now: it is not broken off, and what it comes to counts (`{}` tells)",
            advice::show(&before.run)
        ),
        _ => format!("{node} had come to its end before: it is {}", words::state(&state)),
    };
    let word = if state == "running" { "draining".to_owned() } else { state };
    Done { node, word, told }
}

/// What was done to a node.
pub(crate) struct Done<'a> {
    pub(crate) node: &'a str,
    /// For machines.
    pub(crate) word: String,
    /// For people.
    pub(crate) told: String,
}

/// After something was done to a node: watches the run if it goes on in this process, else says where it does.
pub(crate) async fn go_on(
    session: Session,
    signals: &mut Signals,
    globals: &Globals,
    before: Summary,
    done: Done<'_>,
    out: &mut Out,
) -> Result<u8, Failure> {
    if !session.client.is_remote() {
        return watch(session, signals, Watch::from(&before, globals.json), out).await;
    }
    let (run, Done { node, word, told }) = (&before.run, done);
    if globals.json {
        out.json(&serde_json::json!({"type": "done", "run": run, "node": node, "done": word}));
    } else {
        out.line(format!("{told}; the run goes on in the process that holds the data folder"));
    }
    session.stop().await;
    Ok(code::SUCCEEDED)
}

pub(crate) async fn cancel(globals: &Globals, args: CancelArgs) -> Result<u8, Failure> {
    if let Some(node) = &args.node {
        return stop_node(globals, &args.run, node, "cancel", args.measured).await;
    }
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, Path::new("."), Want::Cancel, args.measured).await?;
    let run = match post(&mut session, &args.run, "cancel").await {
        Ok(RunRef { run }) => run,
        Err(refused) => return fail(session, refused).await,
    };
    // What acts on the world goes on to its end.
    let (mut nothing, mut after) = (Nothing, 0);
    let ended = tokio::select! {
        ended = to_rest(&mut session, &run, &mut after, "settled", Part::Looks, &mut nothing, None, &mut out) => Some(ended),
        code = signals.next() => {
            interrupted(session, &signals, &run).await;
            return Ok(code);
        }
    };
    if let Some(Err(refused)) = ended {
        return fail(session, lost(refused, &run)).await;
    }
    let after = match session.summary(&run).await {
        Ok(after) => after,
        Err(failure) => return fail(session, failure).await,
    };
    if globals.json {
        out.json(&after);
    } else {
        let head = super::summary::head(&super::summary::Sheet::of(&out), &after);
        out.line(head.join("\n"));
    }
    session.close(&mut signals).await?;
    // Cancelling is what was wanted.
    Ok(if after.standing == Standing::Closed { code::SUCCEEDED } else { code_of(&after) })
}

/// Shows nothing.
struct Nothing;

impl super::live::View for Nothing {
    fn record(&mut self, _line: &ostler_server::wire::EventLine, _out: &mut Out) {}

    fn has_told_nodes(&self) -> bool {
        true
    }
}

pub(crate) async fn resolve(globals: &Globals, args: ResolveArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let (how, value) = match (&args.how.done, args.how.redo) {
        (Some(path), _) => (Resolution::Done, Some(result(path)?)),
        (None, true) => (Resolution::Redo, None),
        (None, false) => (Resolution::Fail, None),
    };
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, Path::new("."), Want::Drive, args.measured).await?;
    let before = match session.summary(&args.run).await {
        Ok(summary) => summary,
        Err(failure) => return fail(session, failure).await,
    };
    // What is in doubt now, and not what a second attempt may leave in doubt by the time this is heard.
    let attempt = before.waiting.iter().find(|waiting| waiting.node == args.node).and_then(|it| it.attempt);
    let request = ResolveRequest { node: args.node, attempt, how, value };
    let path = format!("/v1/runs/{}/resolve", before.run);
    if let Err(refused) = session.post::<RunRef>(&path, &request).await {
        return fail(session, refused).await;
    }
    watch(session, &mut signals, Watch::from(&before, globals.json), &mut out).await
}

/// A result that a person gives.
fn result(path: &Path) -> Result<Value, Failure> {
    let name = path.display();
    let refuse = |error: &dyn std::fmt::Display| Failure::invalid(format!("the result {name}: {error}"));
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| refuse(&error))?)
    };
    let mut text = String::new();
    source.take(RESULT_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| refuse(&error))?;
    if text.len() as u64 > RESULT_BYTES_MAX {
        return Err(refuse(&format!("it has more than {RESULT_BYTES_MAX} bytes")));
    }
    ostler_kernel::json::parse_value(&text).map_err(|error| refuse(&error))
}
