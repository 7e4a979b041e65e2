//! Durations as people write them.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::Ticks;

/// A duration as written: a bare number (seconds in a real run, ticks in a simulation), or a number with a
/// unit, such as `500ms`, `30s`, `1.5m`, `2h`, `1d`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HumanDuration {
    /// A bare integer.
    Whole(i64),
    /// A bare finite number with a fraction.
    Fraction(f64),
    /// A number with a unit, in milliseconds.
    Millis(i64),
}

/// The syntax of [`HumanDuration::with_unit`], for messages.
pub const DURATION_RULE: &str = "a number with a unit, such as 500ms, 30s, 10m, 12h or 30d";

const SECOND_MS: i64 = 1_000;

impl HumanDuration {
    /// Converts to ticks, with `second` ticks in a second (1 in a simulation, 1,000 in a real run). Fractions
    /// of a tick round away from zero, so no written duration becomes zero; values out of range saturate.
    pub fn ticks(self, second: Ticks) -> Ticks {
        match self {
            HumanDuration::Whole(seconds) => seconds.saturating_mul(second),
            HumanDuration::Fraction(seconds) => outward(seconds * second as f64),
            HumanDuration::Millis(ms) => {
                let ticks = i128::from(ms) * i128::from(second);
                let whole = ticks / i128::from(SECOND_MS);
                let rest = (ticks % i128::from(SECOND_MS)).signum();
                i64::try_from(whole + rest).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX })
            }
        }
    }

    /// Parses a number with a unit ([`DURATION_RULE`]), or returns `None`. Values beyond the range of
    /// milliseconds saturate.
    pub fn with_unit(text: &str) -> Option<HumanDuration> {
        let text = text.trim();
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let number = number.trim_end();
        let plain = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
        if !number.chars().all(plain) {
            return None;
        }
        let unit_ms = match unit {
            "ms" => 1,
            "s" => SECOND_MS,
            "m" | "min" => 60 * SECOND_MS,
            "h" => 3_600 * SECOND_MS,
            "d" => 86_400 * SECOND_MS,
            _ => return None,
        };
        if let Ok(whole) = number.parse::<i64>() {
            return Some(HumanDuration::Millis(whole.saturating_mul(unit_ms)));
        }
        let fraction = number.parse::<f64>().ok().filter(|number| number.is_finite())?;
        Some(HumanDuration::Millis(outward(fraction * unit_ms as f64)))
    }
}

/// Rounds away from zero; `as` saturates.
fn outward(number: f64) -> i64 {
    (number.abs().ceil() as i64).saturating_mul(if number < 0.0 { -1 } else { 1 })
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HumanDuration::Whole(seconds) => write!(f, "{seconds}"),
            HumanDuration::Fraction(seconds) => write!(f, "{seconds}"),
            HumanDuration::Millis(ms) => write!(f, "{ms}ms"),
        }
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            HumanDuration::Whole(seconds) => serializer.serialize_i64(*seconds),
            HumanDuration::Fraction(seconds) => serializer.serialize_f64(*seconds),
            HumanDuration::Millis(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = HumanDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time: a number, or a text such as \"30s\", \"500ms\", \"2m\", \"1h\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<HumanDuration, E> {
                Ok(HumanDuration::Whole(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<HumanDuration, E> {
                i64::try_from(number)
                    .map(HumanDuration::Whole)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<HumanDuration, E> {
                if number.is_finite() {
                    Ok(HumanDuration::Fraction(number))
                } else {
                    Err(E::invalid_value(Unexpected::Float(number), &self))
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<HumanDuration, E> {
                HumanDuration::with_unit(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_span_is_worth_its_seconds() {
        for (written, simulated, real) in [
            (json!(30), 30, 30_000),
            (json!(0), 0, 0),
            (json!(-2), -2, -2_000),
            (json!(1.5), 2, 1_500),
            (json!(0.0001), 1, 1),
            (json!("500ms"), 1, 500),
            (json!("30s"), 30, 30_000),
            (json!("2m"), 120, 120_000),
            (json!("1.5h"), 5_400, 5_400_000),
            (json!("1d"), 86_400, 86_400_000),
            (json!("-500ms"), -1, -500),
            (json!("0s"), 0, 0),
            (json!("9223372036854775807h"), 9_223_372_036_854_776, i64::MAX),
            (json!("99999999999999999999d"), 9_223_372_036_854_776, i64::MAX),
            (json!(i64::MAX), i64::MAX, i64::MAX),
            (json!(i64::MIN), i64::MIN, i64::MIN),
            (json!(1e300), i64::MAX, i64::MAX),
        ] {
            let span: HumanDuration =
                serde_json::from_value(written.clone()).unwrap_or_else(|e| panic!("{written}: {e}"));
            assert_eq!((span.ticks(1), span.ticks(1_000)), (simulated, real), "{written}");
            let again: HumanDuration = serde_json::from_value(serde_json::to_value(span).unwrap()).unwrap();
            assert_eq!(again, span, "{written}");
        }
    }

    #[test]
    fn what_is_no_span_is_told_what_one_is() {
        let texts = ["", "s", "30", "1x", "1 2s", "1e3s", "infs", "--1s", "²s"];
        for written in
            texts.map(|text| json!(text)).into_iter().chain([json!(u64::MAX), json!(true), json!([1])])
        {
            let refused =
                serde_json::from_value::<HumanDuration>(written.clone()).expect_err(&written.to_string());
            assert!(refused.to_string().contains("\"30s\""), "{written}: {refused}");
        }
    }
}
