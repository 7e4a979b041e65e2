//! The account of calls of models: tokens and money are reserved before a call and settled after it.
//!
//! At all times `used + held <= limits`, as long as no call uses more than it reserved. The output of a call is bounded by its
//! reservation, because the call asks the provider for no more; its input is an estimate
//! ([`InputEstimate`](super::InputEstimate)).
//!
//! The records of a run say what was reserved and what was used. A reservation without a settlement belongs to a call that
//! died with its process, and may have cost all of it: so it counts as used.
//!
//! A market job's contract sets a part of its client's balance aside, for the calls of its run and all child runs. The calls of
//! others see a balance without it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Amounts, CallLimits, Price};
use crate::id::RunId;

/// Fewest output tokens that a call is lowered to. A call that asks for less needs what it asks for.
pub const OUTPUT_TOKENS_MIN: u64 = 256;

/// A call as it is known before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallQuote {
    /// Estimated tokens of the prompt.
    pub input_tokens: u64,
    /// Most tokens of the answer, at least 1.
    pub max_output_tokens: u64,
    /// The price; `None`: unknown.
    pub price: Option<Price>,
}

impl CallQuote {
    /// What the call uses at most with an answer of so many tokens.
    pub fn amounts(&self, output_tokens: u64) -> Amounts {
        Amounts {
            tokens: self.input_tokens.saturating_add(output_tokens),
            nano_usd: self.price.map_or(0, |price| price.nano_usd_max(self.input_tokens, output_tokens)),
        }
    }

    /// The least that a useful call needs.
    pub fn least(&self) -> Amounts {
        self.amounts(self.max_output_tokens.min(OUTPUT_TOKENS_MIN))
    }

    /// The longest answer that fits into `room`; `None` if no useful one does.
    fn output_within(&self, room: CallLimits) -> Option<u64> {
        let by_tokens = room.tokens.map_or(Some(u64::MAX), |tokens| tokens.checked_sub(self.input_tokens));
        let by_price = match (room.nano_usd, self.price) {
            (Some(nano_usd), Some(price)) => price.output_within(self.input_tokens, nano_usd),
            (None, _) | (_, None) => Some(u64::MAX),
        };
        let output = self.max_output_tokens.min(by_tokens?).min(by_price?);
        (output >= self.max_output_tokens.min(OUTPUT_TOKENS_MIN)).then_some(output)
    }
}

/// What a call may do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRoom {
    /// The call may be made, with an answer of at most so many tokens.
    Fits {
        /// Most tokens of the answer.
        max_output_tokens: u64,
    },
    /// Calls that are being made hold what this one needs: ask again when one of them ends.
    Wait,
    /// The limits do not allow the call.
    Short(Shortfall),
    /// A limit on money holds, and the price of the model is unknown.
    Unpriced,
}

/// A call that the limits do not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Name of the model in the configuration.
    pub model: String,
    /// True if the client's balance is too small; false for the budget of the run.
    pub of_client: bool,
    /// What the call needs in full.
    pub needs: Amounts,
    /// The least that a useful call needs.
    pub least: Amounts,
    /// Part of the limits that no call has used or reserved.
    pub left: CallLimits,
    /// The budget, or all that was deposited.
    pub limits: CallLimits,
}

/// Tokens and money of a run with all its child runs, or of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallAccount {
    limits: CallLimits,
    used: Amounts,
    held: BTreeMap<u64, Held>,
    /// Contracts of market jobs, by the job's run.
    contracts: BTreeMap<RunId, SetAside>,
}

/// The reservation of a call, and the run whose account pays for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    run: Option<RunId>,
    amounts: Amounts,
}

/// What a contract sets aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SetAside {
    amounts: Amounts,
    used: Amounts,
}

impl SetAside {
    fn rest(self) -> Amounts {
        self.amounts.minus(self.used)
    }
}

impl CallAccount {
    /// An account after calls that used `used`.
    pub fn new(limits: CallLimits, used: Amounts) -> CallAccount {
        CallAccount { limits, used, ..CallAccount::default() }
    }

    /// The limits.
    pub fn limits(&self) -> CallLimits {
        self.limits
    }

    /// Replaces the limits.
    pub fn set_limits(&mut self, limits: CallLimits) {
        self.limits = limits;
    }

    /// Used by calls that ended.
    pub fn used(&self) -> Amounts {
        self.used
    }

    /// Reserved by calls that are being made.
    pub fn held(&self) -> Amounts {
        self.held.values().fold(Amounts::default(), |sum, held| sum.plus(held.amounts))
    }

    /// What is neither used, reserved by calls, nor set aside for contracts.
    pub fn left(&self) -> CallLimits {
        self.left_for(None)
    }

