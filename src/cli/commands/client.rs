//! `ostler client`.

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use ostler_kernel::client_terms::CREDITS_MAX;
use ostler_kernel::id::{NAME_RULE, is_name};
use ostler_kernel::ledger::{Amount, usd_text};
use ostler_server::wire::{BalanceRow, ClientRequest, ClientRow, ClientTier, WeightName, WeightRequest};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::budget::amount;
use crate::cli::exit::{Failure, code};
use crate::cli::output::credits::deposit;
use crate::cli::output::hints;
use crate::cli::output::labels::tier;
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::output::units::signed_usd;
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::{AccessMode, Session, open_existing};

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Add a client, or change its terms
    ///
    /// Clients need not be added before they run plans: by default they have weight 100 in the marketplace
    /// and are not metered. --credit makes the client metered: the cost of its attempts (a credit is a
    /// millisecond of a slot) is charged to its credits, and when these are used up none of its attempts
    /// start until `ostler credit` adds some. --usd and --tokens do the same for its calls of models: a call
    /// that the balance does not allow is a question to a person. Without --weight, the weight of a metered client follows the
    /// credits deposited in the last thirty days: 1,000 credits give weight 100. Terms of an existing
    /// client that are not given here stay unchanged.
    #[command(
        after_help = "Examples:\n  ostler client add acme --credit 5000 --usd 5 --tokens 1000000\n  ostler client add umbrella --weight 300 --tier contracted"
    )]
    Add(AddArgs),
    /// Remove a client's weight, tier and credits: it is no longer metered
    ///
    /// For a deposit to the wrong client, and for clients that are gone. Remaining credits are lost. Runs
    /// and agents of the client stay; a later run has weight 100 in the marketplace, not metered. Refused
    /// while a run or a market job of the client is open.
    #[command(after_help = "Example:\n  ostler client remove acme")]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Client, as `ostler ps --clients` lists it
    client: String,
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Name, as for `ostler run --client`
    client: String,
    /// Weight among the clients of its tier: 1 to 1000000, or credits to derive it from deposits [default:
    /// credits]
    #[arg(long, value_name = "W", allow_negative_numbers = true, value_parser = weight)]
    weight: Option<WeightRequest>,
    /// Tier: contracted is served first, marketplace keeps a tenth [default: marketplace]
    #[arg(long, value_name = "TIER")]
    tier: Option<TierArg>,
    /// Credits to deposit
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = credits)]
    credit: Option<i64>,
    /// US dollars to deposit for calls of models
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = usd)]
    usd: Option<i64>,
    /// Tokens to deposit for calls of models
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
    tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TierArg {
    Contracted,
    Marketplace,
}

fn weight(text: &str) -> Result<WeightRequest, String> {
    if text == "credits" {
        return Ok(WeightRequest::Named(WeightName::Credits));
    }
    let weight = text.parse().ok().filter(|weight| (1..=ostler_scheduler::WEIGHT_MAX).contains(weight));
    let refused = || format!("give a whole number from 1 to {}, or credits", ostler_scheduler::WEIGHT_MAX);
    weight.map(WeightRequest::Chosen).ok_or_else(refused)
}

pub(crate) fn credits(text: &str) -> Result<i64, String> {
    match text.parse::<i128>() {
        Ok(credits) if credits > CREDITS_MAX.into() => Err(format!("give at most {CREDITS_MAX}")),
        Ok(credits) if credits > 0 => Ok(credits as i64),
        _ => Err("give a whole number, 1 or more; without --credit the client is not metered".to_owned()),
    }
}

fn usd(text: &str) -> Result<i64, String> {
    match amount(&format!("{}usd", text.strip_suffix("usd").unwrap_or(text)))? {
        Amount::NanoUsd(nano_usd) => Ok(i64::try_from(nano_usd).unwrap_or(i64::MAX)),
        Amount::Tokens(_) | Amount::Credits(_) => Err("give US dollars, such as 5 or 0.50".to_owned()),
    }
}

fn tokens(text: &str) -> Result<i64, String> {
    match amount(&format!("{}tokens", text.strip_suffix("tokens").unwrap_or(text)))? {
        Amount::Tokens(tokens) => Ok(i64::try_from(tokens).unwrap_or(i64::MAX)),
        Amount::NanoUsd(_) | Amount::Credits(_) => Err("give a number of tokens, such as 1000000".to_owned()),
    }
}

pub(crate) async fn client(globals: &Globals, args: ClientArgs) -> Result<u8, Failure> {
    let AddArgs { client, weight, tier, credit, usd, tokens } = match args.command {
        ClientCommand::Add(args) => args,
        ClientCommand::Remove(args) => return remove(globals, &args).await,
    };
    let tier = tier.map(|tier| match tier {
        TierArg::Contracted => ClientTier::Contracted,
        TierArg::Marketplace => ClientTier::Marketplace,
    });
    let path = path(&client)?;
    let mut session = Session::open(globals, Path::new("."), AccessMode::Create).await?;
    let line =
        add(&mut session, &path, ClientRequest { weight, tier, credits: credit, tokens, nano_usd: usd })
            .await;
    session.stop().await;
    print(globals, &line?)
}

