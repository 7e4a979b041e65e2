//! `ostler client`, `ostler credit`, and the clients of `ostler ps`: who pays, for how much.

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use ostler_kernel::terms::CREDITS_MAX;
use ostler_server::wire::{ClientLine, ClientList, ClientRequest, Tier};

use super::Globals;
use super::cells::{fit_name, padded, width};
use super::client::{Client, Refused, part};
use super::exit::{Failure, code};
use super::ps::tagged;
use super::session::{Session, Want};
use super::term::{Out, Paint, say};

/// Columns of a client's name.
pub(crate) const NAME_MAX: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Add a client, or change the terms of one
    ///
    /// A client need not be added before it runs something: then it has weight 100 in the marketplace and is not metered.
    /// With --credit it is metered: what its attempts cost (a credit is a millisecond of a slot) is taken off its credits, and
    /// when they are used up nothing more of it starts until `ostler credit` adds some. Without --weight, a metered client takes its
    /// weight from the credits deposited in the last thirty days: 1,000 credits are worth the weight 100.
    #[command(
        after_help = "Examples:\n  ostler client add acme --credit 5000\n  ostler client add umbrella --weight 300 --tier contracted"
    )]
    Add(AddArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Its name, as `ostler run --client` takes it
    client: String,
    /// Its share among the clients of its tier, 1 to 1000000 [default: what its credits are worth]
    #[arg(long, value_name = "W", value_parser = weight)]
    weight: Option<u32>,
    /// Where it is served: contracted goes first, the marketplace keeps a tenth
    #[arg(long, value_name = "TIER", default_value = "marketplace")]
    tier: TierArg,
    /// Credits to deposit
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = credits)]
    credit: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TierArg {
    Contracted,
    Marketplace,
}

#[derive(Debug, Args)]
pub(crate) struct CreditArgs {
    /// The client
    client: String,
    /// Credits to deposit, such as +1000, or to take back, such as -200; absent: show what is left
    #[arg(value_name = "AMOUNT", allow_hyphen_values = true, value_parser = amount)]
    amount: Option<i64>,
}

fn weight(text: &str) -> Result<u32, String> {
    let weight = text.parse().ok().filter(|weight| (1..=ostler_scheduler::WEIGHT_MAX).contains(weight));
    weight.ok_or_else(|| format!("give a whole number from 1 to {}", ostler_scheduler::WEIGHT_MAX))
}

fn credits(text: &str) -> Result<i64, String> {
    match text.parse::<i128>() {
        Ok(credits) if credits > CREDITS_MAX.into() => Err(format!("give at most {CREDITS_MAX}")),
        Ok(credits) if credits >= 0 => Ok(credits as i64),
        _ => Err("give a whole number, 0 or more".to_owned()),
    }
}

fn amount(text: &str) -> Result<i64, String> {
    match text.parse::<i128>() {
        Ok(amount) if amount.abs() <= CREDITS_MAX.into() => Ok(amount as i64),
        Ok(_) => Err(format!("give at most {CREDITS_MAX}, either way")),
        Err(_) => Err("give a whole number with its sign, such as +1000 or -200".to_owned()),
    }
}

pub(crate) async fn client(globals: &Globals, args: ClientArgs) -> Result<u8, Failure> {
    let ClientCommand::Add(AddArgs { client, weight, tier, credit }) = args.command;
    let tier = match tier {
        TierArg::Contracted => Tier::Contracted,
        TierArg::Marketplace => Tier::Marketplace,
    };
    let request = ClientRequest { weight, tier: Some(tier), credits: credit };
    change(globals, &client, Some(request), Want::Begin).await
}

pub(crate) async fn credit(globals: &Globals, args: CreditArgs) -> Result<u8, Failure> {
    let request = args.amount.map(|credits| ClientRequest { credits: Some(credits), ..Default::default() });
    let want = if request.is_some() { Want::Begin } else { Want::Look };
    change(globals, &args.client, request, want).await
}

/// Changes a client, if anything is to change, and tells how it stands then.
async fn change(
    globals: &Globals,
    client: &str,
    request: Option<ClientRequest>,
    want: Want,
) -> Result<u8, Failure> {
    let mut out = Out::new();
    let session = Session::open(globals, Path::new("."), want).await?;
    let path = format!("/v1/clients/{}", part(client));
    let line: Result<ClientLine, Refused> = match &request {
        Some(request) => session.client.post(&path, request).await,
        None => session.client.get(&path).await,
    };
    session.stop().await;
    let line = line?;
    if globals.json {
        out.json(&tagged("client", &line));
    } else {
        out.line(told(&line));
    }
    Ok(code::SUCCEEDED)
}

/// A client in a sentence.
fn told(line: &ClientLine) -> String {
    let ClientLine { client, weight, .. } = line;
    let from = match line.weight_from.as_str() {
        "configured" => " (from ostler.toml)",
        "credits" => " (from its credits of the last thirty days)",
        _ => "",
    };
    let mut told = format!("{client}: weight {weight}{from}, {}", tier(line.tier));
    match line.left {
        None => told.push_str(", not metered"),
        Some(left) => told.push_str(&format!(
            ", {left} credits left of {} ({} spent, {} held by what runs)",
            line.deposited.unwrap_or(0),
            line.spent,
            line.reserved
        )),
    }
    if line.parked {
        told.push_str(&format!(
            "\n  parked: nothing of it starts until it has credits: ostler credit {client} +1000"
        ));
    }
    told
}

pub(crate) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Contracted => "contracted",
        Tier::Marketplace => "marketplace",
    }
}

/// Lists all clients.
pub(crate) async fn list(client: &Client, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let list: ClientList = client.get("/v1/clients").await?;
    if globals.json {
        list.clients.iter().for_each(|line| out.json(&tagged("client", line)));
        return Ok(());
    }
    if list.clients.is_empty() {
        say("there is no client yet: who runs something without naming one is client local");
        return Ok(());
    }
    let names = list.clients.iter().map(|line| width(&line.client)).max().unwrap_or(0).clamp(6, NAME_MAX);
    out.line(format!(
        "{}  {:<11}  {:>7}  {:>7}  {:>6}  {:>12}  {:>12}",
        padded("CLIENT", names),
        "TIER",
        "WEIGHT",
        "RUNNING",
        "QUEUED",
        "SPENT",
        "LEFT"
    ));
    for line in &list.clients {
        let name = padded(&fit_name(&line.client, names), names);
        let left = line.left.map_or_else(|| "-".to_owned(), |left| left.to_string());
        let parked = if line.parked { out.paint(Paint::Care, "  parked") } else { String::new() };
        out.line(format!(
            "{name}  {:<11}  {:>7}  {:>7}  {:>6}  {:>12}  {left:>12}{parked}",
            tier(line.tier),
            line.weight,
            line.running,
            line.queued,
            line.spent,
        ));
    }
    Ok(())
}
