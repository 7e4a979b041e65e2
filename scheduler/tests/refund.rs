//! A refund restores the accounts from before the grant.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ostler_scheduler::{
    AgentHandle, ClientHandle, Config, Event, JobHandle, NewClient, NewJob, Price, RunQueue, SettleError,
};

struct Place {
    queue: RunQueue<u32>,
    client: ClientHandle,
    agent: AgentHandle,
}

impl Place {
    fn new() -> Place {
        let mut queue = RunQueue::new(Config { slots: 2, ..Config::default() }).unwrap();
        let client =
            queue.add_client(NewClient { weight: 7, balance: Some(100), ..NewClient::default() }).unwrap();
        let agent = queue.add_agent(client, 3).unwrap();
        Place { queue, client, agent }
    }

    fn enqueue(&mut self, job: u32, price: Price) -> JobHandle {
        self.queue.enqueue(self.agent, NewJob::of(price), job, &mut Vec::new()).unwrap()
    }

    /// All accounts that a grant changes, except `seq`.
    fn accounts(&self) -> String {
        let view = self.queue.client(self.client).unwrap();
        let agent = self.queue.agents(self.client).unwrap()[0];
        format!(
            "{}+{} charged {} held {} {:?} in flight {}; agent {}+{}; owed {}",
            view.vruntime,
            view.remainder,
            view.charged,
            view.held,
            view.balance,
            view.in_flight,
            agent.vruntime,
            agent.remainder,
            self.queue.owed(),
        )
    }
}

#[test]
fn what_was_charged_for_a_grant_is_given_back_to_the_unit() {
    let mut place = Place::new();
    let price = Price { charge: 11, credits: 30, tokens: 5 };
    let before = place.accounts();
    let job = place.enqueue(1, price);
    let mut events = Vec::new();
    assert_eq!(place.queue.dispatch(9, &mut events), 1);
    assert!(matches!(events[0], Event::Granted(_)));
    assert_ne!(place.accounts(), before);
    assert_eq!(place.queue.held(place.client), Ok(30));
    assert_eq!(place.queue.refund(job, &mut events).unwrap().payload, 1);
    assert_eq!(place.accounts(), before);
    assert!(matches!(place.queue.refund(job, &mut events), Err(SettleError::UnknownJob)));
    assert_eq!(place.accounts(), before, "once");
}

#[test]
fn what_is_queued_and_was_not_granted_has_nothing_to_give_back() {
    let mut place = Place::new();
    let job = place.enqueue(1, Price::flat(5));
    let before = place.accounts();
    assert!(matches!(place.queue.refund(job, &mut Vec::new()), Err(SettleError::NotRunning)));
    assert_eq!((place.accounts(), place.queue.queued()), (before, 1));
}

#[test]
fn what_is_held_follows_what_running_jobs_are_charged() {
    let mut place = Place::new();
    let [first, second] = [place.enqueue(1, Price::flat(20)), place.enqueue(2, Price::flat(10))];
    let mut events = Vec::new();
    place.queue.dispatch(9, &mut events);
    let held = |place: &Place| place.queue.held(place.client).unwrap();
    assert_eq!(held(&place), 30);
    place.queue.step(first, Price::flat(50), &mut events).unwrap();
    assert_eq!(held(&place), 60, "it used more than was expected");
    place.queue.settle(second, Price::flat(90), &mut events).unwrap();
    assert_eq!(held(&place), 50);
    place.queue.settle(first, Price::flat(1), &mut events).unwrap();
    assert_eq!(held(&place), 0);
}

/// While a client is parked, its jobs without credits run, those of the first agent first.
#[test]
fn a_balance_keeps_back_only_what_costs_credits() {
    let mut queue = RunQueue::new(Config { slots: 1, ..Config::default() }).unwrap();
    let client = queue.add_client(NewClient { balance: Some(10), ..NewClient::default() }).unwrap();
    let free = Price { charge: 5, credits: 0, tokens: 0 };
    let agents = [1, 2, 3].map(|weight| queue.add_agent(client, weight * 100).unwrap());
    let mut events = Vec::new();
    let jobs = [(0, Price::flat(20)), (1, free), (2, free), (1, free), (0, free)];
    for (number, (agent, price)) in jobs.into_iter().enumerate() {
        queue.enqueue(agents[agent], NewJob::of(price), number, &mut events).unwrap();
    }
    let next = |queue: &mut RunQueue<usize>, cost: u64| {
        let mut events = Vec::new();
        queue.dispatch(9, &mut events);
        let view = queue.client(client).unwrap();
        let granted = events.iter().find_map(|event| match event {
            Event::Granted(grant) => Some(grant.job),
            _ => None,
        });
        let job = granted.map(|job| queue.settle(job, Price::flat(cost), &mut events).unwrap().payload);
        (job, view.parked, view.balance)
    };
    assert!(queue.client(client).unwrap().parked);
    assert_eq!(next(&mut queue, 7), (Some(1), true, Some(10)));
    assert_eq!(next(&mut queue, 7), (Some(2), true, Some(3)));
    assert_eq!(next(&mut queue, 7), (Some(3), true, Some(-4)), "a debt keeps it back no more");
    assert_eq!(next(&mut queue, 7), (None, true, Some(-11)), "the last one stands behind one that costs");
    queue.credit(client, 31, &mut events).unwrap();
    assert_eq!(next(&mut queue, 20), (Some(0), false, Some(0)));
    assert_eq!(next(&mut queue, 1), (Some(4), false, Some(0)));
}
