//! Clients and agents in the run queue, added with their first job, with the terms and accounts of the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{ClientId, Ticks};
use ostler_scheduler::{AgentHandle, BALANCE_MAX, BucketConfig, ClientHandle, Event, NewClient, RunQueue};
use ractor::ActorProcessingErr;

use super::queued::Queued;
use crate::base::keys::{FairShareKey, Owner};
use crate::scheduler::rows::{QueueRow, Queueing};
use crate::state::estimates::ATTEMPT_CREDITS;
use crate::state::ledger::{AgentBook, Books, ClientBook, Ledger};
use crate::state::rates::Rates;

pub(super) struct Tenants {
    rates: Arc<Rates>,
    clients: BTreeMap<ClientId, ClientHandle>,
    names: BTreeMap<ClientHandle, ClientId>,
    lanes: BTreeMap<FairShareKey, AgentHandle>,
    /// Lanes of the jobs of a model. A job that waits for the rate of its model would hold up all others of its lane.
    model_lanes: BTreeMap<(FairShareKey, Arc<str>), AgentHandle>,
    new_clients: Vec<(ClientHandle, Arc<ClientBook>)>,
    new_agents: Vec<(AgentHandle, ClientHandle, Books)>,
}

pub(super) struct LaneOf {
    pub(super) agent: AgentHandle,
    pub(super) books: Books,
}

impl Tenants {
    pub(super) fn new(rates: Arc<Rates>) -> Tenants {
        Tenants {
            rates,
            clients: BTreeMap::new(),
            names: BTreeMap::new(),
            lanes: BTreeMap::new(),
            model_lanes: BTreeMap::new(),
            new_clients: Vec::new(),
            new_agents: Vec::new(),
        }
    }

    /// Returns the place of an agent's jobs, adding a new agent. `holding`: the jobs have paid slots.
    pub(super) fn lane(
        &mut self,
        queue: &mut RunQueue<Queued>,
        ledger: &Ledger,
        owner: &Owner,
        now: Ticks,
        holding: bool,
    ) -> Result<LaneOf, ActorProcessingErr> {
        let books = ledger.books(&owner.lane);
        if let Some(agent) = self.lanes.get(&owner.lane) {
            return Ok(LaneOf { agent: *agent, books });
        }
        let client = match self.clients.get(&owner.lane.client) {
            Some(known) => *known,
            None => {
                let tokens = self.rates.client(&owner.lane.client);
                let client = add(queue, &books.client, tokens, now, holding)?;
                self.clients.insert(owner.lane.client.clone(), client);
                self.names.insert(client, owner.lane.client.clone());
                self.new_clients.push((client, Arc::clone(&books.client)));
                client
            }
        };
        let agent = queue.add_agent(client, owner.weight)?;
        self.lanes.insert(owner.lane.clone(), agent);
        self.new_agents.push((agent, client, books.clone()));
        Ok(LaneOf { agent, books })
    }

    /// Returns the place of an agent's jobs of a model, adding a new one. The agent has a lane already. A model lane has the agent's
    /// weight, and begins without debt in every epoch.
    pub(super) fn model_lane(
        &mut self,
        queue: &mut RunQueue<Queued>,
        owner: &Owner,
        model: &Arc<str>,
    ) -> Result<AgentHandle, ActorProcessingErr> {
        let key = (owner.lane.clone(), Arc::clone(model));
        if let Some(lane) = self.model_lanes.get(&key) {
            return Ok(*lane);
        }
        let client = self.client(&owner.lane.client).ok_or("the client of a job is not in the run queue")?;
        let lane = queue.add_agent(client, owner.weight)?;
        self.model_lanes.insert(key, lane);
        Ok(lane)
    }

