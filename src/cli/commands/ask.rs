//! `ostler ask`.

mod thinker;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ostler::config::Config;
use ostler_actors::new_run_id;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_kernel::policy::{Aggregator, GOAL_BYTES_MAX, Mode};
use ostler_server::wire::{ApprovalList, GoalRequest, RunRef};

use crate::cli::arguments::Globals;
use crate::cli::arguments::bounds::{self, Bounds};
use crate::cli::arguments::budget::{BudgetOptions, Resources};
use crate::cli::arguments::plan::{STDIN, from_stdin};
use crate::cli::arguments::values::{positive_integer, positive_time, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::commands::ask::thinker::Thinkers;
use crate::cli::exit::{Failure, code};
use crate::cli::output::approval::{Detail, approval_lines};
use crate::cli::output::live::{NoView, View};
use crate::cli::output::summary::ReportParts;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::cancel_run::cancel_run;
use crate::cli::session::follow::{Display, FollowMode, JsonLines, connection_lost, exit_code, follow_until};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, watch};
use crate::cli::session::{AccessMode, Session, report, settings};

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The goal, in your words; or - for stdin
    goal: String,
    /// Earlier run whose answer and results the goal may use; repeatable, the oldest first
    #[arg(long, value_name = "RUN", value_parser = run_name)]
    on: Vec<String>,
    /// Print the plan, and run nothing of it
    #[arg(long, conflicts_with = "yes")]
    plan_only: bool,
    /// Print nothing but the answer on stdout
    #[arg(long, short, conflicts_with = "plan_only")]
    quiet: bool,
    #[command(flatten)]
    options: GoalOptions,
}

/// What `ask` and `chat` say about a goal.
#[derive(Debug, Args)]
pub(crate) struct GoalOptions {
    /// Execution mode: auto, reflect, nreflect:N, orchestrator, react or sgh
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = mode)]
    mode: Mode,
    /// Model: a name of the configuration, scripted:FILE or cassette:FILE
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Record the exchanges with the model in a file; if the file exists, play them instead
    #[arg(long, value_name = "FILE")]
    cassette: Option<PathBuf>,
    /// Tools that the model is offered, separated by commas [default: all of the scope]
    #[arg(long, value_name = "TOOLS", value_delimiter = ',', value_parser = tool)]
    tools: Option<Vec<String>>,
    /// Model that writes the answer over the results
    #[arg(long, value_name = "WRITER", default_value = "executor")]
    answer: Writer,
    #[command(flatten)]
    budget: BudgetOptions,
    /// Maximum number of model calls
    #[arg(long, value_name = "CALLS", value_parser = positive_integer)]
    calls: Option<NonZeroU64>,
    /// Longest time from now to the answer, such as 10m; what is there by then is the answer [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    wall: Option<NonZeroU64>,
    /// Start without asking whether the plan is right
    #[arg(long, short)]
    yes: bool,
    /// Client that pays
    #[arg(long, value_name = "NAME", default_value = CLIENT_DEFAULT)]
    client: String,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    pub(crate) watch: WatchOptions,
}

/// The writer of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Writer {
    /// The executor model, over all results
    Executor,
    /// The planner model, over all results
    Planner,
    /// None: the answer is the verdict of the last reflection, or the results themselves
    Off,
}

fn mode(text: &str) -> Result<Mode, String> {
    text.parse().map_err(|error: ostler_kernel::policy::UnknownMode| error.to_string())
}

