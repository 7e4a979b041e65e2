//! Prices, in whole billionths of a US dollar.

use std::fmt;

use ostler_kernel::ledger::{Price, Rates};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor, value::MapAccessDeserializer};

/// Largest configured price, in US dollars per million tokens.
const USD_MAX: f64 = 1e6;

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
