//! `ostler ask`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ostler::config::Config;
use ostler_actors::new_run_id;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_kernel::policy::{Aggregator, GOAL_BYTES_MAX, Mode};
use ostler_server::wire::{ApprovalList, GoalRequest, RunRef};
use serde_json::Value;

use crate::cli::arguments::Globals;
use crate::cli::arguments::bounds::{self, Bounds};
use crate::cli::arguments::plan::{STDIN, from_stdin};
use crate::cli::arguments::values::{positive_integer, positive_time};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::exit::{Failure, code};
use crate::cli::output::approval::{Detail, approval_lines};
use crate::cli::output::live::{NoView, View};
use crate::cli::output::summary::ReportParts;
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::follow::{Display, FollowMode, JsonLines, connection_lost, follow_until};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, watch};
use crate::cli::session::{AccessMode, Session, report, settings};

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The goal, in your words; or - for stdin
    goal: String,
    /// Execution mode: auto, reflect, nreflect:N, orchestrator, react or sgh
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = mode)]
    mode: Mode,
    /// Model: a name of the configuration, scripted:FILE or cassette:FILE
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Tools that the model is offered, separated by commas [default: all of the scope]
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Who writes the answer over the results
    #[arg(long, value_name = "WHO", default_value = "executor")]
    answer: Writer,
    /// Maximum of tokens or credits, such as 200000tokens or 10000credits; repeatable
    #[arg(long, value_name = "AMOUNT", value_parser = budget)]
    budget: Vec<Budget>,
    /// Maximum number of model calls
    #[arg(long, value_name = "CALLS", value_parser = positive_integer)]
    calls: Option<NonZeroU64>,
    /// Longest time from now to the answer, such as 10m; what is there by then is the answer [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    wall: Option<NonZeroU64>,
    /// Start without asking whether the plan is right
    #[arg(long, short)]
    yes: bool,
    /// Print the plan, and run nothing of it
    #[arg(long, conflicts_with = "yes")]
    plan_only: bool,
    /// Client that pays
    #[arg(long, value_name = "NAME", default_value = CLIENT_DEFAULT)]
    client: String,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    watch: WatchOptions,
}

/// The writer of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Writer {
    /// The executor model, over all results
    Executor,
    /// The planner model, over all results
    Planner,
    /// Nobody: the verdict of the last reflection, or the results themselves
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    Tokens(NonZeroU64),
    Credits(NonZeroU64),
}

fn mode(text: &str) -> Result<Mode, String> {
    text.parse().map_err(|error: ostler_kernel::policy::UnknownMode| error.to_string())
}

fn budget(text: &str) -> Result<Budget, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let amount = positive_integer(digits)?;
    match &text[digits.len()..] {
        "tokens" | "token" => Ok(Budget::Tokens(amount)),
        "credits" | "credit" => Ok(Budget::Credits(amount)),
        _ => Err("give a number with its unit, such as 200000tokens or 10000credits".to_owned()),
    }
}

pub(crate) async fn ask(globals: &Globals, args: AskArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let workspace_text = args.bounds.workspace()?;
    let workspace = PathBuf::from(&workspace_text);
    let globals = &globals.with_model(args.model.as_deref())?;
    let (config, data) = settings::load_settings(globals, &workspace)?;
    if let Some(data) = data {
        bounds::check_outside_data(&workspace, &data)?;
    }
    let (planner, executor) = models(globals, &config, args.model.as_deref())?;
    let goal = match args.goal.as_str() {
        STDIN => from_stdin("the goal", GOAL_BYTES_MAX)?,
        goal => goal.to_owned(),
    };
    let (mut tokens, mut credits) = (None, None);
    for budget in &args.budget {
        match budget {
            Budget::Tokens(amount) => tokens = Some(*amount),
            Budget::Credits(amount) => credits = Some(*amount),
        }
    }
    let aggregator = match args.answer {
        Writer::Executor => Aggregator::Executor,
        Writer::Planner => Aggregator::Planner,
        Writer::Off => Aggregator::Off,
    };
    let request = GoalRequest {
        goal,
        mode: args.mode,
        aggregator,
        planner: Some(planner),
        executor: Some(executor),
        tools: args.tools,
        confirm: !args.yes,
        model_calls: args.calls,
        tokens,
        wall_ms: args.wall,
        client: args.client,
        agent: None,
        intent: args.bounds.intent,
        scope: args.bounds.scope,
        workspace: workspace_text,
        budget: credits,
        run: Some(new_run_id().to_string()),
    };
    let mut signals = Signals::listen()?;
    let mut session = Session::open(globals, &workspace, AccessMode::Create).await?;
    let RunRef { run } = match session.post_idempotent("/v1/goals", &request).await {
        Ok(opened) => opened,
        Err(refused) => {
            session.stop().await;
            return Err(refused.into());
        }
    };
    if args.plan_only {
        return plan_only(session, &run, globals.json, &mut out).await;
    }
    let what = Watch { run, before: None, json: globals.json, options: args.watch, labelled: false };
    watch(session, &mut signals, what, &mut out).await
}

