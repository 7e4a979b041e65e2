//! The terms of a client by its records: weight, tier, credits.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::id::Ticks;
use crate::ledger::{Amount, Amounts, CallLimits, NANO_PER_USD, TOKENS_MAX, USD_MAX};

/// Weight of a client without records, and of a client with [`REFERENCE_CREDITS`] deposited in the period.
pub const REFERENCE_WEIGHT: u32 = 100;

/// Deposits of one period that give the reference weight.
pub const REFERENCE_CREDITS: i64 = 1_000;

/// Lowest weight by deposits.
pub const CREDIT_WEIGHT_MIN: u32 = 10;

/// Highest weight by deposits.
pub const CREDIT_WEIGHT_MAX: u32 = 10_000;

/// Length of the period, in days: a deposit counts on its own day and the days after.
pub const DEPOSIT_PERIOD_DAYS: i64 = 30;

/// Most credits in all deposits together, and in one: 2^53, so a double holds every count exactly.
pub const CREDITS_MAX: i64 = 1 << 53;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// The terms of a client.
///
/// ```
/// use ostler_kernel::event::Event;
/// use ostler_kernel::client_terms::ClientTerms;
///
/// let mut terms = ClientTerms::default();
/// assert_eq!((terms.weight(0), terms.deposited()), (100, None));
/// terms.apply(&Event::CreditDeposited { client: "acme".into(), credits: 5_000, spent: 70 }, 0);
/// assert_eq!((terms.left(90), terms.paid(90)), (Some(4_980), 20));
/// assert_eq!((terms.weight(0), terms.deposited()), (500, Some(5_000)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTerms {
    /// The weight that an operator chose; `None`: the weight follows from deposits.
    weight: Option<u32>,
    contracted: bool,
    /// Sum of all deposits; `None`: the client is not metered.
    deposited: Option<i64>,
    /// Cost of attempts before the client was metered.
    free: u64,
    /// Deposits of the days that may still count, by day.
    days: BTreeMap<i64, i64>,
    tokens: Option<Metered>,
    nano_usd: Option<Metered>,
}

/// What a client has of a resource that its calls of models use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Metered {
    deposited: i64,
    /// Used before the client was metered.
    free: u64,
}

impl Metered {
    fn deposit(metered: &mut Option<Metered>, amount: i64, used: u64) {
        if amount != 0 {
            let metered = metered.get_or_insert(Metered { deposited: 0, free: used });
            metered.deposited = metered.deposited.saturating_add(amount);
        }
    }

    /// The most that calls may use in all, the free part included.
    fn limit(self) -> u64 {
        self.free.saturating_add_signed(self.deposited)
    }
}

/// A client's balance in one resource of its calls of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Sum of all deposits.
    pub deposited: i64,
    /// Used since the first deposit.
    pub used: u64,
    /// What is left apart from running calls; negative where prompts were longer than estimated.
    pub left: i64,
}

/// A deposit or withdrawal that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DepositError {
    /// Zero credits: the client would be metered without credits.
    #[error("amount 0: give a positive amount to deposit, or a negative one to withdraw")]
    Nothing,
    /// The sum would exceed [`CREDITS_MAX`].
    #[error("{deposited} credits deposited: {credits} more exceed the limit CREDITS_MAX of {CREDITS_MAX}")]
    TooMany {
        /// Sum of all deposits so far.
        deposited: i64,
        /// Credits of the refused deposit.
        credits: i64,
    },
    /// The sum of tokens or money would be too large.
    #[error("the sum of all deposits may be at most {}", .resource.text(*.most))]
    Beyond {
        /// Tokens or money.
        resource: Resource,
        /// Largest sum.
        most: u64,
    },
    /// The withdrawal exceeds what is left of tokens or money.
    #[error("{} cannot be withdrawn: {} left", .resource.text(*.amount), .resource.text((*.left).max(0).unsigned_abs()))]
    Short {
        /// Tokens or money.
        resource: Resource,
        /// The balance.
        left: i64,
        /// Amount of the refused withdrawal.
        amount: u64,
    },
    /// The withdrawal exceeds the remaining credits.
    #[error("{left} credits left: {credits} cannot be withdrawn")]
    TooFew {
        /// Remaining credits.
        left: i64,
        /// Credits of the refused withdrawal.
        credits: i64,
    },
}

