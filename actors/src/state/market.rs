//! The market: a cache of the clients' records that the registry keeps current.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use ostler_kernel::evaluation::{Standard, Target};
use ostler_kernel::event::{Event, Parent};
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::ledger::{Amount, Amounts, CreditError};
use ostler_kernel::market::{Job, JobState, MarketStep, Offer, Proposal, Stage, StageError, shortlist};
use ostler_kernel::port::{Journal, JournalError, Position, RunRow, RunRowStatus, StreamId};

use crate::base::interner::Interner;
use crate::base::lock::lock;
use crate::messages::market::MarketError;
use crate::state::call_accounts::CallAccounts;
use crate::state::ledger::Ledger;
use crate::storage::run_reader;

pub(crate) struct Market {
    ledger: Arc<Ledger>,
    call_accounts: Arc<CallAccounts>,
    book: Mutex<MarketBook>,
    /// Jobs that a task of the process moves along.
    pursued: Mutex<BTreeSet<RunId>>,
}

#[derive(Default)]
pub(crate) struct MarketBook {
    offers: BTreeMap<AgentId, Offered>,
    alike: Interner<Offer>,
    quarantined: BTreeSet<AgentId>,
    jobs: BTreeMap<RunId, Entry>,
    open: usize,
    /// Closed jobs in the order of their end.
    over: VecDeque<RunId>,
    /// Limit of `over`.
    kept_max: usize,
}

struct Offered {
    client: ClientId,
    offer: Arc<Offer>,
    position: Position,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) standing: JobState,
    /// Tokens and money that the contract sets aside.
    pub(crate) calls: Amounts,
    pub(crate) posted_ms: Ticks,
    pub(crate) since_ms: Ticks,
    pub(crate) position: Position,
}

impl MarketBook {
    /// An empty book with a limit of closed jobs.
    pub(crate) fn keeping(kept_max: usize) -> MarketBook {
        MarketBook { kept_max, ..MarketBook::default() }
    }

    /// Applies a record of a client at a position of the journal.
    pub(crate) fn record(&mut self, event: &Event, at_ms: Ticks, position: Position) {
        match event {
            Event::AgentProfiled { agent, client, profile } => {
                let read = || {
                    let profile = serde_json::from_str(profile.as_str()).ok();
                    profile.and_then(|profile| Offer::of(&profile)).ok_or(())
                };
                if let Ok(offer) = self.alike.of(profile, read) {
                    let client = client.clone();
                    self.offers.insert(agent.clone(), Offered { client, offer, position });
                }
            }
            Event::AgentOffered { agent, client, offer } => {
                let (client, offer) = (client.clone(), Arc::new(Offer::clone(offer)));
                self.offers.insert(agent.clone(), Offered { client, offer, position });
            }
            Event::AgentQuarantined { agent, .. } => drop(self.quarantined.insert(agent.clone())),
            Event::AgentReleased { agent } => drop(self.quarantined.remove(agent)),
            Event::Market { job, step } => self.step(*job, step, at_ms, position),
            _ => {}
        }
    }

    /// What jobs without a contract have a claim on: credits, and tokens and money.
    fn unsigned(&self, client: &ClientId) -> (u64, Amounts) {
        let waits = |entry: &&Entry| {
            matches!(entry.standing, JobState::Job(_) | JobState::Proposed(_))
                && entry.standing.job().client == *client
        };
        self.jobs.values().filter(waits).fold((0, Amounts::default()), |(credits, calls), entry| {
            (credits.saturating_add(entry.standing.job().budget), calls.plus(entry.calls))
        })
    }

    fn step(&mut self, job: RunId, step: &MarketStep, at_ms: Ticks, position: Position) {
        if let MarketStep::Posted(posted) = step {
            let (standing, calls) = (JobState::Job(posted.clone()), posted.calls());
            self.jobs.insert(job, Entry { standing, calls, posted_ms: at_ms, since_ms: at_ms, position });
            self.open += 1;
            return;
        }
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let Ok(standing) = known.standing.clone().apply(step.clone()) else { return };
        let is_over = standing.stage().is_over();
        known.standing = if is_over { without_plan(standing) } else { standing };
        (known.since_ms, known.position) = (at_ms, position);
        if is_over {
            self.open -= 1;
            self.over.push_back(job);
        }
        while self.over.len() > self.kept_max {
            self.over.pop_front().and_then(|oldest| self.jobs.remove(&oldest));
        }
    }
}

