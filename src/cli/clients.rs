//! `ostler client`, `ostler credit`, and the clients of `ostler ps`: who pays, for how much.

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use ostler_actors::ATTEMPT_CREDITS;
use ostler_kernel::id::{NAME_RULE, is_name};
use ostler_kernel::client_terms::{CREDITS_MAX, REFERENCE_CREDITS};
use ostler_server::wire::{ClientLine, ClientList, ClientRequest, Summary, Tier, WeightName, WeightRequest};

use super::Globals;
use super::advice;
use super::client::{Client, Refused, part};
use super::exit::{Failure, code};
use super::ps::tagged;
use super::session::{Session, Want};
use super::table::{Cell, Column, Table};
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
    /// when they are used up nothing more of it starts until `ostler credit` adds some. A metered client for which no weight was
    /// chosen takes it from the credits deposited in the last thirty days: 1,000 credits are worth the weight 100. Of a client that
    /// is known already, what is not named here stays as it is.
    #[command(
        after_help = "Examples:\n  ostler client add acme --credit 5000\n  ostler client add umbrella --weight 300 --tier contracted"
    )]
    Add(AddArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Its name, as `ostler run --client` takes it
    client: String,
    /// Its share among the clients of its tier: 1 to 1000000, or credits, what its credits are worth [default: credits]
    #[arg(long, value_name = "W", allow_negative_numbers = true, value_parser = weight)]
    weight: Option<WeightRequest>,
    /// Where it is served: contracted goes first, the marketplace keeps a tenth [default: marketplace]
    #[arg(long, value_name = "TIER")]
    tier: Option<TierArg>,
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

fn weight(text: &str) -> Result<WeightRequest, String> {
    if text == "credits" {
        return Ok(WeightRequest::Named(WeightName::Credits));
    }
    let weight = text.parse().ok().filter(|weight| (1..=ostler_scheduler::WEIGHT_MAX).contains(weight));
    let refused = || format!("give a whole number from 1 to {}, or credits", ostler_scheduler::WEIGHT_MAX);
    weight.map(WeightRequest::Chosen).ok_or_else(refused)
}

fn credits(text: &str) -> Result<i64, String> {
    match text.parse::<i128>() {
        Ok(credits) if credits > CREDITS_MAX.into() => Err(format!("give at most {CREDITS_MAX}")),
        Ok(credits) if credits > 0 => Ok(credits as i64),
        _ => Err("give a whole number, 1 or more; without --credit the client is not metered".to_owned()),
    }
}

fn amount(text: &str) -> Result<i64, String> {
    let signed = text.strip_prefix(['+', '-']).is_some();
    match text.parse::<i128>() {
        Ok(0) => Err("an amount of 0 changes nothing; without an amount, what is left is shown".to_owned()),
        Ok(amount) if !signed => Err(format!("give it its sign: +{amount} deposits, -{amount} takes back")),
        Ok(amount) if amount.abs() <= CREDITS_MAX.into() => Ok(amount as i64),
        Ok(_) => Err(format!("give at most {CREDITS_MAX}, either way")),
        Err(_) => Err("give a whole number with its sign, such as +1000 or -200".to_owned()),
    }
}

pub(crate) async fn client(globals: &Globals, args: ClientArgs) -> Result<u8, Failure> {
    let ClientCommand::Add(AddArgs { client, weight, tier, credit }) = args.command;
    let tier = tier.map(|tier| match tier {
        TierArg::Contracted => Tier::Contracted,
        TierArg::Marketplace => Tier::Marketplace,
    });
    let path = path(&client)?;
    let mut session = Session::open(globals, Path::new("."), Want::Begin).await?;
    let line = add(&mut session, &path, ClientRequest { weight, tier, credits: credit }).await;
    session.stop().await;
    tell(globals, &line?)
}

/// Changes a client, which begins in the marketplace if it is new.
async fn add(session: &mut Session, path: &str, mut request: ClientRequest) -> Result<ClientLine, Refused> {
    match session.get::<ClientLine>(path).await {
        Ok(known) if request == ClientRequest::default() => return Ok(known),
        Ok(_) => {}
        Err(Refused::Problem(problem)) if problem.code == UNKNOWN => {
            request.tier = request.tier.or(Some(Tier::Marketplace));
        }
        Err(refused) => return Err(refused),
    }
    session.post(path, &request).await
}

/// Code of the problem that nothing is known of a client.
const UNKNOWN: &str = "client_unknown";

pub(crate) async fn credit(globals: &Globals, args: CreditArgs) -> Result<u8, Failure> {
    let path = path(&args.client)?;
    let want = if args.amount.is_some() { Want::Begin } else { Want::Look };
    let mut session = Session::open(globals, Path::new("."), want).await?;
    let mut line = session.get::<ClientLine>(&path).await;
    let mut begins = false;
    // Nobody deposits by a slip of the pen for somebody who is not there.
    if let (Ok(known), Some(_)) = (&mut line, args.amount) {
        let request = ClientRequest { credits: args.amount, ..ClientRequest::default() };
        match session.post::<ClientLine>(&path, &request).await {
            Ok(changed) => {
                begins = known.left.is_none() && changed.left.is_some();
                *known = changed;
            }
            Err(refused) => line = Err(refused),
        }
    }
    session.stop().await;
    let code = tell(globals, &line?)?;
    if begins {
        let client = &args.client;
        say(format!("{client} is metered from now on: its runs stop when its credits are used up"));
    }
    Ok(code)
}

/// The path of a client.
fn path(client: &str) -> Result<String, Failure> {
    if !is_name(client) {
        return Err(Failure::invalid(format!("client name {client:?} is not {NAME_RULE}")));
    }
    Ok(format!("/v1/clients/{}", part(client)))
}

/// Tells how a client stands.
fn tell(globals: &Globals, line: &ClientLine) -> Result<u8, Failure> {
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("client", line));
    } else {
        out.line(told(line));
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
    if line.for_jobs > 0 {
        told.push_str(&format!(", {} reserved for jobs", line.for_jobs));
    }
    if line.parked {
        let least = line.left.filter(|left| *left <= 0).map(|left| left.saturating_neg().saturating_add(1));
        let least = least.map(|least| format!(", at least {least} more")).unwrap_or_default();
        let deposit = deposit(line.left);
        told.push_str(&format!(
            "\n  parked: nothing of it starts until it has credits{least}: {}",
            advice::deposit(client, deposit)
        ));
    }
    told
}

