//! On what terms a client is served, as its records tell: weight, tier, credits.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::id::Ticks;

/// Weight of a client of whom nothing is said, and of one with [`REFERENCE_CREDITS`] deposited in the period.
pub const REFERENCE_WEIGHT: u32 = 100;

/// Credits of the period that are worth the reference weight.
pub const REFERENCE_CREDITS: i64 = 1_000;

/// The least weight that comes of credits.
pub const CREDIT_WEIGHT_MIN: u32 = 10;

/// The most weight that comes of credits.
pub const CREDIT_WEIGHT_MAX: u32 = 10_000;

/// Days for which a deposit counts for the weight, its own among them.
pub const DEPOSIT_PERIOD_DAYS: i64 = 30;

/// The most credits that can be deposited in all, and in one deposit: so many can be counted one by one in a double.
pub const CREDITS_MAX: i64 = 1 << 53;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// On what terms a client is served.
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
    /// What an operator chose; `None`: it comes of credits.
    weight: Option<u32>,
    contracted: bool,
    /// All that was ever deposited; `None`: it is not metered.
    deposited: Option<i64>,
    /// What its attempts had cost before it was metered.
    free: u64,
    /// What was deposited on the days that may still count.
    days: BTreeMap<i64, i64>,
}

/// Why credits cannot be deposited or taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DepositError {
    /// There is nothing to deposit: a client would be metered without credits.
    #[error("an amount of 0 is no deposit: give one above 0, or one below 0 to take credits back")]
    Nothing,
    /// The sum would be more than can be counted.
    #[error(
        "it has {deposited} credits deposited: {credits} more would be over the limit CREDITS_MAX of {CREDITS_MAX}"
    )]
    TooMany {
        /// All that was deposited so far.
        deposited: i64,
        /// What was to be.
        credits: i64,
    },
    /// More would be taken back than is left.
    #[error("{left} of its credits are left: {credits} cannot be taken back")]
    TooFew {
        /// What is left.
        left: i64,
        /// What was to be taken back.
        credits: i64,
    },
}

impl ClientTerms {
    /// Terms that an operator's configuration states.
    pub fn configured(weight: u32, contracted: bool) -> ClientTerms {
        ClientTerms { weight: Some(weight), contracted, ..ClientTerms::default() }
    }

    /// Lets a record of the client, of this time, take effect.
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
            _ => {}
        }
    }

    /// Its entitlement at a time: what was chosen for it, else what the credits deposited in the [`DEPOSIT_PERIOD_DAYS`] up to
    /// then are worth. What is left of them does not count.
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

    /// What an operator chose as its weight, if anything.
    pub fn chosen_weight(&self) -> Option<u32> {
        self.weight
    }

    /// Whether it is served in the contracted tier.
    pub fn is_contracted(&self) -> bool {
        self.contracted
    }

    /// All that was ever deposited for it; `None`: it is not metered.
    pub fn deposited(&self) -> Option<i64> {
        self.deposited
    }

    /// What is left of its credits when its attempts have cost so much in all, those among it that cost nothing because
    /// it was not metered yet; `None`: it is not metered.
    pub fn left(&self, spent: u64) -> Option<i64> {
        self.deposited.map(|deposited| deposited.saturating_sub_unsigned(self.paid(spent)))
    }

    /// What was spent of its credits when its attempts have cost so much in all: not what they cost before it was metered. Of one
    /// that is not, all of it.
    pub fn paid(&self, spent: u64) -> u64 {
        spent.saturating_sub(self.free)
    }

    /// Whether so many credits may be deposited, or taken back if they are below zero, when so many were spent.
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