    pub(super) fn client(&self, name: &ClientId) -> Option<ClientHandle> {
        self.clients.get(name).copied()
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = (&ClientId, ClientHandle)> {
        self.clients.iter().map(|(name, client)| (name, *client))
    }

    pub(super) fn name(&self, client: ClientHandle) -> Option<&ClientId> {
        self.names.get(&client)
    }

    pub(super) fn restore_all(
        &mut self,
        queue: &mut RunQueue<Queued>,
        ledger: &Ledger,
    ) -> Result<(), ActorProcessingErr> {
        let tiers = ledger.tiers();
        let [contracted, marketplace] = tiers.vruntime.map(|vruntime| vruntime.max(0));
        queue.restore_tiers(contracted, marketplace, tiers.owed)?;
        self.restore_new(queue, &mut Vec::new())
    }

    /// Restores the accounts of clients added since the last call.
    pub(super) fn restore_new(
        &mut self,
        queue: &mut RunQueue<Queued>,
        events: &mut Vec<Event>,
    ) -> Result<(), ActorProcessingErr> {
        for (client, book) in std::mem::take(&mut self.new_clients) {
            restore_client(queue, client, &book, events)?;
        }
        for (agent, client, books) in std::mem::take(&mut self.new_agents) {
            restore_agent(queue, agent, client, &books.agent, events)?;
        }
        Ok(())
    }

    /// Stores all accounts for the next epoch, with the lag of clients and agents with work: refunds and weights may
    /// have changed them since the last charge.
    pub(super) fn leave(&self, queue: &RunQueue<Queued>, ledger: &Ledger) {
        let mut agents = BTreeMap::new();
        for (name, &client) in &self.clients {
            let Ok(view) = queue.client(client) else { continue };
            let accounts = Accounts {
                client_vruntime: view.vruntime,
                client_remainder: view.remainder,
                balance: view.balance,
                agents_vruntime: view.agents_vruntime,
                agent_vruntime: 0,
                agent_remainder: 0,
                tier_vruntime: queue.tier(view.tier).vruntime,
                owed: queue.owed(),
            };
            let owed = |queued, lag| if queued > 0 { lag } else { 0 };
            let lag = owed(view.queued, accounts.tier_vruntime.saturating_sub(view.vruntime));
            ledger.leave_client(&ledger.client(name), view.tier, accounts, lag);
            for agent in queue.agents(client).unwrap_or_default() {
                let lag = owed(agent.queued, view.agents_vruntime.saturating_sub(agent.vruntime));
                let (agent_vruntime, agent_remainder) = (agent.vruntime, agent.remainder);
                agents.insert(agent.agent, (Accounts { agent_vruntime, agent_remainder, ..accounts }, lag));
            }
        }
        for (lane, agent) in &self.lanes {
            if let Some((accounts, lag)) = agents.get(agent) {
                ledger.books(lane).agent.leave(*accounts, *lag);
            }
        }
    }

    /// Number of queued jobs and turns that wait for the rate of their model.
    pub(super) fn rate_waits(&self, queue: &RunQueue<Queued>) -> u64 {
        let lanes = self.model_lanes.values().filter_map(|lane| queue.agent(*lane));
        lanes.filter(|lane| !lane.runnable).map(|lane| lane.queued).sum()
    }

    pub(super) fn queueing(&self, queue: &RunQueue<Queued>) -> BTreeMap<ClientId, Queueing> {
        let views = queue.clients().into_iter().filter_map(|view| {
            let queueing = Queueing {
                weight: Some(view.weight),
                running: view.in_flight,
                queued: view.queued,
                charged: u64::try_from(view.charged).unwrap_or(0),
                reserved: view.held,
                lag: i64::try_from(queue.lag(&view)).unwrap_or(i64::MAX),
            };
            Some((self.name(view.client)?.clone(), queueing))
        });
        views.collect()
    }

    /// Accounts of clients, and virtual times of those with work. Idle clients earn nothing: their virtual time is set
    /// when they wake.
    #[cfg(test)]
    pub(super) fn accounts(&self, queue: &RunQueue<Queued>) -> Vec<String> {
        let told = |view: ostler_scheduler::ClientView| {
            let client = self.name(view.client)?;
            let agents = queue.agents(view.client).ok()?.into_iter().filter(|agent| agent.queued > 0);
            let mut agents: Vec<String> = agents
                .map(|agent| format!("{}+{} of {}", agent.vruntime, agent.remainder, agent.weight))
                .collect();
            agents.sort_unstable();
            let ostler_scheduler::ClientView { vruntime, remainder, balance, in_flight, weight, .. } = view;
            let stands = (view.queued > 0).then_some((vruntime, remainder));
            Some(format!(
                "{client} of {weight}: {stands:?}, {balance:?} left, {in_flight} run, agents {agents:?}"
            ))
        };
        let mut accounts: Vec<String> = queue.clients().into_iter().filter_map(told).collect();
        accounts.sort_unstable();
        accounts
    }

    pub(super) fn renew(
        &mut self,
        queue: &mut RunQueue<Queued>,
        ledger: &Ledger,
        client: &ClientId,
        now: Ticks,
        events: &mut Vec<Event>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(&handle) = self.clients.get(client) else { return Ok(()) };
        let book = ledger.client(client);
        queue.set_weight(handle, book.terms().weight(now))?;
        queue.set_tier(handle, book.tier())?;
        if let Some(reputation) = book.reputation_pm() {
            queue.set_reputation(handle, reputation)?;
        }
        match book.balance() {
            Some(balance) => queue.set_balance(handle, balance - queue.held(handle)? as i64, events)?,
            None => queue.clear_balance(handle, events)?,
        }
        Ok(())
    }
}

pub(super) fn queue(queue: &RunQueue<Queued>) -> QueueRow {
    QueueRow {
        slots: queue.config().slots,
        running: queue.running(),
        queued: queue.queued().into(),
        rate_waits: 0,
        marketplace_owed: i64::try_from(queue.owed() / 1_000).unwrap_or(i64::MAX),
    }
}

fn add(
    queue: &mut RunQueue<Queued>,
    book: &ClientBook,
    tokens: Option<BucketConfig>,
    now: Ticks,
    holding: bool,
) -> Result<ClientHandle, ActorProcessingErr> {
    let paid = if holding { BALANCE_MAX } else { 0 };
    let balance = book.balance().map(|balance| balance.max(paid).clamp(0, BALANCE_MAX));
    // The new queue finds out itself whether the client is parked.
    book.park(false);
    let weight = book.terms().weight(now);
    let client =
        queue.add_client(NewClient { weight, tier: book.tier(), balance, tokens, ..NewClient::default() })?;
    if let Some(reputation) = book.reputation_pm() {
        queue.set_reputation(client, reputation)?;
    }
    Ok(client)
}

/// Restores the account of a client: its debt, and its lag up to the bound of theorem T1 for clients with work when the
/// scheduler ended. Idle clients earn nothing.
fn restore_client(
    queue: &mut RunQueue<Queued>,
    client: ClientHandle,
    book: &ClientBook,
    events: &mut Vec<Event>,
) -> Result<(), ActorProcessingErr> {
    let view = queue.client(client)?;
    // Later deposits come with their own message.
    let free = |balance| book.balance().map_or(balance, |free| free - view.held as i64);
    let balance = view.balance.map(free);
    let (vruntime, remainder, agents_vruntime) = match book.last() {
        None => (view.vruntime, view.remainder, view.agents_vruntime),
        Some(last) => {
            let now = queue.tier(view.tier).vruntime;
            let lag_max = lag_max(queue, view.weight).max(book.behind());
            let vruntime = placed(last.client_vruntime, last.tier_vruntime, now, lag_max);
            (vruntime, last.client_remainder.min(view.weight - 1), last.agents_vruntime.max(0))
        }
    };
    Ok(queue.restore_client(client, vruntime, remainder, balance, agents_vruntime, events)?)
}

fn restore_agent(
    queue: &mut RunQueue<Queued>,
    agent: AgentHandle,
    client: ClientHandle,
    book: &AgentBook,
    events: &mut Vec<Event>,
) -> Result<(), ActorProcessingErr> {
    let Some(last) = book.last() else { return Ok(()) };
    let agents = queue.agents(client)?;
    let Some(view) = agents.into_iter().find(|view| view.agent == agent) else { return Ok(()) };
    let now = queue.client(client)?.agents_vruntime;
    let lag_max = lag_max(queue, view.weight).max(book.behind());
    let vruntime = placed(last.agent_vruntime, last.agents_vruntime, now, lag_max);
    Ok(queue.restore_agent(agent, vruntime, last.agent_remainder.min(view.weight - 1), events)?)
}

/// Moves a recorded virtual time to the queue's present base. A value from before a rebase keeps only its lead.
fn placed(then: i64, base: i64, now: i64, lag_max: i64) -> i64 {
    let by_lead = now.saturating_add(then.saturating_sub(base));
    then.min(by_lead).max(now.saturating_sub(lag_max))
}

/// Largest lag of a runnable client by theorem T1: D·o/w + 1 with D slots, each overcharged by o. Another process knows
/// no estimate but the largest hold, so o is that.
fn lag_max(queue: &RunQueue<Queued>, weight: u32) -> i64 {
    let config = queue.config();
    let over = i128::from(config.slots) * i128::from(ATTEMPT_CREDITS) * i128::from(config.scale);
    i64::try_from(over / i128::from(weight) + 1).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_and_a_lag_are_kept_but_idleness_earns_nothing() {
        let check = |then, base, now, expected| assert_eq!(placed(then, base, now, 50), expected);
        check(130, 100, 100, 130); // in debt, and nothing happened since
        check(130, 100, 120, 130); // the others came nearer
        check(130, 100, 500, 450); // long ago
        check(80, 100, 100, 80); // behind, as one with work may be
        check(80, 100, 500, 450);
        check(1_000_130, 1_000_100, 7, 37); // recorded before a rebase
    }
}