/// Credits that let a client go on of whom so many are left: what it owes and a thousand, in thousands.
pub(crate) fn deposit(left: Option<i64>) -> i64 {
    let debt = left.unwrap_or(0).min(0).unsigned_abs();
    let wanted =
        (debt.saturating_add(REFERENCE_CREDITS.unsigned_abs())).div_ceil(1_000).saturating_mul(1_000);
    i64::try_from(wanted).unwrap_or(CREDITS_MAX).min(CREDITS_MAX)
}

/// The client of a run that waits for credits; `None` if it does not, or not any more.
pub(crate) async fn short(client: &Client, summary: &Summary) -> Option<ClientLine> {
    if !summary.out_of_credit || summary.past {
        return None;
    }
    let line = client.get::<ClientLine>(&format!("/v1/clients/{}", part(&summary.client))).await.ok()?;
    is_short(&line).then_some(line)
}

/// Whether nothing of a client starts for lack of credits, as far as anybody knows: where nobody drives its runs, it
/// is not parked as long as anything is left, and yet that may be less than an attempt holds.
pub(crate) fn is_short(line: &ClientLine) -> bool {
    line.parked || line.left.is_some_and(|left| left < ATTEMPT_CREDITS.cast_signed())
}

/// What a run waits for whose client is parked, and what mends it.
pub(crate) fn waits(line: &ClientLine) -> String {
    let ClientLine { client, left, .. } = line;
    format!("it waits for credits of client {client}: {}", advice::deposit(client, deposit(*left)))
}

/// What is told of a client whose credits were used up, by how it stands now.
pub(crate) fn used_up(client: &str, line: Option<&ClientLine>) -> String {
    let left = line.and_then(|line| line.left);
    let deposit = advice::deposit(client, deposit(left));
    match (line, left) {
        (Some(line), Some(left)) if !is_short(line) => {
            format!("the credits of client {client} were used up; now {left} are left ({deposit} adds more)")
        }
        _ => format!(
            "the credits of client {client} are used up: nothing more starts until there are more: {deposit}"
        ),
    }
}

pub(crate) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Contracted => "contracted",
        Tier::Marketplace => "marketplace",
    }
}

