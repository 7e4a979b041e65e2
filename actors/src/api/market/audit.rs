//! Whether the credits of clients add up, by their records: folded from the first one on, and held against what is told of them.

use std::collections::BTreeMap;

use ostler_kernel::event::Event;
use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::ledger::{ClientCredits, CreditError, Reservations};
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::{Journal, JournalError, Position, RunRowStatus, StreamId};

use crate::api::system::System;
use crate::run::services::RunServices;
use crate::storage::run_reader;

/// The credits of a metered client, as its records tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAudit {
    /// Which.
    pub client: ClientId,
    /// What its records come to.
    pub credits: ClientCredits,
    /// What does not add up.
    pub violations: Vec<Violation>,
}

/// Something about credits that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Balance, reserved and spent are not what was deposited.
    #[error(
        "what is free ({balance}), reserved ({reserved}) and spent ({spent}) is not what was deposited ({deposited})"
    )]
    Sum {
        /// What is free.
        balance: i64,
        /// What is reserved.
        reserved: u64,
        /// What was spent.
        spent: u64,
        /// What was deposited.
        deposited: i64,
    },
    /// A contract reserved what was not there, or twice.
    #[error("the contract of job {job}: {error}")]
    Contract {
        /// Which job.
        job: RunId,
        /// What was wrong with it.
        error: CreditError,
    },
    /// A job that is over holds credits, or one that is not has none.
    #[error("job {job} closed without the {reserved} credits that were reserved for it: {error}")]
    Refund {
        /// Which job.
        job: RunId,
        /// What was reserved.
        reserved: u64,
        /// What was wrong.
        error: CreditError,
    },
    /// A job says that it cost something else than its run.
    #[error("job {job} is written down with {told} credits, the records of its run come to {found}")]
    Spent {
        /// Which job.
        job: RunId,
        /// What the job says.
        told: u64,
        /// What the run says.
        found: u64,
    },
    /// What is told of the client is not what its records say.
    #[error("{told} credits are told as {what}, its records come to {found}")]
    Told {
        /// Of what.
        what: &'static str,
        /// What is told.
        told: i64,
        /// What the records say.
        found: i64,
    },
}

/// What moved credits, and where that stands in the journal.
enum Move {
    Deposit { credits: i64, spent: u64 },
    Reserve { job: RunId, budget: u64 },
    Open { run: RunId, parent: RunId },
    Settle { run: RunId, cost: u64 },
    Close { job: RunId },
}

impl System {
    /// Folds the credits of every metered client from its records, and holds them against what is told of it. Runs that were
    /// removed count by what is written down of their charges. Reads all records of metered clients.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn audit(&self) -> Result<Vec<ClientAudit>, JournalError> {
        let services = &self.services;
        let mut audits = Vec::new();
        let mut runs: BTreeMap<ClientId, Vec<RunId>> = BTreeMap::new();
        for row in services.journal.runs(false)? {
            if !matches!(row.status, RunRowStatus::Quarantined(_)) {
                runs.entry(row.client).or_default().push(row.run);
            }
        }
        for (client, book) in services.ledger.clients() {
            if book.terms().deposited().is_some() {
                let runs = runs.remove(&client).unwrap_or_default();
                audits.push(audit(services, client, &runs)?);
            }
        }
        Ok(audits)
    }
}

fn audit(services: &RunServices, client: ClientId, runs: &[RunId]) -> Result<ClientAudit, JournalError> {
    let journal: &dyn Journal = &**services.journal;
    let (mut moves, told) = client_moves(journal, &client)?;
    let mut found: BTreeMap<RunId, u64> = BTreeMap::new();
    let mut seen = 0u64;
    for &run in runs {
        run_reader::each(journal, StreamId::run(&client, run), None, |record| -> Result<(), JournalError> {
            match &record.event {
                Event::RunTerms(terms) => {
                    let open = terms.parent.as_ref().map(|parent| Move::Open { run, parent: parent.run });
                    moves.extend(open.map(|open| (record.position, open)));
                }
                Event::AttemptResult(result) | Event::LateResult(result) => {
                    moves.push((record.position, Move::Settle { run, cost: result.cost }));
                    *found.entry(run).or_default() += result.cost;
                    seen += result.cost;
                }
                _ => {}
            }
            Ok(())
        })?;
    }
    // What was charged and is not written down yet: looked for last, so that nothing of it is among the records.
    for (whose, run, cost) in services.attempts.unrecorded() {
        if whose == client {
            moves.push((Position(u64::MAX), Move::Settle { run, cost }));
            seen += cost;
        }
    }
    // Of what happened at once, the order within its stream counts.
    moves.sort_by_key(|(position, _)| *position);
    let Some(book) = services.ledger.find(&client) else {
        return Ok(ClientAudit { client, credits: ClientCredits::default(), violations: Vec::new() });
    };
    // What runs cost that are not kept any more stands in the table alone.
    let (credits, mut violations) = fold(moves, book.spent().saturating_sub(seen));
    for (job, told) in told {
        match found.get(&job) {
            Some(found) if *found != told => violations.push(Violation::Spent { job, told, found: *found }),
            _ => {}
        }
    }
    // While a job goes on, what it costs is known before it is written down.
    if services.market.open().into_iter().any(|job| services.active_runs.has(job)) {
        return Ok(ClientAudit { client, credits, violations });
    }
    let tells = [
        ("deposited", book.terms().deposited().unwrap_or(0), credits.deposited()),
        ("reserved", book.reserved() as i64, credits.reserved() as i64),
        ("free", book.balance().unwrap_or(0), credits.balance()),
    ];
    let wrong = tells.into_iter().filter(|(_, told, found)| told != found);
    violations.extend(wrong.map(|(what, told, found)| Violation::Told { what, told, found }));
    Ok(ClientAudit { client, credits, violations })
}

