//! Token buckets: rate limits of models, and of clients on the tokens of all models.
//!
//! A bucket gains its rate up to its burst. A model may have a bucket of tokens and one of requests, and a client one of tokens. The
//! first job of an agent is admitted while every bucket of its model and of its client covers it, or is full; dispatch takes from all
//! of them, and settlement the difference to the true count of tokens. A *parked* model admits nothing until its time is over. Each
//! bucket indexes the waiting agents by the level they need, so a change of level visits only the agents between the old and the
//! new level.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{BucketConfig, ModelLimits};
use crate::job::{Attributes, ModelHandle};

/// Levels are in thousandths of a token: a rate in tokens per second adds `rate` of them per millisecond.
const THOUSANDTHS: i64 = 1000;

/// Longest time that a model is parked, in milliseconds: a year.
pub const PARK_MS_MAX: u64 = 365 * 24 * 3_600 * 1_000;

/// A bucket among all buckets of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketHandle(u32);

/// What the first job of an agent takes from the buckets of its model and of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenDemand {
    model: ModelHandle,
    client: Option<BucketHandle>,
    tokens: i64,
}

/// A job's buckets, and the amounts to take; negative amounts are returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taking {
    pub(crate) model: ModelHandle,
    pub(crate) client: Option<BucketHandle>,
    pub(crate) tokens: i64,
    pub(crate) requests: i64,
}

struct Bucket {
    /// Tokens per `period_s` seconds.
    rate: i64,
    period_s: i64,
    full: i64,
    level: i64,
    /// Thousandths gained so far beyond `level`, in parts of `1 / period_s`.
    remainder: i64,
    /// Agents with a first job for this bucket, by needed level.
    waiting: BTreeSet<(i64, u32)>,
}

#[derive(Default)]
struct Model {
    tokens: Option<BucketHandle>,
    requests: Option<BucketHandle>,
    parked_ms: u64,
    /// Agents with a first job for this model.
    waiting: BTreeSet<u32>,
}

/// Levels of the buckets of models, and their parking, to carry over to another queue of the same configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketLevels {
    /// Of both buckets, and milliseconds of parking, in order of model name.
    models: Vec<([Option<Level>; 2], u64)>,
}

/// Level and remainder of a bucket.
type Level = (i64, i64);

/// All models with limits, in order of name, and all buckets.
#[derive(Default)]
pub(crate) struct Buckets {
    names: BTreeMap<String, ModelHandle>,
    models: Vec<Model>,
    buckets: Vec<Bucket>,
    /// Buckets of removed clients.
    free: Vec<BucketHandle>,
}

impl Buckets {
    pub(crate) fn new(models: &BTreeMap<String, ModelLimits>) -> Self {
        let mut all = Self::default();
        for (name, limits) in models {
            let tokens = limits.tokens.map(|bucket| all.add(&bucket));
            let requests = limits.requests.map(|bucket| all.add(&bucket));
            all.names.insert(name.clone(), ModelHandle(all.models.len() as u32));
            all.models.push(Model { tokens, requests, ..Model::default() });
        }
        all
    }

    /// Adds a full bucket.
    pub(crate) fn add(&mut self, config: &BucketConfig) -> BucketHandle {
        let bucket = Bucket::new(config);
        if let Some(handle) = self.free.pop() {
            self.buckets[handle.0 as usize] = bucket;
            return handle;
        }
        self.buckets.push(bucket);
        BucketHandle(self.buckets.len() as u32 - 1)
    }

    /// Frees the bucket of a client without agents.
    pub(crate) fn remove(&mut self, bucket: BucketHandle) {
        self.free.push(bucket);
    }