/// Names of the models of planner and executor.
fn models(globals: &Globals, config: &Config, model: Option<&str>) -> Result<(String, String), Failure> {
    if let Some(extra) = &globals.extra_model {
        return Ok((extra.name.clone(), extra.name.clone()));
    }
    if let Some(named) = model {
        if config.models.contains_key(named) {
            return Ok((named.to_owned(), named.to_owned()));
        }
        let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "no model is configured".to_owned() } else { known.join(", ") };
        return Err(Failure::invalid(format!(
            "--model {named}: not a configured model ({known}); name one, scripted:FILE or cassette:FILE"
        )));
    }
    let tables = config.models_config();
    let of_role = |role: &str| tables.model_of(role).to_owned();
    let (planner, executor) = (of_role("planner"), of_role("executor"));
    if config.models.contains_key(&planner) && config.models.contains_key(&executor) {
        return Ok((planner, executor));
    }
    let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
    match known.as_slice() {
        [] => Err(Failure::invalid(NO_MODEL.to_owned())),
        [first, ..] => Err(Failure::invalid(format!(
            "no model is the default; use --model {first}, or call a model \"default\" in ostler.toml ({})",
            known.join(", ")
        ))),
    }
}

const NO_MODEL: &str = "\
no model is configured; one of these helps:
  a model of this machine:  [models.default] with provider = \"openai\", base_url = \"http://127.0.0.1:11434/v1\", model = \"qwen3:8b\" in ostler.toml
  an API with a key:        [models.default] with provider = \"anthropic\", model = \"…\", api_key_env = \"ANTHROPIC_API_KEY\" in ostler.toml
  a script, for a try:      ostler ask --model scripted:FILE GOAL";

/// Waits for the plan, prints it, and cancels the run.
async fn plan_only(mut session: Session, run: &str, json: bool, out: &mut Out) -> Result<u8, Failure> {
    let mut after = 0;
    let mut lines = JsonLines;
    let mut silent = NoView;
    let view: &mut (dyn View + Send) = if json { &mut lines } else { &mut silent };
    let mut display = Display { view, prompt: None, output: None, out };
    let followed =
        follow_until(&mut session, run, &mut after, "settled", FollowMode::Execute, &mut display).await;
    followed.map_err(|lost| connection_lost(lost, run))?;
    let path = format!("/v1/approvals?run={}", path_segment(run));
    let asked: ApprovalList = session.get(&path).await?;
    let summary = session.summary(run).await?;
    let code = match asked.approvals.first() {
        Some(question) if !json => {
            // The last line is how to answer, and nothing is asked.
            let mut lines = approval_lines(question, Detail::Full);
            lines.pop();
            lines.iter().for_each(|line| out.line(line));
            code::SUCCEEDED
        }
        Some(_) => code::SUCCEEDED,
        None => {
            let parts = ReportParts { nodes: true, verbose: false };
            report::print_report(&session.client, &summary, parts, out).await;
            code::FAILED
        }
    };
    if !asked.approvals.is_empty() {
        let _: RunRef = session.post(&format!("/v1/runs/{}/cancel", path_segment(run)), &Value::Null).await?;
    }
    session.stop().await;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_a_number_and_a_unit() {
        let amount = |number| NonZeroU64::new(number).unwrap();
        assert_eq!(budget("200000tokens"), Ok(Budget::Tokens(amount(200_000))));
        assert_eq!(budget("1credit"), Ok(Budget::Credits(amount(1))));
        for wrong in ["", "5", "tokens", "0tokens", "-5tokens", "5 tokens", "5usd"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }
}
