//! The ledger: on what terms each client is served, and what it was charged. A cache of the journal that the registry,
//! the evaluator and the scheduler keep up to date, and that outlives them: who starts anew goes on from here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::client_terms::ClientTerms;
use ostler_kernel::evaluation::Reputation;
use ostler_kernel::event::{Accounts, Event};
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks};
use ostler_kernel::ledger::Reservations;
use ostler_kernel::port::AccountRow;
use ostler_scheduler::Tier;

use crate::base::keys::FairShareKey;
use crate::base::lock::lock;

/// A client as the configuration knows it. One that nobody configured has weight 100 in the marketplace, unless its
/// records say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Its name.
    pub name: ClientId,
    /// Its entitlement among the clients of its tier.
    pub weight: u32,
    /// Whether it is served in the contracted tier.
    pub contracted: bool,
}

/// All clients that anything is known of.
#[derive(Default)]
pub(crate) struct Ledger {
    configured: BTreeMap<ClientId, ClientTerms>,
    clients: Mutex<BTreeMap<ClientId, Arc<ClientBook>>>,
    /// Charges so far: tells which of two is the later one.
    charges: AtomicU64,
}

/// What the scheduler knew of the tiers last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tiers {
    pub(crate) vruntime: [i64; 2],
    /// What the marketplace is owed.
    pub(crate) owed: i128,
}

/// One client.
#[derive(Default)]
pub(crate) struct ClientBook {
    terms: Mutex<ClientTerms>,
    /// Credits that its attempts cost so far.
    spent: AtomicU64,
    last: Mutex<Option<Last>>,
    agents: Mutex<BTreeMap<Option<AgentId>, Arc<AgentBook>>>,
    /// What jobs of the market have of its credits.
    reservations: Mutex<Reservations>,
    /// Nothing of it is dispatched, because its credits are used up.
    parked: AtomicBool,
    /// By how much it was behind, in virtual time, if it had work when the scheduler ended: that is owed still.
    behind: AtomicI64,
}

/// How a client's accounts stood after its last charge; that of an agent counts for nothing here.
#[derive(Clone, Copy)]
struct Last {
    charge: u64,
    /// Where it was served then; `None`: where it is now, as far as anybody knows.
    tier: Option<Tier>,
    accounts: Accounts,
}

/// One agent of a client, or all its agents without a name of their own.
#[derive(Default)]
pub(crate) struct AgentBook {
    last: Mutex<Option<Accounts>>,
    reputation: Mutex<Reputation>,
    /// By how much it was behind, in virtual time, if it had work when the scheduler ended: that is owed still.
    behind: AtomicI64,
}

/// The two accounts that an attempt is charged to.
#[derive(Clone)]
pub(crate) struct Books {
    pub(crate) client: Arc<ClientBook>,
    pub(crate) agent: Arc<AgentBook>,
}

impl Ledger {
    /// The ledger of a system that starts: as its configuration and the journal's table of accounts say. The registry
    /// reads the rest.
    pub(crate) fn new(configured: Vec<ClientConfig>, mut rows: Vec<AccountRow>) -> Ledger {
        let configured = configured.into_iter();
        let configured =
            configured.map(|client| (client.name, ClientTerms::configured(client.weight, client.contracted)));
        let ledger = Ledger { configured: configured.collect(), ..Ledger::default() };
        ledger.configured.keys().for_each(|client| drop(ledger.client(client)));
        rows.sort_by_key(|row| row.settled);
        for AccountRow { client, agent, accounts, spent, reputation, .. } in rows {
            let books = ledger.books(&FairShareKey { client, agent });
            *lock(&books.agent.reputation) = reputation;
            books.client.spent.fetch_add(spent, Ordering::Relaxed);
            if let Some(accounts) = accounts {
                ledger.charged(&books, None, accounts);
            }
        }
        ledger
    }

    /// Counts again what clients spent: what is recorded, and what attempts cost that have ended and are not. Some of what was
    /// recorded may have been undone. Nothing is charged meanwhile; reservations are read anew by whoever knows the jobs.
    pub(crate) fn recount(&self, rows: &[AccountRow], unrecorded: &[(ClientId, RunId, u64)]) {
        let mut spent: BTreeMap<&ClientId, u64> = BTreeMap::new();
        let recorded = rows.iter().map(|row| (&row.client, row.spent));
        let costs = recorded.chain(unrecorded.iter().map(|(client, _, cost)| (client, *cost)));
        costs.for_each(|(client, cost)| *spent.entry(client).or_default() += cost);
        for (client, book) in self.clients() {
            book.spent.store(spent.get(&client).copied().unwrap_or(0), Ordering::Relaxed);
            *lock(&book.reservations) = Reservations::default();
        }
    }

    /// The book of a client that something is known of.
    pub(crate) fn find(&self, client: &ClientId) -> Option<Arc<ClientBook>> {
        lock(&self.clients).get(client).cloned()
    }