/// A resource of calls of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Tokens of prompts and answers.
    Tokens,
    /// Money, in billionths of a US dollar.
    Usd,
}

impl Resource {
    fn text(self, amount: u64) -> String {
        match self {
            Resource::Tokens => Amount::Tokens(amount).to_string(),
            Resource::Usd => Amount::NanoUsd(amount).to_string(),
        }
    }
}

impl ClientTerms {
    /// Terms from an operator's configuration.
    pub fn configured(weight: u32, contracted: bool) -> ClientTerms {
        ClientTerms { weight: Some(weight), contracted, ..ClientTerms::default() }
    }

    /// Applies a record of the client that was written at `at_ms`.
    pub fn apply(&mut self, event: &Event, at_ms: Ticks) {
        match event {
            Event::ClientSet { weight, contracted, .. } => {
                self.weight = Some(*weight).filter(|weight| *weight > 0);
                self.contracted = *contracted;
            }
            Event::CreditDeposited { credits, spent, .. } => {
                if self.deposited.is_none() {
                    self.free = *spent;
                }
                self.deposited = Some(self.deposited.unwrap_or(0).saturating_add(*credits));
                let day = at_ms.div_euclid(DAY_MS);
                let sum = self.days.entry(day).or_default();
                *sum = sum.saturating_add(*credits);
                self.days.retain(|earlier, _| *earlier > day - DEPOSIT_PERIOD_DAYS);
            }
            Event::BalanceDeposited { tokens, nano_usd, used, .. } => {
                Metered::deposit(&mut self.tokens, *tokens, used.tokens);
                Metered::deposit(&mut self.nano_usd, *nano_usd, used.nano_usd);
            }
            Event::ClientRemoved { .. } => *self = ClientTerms::default(),
            _ => {}
        }
    }

    /// Weight of the client at `now`: the chosen weight, else by the deposits of the last [`DEPOSIT_PERIOD_DAYS`] days.
    /// Spent credits count as well.
    pub fn weight(&self, now: Ticks) -> u32 {
        if let Some(weight) = self.weight {
            return weight;
        }
        if self.deposited.is_none() {
            return REFERENCE_WEIGHT;
        }
        let from = now.div_euclid(DAY_MS) - DEPOSIT_PERIOD_DAYS;
        let credits: i64 = self.days.range(from + 1..).map(|(_, credits)| *credits).sum();
        let weight = i128::from(credits) * i128::from(REFERENCE_WEIGHT) / i128::from(REFERENCE_CREDITS);
        weight.clamp(CREDIT_WEIGHT_MIN.into(), CREDIT_WEIGHT_MAX.into()) as u32
    }

    /// The weight that an operator chose; `None`: the weight follows from deposits.
    pub fn chosen_weight(&self) -> Option<u32> {
        self.weight
    }

    /// True for a client of the contracted tier.
    pub fn is_contracted(&self) -> bool {
        self.contracted
    }

    /// Sum of all deposits; `None`: the client is not metered.
    pub fn deposited(&self) -> Option<i64> {
        self.deposited
    }

    /// Remaining credits if the client's attempts have cost `spent` in all, free ones included; `None`: the client is not
    /// metered.
    pub fn left(&self, spent: u64) -> Option<i64> {
        self.deposited.map(|deposited| deposited.saturating_sub_unsigned(self.paid(spent)))
    }

    /// The part of `spent` that the client pays for: everything since the first deposit. For a client that is not metered,
    /// all of `spent`.
    pub fn paid(&self, spent: u64) -> u64 {
        spent.saturating_sub(self.free)
    }

