//! Amounts of the resources that calls of models use: tokens and money.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Billionths in a US dollar.
pub const NANO_PER_USD: u64 = 1_000_000_000;

/// Digits behind the point of an amount in US dollars.
const USD_DECIMALS: usize = 9;

/// Largest amount of US dollars in one budget or deposit.
pub const USD_MAX: u64 = 1_000_000_000;

/// Largest number of tokens in one budget or deposit: 2^53, so a double holds every count exactly.
pub const TOKENS_MAX: u64 = 1 << 53;

/// Tokens and money that calls used or reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Tokens of prompts and answers.
    pub tokens: u64,
    /// Price, in billionths of a US dollar.
    pub nano_usd: u64,
}

impl Amounts {
    /// The sum; at most `u64::MAX` of each.
    #[must_use]
    pub fn plus(self, other: Amounts) -> Amounts {
        Amounts {
            tokens: self.tokens.saturating_add(other.tokens),
            nano_usd: self.nano_usd.saturating_add(other.nano_usd),
        }
    }

    /// The difference; at least 0 of each.
    #[must_use]
    pub fn minus(self, other: Amounts) -> Amounts {
        Amounts {
            tokens: self.tokens.saturating_sub(other.tokens),
            nano_usd: self.nano_usd.saturating_sub(other.nano_usd),
        }
    }

    /// True without tokens and money.
    pub fn is_zero(self) -> bool {
        self == Amounts::default()
    }
}

/// Bounds on tokens and money; `None`: no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimits {
    /// Most tokens of prompts and answers together.
    pub tokens: Option<u64>,
    /// Highest price, in billionths of a US dollar.
    pub nano_usd: Option<u64>,
}

impl CallLimits {
    /// No bound.
    pub const NONE: CallLimits = CallLimits { tokens: None, nano_usd: None };

    /// True without any bound.
    pub fn is_unlimited(self) -> bool {
        self == CallLimits::default()
    }

    /// Raises the bounds that exist. A resource without a bound stays without one.
    #[must_use]
    pub fn raised(self, by: Amounts) -> CallLimits {
        CallLimits {
            tokens: self.tokens.map(|tokens| tokens.saturating_add(by.tokens)),
            nano_usd: self.nano_usd.map(|nano_usd| nano_usd.saturating_add(by.nano_usd)),
        }
    }

    /// The smaller bound of each resource.
    #[must_use]
    pub fn and(self, other: CallLimits) -> CallLimits {
        let smaller = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        CallLimits {
            tokens: smaller(self.tokens, other.tokens),
            nano_usd: smaller(self.nano_usd, other.nano_usd),
        }
    }

    /// What is left after `used`; at least 0.
    #[must_use]
    pub fn less(self, used: Amounts) -> CallLimits {
        CallLimits {
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(used.tokens)),
            nano_usd: self.nano_usd.map(|nano_usd| nano_usd.saturating_sub(used.nano_usd)),
        }
    }

    /// True if `amounts` is within the bounds.
    pub fn hold(self, amounts: Amounts) -> bool {
        self.tokens.is_none_or(|most| amounts.tokens <= most)
            && self.nano_usd.is_none_or(|most| amounts.nano_usd <= most)
    }
}

/// An amount of one resource. People write it as one word: `0.50usd`, `200000tokens`, `10000credits`; messages have a blank.
///
/// ```
/// use ostler_kernel::ledger::Amount;
/// assert_eq!("0.5usd".parse(), Ok(Amount::NanoUsd(500_000_000)));
/// assert_eq!("200000tokens".parse(), Ok(Amount::Tokens(200_000)));
/// assert_eq!(Amount::NanoUsd(1_230_000_000).to_string(), "1.23 usd");
/// assert_eq!(Amount::NanoUsd(1_230_000_000).argument(), "1.23usd");
/// assert!("5".parse::<Amount>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Money, in billionths of a US dollar.
    NanoUsd(u64),
    /// Tokens of prompts and answers.
    Tokens(u64),
    /// Credits; one is a millisecond of a slot.
    Credits(u64),
}

