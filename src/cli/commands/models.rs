//! `ostler models`.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use ostler_drivers::model::{ConfiguredModel, Models, Price, PriceOrigin, PriceTable, price_table, probe};
use serde::Serialize;
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::{dollars, elapsed, plural};
use crate::cli::session::settings::load_settings;

/// Roles that a configuration may give a model of their own.
const ROLES: [&str; 3] = ["planner", "executor", "judge"];

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    what: Option<What>,
}

impl ModelsArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.what.is_none()
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make four tiny calls to a model, and say what works
    #[command(after_help = "Example:\n  ostler models probe default")]
    Probe(ProbeArgs),
}

#[derive(Debug, Args)]
struct ProbeArgs {
    /// Name of the model in the configuration
    name: String,
}

/// A configured model, as JSON.
#[derive(Debug, Serialize)]
struct ModelLine {
    name: String,
    provider: &'static str,
    model: Option<String>,
    /// True unless a key is needed whose variable is not set.
    has_key: bool,
    key_variable: Option<String>,
    context_tokens: Option<u32>,
    max_output_tokens: u32,
    /// US dollars per million tokens of prompts; `null`: unknown.
    usd_per_million_input: Option<f64>,
    /// US dollars per million tokens of answers; `null`: unknown.
    usd_per_million_output: Option<f64>,
    roles: Vec<String>,
    base_url: Option<String>,
    requests_per_minute: Option<u32>,
    tokens_per_minute: Option<u32>,
    /// The models that are asked where this one fails.
    fallback: Vec<String>,
}

pub(crate) async fn models(globals: &Globals, args: ModelsArgs) -> Result<u8, Failure> {
    let (config, _) = load_settings(globals, Path::new("."))?;
    let models = config.models().map_err(|error| Failure::invalid(error.to_string()))?;
    match args.what {
        Some(What::Probe(args)) => probe_one(globals, &models, &args.name).await,
        None => Ok(list(globals, &models)),
    }
}

async fn probe_one(globals: &Globals, models: &Models, name: &str) -> Result<u8, Failure> {
    let Some(model) = models.get(name) else {
        let known: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Failure::invalid(format!("no model {name:?} is configured; there is {known}")));
    };
    let mut out = Out::new();
    let probed = probe(model).await;
    for check in &probed.checks {
        let ms = check.duration.as_millis() as i64;
        let (works, told) = match &check.outcome {
            Ok(told) => (true, told.clone()),
            Err(why) => (false, why.to_string()),
        };
        if globals.json {
            let (what, first_ms) = (check.name, check.first_piece.map(|first| first.as_millis() as u64));
            out.json(&json!({
                "type": "probe", "model": name, "what": what, "works": works, "told": told, "ms": ms,
                "first_piece_ms": first_ms,
            }));
            continue;
        }
        let state = if works { "works" } else { "fails" };
        out.line(
            format!("{:<7} {state}  {:>9}  {}", check.name, elapsed(ms), harmless_line(&told)).trim_end(),
        );
    }
    if let Some(nano_usd) = probed.nano_usd.filter(|nano_usd| *nano_usd > 0 && !globals.json) {
        out.line(format!("price   {}", dollars(nano_usd)));
    }
    let works = probed.checks.iter().all(|check| check.outcome.is_ok());
    Ok(if works { code::SUCCEEDED } else { code::FAILED })
}

fn list(globals: &Globals, models: &Models) -> u8 {
    let lines: Vec<ModelLine> = models.iter().map(|model| line(models, model)).collect();
    let mut out = Out::new();
    if globals.json {
        lines.iter().for_each(|line| out.json(&tagged("model", line)));
    } else if lines.is_empty() {
        status_line(
            "no model is configured: add [models.default] to ostler.toml; `ostler help models` shows how",
        );
    } else {
        let rows: Vec<[Cell; 9]> = lines.iter().map(row).collect();
        let table = Table::new(COLUMNS, &rows, out.columns());
        out.line(table.head());
        rows.iter().for_each(|row| out.line(table.row(row, &Out::new())));
        if models.iter().any(|model| model.price.is_some() && model.price_origin == PriceOrigin::Shipped) {
            let PriceTable { source, date, .. } = price_table();
            status_line(format!("prices of {date} from {source}; `price` of a model sets another"));
        }
    }
    code::SUCCEEDED
}

fn line(models: &Models, model: &Arc<ConfiguredModel>) -> ModelLine {
    let ConfiguredModel { name, config, price, has_key, .. } = &**model;
    let roles = ROLES.into_iter().filter(|role| models.of_role(role).is_some_and(|of| of.name == *name));
    let usd = |part: fn(&Price) -> u64| price.as_ref().map(|price| part(price) as f64 / 1e9);
    ModelLine {
        name: name.clone(),
        provider: config.provider.as_str(),
        model: config.model.clone(),
        has_key: *has_key,
        key_variable: config.api_key_env.as_ref().and_then(|variable| variable.name()).map(str::to_owned),
        context_tokens: config.context_tokens,
        max_output_tokens: config.max_output_tokens,
        usd_per_million_input: usd(|price| price.usual.input),
        usd_per_million_output: usd(|price| price.usual.output),
        roles: roles.map(str::to_owned).collect(),
        base_url: config.base_url.clone(),
        requests_per_minute: config.requests_per_minute,
        tokens_per_minute: config.tokens_per_minute,
        fallback: config.fallback.clone(),
    }
}

const COLUMNS: [Column; 9] = [
    Column::name("MODEL").at_least(8),
    Column::text("PROVIDER").at_least(9).hide_rank(3),
    Column::text("KNOWN AS").at_least(10).hide_rank(4),
    Column::text("KEY").at_least(6).hide_rank(6),
    Column::text("PRICE IN/OUT").at_least(12).hide_rank(5),
    Column::number("ANSWER").at_least(6).hide_rank(1),
    Column::text("ROLES").at_least(8).hide_rank(2),
    Column::text("PER MINUTE").at_least(10).hide_rank(0).hidden_if_empty(),
    Column::text("FALLBACK").at_least(8).hide_rank(0).hidden_if_empty(),
];

/// The most calls and tokens in a minute.
fn rate(line: &ModelLine) -> Option<String> {
    let calls = line.requests_per_minute.map(|calls| plural(calls as usize, "call"));
    let tokens = line.tokens_per_minute.map(|tokens| plural(tokens as usize, "token"));
    let parts: Vec<String> = calls.into_iter().chain(tokens).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn row(line: &ModelLine) -> [Cell; 9] {
    let key = match (&line.key_variable, line.has_key) {
        (None, _) => "none needed".to_owned(),
        (Some(_), true) => "set".to_owned(),
        (Some(variable), false) => format!("{variable} is not set"),
    };
    let price = match (line.usd_per_million_input, line.usd_per_million_output) {
        (Some(0.0), Some(0.0)) => "free".to_owned(),
        (Some(input), Some(output)) => format!("${input}/${output}"),
        _ => "unknown".to_owned(),
    };
    [
        line.name.as_str().into(),
        line.provider.into(),
        Cell::optional(line.model.clone()),
        key.as_str().into(),
        price.as_str().into(),
        line.max_output_tokens.to_string().into(),
        line.roles.join(", ").into(),
        rate(line).unwrap_or_default().into(),
        line.fallback.join(", ").into(),
    ]
}
