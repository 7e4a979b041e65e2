//! `ostler experiment`.

mod agentdojo;
mod document;
mod engine;
mod lineage;
mod modes;
mod page;
mod plot;
mod report;

use clap::{Args, Subcommand};

use crate::cli::arguments::Globals;
use crate::cli::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run all modes on the same goals, and compare tokens and latency
    ///
    /// Simulates every mode on goals of up to 16 tools in all depths, with models and tools of fixed latency
    /// and size, and compares the counted tokens with the closed forms. Then runs some of the goals in the
    /// engine itself, with a scripted model that takes that latency, to measure what a mode costs beside its
    /// calls. No model is asked, and no data folder is touched. Writes one HTML page with plots, tables and
    /// all figures; --json prints the figures. Exits with 1 if a count differs from its closed form.
    #[command(
        after_help = "Examples:\n  ostler experiment modes\n  ostler experiment modes --real --html modes.html\n  ostler experiment modes --latency 2s --tool-latency 300ms --json"
    )]
    Modes(modes::ModesArgs),
    /// Replay a corpus of prompt injections, and count what the gate stops
    ///
    /// Runs every pair of a user's task and an injected task of the corpus through the engine, in memory: once
    /// as a plan with injected calls that take their values from a result of an attacker, once as a
    /// conversation with a scripted model that obeys the injection. The scope is the tools of the user's task,
    /// the intent its highest impact; a person allows the calls of the task and no others. Then an attacker with
    /// knowledge of the policy tries detours. Writes one HTML page; --json prints the figures. Exits with 1 if a check
    /// fails.
    #[command(
        after_help = "Examples:\n  ostler experiment agentdojo --data agentdojo.json\n  ostler experiment agentdojo --data agentdojo.json --html report.html --json"
    )]
    Agentdojo(agentdojo::AgentdojoArgs),
    /// Edit a memo of nine artifacts in many ways, and measure what changes
    ///
    /// Runs the example telehealth.yaml in memory, edits it in two ways (an unrelated source; an artifact in the middle), and takes the
    /// edit up in three conditions: two loops that write the memo anew, and a replay by lineage. Counts what is preserved,
    /// what the change reaches, calls, tokens and time. Then edits it at every place, and many times in a row. Scripts write;
    /// with --model a configured model does, which costs its tokens. Writes one HTML page with plots and all figures;
    /// --json prints the figures. Exits with 1 if a check fails.
    #[command(
        after_help = "Examples:\n  ostler experiment lineage\n  ostler experiment lineage --edits 50 --seed 7 --html lineage.html\n  ostler experiment lineage --model careful --repeats 3 --json"
    )]
    Lineage(lineage::LineageArgs),
}

pub(crate) async fn experiment(globals: &Globals, args: ExperimentArgs) -> Result<u8, Failure> {
    match args.what {
        What::Modes(args) => modes::modes(globals, args).await,
        What::Agentdojo(args) => agentdojo::agentdojo(globals, args).await,
        What::Lineage(args) => lineage::lineage(globals, args).await,
    }
}