/// Lists all clients.
pub(crate) async fn list(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let list: ClientList = session.get("/v1/clients").await?;
    if globals.json {
        list.clients.iter().for_each(|line| out.json(&tagged("client", line)));
        return Ok(());
    }
    if list.clients.is_empty() {
        say("there is no client yet: who runs something without naming one is client local");
        return Ok(());
    }
    let columns = out.columns();
    listed(&list.clients, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// Columns of a client's name that other columns leave to it.
pub(crate) const NAME_KEPT: usize = 12;

/// What is told of a client. What was spent goes first, then the weight, the tier and what waits and runs: whose credits are used up is
/// told last.
const COLUMNS: [Column; 8] = [
    Column::name("CLIENT").at_most(NAME_MAX).narrows(1, NAME_KEPT),
    Column::text("TIER").at_least(11).goes(3),
    Column::number("WEIGHT").at_least(7).goes(2),
    Column::number("RUNNING").goes(5),
    Column::number("QUEUED").goes(4),
    Column::number("SPENT").at_least(12).goes(1),
    Column::number("LEFT").at_least(12).goes(6),
    Column::text("").goes(7),
];

fn row(line: &ClientLine) -> [Cell; 8] {
    [
        line.client.as_str().into(),
        tier(line.tier).into(),
        line.weight.to_string().into(),
        line.running.to_string().into(),
        line.queued.to_string().into(),
        line.spent.to_string().into(),
        Cell::known(line.left),
        if line.parked { Cell::painted(Paint::Care, "parked") } else { "".into() },
    ]
}

/// The clients as a table in so many columns.
fn listed(clients: &[ClientLine], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 8]> = clients.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    std::iter::once(table.head()).chain(rows.iter().map(|row| table.row(row, out))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::no_line_is_longer;
    use super::*;

    fn line(left: i64, parked: bool) -> ClientLine {
        let line = serde_json::json!({
            "client": "acme", "tier": "marketplace", "weight": 10, "weight_served": 10, "weight_from": "credits",
            "deposited": 100, "spent": 0, "reserved": 0, "left": left, "parked": parked, "running": 0, "queued": 0,
            "charged": 0, "lag": 0,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn clients_are_told_in_the_columns_that_there_are() {
        let clients = [line(-209, true)];
        for (columns, row) in [
            (usize::MAX, "acme    marketplace       10        0       0             0          -209  parked"),
            (80, "acme    marketplace       10        0       0          -209  parked"),
            (60, "acme    marketplace        0       0          -209  parked"),
            (40, "acme          0          -209  parked"),
            (10, "acme"),
            (3, "ac…"),
        ] {
            assert_eq!(listed(&clients, columns, &Out::new())[1], row, "{columns}");
        }
        no_line_is_longer(|columns| listed(&clients, columns, &Out::new()));
    }

    #[test]
    fn a_deposit_that_is_advised_pays_the_debt_and_a_thousand_more() {
        for (left, advised) in
            [(None, 1_000), (Some(99), 1_000), (Some(0), 1_000), (Some(-1), 2_000), (Some(-1_000), 2_000)]
        {
            assert_eq!(deposit(left), advised, "{left:?}");
        }
        assert_eq!(deposit(Some(-12_345)), 14_000);
        assert_eq!(deposit(Some(i64::MIN)), CREDITS_MAX);
    }

    #[test]
    fn who_is_still_out_of_credit_is_told_how_much_it_takes() {
        let told = told(&line(-209, true));
        assert!(
            told.ends_with("until it has credits, at least 210 more: ostler credit acme +2000"),
            "{told}"
        );
    }

    #[test]
    fn what_was_used_up_is_told_by_what_is_left_now() {
        let told = |line: Option<&ClientLine>| used_up("acme", line);
        let short =
            "the credits of client acme are used up: nothing more starts until there are more: ostler credit";
        assert_eq!(told(None), format!("{short} acme +1000"));
        assert_eq!(told(Some(&line(-1_500, true))), format!("{short} acme +3000"));
        assert_eq!(told(Some(&line(60, false))), format!("{short} acme +1000"));
        assert_eq!(
            told(Some(&line(791, false))),
            "the credits of client acme were used up; now 791 are left (ostler credit acme +1000 adds more)"
        );
    }
}
