//! `ostler market`.

mod jobs;
pub(crate) mod offer;
pub(crate) mod post;

use std::path::Path;

use clap::{Args, Subcommand};
use ostler_server::wire::JobList;

use crate::cli::arguments::Globals;
use crate::cli::commands::market::jobs::listed;
use crate::cli::commands::market::offer::{OfferArgs, offer};
use crate::cli::commands::market::post::{PostArgs, post};
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::session::{AccessMode, Session, settings};

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

pub(crate) async fn market(globals: &Globals, args: MarketArgs) -> Result<u8, Failure> {
    match args.command {
        MarketCommand::Post(args) => post(globals, args).await,
        MarketCommand::Ls => ls(globals).await,
        MarketCommand::Offer(args) => offer(globals, args).await,
    }
}

async fn ls(globals: &Globals) -> Result<u8, Failure> {
    if settings::has_no_data_folder("job", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
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
        status_line(with_location("there is no job yet: `ostler market post FILE` posts one"));
        return Ok(code::SUCCEEDED);
    }
    let columns = out.columns();
    listed(&list.jobs, columns, &out).iter().for_each(|line| out.line(line));
    Ok(code::SUCCEEDED)
}
