//! Changes of a client's terms and credits.

use ostler_kernel::client_terms::{ClientTerms, DepositError};
use ostler_kernel::event::Event;
use ostler_kernel::id::{ClientId, NAME_RULE, RunId};
use ostler_kernel::ledger::Amounts;
use ostler_kernel::port::JournalError;
use ostler_scheduler::WEIGHT_MAX;

/// A change of a client; absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientChange {
    /// New weight among the clients of the tier.
    pub weight: Option<Weight>,
    /// New tier: contracted or marketplace.
    pub contracted: Option<bool>,
    /// Credits to deposit, or to withdraw if negative; never 0. The first deposit makes the client metered: from then
    /// on only credits pay for dispatches.
    pub credits: Option<i64>,
    /// Tokens for calls of models to deposit, or to withdraw if negative. From the first deposit on the balance bounds them.
    pub tokens: Option<i64>,
    /// Billionths of a US dollar for calls of models, likewise.
    pub nano_usd: Option<i64>,
}

/// The weight of a client among the ones of its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// A fixed weight, 1 to 1,000,000.
    Chosen(u32),
    /// The weight that deposits of the last thirty days are worth.
    OfCredits,
}

/// The reason why a client was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The name is malformed.
    #[error("client name {0:?} is not {NAME_RULE}")]
    Name(String),
    /// The system has the maximal number of clients.
    #[error("there are {0} clients, which is as many as can be: name one of them")]
    TooMany(usize),
    /// The weight is out of range.
    #[error("weight {0} is not within 1 and {WEIGHT_MAX}")]
    Weight(u32),
    /// The configuration sets the terms of the client.
    #[error("the terms of client {0} are stated in ostler.toml: change them there, under [clients.{0}]")]
    Configured(ClientId),
    /// The change of credits is impossible.
    #[error("client {client}: {error}")]
    Credits {
        /// The client.
        client: ClientId,
        /// The reason.
        error: DepositError,
    },
    /// Nothing is known of the client.
    #[error("nothing is known of a client {0}: `ostler client add {0}` adds it")]
    Unknown(ClientId),
    /// The client has no terms and no credits, so there is nothing to remove.
    #[error("client {0} has no terms and no credits of its own: there is nothing to remove")]
    NoAccount(ClientId),
    /// An open run uses the account.
    #[error(
        "run {run} of client {client} is open and uses its terms: remove the client when the run has ended; `ostler cancel {run}` ends \
         it"
    )]
    HasRun {
        /// The client.
        client: ClientId,
        /// An open run of the client.
        run: RunId,
    },
    /// An open job of the market uses the account.
    #[error(
        "job {job} of the market is paid by client {client}: remove the client when the job has ended; `ostler market ls` shows it"
    )]
    HasJob {
        /// The client.
        client: ClientId,
        /// An open job of the client.
        job: RunId,
    },
    /// Attempts of closed runs still run, and their cost is not known yet.
    #[error("attempts of client {0} are still running: try again when they have ended")]
    HasAttempts(ClientId),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}

impl ClientChange {
    /// True if the change sets terms, not only credits.
    pub(crate) fn sets_terms(&self) -> bool {
        self.weight.is_some() || self.contracted.is_some()
    }

    /// Tokens and billionths of a US dollar that the change deposits; `None` without any.
    pub(crate) fn balance(&self) -> Option<(i64, i64)> {
        let is_none = self.tokens.is_none() && self.nano_usd.is_none();
        (!is_none).then(|| (self.tokens.unwrap_or(0), self.nano_usd.unwrap_or(0)))
    }

    /// The records of the change, for a client with the terms.
    /// `spent` and `used`: what its attempts cost and its calls used so far.
    pub(crate) fn events(
        &self,
        client: &ClientId,
        terms: &ClientTerms,
        spent: u64,
        used: Amounts,
    ) -> Vec<Event> {
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
        let balance = self.balance().map(|(tokens, nano_usd)| Event::BalanceDeposited {
            client: client(),
            tokens,
            nano_usd,
            used,
        });
        served.into_iter().chain(deposited).chain(balance).collect()
    }
}
