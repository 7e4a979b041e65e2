//! Rate limits of models and clients by configuration, and the share of them that a call uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::id::ClientId;
use ostler_kernel::plan::model_of_tool;
use ostler_scheduler::{BucketConfig, ModelLimits, Pricing, TOKENS, UNIT_MAX};

use crate::state::toolbox::Toolbox;

/// Milliseconds in which a limit per minute is filled.
const MINUTE_MS: u64 = 60_000;

/// Rate limits of a model; `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelRates {
    /// Requests in a minute, at least 1.
    pub requests_per_minute: Option<u32>,
    /// Tokens in a minute, prompts and answers together, at least 1.
    pub tokens_per_minute: Option<u32>,
}

/// The limits of all models that plans may call, and of clients.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    models: BTreeMap<Arc<str>, ModelRates>,
    clients: BTreeMap<ClientId, u32>,
    slots: u32,
}

impl Rates {
    /// The limits of a system with `slots` slots. Models without a limit are known too, because a provider may ask to wait.
    pub(crate) fn new(
        toolbox: &Toolbox,
        configured: &BTreeMap<String, ModelRates>,
        clients: impl IntoIterator<Item = (ClientId, u32)>,
        slots: u32,
    ) -> Rates {
        let names = toolbox.iter().filter_map(|tool| model_of_tool(&tool.spec().name));
        let models = names.map(|name| (Arc::from(name), configured.get(name).copied().unwrap_or_default()));
        Rates { models: models.collect(), clients: clients.into_iter().collect(), slots }
    }

    /// The shared name of a model that calls wait for.
    pub(crate) fn model(&self, name: &str) -> Option<&Arc<str>> {
        self.models.get_key_value(name).map(|(name, _)| name)
    }

    /// The limits for the run queue.
    pub(crate) fn limits(&self) -> BTreeMap<String, ModelLimits> {
        let bucket = |rate: Option<u32>| rate.map(|rate| BucketConfig::per_minute(rate.max(1).into()));
        let limits = |rates: &ModelRates| ModelLimits {
            tokens: bucket(rates.tokens_per_minute),
            requests: bucket(rates.requests_per_minute),
        };
        self.models.iter().map(|(name, rates)| (name.to_string(), limits(rates))).collect()
    }

    /// The limit on a client's tokens.
    pub(crate) fn client(&self, client: &ClientId) -> Option<BucketConfig> {
        self.clients.get(client).map(|rate| BucketConfig::per_minute((*rate).max(1).into()))
    }

    /// The charge of `tokens` of a model: their share of the model's tokens in a minute, as so much slot time of a minute. By dominant
    /// resource fairness the charge of a call is the larger one of this and its slot time. 0 for a model without a limit on tokens.
    pub(crate) fn charge(&self, model: &str, tokens: u64) -> u64 {
        let limit = self.models.get(model).and_then(|rates| rates.tokens_per_minute);
        let Some(limit) = limit else { return 0 };
        let unit = (u64::from(self.slots) * MINUTE_MS).min(UNIT_MAX);
        let pricing = Pricing { capacities: [(TOKENS.to_owned(), limit.max(1).into())].into(), unit };
        pricing.price([(TOKENS, tokens)]).map_or(unit, |price| price.charge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_charged_by_their_share_where_they_are_limited() {
        let rates = ModelRates { tokens_per_minute: Some(6_000), ..ModelRates::default() };
        let models = [("small".into(), rates), ("free".into(), ModelRates::default())].into();
        let rates = Rates { models, clients: BTreeMap::new(), slots: 4 };
        // A tenth of the tokens of a minute weighs as much as a tenth of the slot time of a minute.
        assert_eq!(rates.charge("small", 600), 4 * 6_000);
        assert_eq!(rates.charge("small", 1), 40);
        assert_eq!(rates.charge("small", 0), 0);
        assert_eq!(rates.charge("free", 600), 0);
        assert_eq!(rates.charge("other", 600), 0);
    }
}
