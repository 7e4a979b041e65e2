//! `ostler spawn`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ostler_drivers::regular_file::read_text;
use ostler_kernel::agent::{Oversight, Profile};
use ostler_kernel::json::parse_value;
use ostler_scheduler::WEIGHT_MAX;
use ostler_server::wire::{AgentRef, SpawnRequest};
use serde_json::Value;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{integer_in, unsigned_integer};
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::hints::option;
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::session::api_client::ApiError;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct SpawnArgs {
    /// Name
    agent: String,
    /// Client that pays for its runs [default: local; an existing agent keeps its client]
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Weight among the agents of its client, 1 to 1,000,000 [default: 100; an existing agent keeps its weight]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = weight)]
    weight: Option<u32>,
    /// Capability, as jobs require it; may be repeated
    #[arg(long = "can", value_name = "CAPABILITY")]
    capabilities: Vec<String>,
    /// Domain, such as legal, for plans that name none
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Supervision by people
    #[arg(long, value_name = "MODE", value_parser = oversight())]
    oversight: Option<Oversight>,
    /// Credits asked per job
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true, value_parser = unsigned_integer)]
    price: Option<u64>,
    /// File with the JSON Schema of the input: the parameters of a plan's first node
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// File with the JSON Schema of results
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Accepts the names of the modes, which completion scripts offer too.
pub(crate) fn oversight() -> impl TypedValueParser<Value = Oversight> {
    let of = |word: String| Oversight::ALL.into_iter().find(|mode| mode.as_str() == word);
    PossibleValuesParser::new(Oversight::ALL.map(Oversight::as_str))
        .map(move |word| of(word).expect("these are its words"))
}

fn weight(text: &str) -> Result<u32, String> {
    let weight = integer_in(text, 1..=WEIGHT_MAX.into())?;
    Ok(u32::try_from(weight).expect("a weight is at most WEIGHT_MAX"))
}

pub(crate) async fn spawn(globals: &Globals, args: SpawnArgs) -> Result<u8, Failure> {
    let SpawnArgs { agent, client, weight, capabilities, domain, oversight, price, input, output } = args;
    let input = input.as_deref().map(schema).transpose()?;
    let output = output.as_deref().map(schema).transpose()?;
    let profile = Profile { capabilities, domain, input, output, oversight, price };
    let request = SpawnRequest { agent, client, weight, profile };
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Create).await?;
    let spawned: Result<AgentRef, ApiError> = session.post_idempotent("/v1/agents", &request).await;
    session.stop().await;
    let spawned = spawned?;
    if globals.json {
        out.json(&tagged("spawned", &spawned));
    } else {
        let run = hints::command("run PLAN", &[], &option("agent", spawned.agent.as_ref()));
        out.line(format!("agent {} exists; `{run}` submits a plan to it", spawned.agent));
    }
    Ok(code::SUCCEEDED)
}

/// Bytes of a file with a schema: more than a schema may have, for the sake of layout.
const SCHEMA_FILE_BYTES_MAX: u64 = 1 << 20;

fn schema(file: &Path) -> Result<Value, Failure> {
    let invalid = |what: String| Failure::invalid(format!("{}: {what}", file.display()));
    let text = read_text(file, SCHEMA_FILE_BYTES_MAX).map_err(|error| invalid(error.to_string()))?;
    parse_value(&text).map_err(|error| invalid(error.to_string()))
}
