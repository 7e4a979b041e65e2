//! What an operator sets once, and the ranges it is held to.

use std::collections::BTreeMap;

use crate::cost::{AMOUNT_MAX, Pricing};
use crate::error::ConfigError;

/// Most jobs that may run at once.
pub const SLOTS_MAX: u32 = 1_000_000;
/// Largest virtual time of one unit of charge at weight 1.
pub const SCALE_MAX: u64 = 1 << 16;
/// Largest charge for all of one resource.
pub const UNIT_MAX: u64 = 1 << 30;
/// Largest `cost_max`.
pub const COST_MAX: u64 = 1 << 32;
/// Largest capacity of one resource.
pub const CAPACITY_MAX: u64 = 1 << 53;
/// Largest head start of a latency class.
pub const WARP_MAX: u64 = 1 << 32;
/// Largest rate (tokens per second) and burst (tokens) of a bucket.
pub const BUCKET_MAX: u64 = 1 << 32;
/// Largest `rebase_at`.
pub const REBASE_MAX: u64 = 1 << 60;
/// `scale * cost_max * (slots + 1)` may not exceed this: it is how far virtual times can drift apart.
pub const PRODUCT_MAX: u64 = 1 << 60;
/// Largest weight of a client or an agent.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// Largest balance that a client can be given, in credits.
pub const BALANCE_MAX: i64 = 1 << 53;
/// Weight of an agent for which nobody chose one.
pub const AGENT_WEIGHT: u32 = 100;
/// Most clients, agents or queued jobs that a queue can be configured to hold.
pub const PLACES_MAX: u32 = 1 << 31;

/// Furthest a balance can get beyond its range: every slot's job wrong by the most a cost may name, in credits.
pub(crate) const AMOUNT_DEBT_MAX: i64 = SLOTS_MAX as i64 * AMOUNT_MAX as i64;

const GUARANTEE_PM_MAX: u16 = 1000;
const BETA_PM_MAX: u16 = 1000;
const REPUTATION_PM_MAX: u16 = 900;

/// The settings of a run queue; they stay for its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Jobs that may run at once, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// The marketplace's guaranteed share of the charge, per mille.
    pub guarantee_pm: u16,
    /// Virtual time of one unit of charge at weight 1, 1 to [`SCALE_MAX`].
    pub scale: u64,
    /// Largest charge of one job, 1 to [`COST_MAX`].
    pub cost_max: u64,
    /// How strongly reputation bends the weight, per mille at full reputation.
    pub beta_pm: u16,
    /// The most reputation changes the weight, per mille (at most 900).
    pub reputation_pm_max: u16,
    /// A queue's virtual time above this is taken off everyone in it. Small values cost a pass over all clients each time.
    pub rebase_at: u64,
    /// How amounts of several resources become one charge.
    pub pricing: Pricing,
    /// Token buckets, by model or provider.
    pub models: BTreeMap<String, BucketConfig>,
    /// Head start of each latency class.
    pub warp: Warp,
    /// Most clients, at most [`PLACES_MAX`].
    pub clients_max: u32,
    /// Most agents of all clients together, at most [`PLACES_MAX`].
    pub agents_max: u32,
    /// Most jobs queued and running together, at most [`PLACES_MAX`].
    pub jobs_max: u32,
}

/// A token bucket: `rate` tokens a second, never more than `burst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketConfig {
    /// Tokens a second, at most [`BUCKET_MAX`].
    pub rate: u64,
    /// Most tokens it contains, 1 to [`BUCKET_MAX`].
    pub burst: u64,
}

/// Head start of each latency class, in virtual time, at most [`WARP_MAX`]: the same service, sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Warp {
    /// For clients somebody is waiting for.
    pub interactive: u64,
    /// For everyone else.
    pub normal: u64,
    /// For clients nobody is waiting for.
    pub batch: u64,
}

impl Default for Config {
    /// One slot, a tenth for the marketplace, reputation worth a quarter of the weight, no resources, no buckets.
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
    /// The settings for so many slots, 1 to 1,000,000: a job may cost as much as can be counted for all of them at once.
    pub fn with_slots(slots: u32) -> Config {
        let most = PRODUCT_MAX / (Config::default().scale * (u64::from(slots) + 1));
        Config { slots, cost_max: most.min(COST_MAX), ..Config::default() }
    }

    /// Checks every range; buckets come last.
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
        for (model, bucket) in &self.models {
            if bucket.rate > BUCKET_MAX || !(1..=BUCKET_MAX).contains(&bucket.burst) {
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
            |c| c.models = [("m".into(), BucketConfig { rate: 0, burst: 0 })].into(),
            "bucket of model m has rate 0 and burst 0, expected at most 4294967296 each and a burst of 1 or more",
        );
    }
}
