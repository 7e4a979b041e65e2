//! Budgets and amounts on the command line.

use std::num::NonZeroU64;

use clap::{Args, ValueEnum};
use ostler_kernel::ledger::Amount;
use ostler_server::wire::{self, Raise, Usd};

use crate::cli::arguments::values::positive_integer;

const UNITS: &str = "0.50usd, 200000tokens or 10000credits";

/// The options `--budget` and `--over-budget`.
#[derive(Debug, Args)]
pub(crate) struct BudgetOptions {
    /// Most that the run may use, such as 0.50usd, 200000tokens or 10000credits; repeatable. A bare number is credits
    #[arg(long, value_name = "AMOUNT", allow_hyphen_values = true, value_parser = amount_or_credits)]
    budget: Vec<Amount>,
    /// What happens before a call of a model that the budget does not allow
    #[arg(long, value_name = "WHAT", value_enum)]
    over_budget: Option<OverBudget>,
}

/// What happens before a call that the budget does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverBudget {
    /// A person is asked to raise the budget, to conclude, or to cancel
    Ask,
    /// The call fails
    Fail,
}

/// Amounts by resource. Of several of one resource the last counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) usd: Option<Usd>,
    pub(crate) tokens: Option<NonZeroU64>,
    pub(crate) credits: Option<NonZeroU64>,
}

impl Resources {
    pub(crate) fn of(amounts: &[Amount]) -> Resources {
        let mut resources = Resources::default();
        for amount in amounts {
            match *amount {
                Amount::NanoUsd(nano_usd) => resources.usd = Some(Usd(nano_usd)),
                Amount::Tokens(tokens) => resources.tokens = NonZeroU64::new(tokens),
                Amount::Credits(credits) => resources.credits = NonZeroU64::new(credits),
            }
        }
        resources
    }
}

impl BudgetOptions {
    pub(crate) fn resources(&self) -> Resources {
        Resources::of(&self.budget)
    }

    pub(crate) fn over_budget(&self) -> Option<wire::OverBudget> {
        self.over_budget.map(|over_budget| match over_budget {
            OverBudget::Ask => wire::OverBudget::Ask,
            OverBudget::Fail => wire::OverBudget::Fail,
        })
    }
}

/// Parses an amount with its unit; a bare number is credits.
pub(crate) fn amount_or_credits(text: &str) -> Result<Amount, String> {
    if text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return amount(text);
    }
    match positive_integer(text) {
        Ok(credits) => Ok(Amount::Credits(credits.get())),
        Err(_) if text == "0" => Err("give 1 or more; without --budget the cost is unlimited".to_owned()),
        Err(what) => Err(format!("{what}; or an amount with its unit, such as {UNITS}")),
    }
}

/// Parses an amount with its unit.
pub(crate) fn amount(text: &str) -> Result<Amount, String> {
    text.parse().map_err(|error: ostler_kernel::ledger::AmountError| error.to_string())
}

/// Parses the amount that a budget of tokens or money grows by. The plus tells an increment from a new total.
pub(crate) fn raise(text: &str) -> Result<Amount, String> {
    let (sign, more) = text.strip_prefix('+').map_or(("", text), |more| ("+", more));
    match amount(more)? {
        Amount::Credits(_) => {
            Err("a budget of credits is not raised; give usd or tokens, such as +1usd or +100000tokens"
                .to_owned())
        }
        _ if sign.is_empty() => Err(format!("the budget grows by this amount; write +{text}")),
        amount => Ok(amount),
    }
}

/// The body of an answer that raises a budget; `None` without amounts.
pub(crate) fn raise_of(amounts: &[Amount]) -> Option<Raise> {
    let Resources { usd, tokens, .. } = Resources::of(amounts);
    (!amounts.is_empty()).then_some(Raise { usd, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_credits() {
        assert_eq!(amount_or_credits("500"), Ok(Amount::Credits(500)));
        assert_eq!(amount_or_credits("500tokens"), Ok(Amount::Tokens(500)));
        for wrong in ["", "0", "-5", "abc", "1.5"] {
            assert!(amount_or_credits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_raise_is_of_tokens_or_money_and_has_a_plus() {
        assert_eq!(raise("+1usd"), Ok(Amount::NanoUsd(1_000_000_000)));
        assert_eq!(raise("+500tokens"), Ok(Amount::Tokens(500)));
        assert_eq!(raise("0.01usd"), Err("the budget grows by this amount; write +0.01usd".to_owned()));
        for wrong in ["+5credits", "500tokens", "-1usd", "++1usd", "+", "yes"] {
            assert!(raise(wrong).is_err(), "{wrong}");
        }
    }
}