    /// True without models: no job has a demand.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    pub(crate) fn find(&self, name: &str) -> Option<ModelHandle> {
        self.names.get(name).copied()
    }

    pub(crate) fn has(&self, model: ModelHandle) -> bool {
        (model.0 as usize) < self.models.len()
    }

    /// The demand of a job of a client with this bucket; `None` for a job without a model.
    pub(crate) fn demand(
        &self,
        attributes: &Attributes,
        client: Option<BucketHandle>,
    ) -> Option<TokenDemand> {
        Some(TokenDemand { model: attributes.model?, client, tokens: attributes.price.tokens as i64 })
    }

    /// The levels that a demand needs, each capped at a full bucket.
    fn needs(&self, demand: TokenDemand) -> impl Iterator<Item = (BucketHandle, i64)> + use<> {
        let model = &self.models[demand.model.0 as usize];
        let of = [(model.tokens, demand.tokens), (model.requests, 1), (demand.client, demand.tokens)];
        let level = |bucket: BucketHandle, amount: i64| {
            amount.saturating_mul(THOUSANDTHS).min(self.buckets[bucket.0 as usize].full)
        };
        of.map(|(bucket, amount)| bucket.map(|bucket| (bucket, level(bucket, amount)))).into_iter().flatten()
    }

    pub(crate) fn admits(&self, demand: TokenDemand) -> bool {
        self.models[demand.model.0 as usize].parked_ms == 0
            && self.needs(demand).all(|(bucket, level)| self.buckets[bucket.0 as usize].level >= level)
    }

    /// True if a demand is admitted, and no agent waits for more than one of its buckets holds.
    pub(crate) fn has_room(&self, demand: TokenDemand) -> bool {
        let none_waits = |(bucket, _): (BucketHandle, i64)| {
            let bucket = &self.buckets[bucket.0 as usize];
            bucket.waiting.range((bucket.level.saturating_add(1), 0)..).next().is_none()
        };
        self.admits(demand) && self.needs(demand).all(none_waits)
    }

    /// The demand of a call that no job makes.
    pub(crate) fn demand_of(
        &self,
        model: ModelHandle,
        client: Option<BucketHandle>,
        tokens: u64,
    ) -> TokenDemand {
        TokenDemand { model, client, tokens: i64::try_from(tokens).unwrap_or(i64::MAX / THOUSANDTHS) }
    }

    /// Milliseconds until a demand is admitted if nothing else is taken; `None`: never, as a rate is 0.
    pub(crate) fn wait_ms(&self, demand: TokenDemand) -> Option<u64> {
        let parked_ms = self.models[demand.model.0 as usize].parked_ms;
        self.needs(demand).try_fold(parked_ms, |longest, (bucket, level)| {
            Some(longest.max(self.buckets[bucket.0 as usize].ms_until(level)?))
        })
    }

    /// Replaces the demand under which `agent` is indexed.
    pub(crate) fn move_waiting(&mut self, agent: u32, from: Option<TokenDemand>, to: Option<TokenDemand>) {
        if let Some(demand) = from {
            self.models[demand.model.0 as usize].waiting.remove(&agent);
            for (bucket, level) in self.needs(demand) {
                self.buckets[bucket.0 as usize].waiting.remove(&(level, agent));
            }
        }
        if let Some(demand) = to {
            self.models[demand.model.0 as usize].waiting.insert(agent);
            for (bucket, level) in self.needs(demand) {
                self.buckets[bucket.0 as usize].waiting.insert((level, agent));
            }
        }
    }

    /// Removes amounts from the buckets of a job. Appends agents with changed admission to `changed`.
    pub(crate) fn take(&mut self, taking: Taking, changed: &mut Vec<u32>) {
        let Taking { model, client, tokens, requests } = taking;
        let model = &self.models[model.0 as usize];
        for (bucket, amount) in [(model.tokens, tokens), (model.requests, requests), (client, tokens)] {
            if let Some(bucket) = bucket {
                self.buckets[bucket.0 as usize].change(amount.saturating_mul(-THOUSANDTHS), changed);
            }
        }
    }

    /// Admits no job of a model for `ms` milliseconds, or for longer if it is parked already.
    pub(crate) fn park(&mut self, model: ModelHandle, ms: u64, changed: &mut Vec<u32>) {
        let model = &mut self.models[model.0 as usize];
        let before = model.parked_ms;
        model.parked_ms = before.max(ms.min(PARK_MS_MAX));
        if before == 0 && model.parked_ms > 0 {
            changed.extend(&model.waiting);
        }
    }

    pub(crate) fn parked_ms(&self, model: ModelHandle) -> u64 {
        self.models[model.0 as usize].parked_ms
    }

    /// Lets `ms` milliseconds pass: fills every bucket, and shortens parkings. Appends newly admitted agents to `changed`.
    pub(crate) fn advance(&mut self, ms: u64, changed: &mut Vec<u32>) {
        for bucket in &mut self.buckets {
            bucket.advance(ms, changed);
        }
        for model in self.models.iter_mut().filter(|model| model.parked_ms > 0) {
            model.parked_ms = model.parked_ms.saturating_sub(ms);
            if model.parked_ms == 0 {
                changed.extend(&model.waiting);
            }
        }
    }

    /// Milliseconds until time alone may admit another agent; `None`: never.
    pub(crate) fn next_change_ms(&self) -> Option<u64> {
        let parked = self.models.iter().filter(|model| model.parked_ms > 0 && !model.waiting.is_empty());
        let filling = self.buckets.iter().filter_map(|bucket| {
            let (level, _) = bucket.waiting.range((bucket.level.saturating_add(1), 0)..).next()?;
            bucket.ms_until(*level)
        });
        parked.map(|model| model.parked_ms).chain(filling).min()
    }

    pub(crate) fn levels(&self) -> BucketLevels {
        let level = |bucket: Option<BucketHandle>| {
            let bucket = &self.buckets[bucket?.0 as usize];
            Some((bucket.level, bucket.remainder))
        };
        let of = |model: &Model| ([level(model.tokens), level(model.requests)], model.parked_ms);
        BucketLevels { models: self.models.iter().map(of).collect() }
    }

    /// Takes levels over. Models and buckets that they do not name stay full.
    pub(crate) fn restore(&mut self, levels: &BucketLevels, changed: &mut Vec<u32>) {
        for (model, (kept, parked_ms)) in self.models.iter_mut().zip(&levels.models) {
            for (bucket, kept) in [model.tokens, model.requests].into_iter().zip(kept) {
                if let (Some(bucket), Some((level, remainder))) = (bucket, kept) {
                    let bucket = &mut self.buckets[bucket.0 as usize];
                    bucket.change(level.saturating_sub(bucket.level), changed);
                    bucket.remainder = remainder % bucket.period_s;
                }
            }
            model.parked_ms = (*parked_ms).min(PARK_MS_MAX);
            changed.extend(&model.waiting);
        }
    }
}