    /// Sets `amounts` aside for a contract whose calls have used `used` of them. A contract that is known stays as it is.
    pub fn set_aside(&mut self, job: RunId, amounts: Amounts, used: Amounts) {
        self.contracts.entry(job).or_insert(SetAside { amounts, used });
    }

    /// True if a contract of the job is known.
    pub fn has_contract(&self, job: RunId) -> bool {
        self.contracts.contains_key(&job)
    }

    /// Ends the contracts that are not among `kept`; what is left of them is free.
    pub fn keep_contracts(&mut self, mut kept: impl FnMut(RunId) -> bool) {
        self.contracts.retain(|job, _| kept(*job));
    }

    /// Set aside for contracts, and neither used nor reserved by their calls.
    pub fn aside(&self) -> Amounts {
        self.rests(|job, rest| rest.minus(self.held_by(job)))
    }

    /// What the calls of a run may use: its own contract, and what is free.
    fn left_for(&self, run: Option<RunId>) -> CallLimits {
        let others = self.rests(|job, rest| match run {
            Some(run) if run == job => Amounts::default(),
            _ => rest.minus(self.held_by(job)),
        });
        self.limits.less(self.used.plus(self.held()).plus(others))
    }

    /// What the calls of a run could use if all that are being made cost nothing.
    fn most_for(&self, run: Option<RunId>) -> CallLimits {
        let others = self.rests(|job, rest| if run == Some(job) { Amounts::default() } else { rest });
        self.limits.less(self.used.plus(others))
    }

    fn rests(&self, part: impl Fn(RunId, Amounts) -> Amounts) -> Amounts {
        self.contracts
            .iter()
            .fold(Amounts::default(), |sum, (job, contract)| sum.plus(part(*job, contract.rest())))
    }

    fn held_by(&self, job: RunId) -> Amounts {
        let of_job = self.held.values().filter(|held| held.run == Some(job));
        of_job.fold(Amounts::default(), |sum, held| sum.plus(held.amounts))
    }

    /// True if no call holds a reservation.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Says whether a call fits that the account of `run` pays for. The answer is lowered to what fits only if no other call
    /// could return anything.
    pub fn room_for(&self, run: Option<RunId>, quote: &CallQuote, model: &str) -> CallRoom {
        if self.limits.nano_usd.is_some() && quote.price.is_none() {
            return CallRoom::Unpriced;
        }
        let left = self.left_for(run);
        match quote.output_within(left) {
            Some(output) if output == quote.max_output_tokens || self.is_idle() => {
                CallRoom::Fits { max_output_tokens: output }
            }
            // What running calls return may be enough for the whole answer.
            Some(_) => CallRoom::Wait,
            None if quote.output_within(self.most_for(run)).is_some() => CallRoom::Wait,
            None => CallRoom::Short(Shortfall {
                model: model.to_owned(),
                of_client: false,
                needs: quote.amounts(quote.max_output_tokens),
                least: quote.least(),
                left,
                limits: self.limits,
            }),
        }
    }

    /// Reserves what [`CallAccount::room_for`] said fits, under the number of the call.
    pub fn reserve(&mut self, call: u64, run: Option<RunId>, amounts: Amounts) {
        self.held.insert(call, Held { run, amounts });
    }

    /// Settles a call: releases its reservation and counts what it used.
    pub fn settle(&mut self, call: u64, used: Amounts) {
        let Some(held) = self.held.remove(&call) else { return };
        self.used = self.used.plus(used);
        if let Some(contract) = held.run.and_then(|run| self.contracts.get_mut(&run)) {
            contract.used = contract.used.plus(used);
        }
    }
}

/// Says whether a call fits into the budget of its run and the balance of its client.
pub fn room_of_both(
    run: Option<(RunId, &CallAccount)>,
    client: &CallAccount,
    quote: &CallQuote,
    model: &str,
) -> CallRoom {
    let of_run = run.map(|(_, account)| account.room_for(None, quote, model));
    let of_client = client.room_for(run.map(|(run, _)| run), quote, model);
    match (of_run, of_client) {
        (Some(CallRoom::Unpriced), _) | (_, CallRoom::Unpriced) => CallRoom::Unpriced,
        (Some(CallRoom::Short(short)), _) => CallRoom::Short(short),
        (_, CallRoom::Short(short)) => CallRoom::Short(Shortfall { of_client: true, ..short }),
        (Some(CallRoom::Wait), _) | (_, CallRoom::Wait) => CallRoom::Wait,
        (Some(CallRoom::Fits { max_output_tokens: one }), CallRoom::Fits { max_output_tokens: other }) => {
            CallRoom::Fits { max_output_tokens: one.min(other) }
        }
        (None, fits @ CallRoom::Fits { .. }) => fits,
    }
}

#[cfg(test)]
mod tests;
