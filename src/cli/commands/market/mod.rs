//! `ostler market`.

mod jobs;
pub(crate) mod offer;
pub(crate) mod post;

use std::path::Path;

use clap::{Args, Subcommand};
use ostler_server::wire::JobList;

use crate::cli::arguments::Globals;
use crate::cli::commands::market::jobs::format_jobs;
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

impl MarketArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.command, MarketCommand::Ls)
    }
}

#[derive(Debug, Subcommand)]
enum MarketCommand {
    /// Post a job, and run it with the agent that wins the contract
    ///
    /// A job file contains a title, required capabilities, a budget and a plan. Agents of the job's client
    /// propose; the contract is awarded by capabilities, reputation and price. The budget is reserved from
    /// the client's credits, and the unspent part is released at the end.
    #[command(
        after_help = "Examples:\n  ostler market post job.yaml\n  ostler market post job.yaml --detach"
    )]
    Post(PostArgs),
    /// List jobs, newest first: stage, winner and result
    #[command(after_help = "Examples:\n  ostler market ls\n  ostler market ls --json")]
    Ls,
    /// Offer an agent for jobs: capabilities and price
    ///
    /// The agent exists: `ostler spawn` creates it, and its profile is its first offer. A new offer
    /// replaces the previous one; the profile stays unchanged.
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
        status_line(with_location("no job yet; `ostler market post FILE` posts one"));
        return Ok(code::SUCCEEDED);
    }
    let columns = out.columns();
    format_jobs(&list.jobs, columns, &out).iter().for_each(|line| out.line(line));
    Ok(code::SUCCEEDED)
}
