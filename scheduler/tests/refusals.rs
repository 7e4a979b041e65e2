//! Every refusal, and the unchanged queue afterwards.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ostler_scheduler::{
    AddAgentError, AddClientError, BALANCE_MAX, BucketConfig, CancelError, ClientHandle, Config, CreditError,
    EnqueueError, Event, JobHandle, NewClient, NewJob, Price, RemoveClientError, ReputationError,
    RestoreError, RunQueue, SettleError, Tier, UnknownClient, WeightError,
};

type Queue = RunQueue<&'static str>;

/// One client with a balance, one running and one queued job.
fn queue(config: Config) -> (Queue, ClientHandle, [JobHandle; 2]) {
    let (mut queue, mut events) = (RunQueue::new(config).unwrap(), Vec::new());
    let client = queue.add_client(NewClient { balance: Some(100), ..NewClient::default() }).unwrap();
    let agent = queue.add_agent(client, 100).unwrap();
    let jobs =
        ["running", "queued"].map(|name| queue.enqueue(agent, NewJob::flat(10), name, &mut events).unwrap());
    queue.dispatch(1, &mut events);
    (queue, client, jobs)
}

fn picture(queue: &Queue) -> String {
    let clients = queue.clients();
    let agents: Vec<_> = clients.iter().map(|client| queue.agents(client.client)).collect();
    let tiers = Tier::ALL.map(|tier| queue.tier(tier));
    format!("{clients:?} {agents:?} {tiers:?} {} {} {}", queue.running(), queue.queued(), queue.owed())
}

#[track_caller]
fn check<T: std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    call: impl FnOnce(&mut Queue, ClientHandle, [JobHandle; 2], &mut Vec<Event>) -> Result<T, E>,
    expected: E,
) {
    let (mut queue, client, jobs) = queue(Config::default());
    let before = picture(&queue);
    let mut events = Vec::new();
    assert_eq!(call(&mut queue, client, jobs, &mut events).unwrap_err(), expected);
    assert_eq!((picture(&queue), events), (before, Vec::new()));
}

#[test]
fn a_refused_call_changes_nothing() {
    use ostler_scheduler::CostOutOfRange as Cost;
    let cost_max = Config::default().cost_max;
    let cost = |amount| Cost { price: Price::flat(amount), cost_max };
    for amount in [0, cost_max + 1, u64::MAX] {
        check(
            |q, c, _, e| {
                let agent = q.agents(c).unwrap()[0].agent;
                q.enqueue(agent, NewJob::flat(amount), "refused", e)
            },
            EnqueueError::Cost(cost(amount)),
        );
        check(
            |q, c, _, e| {
                let agent = q.agents(c).unwrap()[0].agent;
                let jobs = [1, amount].map(|amount| (agent, NewJob::flat(amount), "refused"));
                q.enqueue_batch(jobs.into(), e)
            },
            EnqueueError::Cost(cost(amount)),
        );
    }
    check(|q, _, [job, _], e| q.settle(job, 0.into(), e), SettleError::Cost(cost(0)));
    check(|q, _, [job, _], e| q.settle(job, (cost_max + 1).into(), e), SettleError::Cost(cost(cost_max + 1)));
    check(|q, _, [job, _], e| q.step(job, 0.into(), e), SettleError::Cost(cost(0)));
    check(|q, _, [_, job], e| q.settle(job, 1.into(), e), SettleError::NotRunning);
    check(|q, _, [_, job], e| q.step(job, 1.into(), e), SettleError::NotRunning);
    check(|q, _, [job, _], e| q.cancel(job, e), CancelError::Running);
    check(|q, c, _, e| q.credit(c, -91, e), CreditError::Overflow { balance: 90, amount: -91 });
    check(
        |q, c, _, e| q.credit(c, BALANCE_MAX, e),
        CreditError::Overflow { balance: 90, amount: BALANCE_MAX },
    );
    check(|q, c, _, e| q.credit(c, i64::MAX, e), CreditError::Overflow { balance: 90, amount: i64::MAX });
    check(|q, c, _, _| q.set_weight(c, 0), WeightError::BadWeight(0));
    check(|q, c, _, _| q.set_weight(c, 1_000_001), WeightError::BadWeight(1_000_001));
    check(|q, c, _, _| q.set_reputation(c, 1001), ReputationError::OutOfRange(1001));
    check(|q, c, _, _| q.remove_client(c), RemoveClientError::Busy { queued: 1, in_flight: 1 });
    check(|q, c, _, _| q.add_agent(c, 0), AddAgentError::BadWeight(0));
    check(
        |q, _, _, _| q.add_client(NewClient { weight: 0, ..NewClient::default() }),
        AddClientError::BadWeight(0),
    );
    check(
        |q, _, _, _| q.add_client(NewClient { balance: Some(-1), ..NewClient::default() }),
        AddClientError::BadBalance(-1),
    );
    check(
        |q, _, _, _| q.add_client(NewClient { in_flight_max: Some(0), ..NewClient::default() }),
        AddClientError::BadCap,
    );
    check(|q, c, _, e| q.restore_client(c, 0, 0, None, 0, e), RestoreError::Metering);
    check(
        |q, c, _, e| q.restore_client(c, 0, 100, Some(0), 0, e),
        RestoreError::OutOfRange { field: "remainder", found: 100, min: 0, max: 99 },
    );
    check(
        |q, _, _, _| q.restore_tiers(-1, 0, 0),
        RestoreError::OutOfRange { field: "contracted", found: -1, min: 0, max: 1 << 60 },
    );
}

