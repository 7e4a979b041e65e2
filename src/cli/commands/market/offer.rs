//! `ostler market offer`.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{ArgGroup, Args};
use ostler_kernel::market::Offer;
use ostler_server::wire::{OfferRequest, OfferView};

use crate::cli::arguments::values::unsigned_integer;
use crate::cli::arguments::{Globals, values};
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::output::units::duration;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session, settings};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["capabilities", "domain", "price", "time"])))]
pub(crate) struct OfferArgs {
    /// Agent
    agent: String,
    /// Client of the agent; the offer is refused if the agent belongs to another
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Capability; may be repeated
    #[arg(long = "can", value_name = "CAPABILITY")]
    capabilities: Vec<String>,
    /// Domain, which determines how its runs are evaluated
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Credits asked per job [default: the budget of the job]
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true, value_parser = unsigned_integer)]
    price: Option<u64>,
    /// Total duration of its attempts per job, such as 10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    time: Option<u64>,
}

fn time(text: &str) -> Result<u64, String> {
    let span = values::duration(text)?;
    u64::try_from(span.ticks(1_000)).map_err(|_| "give a time of 0 or more".to_owned())
}

pub(crate) async fn offer(globals: &Globals, args: OfferArgs) -> Result<u8, Failure> {
    let OfferArgs { agent, client, capabilities, domain, price, time } = args;
    let capabilities: BTreeSet<String> = capabilities.into_iter().collect();
    let request = OfferRequest { client, capabilities, domain, price, time_ms: time };
    // Without a data folder there is no agent.
    let (_, data) = settings::load_settings(globals, Path::new("."))?;
    if let Some(nothing) = settings::missing_folder_text("agent", data.as_deref())? {
        let spawn = hints::command("spawn", &[&agent], "");
        return Err(Failure::invalid(format!("{nothing}; `{spawn}` creates one")));
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Execute).await?;
    let path = format!("/v1/agents/{}/offer", path_segment(&agent));
    let offered = session.post_idempotent::<OfferView>(&path, &request).await;
    session.stop().await;
    let offered = offered?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("offer", &offered));
        return Ok(code::SUCCEEDED);
    }
    let OfferView { agent, offer: OfferRequest { client, capabilities, domain, price, time_ms } } = offered;
    let client = client.map(|client| format!(" of client {client}")).unwrap_or_default();
    out.line(format!("{agent}{client} offers {}", terms(&Offer { capabilities, domain, price, time_ms })));
    Ok(code::SUCCEEDED)
}

pub(crate) fn terms(offer: &Offer) -> String {
    let can = match offer.capabilities.len() {
        0 => "no capability".to_owned(),
        _ => offer.capabilities.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let price = offer.price.map_or_else(|| "the budget".to_owned(), |price| format!("{price} credits"));
    let time = offer.time_ms.map(|ms| format!(", in {}", duration(ms as i64))).unwrap_or_default();
    let domain = offer.domain.as_ref().map(|domain| format!(", domain {domain}")).unwrap_or_default();
    format!("{can}; for {price}{time}{domain}")
}
