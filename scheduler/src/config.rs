//! Settings of a run queue and their ranges.
//!
//! The ranges keep every intermediate value within its integer type; [`PRODUCT_MAX`] bounds the spread of virtual times.

use std::collections::BTreeMap;

use crate::cost::{AMOUNT_MAX, Pricing};
use crate::error::ConfigError;

/// Largest `slots`.
pub const SLOTS_MAX: u32 = 1_000_000;
/// Largest `scale`.
pub const SCALE_MAX: u64 = 1 << 16;
/// Largest `unit` of a [`Pricing`](crate::Pricing).
pub const UNIT_MAX: u64 = 1 << 30;
/// Largest `cost_max`.
pub const COST_MAX: u64 = 1 << 32;
/// Largest capacity of a resource.
pub const CAPACITY_MAX: u64 = 1 << 53;
/// Largest warp.
pub const WARP_MAX: u64 = 1 << 32;
/// Largest rate (tokens per second) and burst (tokens) of a bucket.
pub const BUCKET_MAX: u64 = 1 << 32;
/// Largest `rebase_at`.
pub const REBASE_MAX: u64 = 1 << 60;
/// Largest `scale * cost_max * (slots + 1)`, which bounds the distance between virtual times of a queue.
pub const PRODUCT_MAX: u64 = 1 << 60;
/// Largest weight of a client or an agent.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// Largest balance that a client can be given, in credits.
pub const BALANCE_MAX: i64 = 1 << 53;
/// Weight of an agent created without one.
pub const AGENT_WEIGHT: u32 = 100;
/// Largest `clients_max`, `agents_max` and `jobs_max`.
pub const PLACES_MAX: u32 = 1 << 31;

/// Greatest distance of a balance from its range, in credits: each running job settled at the greatest error.
pub(crate) const AMOUNT_DEBT_MAX: i64 = SLOTS_MAX as i64 * AMOUNT_MAX as i64;

const GUARANTEE_PM_MAX: u16 = 1000;
const BETA_PM_MAX: u16 = 1000;
const REPUTATION_PM_MAX: u16 = 900;

/// Settings of a run queue, fixed at its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Number of jobs that run at the same time, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// Guaranteed share of the marketplace in the total charge, per mille, 0 to 1000.
    pub guarantee_pm: u16,
    /// Virtual time of one unit of charge at weight 1, 1 to [`SCALE_MAX`].
    pub scale: u64,
    /// Largest charge of one job, 1 to [`COST_MAX`].
    pub cost_max: u64,
    /// Change of weight at reputation 0 or 1000, per mille, 0 to 1000.
    pub beta_pm: u16,
    /// Cap on the change of weight by reputation, per mille, 0 to 900.
    pub reputation_pm_max: u16,
    /// Virtual time of a queue above which the queue is rebased, at most [`REBASE_MAX`]. A rebase visits every client.
    pub rebase_at: u64,
    /// Converts amounts of several resources into one charge.
    pub pricing: Pricing,
    /// Rate limits, by name of the model or provider. A model may have none, to be parked.
    pub models: BTreeMap<String, ModelLimits>,
    /// Warp of each latency class.
    pub warp: Warp,
    /// Maximum number of clients, at most [`PLACES_MAX`].
    pub clients_max: u32,
    /// Maximum number of agents of all clients, at most [`PLACES_MAX`].
    pub agents_max: u32,
    /// Maximum number of queued and running jobs, at most [`PLACES_MAX`].
    pub jobs_max: u32,
}

/// A token bucket: `rate` tokens in `period_s` seconds, never more than `burst`.
///
/// In any time of `t` seconds it gives at most `burst + t * rate / period_s` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketConfig {
    /// Tokens in a period, at most [`BUCKET_MAX`].
    pub rate: u64,
    /// Length of a period in seconds, 1 or more.
    pub period_s: u32,
    /// Capacity in tokens, 1 to [`BUCKET_MAX`].
    pub burst: u64,
}

impl BucketConfig {
    /// A bucket that gains `rate` tokens a second.
    pub const fn per_second(rate: u64, burst: u64) -> Self {
        Self { rate, period_s: 1, burst }
    }

    /// A bucket that gains `rate` tokens a minute and holds those of one minute, as the buckets of model providers do.
    pub const fn per_minute(rate: u64) -> Self {
        Self { rate, period_s: 60, burst: rate }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.rate <= BUCKET_MAX && self.period_s >= 1 && (1..=BUCKET_MAX).contains(&self.burst)
    }
}

/// The rate limits of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelLimits {
    /// Bucket of the tokens of all jobs of the model; `None`: no limit.
    pub tokens: Option<BucketConfig>,
    /// Bucket of the dispatches of jobs of the model, one each; `None`: no limit.
    pub requests: Option<BucketConfig>,
}

impl From<BucketConfig> for ModelLimits {
    /// A limit on tokens alone.
    fn from(tokens: BucketConfig) -> Self {
        Self { tokens: Some(tokens), requests: None }
    }
}

/// Head start of each latency class in virtual time, at most [`WARP_MAX`] (Duda and Cheriton, *Borrowed-virtual-time scheduling*, 1999).
///
/// Warp lowers the key of a client. A client with a greater warp starts sooner after waking; its long-run share is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Warp {
    /// For clients with a waiting user.
    pub interactive: u64,
    /// The default class.
    pub normal: u64,
    /// For clients without a waiting user.
    pub batch: u64,
}

