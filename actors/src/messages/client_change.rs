//! Changes of the terms of clients.

use ostler_kernel::client_terms::{ClientTerms, DepositError};
use ostler_kernel::event::Event;
use ostler_kernel::id::{ClientId, NAME_RULE};
use ostler_kernel::port::JournalError;
use ostler_scheduler::WEIGHT_MAX;

/// What is to change about a client. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientChange {
    /// Its entitlement among the clients of its tier from here on.
    pub weight: Option<Weight>,
    /// Whether it is served in the contracted tier from here on.
    pub contracted: Option<bool>,
    /// Credits that are deposited for it, or taken back if below zero; never 0. With the first deposit it is metered:
    /// nothing of it is dispatched that its credits do not pay for.
    pub credits: Option<i64>,
}

/// The entitlement of a client among those of its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// This one, 1 to 1,000,000.
    Chosen(u32),
    /// What the credits of the last thirty days are worth.
    OfCredits,
}

/// Why a client was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The name is no name.
    #[error("client name {0:?} is not {NAME_RULE}")]
    Name(String),
    /// There are as many clients as can be.
    #[error("there are {0} clients, which is as many as can be: name one of them")]
    TooMany(usize),
    /// The weight is out of range.
    #[error("weight {0} is not within 1 and {WEIGHT_MAX}")]
    Weight(u32),
    /// The configuration states its terms.
    #[error("the terms of client {0} are stated in ostler.toml: change them there, under [clients.{0}]")]
    Configured(ClientId),
    /// The credits do not add up.
    #[error("client {client}: {error}")]
    Credits {
        /// Which client.
        client: ClientId,
        /// Why not.
        error: DepositError,
    },
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}

impl ClientChange {
    /// Whether it says on what terms the client is served.
    pub(crate) fn sets_terms(&self) -> bool {
        self.weight.is_some() || self.contracted.is_some()
    }

    /// What is written down of it, for a client on these terms. What it leaves out stays.
    pub(crate) fn events(&self, client: &ClientId, terms: &ClientTerms, spent: u64) -> Vec<Event> {
        let client = || client.clone();
        let served = self.sets_terms().then(|| Event::ClientSet {
            client: client(),
            weight: match self.weight {
                Some(Weight::Chosen(weight)) => weight,
                Some(Weight::OfCredits) => 0,
                None => terms.chosen_weight().unwrap_or(0),
            },
            contracted: self.contracted.unwrap_or(terms.is_contracted()),
        });
        let deposited =
            self.credits.map(|credits| Event::CreditDeposited { client: client(), credits, spent });
        served.into_iter().chain(deposited).collect()
    }
}
