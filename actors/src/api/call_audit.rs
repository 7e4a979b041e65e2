//! Audit of calls of models: recomputes tokens and money from the records, and compares them with the accounts.

use std::collections::BTreeMap;

use ostler_kernel::event::Event;
use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::ledger::{Amount, Amounts, CallLimits};
use ostler_kernel::port::{AccountRow, JournalError, Position, RunRow, RunRowStatus, StreamId};

use crate::api::system::System;
use crate::run::services::RunServices;
use crate::storage::run_reader;

/// Tokens and money of the calls of a client's runs, from their records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAudit {
    /// The client.
    pub client: ClientId,
    /// Used by calls under a limit; a reservation without a settlement counts. Removed runs are left out.
    pub used: Amounts,
    /// Set aside for jobs, and not used by their calls.
    pub aside: Amounts,
    /// What does not add up.
    pub violations: Vec<CallViolation>,
}

/// An inconsistency of tokens or money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallViolation {
    /// A settlement without a reservation, or the second one of a call.
    #[error("run {run} settles a call of which nothing is reserved")]
    Unreserved {
        /// The run.
        run: RunId,
        /// Number of the call.
        call: u64,
    },
    /// A settlement frees something else than its call reserved.
    #[error("run {run} frees {} for a call that reserved {}", text(*.freed), text(*.reserved))]
    Freed {
        /// The run.
        run: RunId,
        /// Amounts in the settlement.
        freed: Amounts,
        /// Amounts in the reservation.
        reserved: Amounts,
    },
    /// A reservation exceeds the budget of its run, raises included.
    #[error("the calls of run {account} reserve {} in all, beyond its budget", text(*.reserved))]
    Beyond {
        /// The run whose budget pays.
        account: RunId,
        /// Used and reserved after the reservation.
        reserved: Amounts,
    },
    /// An account and the records disagree.
    #[error("{} are told as {what}, the records come to {}", text(*.told), text(*.found))]
    Told {
        /// The compared figure.
        what: &'static str,
        /// Value in the account.
        told: Amounts,
        /// Value from the records.
        found: Amounts,
    },
}

fn text(amounts: Amounts) -> String {
    format!("{} and {}", Amount::Tokens(amounts.tokens), Amount::NanoUsd(amounts.nano_usd))
}

/// Budget of a run at the top, and what its calls and those of its child runs used.
#[derive(Default)]
struct Budget {
    limits: CallLimits,
    raised: Amounts,
    used: Amounts,
}

/// The records of calls of a client.
#[derive(Default)]
struct Calls {
    budgets: BTreeMap<RunId, Budget>,
    /// Records with their run and the run whose budget pays.
    records: Vec<(Position, RunId, Option<RunId>, Event)>,
}

impl System {
    /// Recomputes the tokens and the money of calls from the records of each client with such calls or deposits, and compares
    /// them with the accounts. Reads all records of these clients.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn audit_calls(&self) -> Result<Vec<CallAudit>, JournalError> {
        let services = &self.services;
        let told = sums(&services.journal.accounts()?);
        let mut runs: BTreeMap<ClientId, Vec<RunRow>> = BTreeMap::new();
        for row in services.journal.runs(false)? {
            if !matches!(row.status, RunRowStatus::Quarantined(_)) {
                runs.entry(row.client.clone()).or_default().push(row);
            }
        }
        let mut audits = Vec::new();
        for (client, book) in services.ledger.clients() {
            let told = told.get(&client).copied().unwrap_or_default();
            if !told.is_zero() || !book.terms().call_limits().is_unlimited() {
                let runs = runs.remove(&client).unwrap_or_default();
                audits.push(audit(services, client, &runs, told)?);
            }
        }
        Ok(audits)
    }
}

/// What the table of accounts says of each client.
fn sums(rows: &[AccountRow]) -> BTreeMap<ClientId, Amounts> {
    let mut sums: BTreeMap<ClientId, Amounts> = BTreeMap::new();
    for row in rows {
        let sum = sums.entry(row.client.clone()).or_default();
        *sum = sum.plus(row.calls);
    }
    sums
}

