//! Cost of a job in three units: charge (fairness), credits (balance) and tokens (token bucket).

use std::collections::BTreeMap;

use crate::error::CostOutOfRange;

/// Largest amount of a resource in one cost, and largest credits and tokens of a [`Price`].
pub const AMOUNT_MAX: u64 = 1 << 32;
/// Name of the resource deducted from the balance.
pub const CREDITS: &str = "usd";
/// Name of the resource deducted from the token bucket.
pub const TOKENS: &str = "tokens";

/// A cost in the three units of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Counted by virtual time, 1 to `cost_max`.
    pub charge: u64,
    /// Deducted from the client's balance.
    pub credits: u64,
    /// Deducted from the model's bucket.
    pub tokens: u64,
}

impl Price {
    /// A price of `amount` in all three units.
    pub const fn flat(amount: u64) -> Self {
        Self { charge: amount, credits: amount, tokens: amount }
    }

    #[inline]
    pub(crate) fn check(&self, cost_max: u64) -> Result<(), CostOutOfRange> {
        let fits =
            (1..=cost_max).contains(&self.charge) && self.credits <= AMOUNT_MAX && self.tokens <= AMOUNT_MAX;
        if fits { Ok(()) } else { Err(CostOutOfRange { price: *self, cost_max }) }
    }
}

impl From<u64> for Price {
    fn from(amount: u64) -> Self {
        Self::flat(amount)
    }
}

/// Converts amounts of several resources into a price by dominant resource fairness (Ghodsi et al., NSDI 2011).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pricing {
    /// Capacity of the system for each resource, in the unit of that resource.
    pub capacities: BTreeMap<String, u64>,
    /// Charge for the whole capacity of a resource.
    pub unit: u64,
}

impl Pricing {
    /// The price of `amounts`.
    ///
    /// The charge is the dominant share, the largest ratio of amount to capacity, times [`Pricing::unit`], rounded up. Credits
    /// are the amount of [`CREDITS`], or the charge if that resource is absent; tokens are the amount of [`TOKENS`], or 0.
    /// A resource without a capacity adds no charge. `None` if an amount exceeds [`AMOUNT_MAX`] or the charge
    /// exceeds 64 bits. The queue compares the charge with `cost_max`.
    ///
    /// ```
    /// # use ostler_scheduler::{Price, Pricing};
    /// let pricing = Pricing { capacities: [("tokens".into(), 1000), ("gpu_s".into(), 10)].into(), unit: 100 };
    /// let price = pricing.price([("tokens", 50), ("gpu_s", 2)]);
    /// assert_eq!(price, Some(Price { charge: 20, credits: 20, tokens: 50 }));
    /// ```
    pub fn price<'a>(&self, amounts: impl IntoIterator<Item = (&'a str, u64)>) -> Option<Price> {
        let (mut charge, mut credits, mut tokens) = (0, None, 0);
        for (resource, amount) in amounts {
            if amount > AMOUNT_MAX {
                return None;
            }
            if let Some(capacity) = self.capacities.get(resource) {
                let share =
                    (u128::from(amount) * u128::from(self.unit)).div_ceil(u128::from((*capacity).max(1)));
                charge = charge.max(share);
            }
            match resource {
                CREDITS => credits = Some(amount),
                TOKENS => tokens = amount,
                _ => {}
            }
        }
        let charge = u64::try_from(charge).ok()?;
        Some(Price { charge, credits: credits.unwrap_or(charge), tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(amounts: &[(&str, u64)], expected: Option<(u64, u64, u64)>) {
        let pricing = Pricing {
            capacities: [("tokens".into(), 1_000_000), ("usd".into(), 50_000), ("wall_ms".into(), 600_000)]
                .into(),
            unit: 1_000_000,
        };
        let price = pricing.price(amounts.iter().copied());
        assert_eq!(price.map(|price| (price.charge, price.credits, price.tokens)), expected, "{amounts:?}");
    }

    #[test]
    fn the_dominant_share_is_the_charge() {
        check(&[("tokens", 3000), ("usd", 1)], Some((3000, 1, 3000)));
        check(&[("tokens", 10), ("usd", 400)], Some((8000, 400, 10)));
        check(&[("wall_ms", 1)], Some((2, 2, 0)));
        check(&[("gpu", 5)], Some((0, 0, 0)));
        check(&[], Some((0, 0, 0)));
        check(&[("gpu", AMOUNT_MAX)], Some((0, 0, 0)));
        check(&[("gpu", AMOUNT_MAX + 1)], None);
    }

    #[test]
    fn a_price_is_checked_in_every_unit() {
        let price = Price { charge: 7, credits: AMOUNT_MAX, tokens: 0 };
        assert!(price.check(7).is_ok());
        assert!(price.check(6).is_err());
        assert!(Price { charge: 0, ..price }.check(7).is_err());
        assert!(Price { credits: AMOUNT_MAX + 1, ..price }.check(7).is_err());
        assert!(Price { tokens: AMOUNT_MAX + 1, ..price }.check(7).is_err());
    }
}
