//! What an agent offers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::job::words;
use crate::agent::{CAPABILITIES_MAX, Profile};
use crate::client_terms::CREDITS_MAX;
use crate::evaluation::{Standard, Target};
use crate::id::{NAME_RULE, is_name};

/// The most that an agent may ask for.
pub const PRICE_MAX: u64 = CREDITS_MAX as u64;

/// What an agent can do, and for how much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// What it can do: names, such as `contracts`.
    pub capabilities: BTreeSet<String>,
    /// What its work is about: whose weights its runs are judged by; `None`: the default.
    pub domain: Option<String>,
    /// Credits that it asks for a job; `None`: whatever the budget of the job is.
    pub price: Option<u64>,
    /// How long its attempts take for a job, one after the other; `None`: it does not say.
    pub time_ms: Option<u64>,
}

impl Offer {
    /// What an agent offers that says so in its profile: until it offers something else.
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

/// What is wrong with an offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferFault {
    /// A capability is no name.
    #[error("capability {0:?} is not {NAME_RULE}")]
    Capability(String),
    /// There are too many.
    #[error("it names {0} capabilities, CAPABILITIES_MAX allows {CAPABILITIES_MAX}")]
    TooMany(usize),
    /// The domain is no name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Domain(String),
    /// It asks for too much.
    #[error("a price of {0} credits is over the limit PRICE_MAX of {PRICE_MAX}")]
    Price(u64),
}

/// Everything that is wrong with an offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct OfferError(pub Vec<OfferFault>);

impl Offer {
    /// Whether it can be made.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn check(&self) -> Result<(), OfferError> {
        let (bad, many) = words(&self.capabilities);
        let mut faults: Vec<OfferFault> = bad.into_iter().map(OfferFault::Capability).collect();
        faults.extend(many.map(OfferFault::TooMany));
        faults.extend(self.domain.iter().filter(|it| !is_name(it)).cloned().map(OfferFault::Domain));
        faults.extend(self.price.filter(|price| *price > PRICE_MAX).map(OfferFault::Price));
        if faults.is_empty() { Ok(()) } else { Err(OfferError(faults)) }
    }

    /// By what the runs of the agent are judged that are not for a contract: what it asks for a job of the market is no
    /// target for them.
    pub fn standard(&self) -> Standard {
        Standard { domain: self.domain.clone(), target: Target { time_ms: self.time_ms, credits: None } }
    }
}
