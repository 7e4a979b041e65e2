//! Audit of credits: folds the records of clients from the first on, and compares them with the ledger.

use std::collections::BTreeMap;

use ostler_kernel::event::Event;
use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::ledger::{ClientCredits, CreditError, Reservations};
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::{Journal, JournalError, Position, RunRowStatus, StreamId};

use crate::api::system::System;
use crate::run::services::RunServices;
use crate::storage::run_reader;

/// Credits of a metered client, from its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAudit {
    /// The client.
    pub client: ClientId,
    /// The sums.
    pub credits: ClientCredits,
    /// What does not add up.
    pub violations: Vec<Violation>,
}

/// An inconsistency of credits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Free, reserved and spent credits differ from the deposits.
    #[error(
        "what is free ({balance}), reserved ({reserved}) and spent ({spent}) is not what was deposited ({deposited})"
    )]
    Sum {
        /// Free credits.
        balance: i64,
        /// Reserved credits.
        reserved: u64,
        /// Spent credits.
        spent: u64,
        /// Deposits.
        deposited: i64,
    },
    /// A contract reserved missing credits, or reserved twice.
    #[error("the contract of job {job}: {error}")]
    Contract {
        /// The job.
        job: RunId,
        /// The error.
        error: CreditError,
    },
    /// A closed job holds credits, or an open one has none.
    #[error("job {job} closed without the {reserved} credits that were reserved for it: {error}")]
    Refund {
        /// The job.
        job: RunId,
        /// Reserved credits.
        reserved: u64,
        /// The error.
        error: CreditError,
    },
    /// A job and its run disagree about the cost.
    #[error("job {job} is written down with {told} credits, the records of its run come to {found}")]
    Spent {
        /// The job.
        job: RunId,
        /// Cost according to the job.
        told: u64,
        /// Cost according to the run.
        found: u64,
    },
    /// The ledger and the records disagree.
    #[error("{told} credits are told as {what}, its records come to {found}")]
    Told {
        /// The compared figure.
        what: &'static str,
        /// Value in the ledger.
        told: i64,
        /// Value from the records.
        found: i64,
    },
}

/// A movement of credits.
enum Move {
    Deposit { credits: i64, spent: u64 },
    Reserve { job: RunId, budget: u64 },
    Open { run: RunId, parent: RunId },
    Settle { run: RunId, cost: u64 },
    Close { job: RunId },
}

impl System {
    /// Recomputes the credits of every metered client from its records, and compares them with the ledger. Removed runs
    /// count with their recorded charges. Reads all records of metered clients.
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
    // Unrecorded charges are read last, so that none of them is among the records.
    for (whose, run, cost) in services.attempts.unrecorded() {
        if whose == client {
            moves.push((Position(u64::MAX), Move::Settle { run, cost }));
            seen += cost;
        }
    }
    // Movements of one append keep the order of their stream.
    moves.sort_by_key(|(position, _)| *position);
    let Some(book) = services.ledger.find(&client) else {
        return Ok(ClientAudit { client, credits: ClientCredits::default(), violations: Vec::new() });
    };
    // Charges of removed runs stand in the account table alone.
    let (credits, mut violations) = fold(moves, book.spent().saturating_sub(seen));
    for (job, told) in told {
        match found.get(&job) {
            Some(found) if *found != told => violations.push(Violation::Spent { job, told, found: *found }),
            _ => {}
        }
    }
    // While a job runs, its cost is known before it is recorded.
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

/// Movements in a client's stream, and the recorded cost of each job.
type ClientMoves = (Vec<(Position, Move)>, BTreeMap<RunId, u64>);

fn client_moves(journal: &dyn Journal, client: &ClientId) -> Result<ClientMoves, JournalError> {
    let mut moves: Vec<(Position, Move)> = Vec::new();
    let mut told: BTreeMap<RunId, u64> = BTreeMap::new();
    run_reader::each(journal, StreamId::client(client), None, |record| -> Result<(), JournalError> {
        let moved = match &record.event {
            // The next deposit opens the account anew, after all earlier costs.
            Event::ClientRemoved { .. } => {
                moves.clear();
                None
            }
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

/// Adds up movements in order, then `besides` spent credits; returns the sums and what was wrong.
fn fold(moves: Vec<(Position, Move)>, besides: u64) -> (ClientCredits, Vec<Violation>) {
    let (mut credits, mut violations) = (ClientCredits::default(), Vec::new());
    let mut reserved: BTreeMap<RunId, u64> = BTreeMap::new();
    let mut reservations = Reservations::default();
    // Costs before the first deposit were free. If some of those records are removed, later costs are taken as free
    // instead and paid last, with the removed ones: until then the sum is never too low.
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
            // A reservation pays for its run from the start, which was after the first deposit.
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
