//! Amounts of tokens and money in requests and answers.

use std::fmt;
use std::num::NonZeroU64;

use ostler_actors::CallAccountView;
use ostler_kernel::event::CallTerms;
use ostler_kernel::ledger::{Amounts, CallLimits, NANO_PER_USD, TOKENS_MAX, USD_MAX, nano_usd, usd_text};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
                nano_usd(text)
                    .map(Usd)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: Error>(self, usd: u64) -> Result<Usd, E> {
                let nano_usd = Some(usd).filter(|usd| *usd <= USD_MAX).map(|usd| usd * NANO_PER_USD);
                nano_usd.map(Usd).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Unsigned(usd), &self))
            }

            fn visit_f64<E: Error>(self, usd: f64) -> Result<Usd, E> {
                if (0.0..=USD_MAX as f64).contains(&usd) {
                    return Ok(Usd((usd * NANO_PER_USD as f64).round() as u64));
                }
                Err(E::invalid_value(serde::de::Unexpected::Float(usd), &self))
            }
        }

        deserializer.deserialize_any(Dollars)
    }
}

/// What happens before a call of a model that the budget does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverBudget {
    /// A person is asked to raise the budget, to conclude, or to cancel.
    Ask,
    /// The call fails as `resource_exhaustion`.
    Fail,
}

/// The call budget of a request.
///
/// # Errors
///
/// An amount is 0 or too large.
pub(crate) fn call_terms(
    usd: Option<Usd>,
    tokens: Option<NonZeroU64>,
    over_budget: OverBudget,
) -> Result<Option<CallTerms>, String> {
    if usd == Some(Usd(0)) {
        return Err("a budget of 0 usd allows no call; give more, or leave it out for no limit".to_owned());
    }
    if let Some(tokens) = tokens.filter(|tokens| tokens.get() > TOKENS_MAX) {
        return Err(format!("a budget of {tokens} tokens: give at most {TOKENS_MAX}"));
    }
    let limits =
        CallLimits { tokens: tokens.map(NonZeroU64::get), nano_usd: usd.map(|Usd(nano_usd)| nano_usd) };
    let asks = over_budget == OverBudget::Ask;
    Ok((!limits.is_unlimited() || !asks).then_some(CallTerms { account: None, limits, asks }))
}

/// Tokens and money of a run with all its child runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallBudgetView {
    /// The run whose budget it is: the run itself, or the one at the top.
    pub account: String,
    /// Money; absent without a limit on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<BudgetOf<Usd>>,
    /// Tokens; absent without a limit on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<BudgetOf<u64>>,
}

/// A budget of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetOf<T> {
    /// The budget, raises included.
    pub budget: T,
    /// Used by calls that ended, or that were lost with a process.
    pub spent: T,
    /// Reserved by calls that are being made.
    pub reserved: T,
}

impl From<CallAccountView> for CallBudgetView {
    fn from(view: CallAccountView) -> CallBudgetView {
        let CallAccountView { account, limits, used, held } = view;
        CallBudgetView {
            account: account.to_string(),
            usd: limits.nano_usd.map(|budget| BudgetOf {
                budget: Usd(budget),
                spent: Usd(used.nano_usd),
                reserved: Usd(held.nano_usd),
            }),
            tokens: limits.tokens.map(|budget| BudgetOf {
                budget,
                spent: used.tokens,
                reserved: held.tokens,
            }),
        }
    }
}

/// By how much a person raises a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raise {
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
}

impl Raise {
    /// The amounts; at most what a budget may hold.
    pub(crate) fn amounts(self) -> Amounts {
        let tokens = self.tokens.map_or(0, NonZeroU64::get).min(TOKENS_MAX);
        Amounts { tokens, nano_usd: self.usd.map_or(0, |Usd(nano_usd)| nano_usd) }
    }
}
