//! `ostler run`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ostler_actors::new_run_id;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_server::wire::{RunRef, SubmitRequest};

use crate::cli::arguments::bounds::Bounds;
use crate::cli::arguments::budget::{BudgetOptions, Resources};
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, bounds, plan};
use crate::cli::commands::check::preflight;
use crate::cli::exit::Failure;
use crate::cli::output::findings;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::api_client::ApiError;
use crate::cli::session::new_servers::accept_new_servers;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Watch, watch};
use crate::cli::session::{AccessMode, Session, settings};

/// Calls that the gate would deny, as shown before a run.
const DENIED_SHOWN_MAX: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The plan: .yaml, .yml, .json or .toml; or - for stdin, in YAML or JSON
    plan: PathBuf,
    /// Client that pays
    #[arg(long, value_name = "NAME", default_value = CLIENT_DEFAULT)]
    client: String,
    /// Agent that executes the run, after its earlier runs; its client pays
    #[arg(long, value_name = "NAME", conflicts_with = "client")]
    agent: Option<String>,
    #[command(flatten)]
    budget: BudgetOptions,
    /// Value of the plan parameter ${KEY}
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = plan::key_value)]
    params: Vec<(String, String)>,
    /// Execute NODE, or every node, although its result is recorded
    #[arg(long, value_name = "NODE", num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    fresh: Vec<String>,
    /// Model for nodes that ask `default`: a name of the configuration, scripted:FILE or cassette:FILE
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn run(globals: &Globals, args: RunArgs) -> Result<u8, Failure> {
    let globals = &globals.with_model(args.model.as_deref())?;
    let mut out = Out::new();
    let workspace_text = args.bounds.workspace()?;
    let workspace = PathBuf::from(&workspace_text);
    let (config, data) = settings::load_settings(globals, &workspace)?;
    if let Some(data) = data {
        bounds::check_outside_data(&workspace, &data)?;
    }
    let mut file = plan::read_named(&args.plan, args.params)?;
    if let Some(model) = globals.chosen_model(&config, args.model.as_deref())? {
        file.ask(&model);
    }
    accept_new_servers(globals, &workspace, &config, file.source().text()).await?;
    let (plan, _advice) = plan::judge(&file, &config)
        .map_err(|findings| findings::report_plan(&file, &findings, globals.json, &mut out))?;
    let draft = file.draft().expect("a valid plan was read as a whole");
    let denied = preflight::refusals(&file, &plan, &config, &args.bounds, &workspace);
    for finding in denied.iter().take(DENIED_SHOWN_MAX) {
        let node = finding.node.as_deref().unwrap_or("the plan");
        status_line(format!("warning: {node} {}; {}", finding.detail, finding.help));
    }
    if denied.len() > DENIED_SHOWN_MAX {
        status_line(format!(
            "warning: … and {} more; `ostler check` lists them",
            denied.len() - DENIED_SHOWN_MAX
        ));
    }
    let Resources { usd, tokens, credits } = args.budget.resources();
    let request = SubmitRequest {
        plan: Arc::new(plan),
        client: args.client,
        agent: args.agent,
        budget: credits,
        usd,
        tokens,
        over_budget: args.budget.over_budget(),
        intent: args.bounds.intent,
        scope: args.bounds.scope,
        workspace: workspace_text,
        run: Some(new_run_id().to_string()),
        reuse: true,
        fresh: args.fresh,
    };
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, &workspace, AccessMode::Create, args.metrics).await?;
    session.note_new_client(&request.client).await;
    session.note_lockdown().await;
    let run = match session.submit(&request, draft).await {
        Ok(RunRef { run }) => run,
        Err(refused) => {
            session.stop().await;
            return Err(match refused {
                ApiError::Problem(problem) if !problem.faults.is_empty() => {
                    // The other process has other tools than this one.
                    let found = problem.faults.iter();
                    let findings: Vec<_> = found
                        .map(|fault| {
                            let found = file.found(
                                &fault.code,
                                &fault.node,
                                &fault.pointer,
                                &fault.detail,
                                &fault.help,
                            );
                            file.on_line(found, fault.line)
                        })
                        .collect();
                    findings::report(file.source(), &findings, globals.json, &mut out)
                }
                ApiError::ConnectionLost(what) => Failure::internal(with_location(&format!(
                    "{what}; the run may have been opened: `ostler ps` lists it, `ostler resume` continues it"
                ))),
                refused => refused.into(),
            });
        }
    };
    let what = Watch {
        run,
        before: None,
        json: globals.json,
        options: args.watch,
        labelled: false,
        quiet: false,
        turn: None,
    };
    watch(session, &mut signals, what, &mut out).await
}
