//! Amounts of tokens and money in requests and answers.

use std::num::NonZeroU64;

use ostler_actors::CallAccountView;
use ostler_kernel::event::CallReserved;
use ostler_kernel::event::CallTerms;
pub use ostler_kernel::ledger::Usd;
use ostler_kernel::ledger::{Amounts, CallLimits, TOKENS_MAX};
use serde::{Deserialize, Serialize};

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

/// A call of a model that was lost with its process. In a run whose calls have a budget, all that it reserved counts as used; in any
/// other nothing is known but that the call may have been made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostCallView {
    /// The node whose attempt or patch called.
    pub node: String,
    /// Name of the model in the configuration.
    pub model: String,
    /// The tokens that count; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The money that counts; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
}

impl From<CallReserved> for LostCallView {
    fn from(call: CallReserved) -> LostCallView {
        let CallReserved { node, model, amounts, .. } = call;
        let (tokens, usd) = (Some(amounts.tokens), Some(Usd(amounts.nano_usd)));
        LostCallView { node: node.to_string(), model, tokens, usd }
    }
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