#[test]
fn a_following_job_that_is_refused_leaves_the_settlement_undone() {
    let (mut queue, client, [job, _]) = queue(Config { jobs_max: 2, ..Config::default() });
    let agent = queue.agents(client).unwrap()[0].agent;
    let (before, mut events) = (picture(&queue), Vec::new());
    let two = vec![(agent, NewJob::flat(1), "next"), (agent, NewJob::flat(1), "next but one")];
    let refused = queue.settle_and_enqueue(job, 10.into(), two, &mut events);
    assert_eq!(refused, Err(SettleError::Following(EnqueueError::Full(2))));
    assert_eq!(picture(&queue), before);
    let one = vec![(agent, NewJob::flat(1), "next")];
    let settled = queue.settle_and_enqueue(job, 10.into(), one, &mut events).unwrap();
    assert_eq!((settled.payload, queue.job(settled.following[0])), ("running", Some(&"next")));
}

#[test]
fn every_limit_holds() {
    let config = Config { clients_max: 2, agents_max: 2, jobs_max: 2, ..Config::default() };
    let (mut queue, client, _) = queue(config);
    let agent = queue.agents(client).unwrap()[0].agent;
    let full = queue.enqueue(agent, NewJob::flat(1), "third", &mut Vec::new());
    assert_eq!(full, Err(EnqueueError::Full(2)));
    let together = queue.enqueue_batch(vec![(agent, NewJob::flat(1), "third")], &mut Vec::new());
    assert_eq!(together, Err(EnqueueError::Full(2)));
    queue.add_agent(client, 1).unwrap();
    assert_eq!(queue.add_agent(client, 1), Err(AddAgentError::Full(2)));
    let second = queue.add_client(NewClient::default()).unwrap();
    assert_eq!(queue.add_client(NewClient::default()), Err(AddClientError::Full(2)));
    queue.remove_client(second).unwrap();
    queue.add_client(NewClient::default()).unwrap();
}

/// ±25 % at reputation 0 and 1000, rounded to integers of at least 1.
#[test]
fn reputation_bends_a_weight_by_at_most_a_quarter() {
    let (mut queue, client, _) = queue(Config::default());
    for (weight, reputation, bent) in [
        (1_000, 0, 750),
        (1_000, 250, 875),
        (1_000, 500, 1_000),
        (1_000, 501, 1_000),
        (1_000, 750, 1_125),
        (1_000, 1_000, 1_250),
        (1, 0, 1),
        (3, 1_000, 3),
        (1_000_000, 1_000, 1_250_000),
    ] {
        queue.set_weight(client, weight).unwrap();
        assert_eq!(queue.set_reputation(client, reputation), Ok(bent), "{weight} {reputation}");
        assert_eq!(queue.client(client).unwrap().weight, bent);
    }
    let bent: Vec<u32> = (0..=1_000).map(|pm| queue.set_reputation(client, pm).unwrap()).collect();
    assert!(bent.is_sorted(), "the better the reputation, the more");
}