/// Drops the plan of a closed job; the records keep it.
fn without_plan(mut standing: JobState) -> JobState {
    match &mut standing {
        JobState::Evaluation(evaluation) => evaluation.contract.job.plan = Json::null(),
        JobState::Failed(abandoned) => {
            abandoned.job.plan = Json::null();
            if let Some(contract) = &mut abandoned.contract {
                contract.job.plan = Json::null();
            }
        }
        _ => {}
    }
    standing
}

impl Market {
    /// A market without jobs.
    pub(crate) fn new(ledger: Arc<Ledger>, call_accounts: Arc<CallAccounts>) -> Market {
        Market { ledger, call_accounts, book: Mutex::default(), pursued: Mutex::default() }
    }

    /// Starts from the records, and counts reservations from here on.
    pub(crate) fn begin(&self, book: MarketBook, journal: &dyn Journal) -> Result<(), JournalError> {
        let is_signed = |standing: &JobState| standing.contract().is_some() && !standing.stage().is_over();
        let signed = |job| book.jobs.get(&job).is_some_and(|entry| is_signed(&entry.standing));
        self.call_accounts.keep_contracts(signed);
        for (id, Entry { standing, calls, .. }) in &book.jobs {
            let name = &standing.job().client;
            let client = self.ledger.client(name);
            match standing.contract().filter(|contract| contract.reserved) {
                Some(contract) if !standing.stage().is_over() => {
                    let (spent, opened) = spent_for(journal, *id)?;
                    client.reserve(*id, contract.budget, spent);
                    opened.into_iter().for_each(|run| client.adopt(run, *id));
                }
                _ => client.refund(*id),
            }
            if is_signed(standing) {
                self.call_accounts.recall_aside(*id, name, *calls)?;
            }
        }
        *lock(&self.book) = book;
        Ok(())
    }

    pub(crate) fn record(&self, event: &Event, at_ms: Ticks, position: Position) {
        let mut book = lock(&self.book);
        let known = match event {
            Event::Market { job, .. } => {
                book.jobs.get(job).map(|entry| (entry.standing.job().client.clone(), entry.calls))
            }
            _ => None,
        };
        book.record(event, at_ms, position);
        let (Event::Market { job, step }, Some((name, calls))) = (event, known) else { return };
        let client = self.ledger.client(&name);
        match &**step {
            MarketStep::Signed { reserved, budget, .. } => {
                if *reserved {
                    client.reserve(*job, *budget, 0);
                }
                self.call_accounts.set_aside(*job, &name, calls);
            }
            MarketStep::Evaluated(_) | MarketStep::Failed { .. } => {
                client.refund(*job);
                self.call_accounts.end_contract(*job);
            }
            _ => {}
        }
    }

    /// Checks a step, and returns the client for its record.
    pub(crate) fn admit(
        &self,
        (jobs_max, now): (usize, Ticks),
        id: RunId,
        step: &MarketStep,
    ) -> Result<ClientId, MarketError> {
        let book = lock(&self.book);
        let known = book.jobs.get(&id);
        if let MarketStep::Posted(job) = step {
            let most = jobs_max;
            if known.is_some() {
                return Err(MarketError::Taken(id));
            }
            if book.open >= most {
                return Err(MarketError::TooMany(most));
            }
            job.check(now)?;
            // Jobs without a contract have a claim on their budgets already.
            let (credits, calls) = book.unsigned(&job.client);
            self.check_budget(job, credits, calls)?;
            return Ok(job.client.clone());
        }
        let known = known.ok_or(StageError::Unknown(id))?;
        known.standing.check(step)?;
        let client = &known.standing.job().client;
        if let MarketStep::Signed { reserved, budget, .. } = step {
            if *reserved {
                self.check_balance(client, *budget, 0)?;
            }
            self.check_calls(client, known.calls, Amounts::default())?;
        }
        Ok(client.clone())
    }

