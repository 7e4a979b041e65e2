//! Prices, in whole billionths of a US dollar.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor, value::MapAccessDeserializer};

/// Largest configured price, in US dollars per million tokens.
const USD_MAX: f64 = 1e6;

const TOKENS: u128 = 1_000_000;

/// The key `price` of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriceConfig {
    /// `price = "free"`.
    Free,
    /// US dollars per million tokens.
    PerMillion(UsdPerMillion),
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "prices per million tokens")]
pub struct UsdPerMillion {
    /// Tokens of the prompt.
    pub input: f64,
    /// Tokens of the answer.
    pub output: f64,
    /// Prompt tokens that the provider read from its cache; `None`: as `input`.
    pub cache_read: Option<f64>,
    /// Prompt tokens that the provider wrote to its cache; `None`: as `input`.
    pub cache_write: Option<f64>,
}

impl PriceConfig {
    /// The price.
    pub fn price(&self) -> Price {
        match self {
            PriceConfig::Free => Price::FREE,
            PriceConfig::PerMillion(usd) => usd.price(),
        }
    }

    /// The fault of a price; `None` if it has none.
    pub(super) fn problem(&self) -> Option<String> {
        let PriceConfig::PerMillion(UsdPerMillion { input, output, cache_read, cache_write }) = *self else {
            return None;
        };
        let all = [Some(input), Some(output), cache_read, cache_write];
        let wrong = all.into_iter().flatten().find(|usd| !(0.0..=USD_MAX).contains(usd))?;
        Some(format!("{wrong} is not between 0 and {USD_MAX}"))
    }
}

impl UsdPerMillion {
    pub(super) fn price(self) -> Price {
        let nano = |usd: f64| (usd.clamp(0.0, USD_MAX) * 1e9).round() as u64;
        Price {
            usual: Rates {
                input: nano(self.input),
                output: nano(self.output),
                cache_read: nano(self.cache_read.unwrap_or(self.input)),
                cache_write: nano(self.cache_write.unwrap_or(self.input)),
            },
            long_prompt: None,
        }
    }
}

impl<'de> Deserialize<'de> for PriceConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PriceConfig, D::Error> {
        struct Written;

        impl<'de> Visitor<'de> for Written {
            type Value = PriceConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("prices in US dollars per million tokens, such as {input = 0.15, output = 0.6}, or \"free\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PriceConfig, E> {
                if text == "free" {
                    return Ok(PriceConfig::Free);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PriceConfig, A::Error> {
                UsdPerMillion::deserialize(MapAccessDeserializer::new(map)).map(PriceConfig::PerMillion)
            }
        }

        deserializer.deserialize_any(Written)
    }
}

/// Prices in billionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Rates of a usual call.
    pub usual: Rates,
    /// Rates of a call with a long prompt, for all of its tokens; `None`: the same.
    pub long_prompt: Option<LongPrompt>,
}

/// Rates of calls with a long prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrompt {
    /// A prompt with more tokens is long.
    pub above: u64,
    /// The rates.
    pub rates: Rates,
}

/// Billionths of a US dollar per million tokens of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}

/// Tokens of a call. `input` includes `cache_read` and `cache_write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}

impl Price {
    /// Costs nothing.
    pub const FREE: Price =
        Price { usual: Rates { input: 0, output: 0, cache_read: 0, cache_write: 0 }, long_prompt: None };

    /// The cost in billionths of a US dollar, rounded up.
    ///
    /// ```
    /// use ostler_drivers::model::{PriceConfig, Tokens};
    /// #[derive(serde::Deserialize)]
    /// struct Table { price: PriceConfig }
    /// let table: Table = toml::from_str("price = {input = 0.15, output = 0.6, cache_read = 0.075}").unwrap();
    /// let tokens = Tokens { input: 1_000, output: 10, cache_read: 400, cache_write: 0 };
    /// assert_eq!(table.price.price().nano_usd(tokens), 600 * 150 + 400 * 75 + 10 * 600);
    /// ```
    pub fn nano_usd(&self, tokens: Tokens) -> u64 {
        let Tokens { input, output, cache_read, cache_write } = tokens;
        let rates = match self.long_prompt {
            Some(LongPrompt { above, rates }) if input > above => rates,
            _ => self.usual,
        };
        let plain = input.saturating_sub(cache_read.saturating_add(cache_write));
        let cost = |tokens: u64, rate: u64| u128::from(tokens) * u128::from(rate);
        let sum = cost(plain, rates.input)
            .saturating_add(cost(output, rates.output))
            .saturating_add(cost(cache_read, rates.cache_read))
            .saturating_add(cost(cache_write, rates.cache_write));
        u64::try_from(sum.div_ceil(TOKENS)).unwrap_or(u64::MAX)
    }
}

/// Where a price comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceOrigin {
    /// The configuration, or a script, which costs nothing.
    Config,
    /// The table that ships.
    Shipped,
    /// Nowhere: the price is unknown.
    Unknown,
}