fn tool(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a tool without a name; give names such as fs.list,fs.read".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// The terms of goals, made of options and configuration.
pub(crate) struct GoalOpening {
    pub(crate) globals: Globals,
    pub(crate) workspace: PathBuf,
    terms: GoalRequest,
}

impl GoalOptions {
    /// Reads the configuration, and chooses the models.
    pub(crate) fn open(&self, globals: &Globals) -> Result<GoalOpening, Failure> {
        let workspace_text = self.bounds.workspace()?;
        let workspace = PathBuf::from(&workspace_text);
        let globals = globals.with_model(self.model.as_deref())?;
        let (config, data) = settings::load_settings(&globals, &workspace)?;
        if let Some(data) = data {
            bounds::check_outside_data(&workspace, &data)?;
        }
        let globals = match &self.cassette {
            Some(cassette) => thinker::taped(&globals, &config, self.model.as_deref(), cassette)?,
            None => globals,
        };
        let Thinkers { planner, executor } = Thinkers::of(&globals, &config, self.model.as_deref())?;
        let answer_timeout_ms = answer_timeout_ms(&globals, &config, [&planner, &executor]);
        let Resources { usd, tokens, credits } = self.budget.resources();
        let aggregator = match self.answer {
            Writer::Executor => Aggregator::Executor,
            Writer::Planner => Aggregator::Planner,
            Writer::Off => Aggregator::Off,
        };
        let terms = GoalRequest {
            goal: String::new(),
            mode: self.mode,
            aggregator,
            planner: Some(planner),
            executor: Some(executor),
            model_file: globals.extra_model.as_ref().and_then(|extra| extra.file.clone()),
            tools: self.tools.clone(),
            on: Vec::new(),
            confirm: !self.yes,
            model_calls: self.calls,
            tokens,
            usd,
            over_budget: self.budget.over_budget(),
            answer_timeout_ms: Some(answer_timeout_ms),
            wall_ms: self.wall,
            client: self.client.clone(),
            agent: None,
            intent: self.bounds.intent,
            scope: self.bounds.scope.clone(),
            workspace: workspace_text,
            budget: credits,
            run: None,
        };
        Ok(GoalOpening { globals, workspace, terms })
    }
}

/// Least time that a node of a goal run waits for its model.
const ANSWER_TIMEOUT_LEAST: Duration = Duration::from_secs(180);

/// The longest that one of the models and its fallbacks may take together.
fn answer_timeout_ms(globals: &Globals, config: &Config, models: [&String; 2]) -> NonZeroU64 {
    let table = |name: &String| {
        let extra = globals.extra_model.as_ref().filter(|extra| extra.name == *name);
        extra.map(|extra| &extra.config).or_else(|| config.models.get(name))
    };
    let with_fallbacks = |name: &String| {
        let model = table(name).into_iter();
        let all =
            model.flat_map(|model| std::iter::once(model).chain(model.fallback.iter().filter_map(table)));
        all.map(|model| model.timeout).sum::<Duration>()
    };
    let longest = models.into_iter().map(with_fallbacks).fold(ANSWER_TIMEOUT_LEAST, Duration::max);
    let ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    NonZeroU64::new(ms).unwrap_or(NonZeroU64::MIN)
}

impl GoalOpening {
    /// Opens a run for a goal. `on` has ids of runs.
    pub(crate) async fn submit(
        &self,
        session: &mut Session,
        goal: String,
        on: Vec<String>,
    ) -> Result<String, ApiError> {
        let run = Some(new_run_id().to_string());
        let request = GoalRequest { goal, on, run, ..self.terms.clone() };
        let RunRef { run } = session.post_idempotent("/v1/goals", &request).await?;
        Ok(run)
    }
}

pub(crate) async fn ask(globals: &Globals, args: AskArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    if args.quiet && globals.json {
        return Err(Failure::invalid("--quiet: conflicts with --json; omit one of them"));
    }
    let opening = args.options.open(globals)?;
    let globals = &opening.globals;
    let goal = match args.goal.as_str() {
        STDIN => from_stdin("the goal", GOAL_BYTES_MAX)?,
        goal => goal.to_owned(),
    };
    let mut signals = Signals::listen()?;
    let mode = if args.on.is_empty() { AccessMode::Create } else { AccessMode::Execute };
    let mut session = Session::open(globals, &opening.workspace, mode).await?;
    let opened = async {
        let on = earlier_runs(&mut session, &args.on).await?;
        session.note_new_client(&args.options.client).await;
        opening.submit(&mut session, goal, on).await.map_err(Failure::from)
    };
    let run = match opened.await {
        Ok(run) => run,
        Err(refused) => return session.stop_with::<u8>(refused).await,
    };
    if args.plan_only {
        return plan_only(session, &mut signals, &run, globals.json, &mut out).await;
    }
    let what = Watch {
        run,
        before: None,
        json: globals.json,
        options: args.options.watch,
        labelled: false,
        quiet: args.quiet,
        turn: None,
    };
    watch(session, &mut signals, what, &mut out).await
}

/// The ids of earlier runs. `@last` would name another run if the request were repeated.
async fn earlier_runs(session: &mut Session, named: &[String]) -> Result<Vec<String>, Failure> {
    let mut runs = Vec::new();
    for name in named {
        let summary = session.summary(name).await;
        let told = |failure: Failure| {
            let what = format!("--on {name}: {failure}; `ostler ps` lists the runs");
            Failure { what, ..failure }
        };
        runs.push(summary.map_err(told)?.run);
    }
    Ok(runs)
}

/// Waits for the plan, prints it, and cancels the run, however that ends.
async fn plan_only(
    mut session: Session,
    signals: &mut Signals,
    run: &str,
    json: bool,
    out: &mut Out,
) -> Result<u8, Failure> {
    let shown = tokio::select! {
        shown = show_plan(&mut session, run, json, out) => shown,
        code = signals.next() => {
            status_line(format!("stopped; run {run} has no plan yet, and is cancelled"));
            Err(Failure::silent(code))
        }
    };
    let cancelled = signals.during(cancel_run(&mut session, run, out)).await;
    session.stop().await;
    match (shown, cancelled) {
        (shown, Ok(Ok(()))) => shown,
        (Ok(_), Ok(Err(failure))) => Err(failure),
        (Err(failure), Ok(Err(second))) => {
            status_line(format!("run {run} is not cancelled: {second}"));
            Err(failure)
        }
        (_, Err(code)) => Err(Failure::silent(code)),
    }
}

async fn show_plan(session: &mut Session, run: &str, json: bool, out: &mut Out) -> Result<u8, Failure> {
    let mut after = 0;
    let mut lines = JsonLines::default();
    let mut silent = NoView;
    let view: &mut (dyn View + Send) = if json { &mut lines } else { &mut silent };
    let mut display = Display { view, prompt: None, output: None, text: None, out };
    let followed = follow_until(session, run, &mut after, "settled", FollowMode::Execute, &mut display).await;
    followed.map_err(|lost| connection_lost(lost, run))?;
    let path = format!("/v1/approvals?run={}", path_segment(run));
    let asked: ApprovalList = session.get(&path).await?;
    let summary = session.summary(run).await?;
    let Some(question) = asked.approvals.first() else {
        let parts = ReportParts { nodes: true, verbose: false };
        report::print_report(&session.client, &summary, parts, out).await;
        // A model may answer without a plan.
        return Ok(exit_code(&summary, false));
    };
    if !json {
        // The last line is how to answer, and nothing is asked.
        let mut lines = approval_lines(question, Detail::Full);
        lines.pop();
        lines.iter().for_each(|line| out.line(line));
    }
    // A budget that is too small for a plan is no plan.
    Ok(if question.over_budget.is_some() { code::WAITS } else { code::SUCCEEDED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_the_name_of_a_tool_are_no_part_of_it() {
        assert_eq!(tool(" fs.read "), Ok("fs.read".to_owned()));
        assert!(tool(" ").is_err());
    }
}
