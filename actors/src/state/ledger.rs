//! The ledger: terms, charges and reservations of clients. A cache of the journal that outlives the actors, so a
//! restarted scheduler continues from it.

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

/// Terms of a client in the configuration. Other clients have weight 100 in the marketplace until their records change
/// that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Name of the client.
    pub name: ClientId,
    /// Weight among the clients of the tier.
    pub weight: u32,
    /// Served in the contracted tier.
    pub contracted: bool,
    /// Tokens of all models that the client may use in a minute, at least 1; `None`: no limit.
    pub tokens_per_minute: Option<u32>,
}

#[derive(Default)]
pub(crate) struct Ledger {
    configured: BTreeMap<ClientId, ClientTerms>,
    clients: Mutex<BTreeMap<ClientId, Arc<ClientBook>>>,
    /// Number of charges; orders concurrent ones.
    charges: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tiers {
    pub(crate) vruntime: [i64; 2],
    pub(crate) owed: i128,
}

#[derive(Default)]
pub(crate) struct ClientBook {
    terms: Mutex<ClientTerms>,
    /// Credits that attempts have cost.
    spent: AtomicU64,
    last: Mutex<Option<Last>>,
    agents: Mutex<BTreeMap<Option<AgentId>, Arc<AgentBook>>>,
    /// Credits reserved for market jobs.
    reservations: Mutex<Reservations>,
    /// Nothing is dispatched for lack of credits.
    parked: AtomicBool,
    /// Virtual time that the client with work was behind when the scheduler ended; the next scheduler owes it.
    behind: AtomicI64,
}

/// Accounts of a client after its last charge. The agent's account counts nothing here.
#[derive(Clone, Copy)]
struct Last {
    charge: u64,
    /// Tier of that charge; `None`: the present one.
    tier: Option<Tier>,
    accounts: Accounts,
}

/// Account of one agent, or of all unnamed agents of a client.
#[derive(Default)]
pub(crate) struct AgentBook {
    last: Mutex<Option<Accounts>>,
    reputation: Mutex<Reputation>,
    /// Virtual time that the agent with work was behind when the scheduler ended.
    behind: AtomicI64,
}

/// The two accounts that an attempt is charged to.
#[derive(Clone)]
pub(crate) struct Books {
    pub(crate) client: Arc<ClientBook>,
    pub(crate) agent: Arc<AgentBook>,
}

impl Ledger {
    /// The ledger of a starting system, from its configuration and the journal's account table. The registry reads the
    /// rest.
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

    /// Recomputes what clients spent from the records, plus ended attempts without a record, after a rollback. No
    /// charge runs meanwhile; reservations are read again by the market.
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

    pub(crate) fn find(&self, client: &ClientId) -> Option<Arc<ClientBook>> {
        lock(&self.clients).get(client).cloned()
    }

    /// True if the client is known, or fewer than `most` are.
    pub(crate) fn has_room(&self, client: &ClientId, most: usize) -> bool {
        let clients = lock(&self.clients);
        clients.len() < most || clients.contains_key(client)
    }

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

    /// The books that attempts of a share are charged to.
    pub(crate) fn books(&self, lane: &FairShareKey) -> Books {
        let client = self.client(&lane.client);
        let agent = Arc::clone(lock(&client.agents).entry(lane.agent.clone()).or_default());
        Books { client, agent }
    }

    pub(crate) fn read_reputation(&self, AccountRow { client, agent, reputation, .. }: AccountRow) {
        *lock(&self.books(&FairShareKey { client, agent }).agent.reputation) = reputation;
    }

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

    pub(crate) fn reputation(&self, client: &ClientId, agent: Option<&AgentId>) -> Reputation {
        let book = self.find(client);
        let agent = book.and_then(|book| lock(&book.agents).get(&agent.cloned()).cloned());
        agent.map(|agent| *lock(&agent.reputation)).unwrap_or_default()
    }

    pub(crate) fn clients(&self) -> Vec<(ClientId, Arc<ClientBook>)> {
        lock(&self.clients).iter().map(|(client, book)| (client.clone(), Arc::clone(book))).collect()
    }

    /// True if the configuration sets the client's terms.
    pub(crate) fn is_configured(&self, client: &ClientId) -> bool {
        self.configured.contains_key(client)
    }

    /// Forgets recorded terms before they are read again.
    pub(crate) fn forget_terms(&self) {
        for (client, book) in lock(&self.clients).iter() {
            *lock(&book.terms) = self.configured.get(client).cloned().unwrap_or_default();
        }
    }

    /// Applies a record of a client. Configured terms stay.
    pub(crate) fn record(&self, event: &Event, at_ms: Ticks) {
        match event {
            Event::ClientSet { client, .. } if self.is_configured(client) => {}
            Event::ClientSet { client, .. }
            | Event::CreditDeposited { client, .. }
            | Event::BalanceDeposited { client, .. } => {
                lock(&self.client(client).terms).apply(event, at_ms);
            }
            Event::ClientRemoved { client } => self.remove(client),
            _ => {}
        }
    }

    /// Resets the terms of a client. A client without any account is forgotten, as after a restart.
    fn remove(&self, client: &ClientId) {
        let mut clients = lock(&self.clients);
        let Some(book) = clients.get(client) else { return };
        *lock(&book.terms) = self.configured.get(client).cloned().unwrap_or_default();
        book.park(false);
        if !self.is_configured(client) && book.spent() == 0 && lock(&book.agents).is_empty() {
            clients.remove(client);
        }
    }

