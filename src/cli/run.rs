//! `ostler run`: validate, submit, watch to the end, tell what came of it.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use ostler_actors::new_run_id;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_server::wire::{RunRef, SubmitRequest};

use super::advice::placed;
use super::bounds::{self, Bounds};
use super::client::Refused;
use super::exit::Failure;
use super::follow::{Watch, watch};
use super::measured::Measured;
use super::number::from_one;
use super::session::{Session, Want};
use super::signals::Signals;
use super::term::Out;
use super::{Globals, check, findings, session};

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The plan: .yaml, .yml, .json or .toml; or - for stdin, as YAML, which JSON is a part of
    plan: PathBuf,
    /// Who pays
    #[arg(long, value_name = "NAME", default_value = CLIENT_DEFAULT)]
    client: String,
    /// The agent that runs it, after the runs it has already; its client pays
    #[arg(long, value_name = "NAME", conflicts_with = "client")]
    agent: Option<String>,
    /// Credits that the run may cost at most, all together
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true, value_parser = budget)]
    budget: Option<NonZeroU64>,
    /// Value of a parameter ${KEY} of the plan
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = check::key_value)]
    params: Vec<(String, String)>,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    measured: Measured,
}

/// With none at all, every node would fail.
fn budget(text: &str) -> Result<NonZeroU64, String> {
    from_one(text).map_err(|why| format!("{why}; without --budget the run may cost whatever it does"))
}

pub(crate) async fn run(globals: &Globals, args: RunArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let workspace_text = args.bounds.workspace()?;
    let workspace = PathBuf::from(&workspace_text);
    let (config, data) = session::settings(globals, &workspace)?;
    if let Some(data) = data {
        bounds::apart(&workspace, &data)?;
    }
    let file = check::read_named(&args.plan, args.params)?;
    if let Err(findings) = check::judge(&file, &config) {
        return Err(findings::tell_plan(&file, &findings, globals.json, &mut out));
    }
    let request = SubmitRequest {
        plan: file.draft().expect("a valid plan was read as a whole").clone(),
        client: args.client,
        agent: args.agent,
        budget: args.budget,
        intent: args.bounds.intent,
        scope: args.bounds.scope,
        workspace: workspace_text,
        // So that it is one run, however often it has to be asked for.
        run: Some(new_run_id().to_string()),
    };
    let mut signals = Signals::listen()?;
    let mut session = Session::open_measured(globals, &workspace, Want::Begin, args.measured).await?;
    // It names the run: asked for twice, it is one.
    let run = match session.post_again::<RunRef>("/v1/runs", &request).await {
        Ok(RunRef { run }) => run,
        Err(refused) => {
            session.stop().await;
            return Err(match refused {
                Refused::Problem(problem) if !problem.faults.is_empty() => {
                    // The process that holds the data folder knows other tools than this one.
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
                    findings::tell(file.source(), &findings, globals.json, &mut out)
                }
                Refused::Gone(what) => Failure::internal(placed(&format!(
                    "{what}; whether the run was opened is unknown: `ostler ps` tells, `ostler resume` goes on"
                ))),
                refused => refused.into(),
            });
        }
    };
    watch(session, &mut signals, Watch { run, before: None, json: globals.json, among: false }, &mut out)
        .await
}