    /// Checks that a client can reserve the budgets of a new job besides so many credits and `calls`.
    pub(crate) fn check_budget(&self, job: &Job, credits: u64, calls: Amounts) -> Result<(), CreditError> {
        self.check_balance(&job.client, job.budget, credits)?;
        self.check_calls(&job.client, job.calls(), calls)
    }

    /// Checks that a client can reserve `wanted` credits after `besides`; an unmetered client can reserve any.
    fn check_balance(&self, client: &ClientId, wanted: u64, besides: u64) -> Result<(), CreditError> {
        let balance = self.ledger.find(client).and_then(|book| book.balance());
        match balance.map(|balance| balance.saturating_sub_unsigned(besides)) {
            Some(balance) if i128::from(balance) < i128::from(wanted) => {
                Err(CreditError::BeyondBalance { balance, wanted })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a client can set aside `wanted` after `besides`, of what it is metered in.
    fn check_calls(&self, client: &ClientId, wanted: Amounts, besides: Amounts) -> Result<(), CreditError> {
        let limits = self.ledger.find(client).map(|book| book.terms().call_limits()).unwrap_or_default();
        let left = limits.less(self.call_accounts.of_client(client).taken().plus(besides));
        let (tokens, nano_usd) = (Amount::Tokens, Amount::NanoUsd);
        match (left.tokens, left.nano_usd) {
            (Some(free), _) if free < wanted.tokens => {
                Err(CreditError::BeyondCalls { left: tokens(free), wanted: tokens(wanted.tokens) })
            }
            (_, Some(free)) if free < wanted.nano_usd => {
                Err(CreditError::BeyondCalls { left: nano_usd(free), wanted: nano_usd(wanted.nano_usd) })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn entry(&self, job: RunId) -> Option<Entry> {
        lock(&self.book).jobs.get(&job).cloned()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        lock(&self.book).jobs.values().cloned().collect()
    }

    pub(crate) fn open(&self) -> Vec<RunId> {
        let book = lock(&self.book);
        let open = book.jobs.iter().filter(|(_, entry)| !entry.standing.stage().is_over());
        open.map(|(job, _)| *job).collect()
    }

    /// An open job that the client pays for.
    pub(crate) fn open_job_of(&self, client: &ClientId) -> Option<RunId> {
        let book = lock(&self.book);
        let is_paid_by =
            |entry: &Entry| !entry.standing.stage().is_over() && entry.standing.job().client == *client;
        book.jobs.iter().find(|(_, entry)| is_paid_by(entry)).map(|(job, _)| *job)
    }

    pub(crate) fn count(&self) -> Vec<(&'static str, usize)> {
        let mut counts = Stage::ALL.map(|stage| (stage.as_str(), 0));
        for entry in lock(&self.book).jobs.values() {
            counts[entry.standing.stage() as usize].1 += 1;
        }
        counts.into()
    }

    pub(crate) fn offer(&self, agent: &AgentId) -> Option<Arc<Offer>> {
        self.offered(agent).map(|(offer, _)| offer)
    }

    /// An agent's offer with the position of its record.
    pub(crate) fn offered(&self, agent: &AgentId) -> Option<(Arc<Offer>, Position)> {
        let book = lock(&self.book);
        book.offers.get(agent).map(|offered| (Arc::clone(&offered.offer), offered.position))
    }

    /// Proposals of agents in service with fitting offers, and the best of them.
    pub(crate) fn proposals(&self, job: &Job, now: Ticks, takes: impl Fn(&AgentId) -> bool) -> Vec<Proposal> {
        let offers = || {
            let book = lock(&self.book);
            let offers = book
                .offers
                .iter()
                .filter(|(agent, of)| of.client == job.client && !book.quarantined.contains(*agent));
            offers.map(|(agent, of)| (agent.clone(), Arc::clone(&of.offer))).collect::<Vec<_>>()
        };
        let offers = offers().into_iter().filter(|(agent, _)| takes(agent));
        let proposals = offers.map(|(agent, offer)| {
            let reputation = self.ledger.reputation(&job.client, Some(&agent)).pm();
            Proposal::of(agent, &offer, job, reputation)
        });
        shortlist(job, proposals.collect(), now)
    }

    /// The standard of an agent's runs without a contract.
    pub(crate) fn standard_of(&self, agent: &AgentId) -> Standard {
        self.offer(agent).map(|offer| offer.standard()).unwrap_or_default()
    }

    /// The standard of a run with a contract: price and proposed time are the targets.
    pub(crate) fn standard_for(&self, run: RunId) -> Option<Standard> {
        let book = lock(&self.book);
        let contract = book.jobs.get(&run)?.standing.contract()?;
        let domain = contract.job.domain.clone().or_else(|| contract.proposal.domain.clone());
        let target = Target { time_ms: contract.proposal.time_ms, credits: Some(contract.price) };
        Some(Standard { domain, target })
    }

    /// The deadline of a run, from its own job or its parent's.
    pub(crate) fn deadline_for(
        &self,
        journal: &dyn Journal,
        run: RunId,
        parent: Option<&Parent>,
    ) -> Result<Option<Ticks>, JournalError> {
        let standing = |job: &Entry| (!job.standing.stage().is_over()).then(|| job.standing.job().deadline);
        let parent = parent.map(|parent| parent.run);
        // The records may lack the run itself.
        let above = parent.into_iter().flat_map(|parent| run_reader::ancestors(journal, parent));
        for run in std::iter::once(run).chain(parent).map(Ok).chain(above) {
            if let Some(deadline) = lock(&self.book).jobs.get(&run?).and_then(standing) {
                return Ok(deadline);
            }
        }
        Ok(None)
    }

    /// Marks a job as moved along by a task; `false` if another task has it.
    pub(crate) fn pursue(&self, job: RunId) -> bool {
        lock(&self.pursued).insert(job)
    }

    /// True if a task moves the job along.
    pub(crate) fn is_pursued(&self, job: RunId) -> bool {
        lock(&self.pursued).contains(&job)
    }

    /// True if an open job has the id.
    pub(crate) fn has_open(&self, job: RunId) -> bool {
        lock(&self.book).jobs.get(&job).is_some_and(|entry| !entry.standing.stage().is_over())
    }

    pub(crate) fn pursued(&self) -> Vec<RunId> {
        lock(&self.pursued).iter().copied().collect()
    }

    pub(crate) fn stop_pursuing(&self, job: RunId) {
        lock(&self.pursued).remove(&job);
    }
}

/// Cost of a job in credits, from the records of its run and of all child runs; and the set of those runs.
fn spent_for(journal: &dyn Journal, job: RunId) -> Result<(u64, BTreeSet<RunId>), JournalError> {
    let (mut total, mut opened, mut open) = (0u64, BTreeSet::new(), vec![job]);
    while let Some(run) = open.pop() {
        let Some(row) = journal.run(run)? else { continue };
        // Quarantined records do not add up; like the audit, this sum leaves them out.
        if matches!(row.status, RunRowStatus::Quarantined(_)) {
            continue;
        }
        total = total.saturating_add(spent(journal, &row)?);
        let notes = StreamId::attempts(&row.client, run);
        run_reader::each(journal, notes, None, |record| -> Result<(), JournalError> {
            if let Event::ChildRun { run, .. } = &record.event
                && opened.insert(*run)
            {
                open.push(*run);
            }
            Ok(())
        })?;
    }
    Ok((total, opened))
}

pub(crate) fn spent(journal: &dyn Journal, row: &RunRow) -> Result<u64, JournalError> {
    let mut spent = 0u64;
    let stream = StreamId::run(&row.client, row.run);
    run_reader::each(journal, stream, None, |record| -> Result<(), JournalError> {
        if let Event::AttemptResult(result) | Event::LateResult(result) = &record.event {
            spent = spent.saturating_add(result.cost);
        }
        Ok(())
    })?;
    Ok(spent)
}
