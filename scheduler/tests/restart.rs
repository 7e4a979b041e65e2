//! A queue restored from the accounts of the last grants continues with the same order.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use ostler_scheduler::{Accounts, Config, Event, NewClient, NewJob, RunQueue, Tier};

const CLIENTS: [(u32, Option<i64>, Tier); 4] = [
    (700, None, Tier::Contracted),
    (100, Some(2_000_000), Tier::Marketplace),
    (330, None, Tier::Marketplace),
    (70, Some(1_000_000), Tier::Marketplace),
];

/// A queue with two agents per client. Payload of a job: client, agent, number.
fn queue() -> RunQueue<(usize, usize, u64)> {
    let mut queue = RunQueue::new(Config { slots: 3, ..Config::default() }).unwrap();
    for (weight, balance, tier) in CLIENTS {
        let client = queue.add_client(NewClient { weight, balance, tier, ..NewClient::default() }).unwrap();
        queue.add_agent(client, 100).unwrap();
        queue.add_agent(client, 270).unwrap();
    }
    queue
}

fn cost((client, agent, number): (usize, usize, u64)) -> u64 {
    1000 + 137 * client as u64 + 59 * agent as u64 + 7919 * number % 997
}

fn fill(queue: &mut RunQueue<(usize, usize, u64)>, jobs: impl IntoIterator<Item = (usize, usize, u64)>) {
    let clients = queue.clients();
    for job in jobs {
        let agent = queue.agents(clients[job.0].client).unwrap()[job.1].agent;
        queue.enqueue(agent, NewJob::flat(cost(job)), job, &mut Vec::new()).unwrap();
    }
}

/// Dispatches and settles. Returns the granted jobs with their keys, and the last accounts of each client and agent.
#[allow(clippy::type_complexity, reason = "two answers of one loop")]
fn run(
    queue: &mut RunQueue<(usize, usize, u64)>,
    rounds: usize,
) -> (Vec<((usize, usize, u64), i64)>, BTreeMap<(usize, usize), Accounts>) {
    let (mut granted, mut last, mut events) = (Vec::new(), BTreeMap::new(), Vec::new());
    for _ in 0..rounds {
        queue.dispatch(3, &mut events);
        for event in std::mem::take(&mut events) {
            let Event::Granted(grant) = event else { panic!("nobody runs out of credit") };
            let job = *queue.job(grant.job).unwrap();
            granted.push((job, grant.key));
            let settled = queue.settle(grant.job, (cost(job) * 3 / 4).into(), &mut events).unwrap();
            last.insert((job.0, job.1), settled.accounts);
        }
    }
    (granted, last)
}

#[test]
fn restored_accounts_continue_the_same_order() {
    let all: Vec<_> = (0..40).flat_map(|n| (0..4).flat_map(move |c| [(c, 0, n), (c, 1, n)])).collect();
    let mut old = queue();
    fill(&mut old, all.iter().copied());
    let (granted, last) = run(&mut old, 30);
    assert_eq!(granted.len(), 90);
    assert_eq!(last.len(), 8, "every agent was served");

    let mut new = queue();
    fill(&mut new, all.iter().copied().filter(|job| granted.iter().all(|(done, _)| done != job)));
    let mut events = Vec::new();
    let clients = new.clients();
    for (&(client, agent), accounts) in &last {
        let agent = new.agents(clients[client].client).unwrap()[agent].agent;
        new.restore_agent(agent, accounts.agent_vruntime, accounts.agent_remainder, &mut events).unwrap();
    }
    for old in old.clients() {
        let (client, vruntime) = (old.client, old.vruntime);
        new.restore_client(client, vruntime, old.remainder, old.balance, old.agents_vruntime, &mut events)
            .unwrap();
    }
    let [contracted, marketplace] = Tier::ALL.map(|tier| old.tier(tier).vruntime);
    new.restore_tiers(contracted, marketplace, old.owed()).unwrap();

    assert_eq!(events, []);
    assert_eq!(run(&mut new, 1000), run(&mut old, 1000));
}

#[test]
fn restoring_a_balance_parks_and_unparks() {
    let mut queue = queue();
    fill(&mut queue, [(1, 0, 0)]);
    let (client, mut events) = (queue.clients()[1].client, Vec::new());
    queue.restore_client(client, 0, 0, Some(-5), 0, &mut events).unwrap();
    queue.restore_client(client, 0, 0, Some(5000), 0, &mut events).unwrap();
    assert_eq!(events, [Event::Parked(client), Event::Unparked(client)]);
}

#[test]
fn without_a_balance_a_parked_client_is_served() {
    let mut queue = queue();
    fill(&mut queue, [(1, 0, 0), (1, 1, 0)]);
    let (client, mut events) = (queue.clients()[1].client, Vec::new());
    queue.set_balance(client, -5, &mut events).unwrap();
    queue.clear_balance(client, &mut events).unwrap();
    assert_eq!(events, [Event::Parked(client), Event::Unparked(client)]);
    assert_eq!(queue.clients()[1].balance, None);
    assert_eq!(run(&mut queue, 1).0.len(), 2);
}
