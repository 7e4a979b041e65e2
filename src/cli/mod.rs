//! The `ostler` command: what it takes, and which file does it.
//!
//! Every command that concerns runs speaks the /v1 API, whoever holds the data folder: `session` finds the way,
//! `client` asks, `follow` watches a run and `summary` tells what came of it.

mod approve;
mod ask;
mod check;
mod client;
mod doctor;
mod exit;
mod follow;
mod live;
mod look;
mod run;
mod session;
mod show;
mod signals;
mod simulate;
mod steer;
mod summary;
mod term;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use exit::Failure;
use ostler_server::wire::Decision;
use term::say;

/// Run plans: graphs of work that are gated, journaled, and survive a kill.
#[derive(Debug, Parser)]
#[command(name = "ostler", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Globals {
    /// Folder that holds everything: journal, artifacts, control.sock [default: .ostler]
    #[arg(long, global = true, env = "OSTLER_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Configuration [default: ostler.toml of the data folder, else of the workspace]
    #[arg(long, global = true, env = "OSTLER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan to its end
    #[command(after_help = "Example:\n  ostler run examples/plans/audit.yaml --workspace ~/src/project")]
    Run(run::RunArgs),
    /// Show every fault of a plan, or its facts
    #[command(after_help = "Example:\n  ostler check examples/plans/audit.yaml")]
    Check(check::CheckArgs),
    /// Go on with a run, or with all that are open
    #[command(after_help = "Example:\n  ostler resume @last")]
    Resume(steer::ResumeArgs),
    /// List runs, or agents
    #[command(after_help = "Example:\n  ostler ps")]
    Ps(look::PsArgs),
    /// Show where a run stands, now or at an earlier record
    #[command(after_help = "Example:\n  ostler show @last --format mermaid")]
    Show(show::ShowArgs),
    /// Print the records of a run
    #[command(after_help = "Example:\n  ostler events @last --follow")]
    Events(look::EventsArgs),
    /// Print the result of a node
    #[command(after_help = "Example:\n  ostler artifact @last/report --path text > report.md")]
    Artifact(look::ArtifactArgs),
    /// List what waits for a person's approval, in all runs
    #[command(after_help = "Example:\n  ostler approvals")]
    Approvals,
    /// Say yes to what a node asks, and let the run go on
    #[command(after_help = "Example:\n  ostler approve @last publish --note 'looks good'")]
    Approve(approve::AnswerArgs),
    /// Say no to what a node asks, and let the run go on
    #[command(after_help = "Example:\n  ostler reject @last publish --note 'too early'")]
    Reject(approve::AnswerArgs),
    /// Stop a run for good, or one node of it
    #[command(after_help = "Example:\n  ostler cancel 0198f3c2")]
    Cancel(steer::CancelArgs),
    /// Do without a node of a run
    #[command(after_help = "Example:\n  ostler skip @last notify")]
    Skip(steer::SkipArgs),
    /// Settle an attempt whose result was lost, and go on
    #[command(after_help = "Example:\n  ostler resolve @last notify --redo")]
    Resolve(steer::ResolveArgs),
    /// Live through cases in virtual time
    #[command(after_help = "Example:\n  ostler simulate graph cases.jsonl --check")]
    Simulate(simulate::SimulateArgs),
    /// Verify the data folder, and say what is missing
    #[command(after_help = "Example:\n  ostler doctor")]
    Doctor(doctor::DoctorArgs),
}

/// How to show a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Dot,
    Mermaid,
}

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("OSTLER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(format!("error: no threads to run in: {error}"));
            return exit::code::INTERNAL.into();
        }
    };
    let ended = runtime.block_on(dispatch(cli));
    // What still blocks in a thread of its own has been given up.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code.into(),
        Err(Failure { code, what }) => {
            if !what.is_empty() {
                say(format!("error: {what}"));
            }
            code.into()
        }
    }
}

async fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    match command {
        Command::Run(args) => run::run(&globals, args).await,
        Command::Check(args) => check::check(&globals, args),
        Command::Resume(args) => steer::resume(&globals, args).await,
        Command::Ps(args) => look::ps(&globals, args).await,
        Command::Show(args) => show::show(&globals, args).await,
        Command::Events(args) => look::events(&globals, args).await,
        Command::Artifact(args) => look::artifact(&globals, args).await,
        Command::Approvals => approve::approvals(&globals).await,
        Command::Approve(args) => approve::answer(&globals, args, Decision::Approve).await,
        Command::Reject(args) => approve::answer(&globals, args, Decision::Reject).await,
        Command::Skip(args) => steer::skip(&globals, args).await,
        Command::Cancel(args) => steer::cancel(&globals, args).await,
        Command::Resolve(args) => steer::resolve(&globals, args).await,
        Command::Simulate(args) => simulate::simulate(&globals, args),
        Command::Doctor(args) => doctor::doctor(&globals, args).await,
    }
}