/// What the stream of a client says of its credits, and what each job of it is recorded to have cost.
fn client_moves(
    journal: &dyn Journal,
    client: &ClientId,
) -> Result<(Vec<(Position, Move)>, BTreeMap<RunId, u64>), JournalError> {
    let mut moves: Vec<(Position, Move)> = Vec::new();
    let mut told: BTreeMap<RunId, u64> = BTreeMap::new();
    run_reader::each(journal, StreamId::client(client), None, |record| -> Result<(), JournalError> {
        let moved = match &record.event {
            Event::CreditDeposited { credits, spent, .. } => {
                Some(Move::Deposit { credits: *credits, spent: *spent })
            }
            Event::Market { job, step } => match &**step {
                MarketStep::Signed { reserved: true, budget, .. } => {
                    Some(Move::Reserve { job: *job, budget: *budget })
                }
                MarketStep::Evaluated(closing) => {
                    told.insert(*job, closing.spent);
                    Some(Move::Close { job: *job })
                }
                MarketStep::Failed { spent, .. } => {
                    told.insert(*job, *spent);
                    Some(Move::Close { job: *job })
                }
                _ => None,
            },
            _ => None,
        };
        moves.extend(moved.map(|moved| (record.position, moved)));
        Ok(())
    })?;
    Ok((moves, told))
}

/// What the moves come to, in their order, and then so many credits that were spent besides; and what was wrong with any of them.
fn fold(moves: Vec<(Position, Move)>, besides: u64) -> (ClientCredits, Vec<Violation>) {
    let (mut credits, mut violations) = (ClientCredits::default(), Vec::new());
    let mut reserved: BTreeMap<RunId, u64> = BTreeMap::new();
    let mut reservations = Reservations::default();
    // What attempts had cost by the first deposit was free. Some of that may be removed: then what comes after it is free in its place,
    // and it is paid last, with all that is removed. Until then more is free than there was, never less.
    let mut free = moves.iter().find_map(|(_, moved)| match moved {
        Move::Deposit { spent, .. } => Some(*spent),
        _ => None,
    });
    let mut paid = |cost: u64| {
        let free = free.get_or_insert(0);
        let for_nothing = cost.min(*free);
        *free -= for_nothing;
        cost - for_nothing
    };
    for (_, moved) in moves {
        match moved {
            Move::Deposit { credits: amount, .. } => credits.deposit(amount),
            Move::Reserve { job, budget } => {
                reserved.insert(job, budget);
                reservations.reserve(job, budget, 0);
                if let Err(error) = credits.reserve(job, budget) {
                    violations.push(Violation::Contract { job, error });
                }
            }
            Move::Open { run, parent } => reservations.add_child(run, parent),
            // What is reserved pays for all that it is reserved for: that began after the first deposit, and was never free.
            Move::Settle { run, cost } => match reservations.job_of(run) {
                Some(job) => credits.settle(Some(job), cost),
                None => credits.settle(None, paid(cost)),
            },
            Move::Close { job } => {
                reservations.refund(job);
                let refunded = credits.refund(job);
                if let (Some(reserved), Err(error)) = (reserved.remove(&job), refunded) {
                    violations.push(Violation::Refund { job, reserved, error });
                }
            }
        }
        if !credits.adds_up() {
            violations.push(Violation::Sum {
                balance: credits.balance(),
                reserved: credits.reserved(),
                spent: credits.spent(),
                deposited: credits.deposited(),
            });
        }
    }
    credits.settle(None, paid(besides));
    (credits, violations)
}