/// Changes the terms of a client. A new client starts in the marketplace.
async fn add(session: &mut Session, path: &str, mut request: ClientRequest) -> Result<ClientRow, ApiError> {
    match session.get::<ClientRow>(path).await {
        Ok(known) if request == ClientRequest::default() => return Ok(known),
        Ok(_) => {}
        Err(ApiError::Problem(problem)) if problem.code == UNKNOWN => {
            request.tier = request.tier.or(Some(ClientTier::Marketplace));
        }
        Err(refused) => return Err(refused),
    }
    session.post(path, &request).await
}

async fn remove(globals: &Globals, args: &RemoveArgs) -> Result<u8, Failure> {
    let path = format!("{}/remove", path(&args.client)?);
    let mut session = open_existing("client", globals, AccessMode::Execute).await?;
    let removed: Result<ClientRow, ApiError> = session.post(&path, &json!({})).await;
    session.stop().await;
    let removed = removed?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("client_removed", &removed));
    } else {
        out.line(removed_text(&removed));
    }
    Ok(code::SUCCEEDED)
}

fn removed_text(line: &ClientRow) -> String {
    let ClientRow { client, weight, .. } = line;
    match line.left {
        None => format!("{client}: removed, with weight {weight}, {}", tier(line.tier)),
        Some(left) => {
            let deposited = line.deposited.unwrap_or(0);
            format!("{client}: removed, with {left} credits left of {deposited}; it is not metered any more")
        }
    }
}

const UNKNOWN: &str = "client_unknown";

pub(crate) fn path(client: &str) -> Result<String, Failure> {
    if !is_name(client) {
        return Err(Failure::invalid(format!("client name {client:?}: expected {NAME_RULE}")));
    }
    Ok(format!("/v1/clients/{}", path_segment(client)))
}

pub(crate) fn print(globals: &Globals, line: &ClientRow) -> Result<u8, Failure> {
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("client", line));
    } else {
        out.line(client_text(line));
    }
    Ok(code::SUCCEEDED)
}

pub(crate) fn client_text(line: &ClientRow) -> String {
    let ClientRow { client, weight, .. } = line;
    let from = match line.weight_from.as_ref() {
        "configured" => " (from ostler.toml)",
        "credits" => " (from its deposits of the last thirty days)",
        _ => "",
    };
    let mut text = format!("{client}: weight {weight}{from}, {}", tier(line.tier));
    match line.left {
        None => text.push_str(", not metered"),
        Some(left) => text.push_str(&format!(
            ", {left} credits left of {} ({} spent, {} reserved by attempts)",
            line.deposited.unwrap_or(0),
            line.spent,
            line.reserved
        )),
    }
    for balance in balance_texts(line) {
        text.push_str(&format!(", {balance}"));
    }
    if line.for_jobs > 0 {
        text.push_str(&format!(", {} reserved for jobs", line.for_jobs));
    }
    if line.parked {
        let least = line.left.filter(|left| *left <= 0).map(|left| left.saturating_neg().saturating_add(1));
        let least = least.map(|least| format!(", at least {least} more")).unwrap_or_default();
        let deposit = deposit(line.left);
        text.push_str(&format!(
            "\n  parked: its attempts start when it has credits{least}: {}",
            hints::deposit(client.as_str(), deposit)
        ));
    }
    text
}

/// What is left of the money and the tokens of a client that is metered in them.
fn balance_texts(line: &ClientRow) -> Vec<String> {
    let money = line.nano_usd.map(|balance| {
        let BalanceRow { deposited, spent, left, for_jobs, .. } = balance;
        let aside =
            if for_jobs > 0 { format!(", {} reserved for jobs", usd_text(for_jobs)) } else { String::new() };
        let (left, deposited) = (signed_usd(left), signed_usd(deposited));
        format!("{left} usd left of {deposited} ({} spent{aside})", usd_text(spent))
    });
    let tokens = line.tokens.map(|balance| {
        let BalanceRow { deposited, spent, left, for_jobs, .. } = balance;
        let aside = if for_jobs > 0 { format!(", {for_jobs} reserved for jobs") } else { String::new() };
        format!("{left} tokens left of {deposited} ({spent} spent{aside})")
    });
    money.into_iter().chain(tokens).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::credits::tests::line;

    #[test]
    fn a_removed_client_is_told_with_what_it_had() {
        let text = removed_text(&line(300, false));
        assert!(text.starts_with("acme: removed, with 300 credits left of "), "{text}");
        let unmetered = ClientRow { left: None, deposited: None, ..line(0, false) };
        let text = removed_text(&unmetered);
        assert!(text.starts_with("acme: removed, with weight "), "{text}");
    }

    #[test]
    fn who_is_still_out_of_credit_is_told_how_much_it_takes() {
        let text = client_text(&line(-209, true));
        assert!(text.ends_with("when it has credits, at least 210 more: ostler credit acme +2000"), "{text}");
    }
}