    /// Whether there is room for a client among at most so many: it is known already, or not the first too many.
    pub(crate) fn has_room(&self, client: &ClientId, most: usize) -> bool {
        let clients = lock(&self.clients);
        clients.len() < most || clients.contains_key(client)
    }

    /// The book of a client, made if it is new.
    pub(crate) fn client(&self, client: &ClientId) -> Arc<ClientBook> {
        let mut clients = lock(&self.clients);
        if let Some(book) = clients.get(client) {
            return Arc::clone(book);
        }
        let terms = self.configured.get(client).cloned().unwrap_or_default();
        let book = Arc::new(ClientBook { terms: Mutex::new(terms), ..ClientBook::default() });
        clients.insert(client.clone(), Arc::clone(&book));
        book
    }

    /// The books that the attempts of a lane are charged to.
    pub(crate) fn books(&self, lane: &FairShareKey) -> Books {
        let client = self.client(&lane.client);
        let agent = Arc::clone(lock(&client.agents).entry(lane.agent.clone()).or_default());
        Books { client, agent }
    }

    /// Sets what the scores of runs add up to, as the journal has it.
    pub(crate) fn read_reputation(&self, AccountRow { client, agent, reputation, .. }: AccountRow) {
        *lock(&self.books(&FairShareKey { client, agent }).agent.reputation) = reputation;
    }

    /// Shows what the scores of each agent add up to that has any.
    pub(crate) fn each_reputation(&self, mut each: impl FnMut(Option<&AgentId>, Reputation)) {
        for (_, book) in self.clients() {
            for (agent, one) in lock(&book.agents).iter() {
                let reputation = *lock(&one.reputation);
                if reputation.scores() > 0 {
                    each(agent.as_ref(), reputation);
                }
            }
        }
    }

    /// What the scores of an agent's runs add up to.
    pub(crate) fn reputation(&self, client: &ClientId, agent: Option<&AgentId>) -> Reputation {
        let book = self.find(client);
        let agent = book.and_then(|book| lock(&book.agents).get(&agent.cloned()).cloned());
        agent.map(|agent| *lock(&agent.reputation)).unwrap_or_default()
    }

    /// All clients that anything is known of.
    pub(crate) fn clients(&self) -> Vec<(ClientId, Arc<ClientBook>)> {
        lock(&self.clients).iter().map(|(client, book)| (client.clone(), Arc::clone(book))).collect()
    }

    /// Whether the configuration states the terms of a client.
    pub(crate) fn is_configured(&self, client: &ClientId) -> bool {
        self.configured.contains_key(client)
    }

    /// Forgets the terms that were recorded: they are about to be read again.
    pub(crate) fn forget_terms(&self) {
        for (client, book) in lock(&self.clients).iter() {
            *lock(&book.terms) = self.configured.get(client).cloned().unwrap_or_default();
        }
    }

    /// Lets a record of a client take effect. What the configuration states stays.
    pub(crate) fn record(&self, event: &Event, at_ms: Ticks) {
        match event {
            Event::ClientSet { client, .. } if self.is_configured(client) => {}
            Event::ClientSet { client, .. } | Event::CreditDeposited { client, .. } => {
                lock(&self.client(client).terms).apply(event, at_ms);
            }
            _ => {}
        }
    }

    /// An attempt was charged: this is how the accounts stand.
    pub(crate) fn charged(&self, books: &Books, tier: Option<Tier>, accounts: Accounts) {
        let charge = self.charges.fetch_add(1, Ordering::Relaxed);
        *lock(&books.client.last) = Some(Last { charge, tier, accounts });
        *lock(&books.agent.last) = Some(accounts);
    }

    /// The scheduler ends: this is how a client stands, and by how much it is behind, if it has work.
    pub(crate) fn leave_client(&self, book: &ClientBook, tier: Tier, accounts: Accounts, behind: i64) {
        let charge = self.charges.fetch_add(1, Ordering::Relaxed);
        *lock(&book.last) = Some(Last { charge, tier: Some(tier), accounts });
        book.behind.store(behind, Ordering::Relaxed);
    }

    /// What the scheduler knew of the tiers last.
    pub(crate) fn tiers(&self) -> Tiers {
        let clients = lock(&self.clients);
        let charges = clients.values().filter_map(|book| {
            let last = (*lock(&book.last))?;
            Some((last.charge, last.tier.unwrap_or_else(|| book.tier()), last.accounts))
        });
        let mut charges: Vec<(u64, Tier, Accounts)> = charges.collect();
        charges.sort_by_key(|(charge, ..)| *charge);
        let mut tiers = Tiers::default();
        for (_, tier, accounts) in charges {
            tiers.vruntime[tier as usize] = accounts.tier_vruntime;
            tiers.owed = accounts.owed;
        }
        tiers
    }
}

impl ClientBook {
    /// On what terms it is served.
    pub(crate) fn terms(&self) -> ClientTerms {
        lock(&self.terms).clone()
    }

    pub(crate) fn tier(&self) -> Tier {
        if lock(&self.terms).is_contracted() { Tier::Contracted } else { Tier::Marketplace }
    }