    /// Stores the accounts after a charge.
    pub(crate) fn charged(&self, books: &Books, tier: Option<Tier>, accounts: Accounts) {
        let charge = self.charges.fetch_add(1, Ordering::Relaxed);
        *lock(&books.client.last) = Some(Last { charge, tier, accounts });
        *lock(&books.agent.last) = Some(accounts);
    }

    /// Stores the accounts and the lag of a client when the scheduler ends.
    pub(crate) fn leave_client(&self, book: &ClientBook, tier: Tier, accounts: Accounts, behind: i64) {
        let charge = self.charges.fetch_add(1, Ordering::Relaxed);
        *lock(&book.last) = Some(Last { charge, tier: Some(tier), accounts });
        book.behind.store(behind, Ordering::Relaxed);
    }

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
    pub(crate) fn terms(&self) -> ClientTerms {
        lock(&self.terms).clone()
    }

    pub(crate) fn tier(&self) -> Tier {
        if lock(&self.terms).is_contracted() { Tier::Contracted } else { Tier::Marketplace }
    }

    /// Credits that attempts have cost.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Credits left apart from running attempts; `None`: not metered.
    pub(crate) fn left(&self) -> Option<i64> {
        lock(&self.terms).left(self.spent())
    }

    /// Charges the cost of an attempt. Returns the credits that a reservation covers; the balance pays the rest.
    pub(crate) fn spend(&self, run: RunId, cost: u64) -> u64 {
        self.spent.fetch_add(cost, Ordering::Relaxed);
        self.settle_reserved(run, cost)
    }

    /// The same for a charge with an unknown reservation.
    pub(crate) fn settle_reserved(&self, run: RunId, cost: u64) -> u64 {
        lock(&self.reservations).settle(run, cost)
    }

    pub(crate) fn unspend(&self, run: RunId, cost: u64) {
        self.spent.fetch_sub(cost, Ordering::Relaxed);
        lock(&self.reservations).revert_settle(run, cost);
    }

    /// Lets a child run use the reservation of its parent.
    pub(crate) fn adopt(&self, run: RunId, parent: RunId) {
        lock(&self.reservations).add_child(run, parent);
    }

    /// Reserves credits for a job of which `spent` is used already. An existing reservation stays.
    pub(crate) fn reserve(&self, job: RunId, budget: u64, spent: u64) {
        let mut reservations = lock(&self.reservations);
        if !reservations.is_reserved(job) {
            reservations.reserve(job, budget, spent);
        }
    }

    pub(crate) fn refund(&self, job: RunId) {
        lock(&self.reservations).refund(job);
    }

    /// Credits reserved for jobs and not spent.
    pub(crate) fn reserved(&self) -> u64 {
        lock(&self.reservations).outstanding()
    }

    /// Credits neither spent nor reserved; `None`: not metered.
    pub(crate) fn balance(&self) -> Option<i64> {
        Some(self.left()?.saturating_sub_unsigned(self.reserved()))
    }

    /// True if a reservation pays for the run, so that it waits for no credits.
    pub(crate) fn is_prepaid(&self, run: RunId) -> bool {
        lock(&self.reservations).is_reserved(run)
    }

    /// True if attempts of the run may start: credits reserved for others do not count.
    pub(crate) fn may_start(&self, run: RunId) -> bool {
        let reservations = lock(&self.reservations);
        let reserved = reservations.outstanding();
        let spare = |left: i64| left.saturating_sub_unsigned(reserved) > 0;
        reserved == 0 || reservations.is_reserved(run) || self.left().is_none_or(spare)
    }

    /// Sets whether the client lacks credits.
    pub(crate) fn park(&self, parked: bool) {
        self.parked.store(parked, Ordering::Relaxed);
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Mean reputation in thousandths; each agent counts by its runs.
    pub(crate) fn reputation_pm(&self) -> Option<u16> {
        Reputation::mean_pm(lock(&self.agents).values().map(|agent| *lock(&agent.reputation)))
    }

    /// Accounts after the last charge.
    pub(crate) fn last(&self) -> Option<Accounts> {
        lock(&self.last).map(|last| last.accounts)
    }

    /// Virtual time that the client with work was behind when the scheduler ended; else 0.
    pub(crate) fn behind(&self) -> i64 {
        self.behind.load(Ordering::Relaxed)
    }
}

impl AgentBook {
    /// Stores the account and the lag when the scheduler ends.
    pub(crate) fn leave(&self, accounts: Accounts, behind: i64) {
        *lock(&self.last) = Some(accounts);
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// Account after the last charge, or at the end of the scheduler.
    pub(crate) fn last(&self) -> Option<Accounts> {
        *lock(&self.last)
    }

    /// Virtual time that the agent with work was behind when the scheduler ended; else 0.
    pub(crate) fn behind(&self) -> i64 {
        self.behind.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory of the process in bytes, on Linux.
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
                calls: Default::default(),
            });
        }
        let mut told = 0;
        ledger.each_reputation(|_, reputation| told += u64::from(reputation.pm() == Some(700)));
        assert_eq!(told, 1_000_000);
        let taken = resident().saturating_sub(before);
        assert!(taken < 1 << 30, "{taken} bytes");
    }
}