/// `told` is what the table of accounts said before the records are read.
fn audit(
    services: &RunServices,
    client: ClientId,
    runs: &[RunRow],
    told: Amounts,
) -> Result<CallAudit, JournalError> {
    let mut calls = Calls::default();
    for row in runs {
        calls.read(services, &client, row.run)?;
    }
    let (used, mut violations) = calls.fold();
    // Calls of removed runs stand in the table alone, so it may say more and never less. A call that ends meanwhile changes both.
    let is_less = told.tokens < used.tokens || told.nano_usd < used.nano_usd;
    if is_less && sums(&services.journal.accounts()?).remove(&client).unwrap_or_default() == told {
        violations.push(CallViolation::Told { what: "used", told, found: used });
    }
    let aside = aside(services, &client, &calls);
    // While a job runs, its calls are in the records before they are in the accounts.
    let is_still = !services.market.open().into_iter().any(|job| services.active_runs.has(job));
    let told = services.call_accounts.of_client(&client).aside;
    if is_still && told != aside {
        violations.push(CallViolation::Told { what: "set aside for jobs", told, found: aside });
    }
    Ok(CallAudit { client, used, aside, violations })
}

/// What the contracts of a client's open jobs set aside, less what their calls used.
fn aside(services: &RunServices, client: &ClientId, calls: &Calls) -> Amounts {
    let signed = services.market.entries().into_iter().filter(|entry| {
        let standing = &entry.standing;
        standing.contract().is_some() && !standing.stage().is_over() && standing.job().client == *client
    });
    signed.fold(Amounts::default(), |sum, entry| {
        let used = calls.budgets.get(&entry.standing.job().id).map(|budget| budget.used).unwrap_or_default();
        sum.plus(entry.calls.minus(used))
    })
}

impl Calls {
    fn read(&mut self, services: &RunServices, client: &ClientId, run: RunId) -> Result<(), JournalError> {
        let journal = &**services.journal;
        let (mut account, mut raised) = (None, Amounts::default());
        run_reader::each(journal, StreamId::run(client, run), None, |record| -> Result<(), JournalError> {
            match &record.event {
                Event::CallTerms(terms) if terms.account.is_some() => account = terms.account,
                Event::CallTerms(terms) if !terms.limits.is_unlimited() => {
                    account = Some(run);
                    self.budgets.entry(run).or_default().limits = terms.limits;
                }
                Event::BudgetRaised { by, .. } => raised = raised.plus(*by),
                _ => {}
            }
            Ok(())
        })?;
        if let Some(account) = account {
            let budget = self.budgets.entry(account).or_default();
            budget.raised = budget.raised.plus(raised);
        }
        run_reader::each(
            journal,
            StreamId::attempts(client, run),
            None,
            |record| -> Result<(), JournalError> {
                if matches!(record.event, Event::CallReserved(_) | Event::CallSettled(_)) {
                    self.records.push((record.position, run, account, record.event.clone()));
                }
                Ok(())
            },
        )
    }

    /// Adds up the records in their order; returns the sum and what was wrong. Raises count from the start, because the
    /// account has them before their record.
    fn fold(&mut self) -> (Amounts, Vec<CallViolation>) {
        self.records.sort_by_key(|(position, ..)| *position);
        let (mut open, mut used, mut violations) = (BTreeMap::new(), Amounts::default(), Vec::new());
        for (_, run, account, event) in &self.records {
            let run = *run;
            let budget = account.and_then(|account| Some((account, self.budgets.get_mut(&account)?)));
            match event {
                Event::CallReserved(call) => {
                    open.insert(call.call, call.amounts);
                    used = call.charge(used);
                    let Some((account, budget)) = budget else { continue };
                    budget.used = call.charge(budget.used);
                    if !budget.limits.raised(budget.raised).hold(budget.used) {
                        violations.push(CallViolation::Beyond { account, reserved: budget.used });
                    }
                }
                Event::CallSettled(call) => {
                    match open.remove(&call.call) {
                        None => violations.push(CallViolation::Unreserved { run, call: call.call }),
                        Some(reserved) if reserved != call.reserved => {
                            violations.push(CallViolation::Freed { run, freed: call.reserved, reserved });
                        }
                        Some(_) => {}
                    }
                    used = call.charge(used);
                    if let Some((_, budget)) = budget {
                        budget.used = call.charge(budget.used);
                    }
                }
                _ => {}
            }
        }
        (used, violations)
    }
}