    /// Limits on all that the client's calls of models use, from the first call on; none for a client that is not metered.
    pub fn call_limits(&self) -> CallLimits {
        let limit = |metered: Option<Metered>| metered.map(Metered::limit);
        CallLimits { tokens: limit(self.tokens), nano_usd: limit(self.nano_usd) }
    }

    /// Balances of tokens and of billionths of a US dollar, if the calls used `used` in all; `None`: not metered.
    pub fn balances(&self, used: Amounts) -> (Option<Balance>, Option<Balance>) {
        let balance = |metered: Option<Metered>, used: u64| {
            metered.map(|Metered { deposited, free }| {
                let used = used.saturating_sub(free);
                Balance { deposited, used, left: deposited.saturating_sub_unsigned(used) }
            })
        };
        (balance(self.tokens, used.tokens), balance(self.nano_usd, used.nano_usd))
    }

    /// Checks a deposit of tokens and money (negative: a withdrawal) after calls that used and hold `used`.
    ///
    /// # Errors
    ///
    /// Nothing is deposited, the sum is too large, or the withdrawal exceeds what is left.
    pub fn check_balance(&self, (tokens, nano_usd): (i64, i64), used: Amounts) -> Result<(), DepositError> {
        if tokens == 0 && nano_usd == 0 {
            return Err(DepositError::Nothing);
        }
        let (of_tokens, of_usd) = self.balances(used);
        let most_usd = USD_MAX.saturating_mul(NANO_PER_USD);
        for (resource, amount, balance, most) in
            [(Resource::Tokens, tokens, of_tokens, TOKENS_MAX), (Resource::Usd, nano_usd, of_usd, most_usd)]
        {
            let left = balance.map_or(0, |balance| balance.left);
            let sum = balance.map_or(0, |balance| balance.deposited).saturating_add(amount);
            if u64::try_from(sum).is_ok_and(|sum| sum > most) {
                return Err(DepositError::Beyond { resource, most });
            }
            if amount < 0 && left.saturating_add(amount) < 0 {
                return Err(DepositError::Short { resource, left, amount: amount.unsigned_abs() });
            }
        }
        Ok(())
    }