    /// Credits that its attempts cost so far.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Credits that are left when nothing of it runs; `None`: it is not metered.
    pub(crate) fn left(&self) -> Option<i64> {
        lock(&self.terms).left(self.spent())
    }

    /// An attempt of this run ended that cost so much.
    pub(crate) fn spend(&self, run: RunId, cost: u64) {
        self.spent.fetch_add(cost, Ordering::Relaxed);
        self.settle_reserved(run, cost);
    }

    /// The same, of which only the reservation is not known yet.
    pub(crate) fn settle_reserved(&self, run: RunId, cost: u64) {
        lock(&self.reservations).settle(run, cost);
    }

    /// What attempts of this run cost that nothing tells of is nobody's to pay.
    pub(crate) fn unspend(&self, run: RunId, cost: u64) {
        self.spent.fetch_sub(cost, Ordering::Relaxed);
        lock(&self.reservations).revert_settle(run, cost);
    }

    /// A run was opened by another one: what is reserved for that is for this one as well.
    pub(crate) fn adopt(&self, run: RunId, parent: RunId) {
        lock(&self.reservations).add_child(run, parent);
    }

    /// Reserves credits for a job whose run, and those that it opened, have cost so much already; what is reserved stays as it is.
    pub(crate) fn reserve(&self, job: RunId, budget: u64, spent: u64) {
        let mut reservations = lock(&self.reservations);
        if !reservations.is_reserved(job) {
            reservations.reserve(job, budget, spent);
        }
    }

    /// A job is over: what is left of its reservation is free.
    pub(crate) fn refund(&self, job: RunId) {
        lock(&self.reservations).refund(job);
    }

    /// Credits that are reserved for jobs and not spent.
    pub(crate) fn reserved(&self) -> u64 {
        lock(&self.reservations).outstanding()
    }

    /// Credits that are neither spent nor reserved; `None`: it is not metered.
    pub(crate) fn balance(&self) -> Option<i64> {
        Some(self.left()?.saturating_sub_unsigned(self.reserved()))
    }

    /// Whether what attempts of this run cost is set aside for it already: it waits for no credits.
    pub(crate) fn is_prepaid(&self, run: RunId) -> bool {
        lock(&self.reservations).is_reserved(run)
    }

    /// Whether anything of this run may be started that its client pays for: what is reserved for others is not its to spend.
    pub(crate) fn may_start(&self, run: RunId) -> bool {
        let reservations = lock(&self.reservations);
        let reserved = reservations.outstanding();
        let spare = |left: i64| left.saturating_sub_unsigned(reserved) > 0;
        reserved == 0 || reservations.is_reserved(run) || self.left().is_none_or(spare)
    }

    /// Nothing of it is dispatched from here on, because its credits are used up; or it is again.
    pub(crate) fn park(&self, parked: bool) {
        self.parked.store(parked, Ordering::Relaxed);
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// What the scores of its runs add up to, in thousandths: each agent counts by the number of its runs.
    pub(crate) fn reputation_pm(&self) -> Option<u16> {
        Reputation::mean_pm(lock(&self.agents).values().map(|agent| *lock(&agent.reputation)))
    }

    /// How its account stood after the last charge.
    pub(crate) fn last(&self) -> Option<Accounts> {
        lock(&self.last).map(|last| last.accounts)
    }

    /// By how much it was behind, in virtual time, if it had work when the scheduler ended; else 0.
    pub(crate) fn behind(&self) -> i64 {
        self.behind.load(Ordering::Relaxed)
    }
}

impl AgentBook {
    /// The scheduler ends: this is how it stands, and by how much it is behind, if it has work.
    pub(crate) fn leave(&self, accounts: Accounts, behind: i64) {
        *lock(&self.last) = Some(accounts);
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// How its account stood after the last charge, or when the scheduler ended.
    pub(crate) fn last(&self) -> Option<Accounts> {
        *lock(&self.last)
    }

    /// By how much it was behind, in virtual time, if it had work when the scheduler ended; else 0.
    pub(crate) fn behind(&self) -> i64 {
        self.behind.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that this process has, in bytes, as Linux tells.
    fn resident() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let pages = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.expect("a number of pages") * 4_096
    }

    #[test]
    #[ignore = "takes seconds and a quarter of a gigabyte: a figure"]
    fn a_million_agents_that_were_evaluated_fit_in_a_gigabyte() {
        let before = resident();
        let ledger = Ledger::default();
        for at in 0..1_000_000 {
            let agent = Some(AgentId::new(format!("agent-{at}")));
            let reputation = Reputation::default().after(700);
            let (accounts, spent, settled, position) = (None, 1, 0, 0);
            let client = "acme".into();
            ledger.read_reputation(AccountRow {
                client,
                agent,
                accounts,
                spent,
                reputation,
                settled,
                position,
            });
        }
        let mut told = 0;
        ledger.each_reputation(|_, reputation| told += u64::from(reputation.pm() == Some(700)));
        assert_eq!(told, 1_000_000);
        let taken = resident().saturating_sub(before);
        assert!(taken < 1 << 30, "{taken} bytes");
    }
}