impl Default for Config {
    /// One slot, 10 % for the marketplace, ±25 % of weight by reputation, no resources, no buckets.
    fn default() -> Self {
        Self {
            slots: 1,
            guarantee_pm: 100,
            scale: SCALE_MAX,
            cost_max: COST_MAX,
            beta_pm: 250,
            reputation_pm_max: 250,
            rebase_at: REBASE_MAX,
            pricing: Pricing { capacities: BTreeMap::new(), unit: 1_000_000 },
            models: BTreeMap::new(),
            warp: Warp::default(),
            clients_max: 1 << 20,
            agents_max: 1 << 22,
            jobs_max: 1 << 26,
        }
    }
}

impl Config {
    /// Default settings with `slots` slots, 1 to [`SLOTS_MAX`], and the greatest `cost_max` that [`PRODUCT_MAX`] permits.
    pub fn with_slots(slots: u32) -> Config {
        let most = PRODUCT_MAX / (Config::default().scale * (u64::from(slots) + 1));
        Config { slots, cost_max: most.min(COST_MAX), ..Config::default() }
    }

    /// Checks every range, buckets last, and returns the first violation.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let ranges: [(&'static str, u64, u64, u64); 14] = [
            ("slots", self.slots.into(), 1, SLOTS_MAX.into()),
            ("guarantee_pm", self.guarantee_pm.into(), 0, GUARANTEE_PM_MAX.into()),
            ("scale", self.scale, 1, SCALE_MAX),
            ("unit", self.pricing.unit, 1, UNIT_MAX),
            ("cost_max", self.cost_max, 1, COST_MAX),
            ("beta_pm", self.beta_pm.into(), 0, BETA_PM_MAX.into()),
            ("reputation_pm_max", self.reputation_pm_max.into(), 0, REPUTATION_PM_MAX.into()),
            ("rebase_at", self.rebase_at, 0, REBASE_MAX),
            ("warp.interactive", self.warp.interactive, 0, WARP_MAX),
            ("warp.normal", self.warp.normal, 0, WARP_MAX),
            ("warp.batch", self.warp.batch, 0, WARP_MAX),
            ("clients_max", self.clients_max.into(), 1, PLACES_MAX.into()),
            ("agents_max", self.agents_max.into(), 1, PLACES_MAX.into()),
            ("jobs_max", self.jobs_max.into(), 1, PLACES_MAX.into()),
        ];
        for (field, found, min, max) in ranges {
            if !(min..=max).contains(&found) {
                return Err(ConfigError::OutOfRange { field, found, min, max });
            }
        }
        for (resource, found) in &self.pricing.capacities {
            if !(1..=CAPACITY_MAX).contains(found) {
                return Err(ConfigError::Capacity { resource: resource.clone(), found: *found });
            }
        }
        let product = u128::from(self.scale) * u128::from(self.cost_max) * (u128::from(self.slots) + 1);
        if product > u128::from(PRODUCT_MAX) {
            return Err(ConfigError::Product { product });
        }
        let buckets = self.models.iter().flat_map(|(model, limits)| {
            [limits.tokens, limits.requests].into_iter().flatten().map(move |bucket| (model, bucket))
        });
        for (model, bucket) in buckets {
            if !bucket.is_valid() {
                return Err(ConfigError::Bucket {
                    model: model.clone(),
                    rate: bucket.rate,
                    burst: bucket.burst,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Config), expected: &str) {
        let mut config = Config::default();
        change(&mut config);
        let found = config.validate().map_or_else(|error| error.to_string(), |()| "accepted".into());
        assert_eq!(found, expected);
    }

    #[test]
    fn every_setting_has_a_range() {
        check(|_| {}, "accepted");
        check(|c| c.slots = 0, "slots is 0, expected 1 to 1000000");
        check(|c| c.guarantee_pm = 1001, "guarantee_pm is 1001, expected 0 to 1000");
        check(|c| c.scale = 65537, "scale is 65537, expected 1 to 65536");
        check(|c| c.pricing.unit = 0, "unit is 0, expected 1 to 1073741824");
        check(|c| c.cost_max = (1 << 32) + 1, "cost_max is 4294967297, expected 1 to 4294967296");
        check(|c| c.reputation_pm_max = 901, "reputation_pm_max is 901, expected 0 to 900");
        check(|c| c.warp.batch = u64::MAX, "warp.batch is 18446744073709551615, expected 0 to 4294967296");
        check(|c| c.jobs_max = 0, "jobs_max is 0, expected 1 to 2147483648");
        check(
            |c| c.pricing.capacities = [("gpu".into(), 0)].into(),
            "capacity of resource gpu is 0, expected 1 to 9007199254740992",
        );
        check(
            |c| c.slots = 4096,
            "scale * cost_max * (slots + 1) is 1153202979583557632, expected at most 1152921504606846976",
        );
        check(|c| c.slots = 4095, "accepted");
        for slots in [1, 4095, 4096, SLOTS_MAX] {
            check(|c| *c = Config::with_slots(slots), "accepted");
        }
        assert_eq!(Config::with_slots(4095), Config { slots: 4095, ..Config::default() });
        check(
            |c| c.models = [("m".into(), BucketConfig::per_second(0, 0).into())].into(),
            "bucket of model m has rate 0 and burst 0, expected at most 4294967296 each and a burst of 1 or more",
        );
    }
}
