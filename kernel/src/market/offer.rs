//! An agent's standing offer on the market.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::job::check_names;
use crate::agent::{CAPABILITIES_MAX, Profile};
use crate::client_terms::CREDITS_MAX;
use crate::evaluation::{Standard, Target};
use crate::id::{NAME_RULE, is_name};

/// Maximum price of a job, in credits.
pub const PRICE_MAX: u64 = CREDITS_MAX as u64;

/// Capabilities and price of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Capabilities by name, such as `contracts`.
    pub capabilities: BTreeSet<String>,
    /// Evaluation domain of the agent's runs; `None` for the default.
    pub domain: Option<String>,
    /// Price of a job in credits; `None` bids each job's budget.
    pub price: Option<u64>,
    /// Total duration of a job's attempts, run one after the other; `None` if undeclared.
    pub time_ms: Option<u64>,
}

impl Offer {
    /// The offer that a profile implies, until the agent makes an explicit one. `None` if the profile declares neither a price
    /// nor capabilities.
    pub fn of(profile: &Profile) -> Option<Offer> {
        let Profile { capabilities, domain, price, .. } = profile;
        (price.is_some() || !capabilities.is_empty()).then(|| Offer {
            capabilities: capabilities.iter().cloned().collect(),
            domain: domain.clone(),
            price: *price,
            time_ms: None,
        })
    }
}

/// A fault of an offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferFault {
    /// A capability is not a valid name.
    #[error("capability {0:?} is not {NAME_RULE}")]
    Capability(String),
    /// More than [`CAPABILITIES_MAX`] capabilities.
    #[error("it names {0} capabilities, CAPABILITIES_MAX allows {CAPABILITIES_MAX}")]
    TooMany(usize),
    /// The domain is not a valid name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Domain(String),
    /// The price exceeds [`PRICE_MAX`].
    #[error("a price of {0} credits is over the limit PRICE_MAX of {PRICE_MAX}")]
    Price(u64),
}

/// All faults of an offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct OfferError(pub Vec<OfferFault>);

impl Offer {
    /// Validates the offer.
    ///  
    /// # Errors
    ///  
    /// All faults.
    pub fn check(&self) -> Result<(), OfferError> {
        let (bad, many) = check_names(&self.capabilities);
        let mut faults: Vec<OfferFault> = bad.into_iter().map(OfferFault::Capability).collect();
        faults.extend(many.map(OfferFault::TooMany));
        faults.extend(self.domain.iter().filter(|it| !is_name(it)).cloned().map(OfferFault::Domain));
        faults.extend(self.price.filter(|price| *price > PRICE_MAX).map(OfferFault::Price));
        if faults.is_empty() { Ok(()) } else { Err(OfferError(faults)) }
    }

    /// Evaluation standard for the agent's runs outside the market. The price of market jobs is not a cost target for such runs.
    pub fn standard(&self) -> Standard {
        Standard { domain: self.domain.clone(), target: Target { time_ms: self.time_ms, credits: None } }
    }
}