#[test]
fn a_spent_handle_names_nothing() {
    let (mut queue, client, [running, queued]) = queue(Config::default());
    let mut events = Vec::new();
    let agent = queue.agents(client).unwrap()[0].agent;
    queue.settle(running, 3.into(), &mut events).unwrap();
    assert_eq!(queue.cancel(queued, &mut events), Ok("queued"));
    assert_eq!(queue.settle(running, 3.into(), &mut events), Err(SettleError::UnknownJob));
    assert_eq!(queue.cancel(queued, &mut events), Err(CancelError::UnknownJob));
    let again = queue.enqueue(agent, NewJob::flat(1), "again", &mut events).unwrap();
    assert_eq!((queue.job(running), queue.job(queued), queue.job(again)), (None, None, Some(&"again")));
    queue.cancel(again, &mut events).unwrap();
    queue.remove_client(client).unwrap();
    let successor = queue.add_client(NewClient::default()).unwrap();
    assert_ne!(client, successor);
    assert_eq!(queue.client(client), Err(UnknownClient));
    assert_eq!(queue.enqueue(agent, NewJob::flat(1), "late", &mut events), Err(EnqueueError::UnknownAgent));
}

/// Every call refuses invalid handles and handles of another queue.
#[test]
fn a_stranger_is_refused_and_changes_nothing() {
    let (mut queue, client, [running, _]) = queue(Config::default());
    let (mut events, agent) = (Vec::new(), queue.agents(client).unwrap()[0].agent);
    let gone = queue.add_client(NewClient::default()).unwrap();
    let gone_agent = queue.add_agent(gone, 100).unwrap();
    queue.remove_client(gone).unwrap();
    queue.settle(running, 10.into(), &mut events).unwrap();
    events.clear();
    let bucket = BucketConfig::per_second(1, 1);
    let other =
        RunQueue::<()>::new(Config { models: [("m".into(), bucket.into())].into(), ..Config::default() });
    let model = other.unwrap().model("m");
    let before = picture(&queue);

    assert_eq!(queue.remove_client(gone), Err(RemoveClientError::Unknown(UnknownClient)));
    assert_eq!(queue.add_agent(gone, 100), Err(AddAgentError::Unknown(UnknownClient)));
    assert_eq!(queue.credit(gone, 1, &mut events), Err(CreditError::Unknown(UnknownClient)));
    assert_eq!(queue.set_weight(gone, 1), Err(WeightError::Unknown(UnknownClient)));
    assert_eq!(queue.set_reputation(gone, 1), Err(ReputationError::Unknown(UnknownClient)));
    assert_eq!(queue.set_tier(gone, Tier::Contracted), Err(UnknownClient));
    assert_eq!(queue.restore_client(gone, 0, 0, None, 0, &mut events), Err(RestoreError::Unknown));
    assert_eq!(queue.restore_agent(gone_agent, 0, 0, &mut events), Err(RestoreError::Unknown));
    let refused = queue.enqueue(gone_agent, NewJob::flat(1), "refused", &mut events);
    assert_eq!(refused, Err(EnqueueError::UnknownAgent));
    let refused = queue.enqueue(agent, NewJob { model, ..NewJob::flat(1) }, "refused", &mut events);
    assert_eq!(refused, Err(EnqueueError::UnknownModel));
    assert_eq!(queue.settle(running, 10.into(), &mut events), Err(SettleError::UnknownJob), "settled before");
    assert_eq!(queue.step(running, 10.into(), &mut events), Err(SettleError::UnknownJob));
    assert_eq!(queue.cancel(running, &mut events), Err(CancelError::UnknownJob));
    assert_eq!((picture(&queue), events), (before, Vec::new()));
}

#[test]
fn an_unmetered_client_takes_no_credit() {
    let mut queue = Queue::new(Config::default()).unwrap();
    let client = queue.add_client(NewClient::default()).unwrap();
    let before = picture(&queue);
    assert_eq!(queue.credit(client, 1, &mut Vec::new()), Err(CreditError::Unmetered));
    assert_eq!(picture(&queue), before);
}
