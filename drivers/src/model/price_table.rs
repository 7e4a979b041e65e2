//! The table of prices that ships.

use std::sync::OnceLock;

use ostler_kernel::id::Digest;
use ostler_kernel::ledger::{LongPrompt, Price};
use ostler_kernel::lineage;
use reqwest::Url;
use serde::Deserialize;

use super::config::{CassetteMode, ModelConfig, Provider};
use super::price::{PriceOrigin, UsdPerMillion};

/// Reduced data of the project genai-prices; source, licence and date stand inside.
const TABLE: &str = include_str!("../../data/prices.json");

#[derive(Deserialize)]
struct Table {
    source: String,
    date: String,
    providers: Vec<Hosted>,
}

#[derive(Deserialize)]
struct Hosted {
    hosts: Vec<String>,
    prices: Vec<Priced>,
}

#[derive(Deserialize)]
struct Priced {
    /// Names; one that ends with `*` is the beginning of names.
    models: Vec<String>,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    long_prompt: Option<Long>,
}

#[derive(Deserialize)]
struct Long {
    above: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// Origin of the table that ships.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTable {
    /// Where the data comes from.
    pub source: String,
    /// Day of the data, as in `2026-11-28`.
    pub date: String,
    /// Digest of the table, for the records of charges.
    pub digest: Digest,
}

/// Origin of the table that ships.
pub fn price_table() -> PriceTable {
    let Table { source, date, .. } = table();
    PriceTable {
        source: source.clone(),
        date: date.clone(),
        digest: Digest(*blake3::hash(TABLE.as_bytes()).as_bytes()),
    }
}

/// The price of a configured model, and where it comes from.
pub(super) fn price_of(config: &ModelConfig) -> (Option<Price>, PriceOrigin) {
    match (config.price, config.provider) {
        (Some(price), _) => (Some(price.price()), PriceOrigin::Config),
        // Calls no provider.
        (None, Provider::Scripted) => (Some(Price::FREE), PriceOrigin::Config),
        (None, Provider::Cassette) if config.mode == CassetteMode::Play => {
            (Some(Price::FREE), PriceOrigin::Config)
        }
        (None, Provider::Openai | Provider::Anthropic | Provider::Cassette) => {
            let url = Url::parse(config.base_url()).ok();
            let host = url.as_ref().and_then(Url::host_str);
            match host.zip(config.model.as_deref()).and_then(|(host, model)| shipped(host, model)) {
                Some(price) => (Some(price), PriceOrigin::Shipped),
                None => (None, PriceOrigin::Unknown),
            }
        }
    }
}

/// Digest of the prices behind a charge: of the whole table that ships, or of the model's own prices.
pub(super) fn price_digest(price: Option<&Price>, origin: PriceOrigin) -> Option<Digest> {
    let price = price?;
    Some(match origin {
        PriceOrigin::Shipped => price_table().digest,
        PriceOrigin::Config | PriceOrigin::Unknown => {
            lineage::hash("aos/price/1", &[format!("{price:?}").as_bytes()])
        }
    })
}

/// The price in the table: of the exact name, else of the longest beginning.
fn shipped(host: &str, model: &str) -> Option<Price> {
    let is_of = |domain: &String| {
        host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let hosted = table().providers.iter().find(|hosted| hosted.hosts.iter().any(is_of))?;
    let fit = |priced: &Priced| priced.models.iter().filter_map(|name| fit(name, model)).max();
    let fits = hosted.prices.iter().filter_map(|priced| Some((fit(priced)?, priced)));
    fits.max_by_key(|(fit, _)| *fit).map(|(_, priced)| priced.price())
}

/// How well a name of the table fits a model.
fn fit(name: &str, model: &str) -> Option<usize> {
    match name.strip_suffix('*') {
        Some(start) => model.starts_with(start).then_some(start.len()),
        None => (name == model).then_some(usize::MAX),
    }
}

impl Priced {
    fn price(&self) -> Price {
        let Priced { input, output, cache_read, cache_write, .. } = *self;
        let usual = UsdPerMillion { input, output, cache_read, cache_write }.price().usual;
        let long_prompt = self.long_prompt.as_ref().map(|long| {
            let Long { above, input, output, cache_read, cache_write } = *long;
            let rates = UsdPerMillion { input, output, cache_read, cache_write }.price().usual;
            LongPrompt { above, rates }
        });
        Price { usual, long_prompt }
    }
}

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(TABLE).expect("the table that ships is valid"))
}

#[cfg(test)]
mod tests {
    use ostler_kernel::ledger::Tokens;

    use super::*;

    #[track_caller]
    fn check(host: &str, model: &str, input: u64, expected: Option<u64>) {
        let tokens = Tokens { input, output: 1_000, ..Tokens::default() };
        assert_eq!(shipped(host, model).map(|price| price.nano_usd(tokens)), expected, "{model}");
    }

    #[test]
    fn the_best_name_of_the_host_gives_the_price() {
        check("api.openai.com", "gpt-4o-mini", 1_000, Some(150_000 + 600_000));
        check("api.openai.com", "gpt-4o", 1_000, Some(2_500_000 + 10_000_000));
        check("api.anthropic.com", "claude-sonnet-4-5-20250929", 1_000, Some(3_000_000 + 15_000_000));
        check("api.anthropic.com", "claude-sonnet-4-5", 300_000, Some(1_800_000_000 + 22_500_000));
        check("mine.openai.azure.com", "no-such-model", 1, None);
        check("127.0.0.1", "gpt-4o", 1, None);
        check("evilapi.openai.com", "gpt-4o", 1, None);
    }

    #[test]
    fn every_price_is_plausible() {
        let PriceTable { source, date, .. } = price_table();
        assert!(source.contains("genai-prices") && date.len() == 10, "{source} {date}");
        for priced in table().providers.iter().flat_map(|hosted| &hosted.prices) {
            assert!((0.0..1_000.0).contains(&priced.input), "{:?}", priced.models);
            assert!(
                !priced.models.is_empty() && priced.price().usual.output < 1_000_000_000_000,
                "{:?}",
                priced.models
            );
        }
    }
}