/// A text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an amount: {why}; give a number and its unit, such as 0.50usd, 200000tokens or 10000credits")]
pub struct AmountError {
    why: String,
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Amount, AmountError> {
        let wrong = |why: String| AmountError { why };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let whole = |most: u64| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok().filter(|number| is_number && (1..=most).contains(number));
            number.ok_or_else(|| wrong(format!("expected a whole number from 1 to {most} before the unit")))
        };
        match &text[digits.len()..] {
            "usd" => match nano_usd(digits) {
                Some(0) | None => Err(wrong(format!(
                    "expected more than 0 and at most {USD_MAX} dollars, with up to {USD_DECIMALS} digits behind the point"
                ))),
                Some(nano_usd) => Ok(Amount::NanoUsd(nano_usd)),
            },
            "token" | "tokens" => whole(TOKENS_MAX).map(Amount::Tokens),
            "credit" | "credits" => whole(u64::MAX).map(Amount::Credits),
            "" => Err(wrong("the unit is missing".to_owned())),
            unit => Err(wrong(format!("unknown unit {:?}", unit.chars().take(20).collect::<String>()))),
        }
    }
}

impl Amount {
    /// The amount as an argument of a command, which [`Amount::from_str`] reads.
    pub fn argument(self) -> String {
        self.to_string().replace(' ', "")
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |number: u64| if number == 1 { "" } else { "s" };
        match self {
            Amount::NanoUsd(nano_usd) => write!(f, "{} usd", usd_text(*nano_usd)),
            Amount::Tokens(tokens) => write!(f, "{tokens} token{}", many(*tokens)),
            Amount::Credits(credits) => write!(f, "{credits} credit{}", many(*credits)),
        }
    }
}

/// Reads US dollars as billionths: digits, and up to nine behind a point. `None` for anything else, and above [`USD_MAX`].
pub fn nano_usd(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > USD_DECIMALS {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|whole| *whole <= USD_MAX)?;
    let part: u64 = format!("{part:0<USD_DECIMALS$}").parse().ok()?;
    whole.checked_mul(NANO_PER_USD)?.checked_add(part).filter(|nano_usd| *nano_usd <= USD_MAX * NANO_PER_USD)
}

/// Writes billionths of a US dollar as dollars, exactly: at least two digits behind the point, and no more zeros.
pub fn usd_text(nano_usd: u64) -> String {
    let part = format!("{:0>USD_DECIMALS$}", nano_usd % NANO_PER_USD);
    let part = part.trim_end_matches('0');
    format!("{}.{part:0<2}", nano_usd / NANO_PER_USD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_a_number_and_a_unit() {
        for (text, amount) in [
            ("200000tokens", Amount::Tokens(200_000)),
            ("1credit", Amount::Credits(1)),
            ("2usd", Amount::NanoUsd(2_000_000_000)),
            ("0.000000001usd", Amount::NanoUsd(1)),
            ("1000000000usd", Amount::NanoUsd(USD_MAX * NANO_PER_USD)),
        ] {
            assert_eq!(text.parse(), Ok(amount), "{text}");
            assert_eq!(amount.argument().parse(), Ok(amount), "{text}");
        }
        for wrong in [
            "",
            "5",
            "tokens",
            "usd",
            "0tokens",
            "0usd",
            "0.00usd",
            "-5tokens",
            "+1usd",
            "5 tokens",
            "5eur",
            "1e3usd",
            ".5usd",
            "1.usd",
            "0.0000000001usd",
            "1000000000.1usd",
            "1.5tokens",
            "9007199254740993tokens",
            "٣usd",
        ] {
            assert!(wrong.parse::<Amount>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn money_is_written_exactly() {
        for (nano_usd, text) in
            [(0, "0.00"), (1, "0.000000001"), (500_000_000, "0.50"), (12_345_678_900, "12.3456789")]
        {
            assert_eq!(usd_text(nano_usd), text);
        }
    }
}
