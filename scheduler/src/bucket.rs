//! Token buckets of models and providers: rate limits on the tokens of dispatched jobs.
//!
//! A bucket gains `rate` tokens a second up to `burst`. The first job of an agent is admitted while the level covers its estimated
//! tokens, or the bucket is full; dispatch takes the tokens, and settlement the difference to the true count. Each bucket indexes
//! the waiting agents by the level they need, so a change of level visits only the agents between the old and the new level.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::BucketConfig;
use crate::job::{Attributes, ModelHandle};

/// Levels are in thousandths of a token: a rate in tokens per second adds `rate` of them per millisecond.
const THOUSANDTHS: i64 = 1000;

/// Level of a bucket that the first job of an agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenDemand {
    model: ModelHandle,
    level: i64,
}

struct Bucket {
    rate: i64,
    full: i64,
    level: i64,
    /// Agents with a first job for this model, by needed level.
    waiting: BTreeSet<(i64, u32)>,
}

/// All buckets, in order of model name.
pub(crate) struct Buckets {
    names: BTreeMap<String, ModelHandle>,
    buckets: Vec<Bucket>,
}

impl Buckets {
    pub(crate) fn new(models: &BTreeMap<String, BucketConfig>) -> Self {
        let full = |bucket: &BucketConfig| bucket.burst as i64 * THOUSANDTHS;
        Self {
            names: models.keys().zip(0..).map(|(name, index)| (name.clone(), ModelHandle(index))).collect(),
            buckets: models
                .values()
                .map(|bucket| Bucket {
                    rate: bucket.rate as i64,
                    full: full(bucket),
                    level: full(bucket),
                    waiting: BTreeSet::new(),
                })
                .collect(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub(crate) fn find(&self, name: &str) -> Option<ModelHandle> {
        self.names.get(name).copied()
    }

    pub(crate) fn has(&self, model: ModelHandle) -> bool {
        (model.0 as usize) < self.buckets.len()
    }

    /// The demand of a job: its tokens, capped at a full bucket. `None` for a job without a model.
    pub(crate) fn demand(&self, attributes: &Attributes) -> Option<TokenDemand> {
        let model = attributes.model?;
        let full = self.buckets[model.0 as usize].full;
        Some(TokenDemand { model, level: (attributes.price.tokens as i64 * THOUSANDTHS).min(full) })
    }

    pub(crate) fn admits(&self, demand: TokenDemand) -> bool {
        self.buckets[demand.model.0 as usize].level >= demand.level
    }

    /// Replaces the demand under which `agent` is indexed.
    pub(crate) fn move_waiting(&mut self, agent: u32, from: Option<TokenDemand>, to: Option<TokenDemand>) {
        if let Some(demand) = from {
            self.buckets[demand.model.0 as usize].waiting.remove(&(demand.level, agent));
        }
        if let Some(demand) = to {
            self.buckets[demand.model.0 as usize].waiting.insert((demand.level, agent));
        }
    }

    /// Removes tokens from a bucket, or returns them if `tokens` is negative. Appends agents with changed admission to `changed`.
    pub(crate) fn take(&mut self, model: ModelHandle, tokens: i64, changed: &mut Vec<u32>) {
        self.buckets[model.0 as usize].change(-tokens * THOUSANDTHS, changed);
    }

    /// Fills every bucket for `ms` milliseconds. Appends newly admitted agents to `changed`.
    pub(crate) fn advance(&mut self, ms: u64, changed: &mut Vec<u32>) {
        for bucket in &mut self.buckets {
            bucket.change(bucket.rate.saturating_mul(i64::try_from(ms).unwrap_or(i64::MAX)), changed);
        }
    }
}

impl Bucket {
    fn change(&mut self, by: i64, changed: &mut Vec<u32>) {
        let old = self.level;
        self.level = old.saturating_add(by).min(self.full);
        let (low, high) = (old.min(self.level), old.max(self.level));
        if low < high {
            changed.extend(self.waiting.range((low + 1, 0)..=(high, u32::MAX)).map(|&(_, agent)| agent));
        }
    }
}
