//! Money as people and JSON write it.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NANO_PER_USD, USD_MAX, nano_usd, usd_text};

/// Money in billionths of a US dollar. In JSON it is dollars as a text such as `"0.50"`; a number is read too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(pub u64);

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&usd_text(self.0))
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        struct Dollars;

        impl Visitor<'_> for Dollars {
            type Value = Usd;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "US dollars such as \"0.50\", from 0 to {USD_MAX}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Usd, E> {
                nano_usd(text).map(Usd).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_u64<E: Error>(self, usd: u64) -> Result<Usd, E> {
                let nano_usd = Some(usd).filter(|usd| *usd <= USD_MAX).map(|usd| usd * NANO_PER_USD);
                nano_usd.map(Usd).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(usd), &self))
            }

            fn visit_f64<E: Error>(self, usd: f64) -> Result<Usd, E> {
                if (0.0..=USD_MAX as f64).contains(&usd) {
                    return Ok(Usd((usd * NANO_PER_USD as f64).round() as u64));
                }
                Err(E::invalid_value(Unexpected::Float(usd), &self))
            }
        }

        deserializer.deserialize_any(Dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_as_text_or_number_and_written_as_text() {
        for (text, nano_usd) in [("\"0.50\"", 500_000_000), ("0.5", 500_000_000), ("2", 2 * NANO_PER_USD)] {
            assert_eq!(serde_json::from_str::<Usd>(text).unwrap(), Usd(nano_usd), "{text}");
        }
        assert_eq!(serde_json::to_string(&Usd(500_000_000)).unwrap(), "\"0.50\"");
        for wrong in ["\"5usd\"", "-1", "1e12", "\"\"", "true"] {
            let error = serde_json::from_str::<Usd>(wrong).unwrap_err().to_string();
            assert!(error.contains("US dollars such as"), "{wrong}: {error}");
        }
    }
}