impl Bucket {
    fn new(config: &BucketConfig) -> Self {
        let full = config.burst as i64 * THOUSANDTHS;
        let (rate, period_s) = (config.rate as i64, i64::from(config.period_s.max(1)));
        Self { rate, period_s, full, level: full, remainder: 0, waiting: BTreeSet::new() }
    }

    fn advance(&mut self, ms: u64, changed: &mut Vec<u32>) {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        let gained = self.rate.saturating_mul(ms).saturating_add(self.remainder);
        self.remainder = gained % self.period_s;
        self.change(gained / self.period_s, changed);
    }

    /// Milliseconds until the level is reached; `None`: never.
    fn ms_until(&self, level: i64) -> Option<u64> {
        let lacking = i128::from(level) - i128::from(self.level);
        if lacking <= 0 {
            return Some(0);
        }
        let parts = lacking * i128::from(self.period_s) - i128::from(self.remainder);
        // The product is positive: a level that is lacking is at least one whole thousandth above.
        (self.rate > 0)
            .then(|| u64::try_from(parts.unsigned_abs().div_ceil(self.rate as u128)).unwrap_or(u64::MAX))
    }

    fn change(&mut self, by: i64, changed: &mut Vec<u32>) {
        let old = self.level;
        self.level = old.saturating_add(by).min(self.full);
        if self.level == self.full {
            self.remainder = 0;
        }
        let (low, high) = (old.min(self.level), old.max(self.level));
        if low < high {
            changed.extend(self.waiting.range((low + 1, 0)..=(high, u32::MAX)).map(|&(_, agent)| agent));
        }
    }
}
