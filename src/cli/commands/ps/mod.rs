//! `ostler ps`.

mod agents;
mod clients;
mod runs;
mod tree;

use std::num::NonZeroU64;
use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ostler_kernel::run::RunStatus;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::positive_integer;
use crate::cli::commands::ps::runs::runs;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::{AccessMode, Session};

const RUNS_SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// List agents instead of runs
    #[arg(long, conflicts_with_all = ["limit", "all", "clients", "tree"])]
    agents: bool,
    /// List clients instead of runs: weights, attempts and credits
    #[arg(long, conflicts_with_all = ["limit", "all", "tree"])]
    clients: bool,
    /// Show the supervision tree of the process that holds the data folder, with restarts
    #[arg(long, conflicts_with_all = ["limit", "all"])]
    tree: bool,
    /// Maximum number of runs, newest first [default: 20 on a terminal, else all]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = positive_integer)]
    limit: Option<NonZeroU64>,
    /// List all runs
    #[arg(short, long, conflicts_with = "limit")]
    all: bool,
    /// List only runs in this state
    #[arg(long, value_name = "STATE", value_parser = run_status(), conflicts_with_all = ["agents", "clients", "tree"])]
    state: Option<RunStatus>,
}

/// A parser that lists the statuses in help and completions.
fn run_status() -> impl TypedValueParser<Value = RunStatus> {
    let words = RunStatus::ALL.map(RunStatus::as_str);
    PossibleValuesParser::new(words).map(|word| word.parse().expect("a possible value is a status"))
}

pub(crate) async fn ps(globals: &Globals, args: PsArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    if has_no_data_folder("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let listed = if args.agents {
        agents::list(&mut session, globals, &mut out).await
    } else if args.tree {
        tree::tree(&mut session, globals, &mut out).await
    } else if args.clients {
        clients::list(&mut session, globals, &mut out).await
    } else {
        let most = match args.limit {
            Some(limit) => usize::try_from(limit.get()).unwrap_or(usize::MAX),
            None if args.all || globals.json || !out.is_terminal() => usize::MAX,
            None => RUNS_SHOWN,
        };
        runs(&mut session, globals, args.state, most, &mut out).await
    };
    session.stop().await;
    listed.map(|()| code::SUCCEEDED)
}