    /// Checks a deposit of `credits` (negative: a withdrawal) after costs of `spent`.
    pub fn check_deposit(&self, credits: i64, spent: u64) -> Result<(), DepositError> {
        if credits == 0 {
            return Err(DepositError::Nothing);
        }
        let deposited = self.deposited.unwrap_or(0);
        let sum = deposited.saturating_add(credits);
        let left = self.left(spent).unwrap_or(0);
        if sum > CREDITS_MAX || credits > CREDITS_MAX {
            return Err(DepositError::TooMany { deposited, credits });
        }
        if credits < 0 && left.saturating_add(credits) < 0 {
            return Err(DepositError::TooFew { left, credits: credits.saturating_neg() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deposit(credits: i64) -> Event {
        Event::CreditDeposited { client: "acme".into(), credits, spent: 0 }
    }

    fn set(weight: u32, contracted: bool) -> Event {
        Event::ClientSet { client: "acme".into(), weight, contracted }
    }

    #[test]
    fn weight_comes_of_what_was_deposited_in_the_period_unless_it_was_chosen() {
        let check = |records: &[(i64, Event)], day: i64, expected: u32| {
            let mut terms = ClientTerms::default();
            records.iter().for_each(|(day, event)| terms.apply(event, day * DAY_MS + 5));
            assert_eq!(terms.weight(day * DAY_MS + 10), expected, "{records:?} on day {day}");
        };
        check(&[], 0, 100);
        check(&[(0, deposit(1_000))], 0, 100);
        check(&[(0, deposit(1_000)), (1, deposit(2_500))], 1, 350);
        check(&[(0, deposit(1_000)), (1, deposit(2_500))], 29, 350);
        check(&[(0, deposit(1_000)), (1, deposit(2_500))], 30, 250);
        check(&[(0, deposit(1_000)), (1, deposit(2_500))], 31, CREDIT_WEIGHT_MIN);
        check(&[(0, deposit(0))], 0, CREDIT_WEIGHT_MIN);
        check(&[(0, deposit(5_000)), (0, deposit(-2_000))], 0, 300);
        check(&[(0, deposit(CREDITS_MAX))], 0, CREDIT_WEIGHT_MAX);
        check(&[(0, set(7, true)), (0, deposit(CREDITS_MAX))], 0, 7);
        check(&[(0, set(7, true)), (0, deposit(3_000)), (0, set(0, false))], 0, 300);
    }

    #[test]
    fn removed_terms_are_those_of_a_client_without_records() {
        let removed = Event::ClientRemoved { client: "acme".into() };
        let mut terms = ClientTerms::default();
        for event in [set(7, true), deposit(3_000), removed] {
            terms.apply(&event, 0);
        }
        assert_eq!(terms, ClientTerms::default());
        // The next deposit makes earlier costs free again.
        terms.apply(&Event::CreditDeposited { client: "acme".into(), credits: 10, spent: 70 }, 0);
        assert_eq!((terms.left(75), terms.paid(75)), (Some(5), 5));
    }

    #[test]
    fn tokens_and_money_are_metered_each_from_its_first_deposit_on() {
        let deposit = |tokens, nano_usd, used| Event::BalanceDeposited {
            client: "acme".into(),
            tokens,
            nano_usd,
            used: Amounts { tokens: used, nano_usd: 10 * used },
        };
        let mut terms = ClientTerms::default();
        assert!(terms.call_limits().is_unlimited());
        terms.apply(&deposit(1_000, 0, 70), 0);
        assert_eq!(terms.call_limits(), CallLimits { tokens: Some(1_070), nano_usd: None });
        terms.apply(&deposit(0, 5_000, 100), 0);
        assert_eq!(terms.call_limits(), CallLimits { tokens: Some(1_070), nano_usd: Some(6_000) });
        let used = Amounts { tokens: 120, nano_usd: 1_200 };
        let (tokens, usd) = terms.balances(used);
        assert_eq!(tokens, Some(Balance { deposited: 1_000, used: 50, left: 950 }));
        assert_eq!(usd, Some(Balance { deposited: 5_000, used: 200, left: 4_800 }));
        assert_eq!(terms.check_balance((-950, 0), used), Ok(()));
        let short = DepositError::Short { resource: Resource::Tokens, left: 950, amount: 951 };
        assert_eq!(terms.check_balance((-951, 0), used), Err(short));
        assert_eq!(terms.check_balance((0, 0), used), Err(DepositError::Nothing));
        assert!(terms.check_balance((i64::MAX, 0), used).is_err());
        assert!(terms.check_balance((0, i64::MIN), used).is_err());
        terms.apply(&Event::ClientRemoved { client: "acme".into() }, 0);
        assert!(terms.call_limits().is_unlimited());
    }

    #[test]
    fn deposits_have_limits_on_both_ends() {
        let mut terms = ClientTerms::default();
        assert_eq!(terms.check_deposit(CREDITS_MAX, 0), Ok(()));
        assert_eq!(terms.check_deposit(0, 0), Err(DepositError::Nothing));
        let many = DepositError::TooMany { deposited: 0, credits: CREDITS_MAX + 1 };
        assert_eq!(terms.check_deposit(CREDITS_MAX + 1, 0), Err(many));
        assert_eq!(terms.check_deposit(-1, 0), Err(DepositError::TooFew { left: 0, credits: 1 }));
        terms.apply(&deposit(100), 0);
        assert_eq!(terms.check_deposit(-60, 40), Ok(()));
        assert_eq!(terms.check_deposit(-61, 40), Err(DepositError::TooFew { left: 60, credits: 61 }));
        let less = DepositError::TooFew { left: -20, credits: i64::MAX };
        assert_eq!(terms.check_deposit(i64::MIN + 1, 120), Err(less));
        assert_eq!(terms.check_deposit(5, 1_000), Ok(()), "a debt may be paid in parts");
    }
}
