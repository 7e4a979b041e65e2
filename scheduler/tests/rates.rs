//! Rate limits of models and clients: what a bucket gives in any window, parking, and what time alone changes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ostler_scheduler::{
    AgentHandle, BucketConfig, Config, Event, JobHandle, ModelHandle, ModelLimits, NewClient, NewJob, Price,
    RunQueue, Tier,
};
use proptest::prelude::*;

const SLOTS: u32 = 1_000;

struct World {
    queue: RunQueue<u64>,
    agents: Vec<AgentHandle>,
    model: ModelHandle,
    events: Vec<Event>,
    now_ms: u64,
    /// Time, client and tokens of each dispatch.
    granted: Vec<(u64, u64, u64)>,
    running: Vec<(JobHandle, u64)>,
}

fn limits(requests: Option<u64>, tokens: Option<u64>) -> ModelLimits {
    ModelLimits {
        tokens: tokens.map(BucketConfig::per_minute),
        requests: requests.map(BucketConfig::per_minute),
    }
}

fn world(limits: ModelLimits, clients: &[Option<u64>]) -> World {
    let models = [("m".to_owned(), limits), ("other".to_owned(), ModelLimits::default())].into();
    let mut queue = RunQueue::new(Config { models, ..Config::with_slots(SLOTS) }).unwrap();
    let mut add = |tokens: &Option<u64>| {
        let tokens = tokens.map(BucketConfig::per_minute);
        let client = queue.add_client(NewClient { tokens, tier: Tier::Marketplace, ..NewClient::default() });
        queue.add_agent(client.unwrap(), 100).unwrap()
    };
    let agents = clients.iter().map(&mut add).collect();
    let model = queue.model("m").unwrap();
    World { queue, agents, model, events: Vec::new(), now_ms: 0, granted: Vec::new(), running: Vec::new() }
}

impl World {
    fn enqueue(&mut self, client: usize, tokens: u64) -> JobHandle {
        let estimate = Price { charge: 1, credits: 1, tokens };
        let job = NewJob { model: Some(self.model), ..NewJob::of(estimate) };
        self.queue.enqueue(self.agents[client], job, client as u64, &mut self.events).unwrap()
    }

    fn dispatch(&mut self, tokens_of: &dyn Fn(JobHandle) -> u64) {
        self.queue.dispatch(u32::MAX, &mut self.events);
        for event in std::mem::take(&mut self.events) {
            if let Event::Granted(grant) = event {
                let (client, tokens) = (*self.queue.job(grant.job).unwrap(), tokens_of(grant.job));
                self.granted.push((self.now_ms, client, tokens));
                self.running.push((grant.job, tokens));
            }
        }
    }

    fn advance(&mut self, ms: u64) {
        self.queue.advance(ms, &mut self.events);
        self.now_ms += ms;
    }

    /// Settles every running job at its estimate.
    fn settle_all(&mut self) {
        for (job, tokens) in std::mem::take(&mut self.running) {
            self.queue.settle(job, Price { charge: 1, credits: 1, tokens }, &mut self.events).unwrap();
        }
    }

    /// Dispatches `n` jobs of one token in all, waiting as the queue says, and returns the grants of each client.
    fn run(&mut self, n: usize) -> Vec<usize> {
        while self.granted.len() < n {
            self.dispatch(&|_| 1);
            self.settle_all();
            if let Some(ms) = self.queue.next_change_ms() {
                self.advance(ms);
            }
        }
        (0..self.agents.len() as u64)
            .map(|client| self.granted.iter().filter(|(_, of, _)| *of == client).count())
            .collect()
    }
}

/// No window of the grants holds more than the burst and what its length has filled.
fn check_windows(granted: &[(u64, u64)], per_minute: u64) {
    for (at, (from, _)) in granted.iter().enumerate() {
        let mut sum = 0;
        for (to, amount) in &granted[at..] {
            sum += amount;
            let most = u128::from(per_minute) * 60_000 + u128::from(per_minute) * u128::from(to - from);
            assert!(
                u128::from(sum) * 60_000 <= most,
                "{sum} within {} ms at {per_minute} a minute",
                to - from
            );
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue { client: usize, tokens: u64 },
    Advance(u64),
    Settle,
    Park(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 1..400_u64).prop_map(|(client, tokens)| Step::Enqueue { client, tokens }),
        4 => prop_oneof![0..5_u64, 0..2_000_u64, 0..90_000_u64].prop_map(Step::Advance),
        2 => Just(Step::Settle),
        1 => (0..30_000_u64).prop_map(Step::Park),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_bucket_is_exceeded_in_any_window(
        requests in 1..50_u64,
        tokens in 400..3_000_u64,
        own in 400..3_000_u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = world(limits(Some(requests), Some(tokens)), &[None, None, Some(own)]);
        let (mut asked, mut parked_until) = (std::collections::BTreeMap::new(), 0);
        for step in steps {
            match step {
                Step::Enqueue { client, tokens } => {
                    let job = world.enqueue(client, tokens);
                    asked.insert(job, tokens);
                }
                Step::Advance(ms) => world.advance(ms),
                Step::Settle => world.settle_all(),
                Step::Park(ms) => {
                    let model = world.model;
                    world.queue.park(model, ms, &mut world.events);
                    parked_until = parked_until.max(world.now_ms + ms);
                }
            }
            let before = world.granted.len();
            world.dispatch(&|job| asked[&job]);
            if world.granted.len() > before {
                prop_assert!(world.now_ms >= parked_until, "nothing is dispatched while the model is parked");
            }
            // What may change by time alone is announced, or nothing of the model waits.
            if world.queue.queued() > 0 {
                prop_assert!(world.queue.next_change_ms().is_some_and(|ms| ms > 0));
            }
        }
        let of = |amount: fn(&(u64, u64, u64)) -> u64| -> Vec<(u64, u64)> {
            world.granted.iter().map(|grant| (grant.0, amount(grant))).collect()
        };
        check_windows(&of(|_| 1), requests);
        check_windows(&of(|grant| grant.2), tokens);
        let of_client: Vec<(u64, u64)> =
            world.granted.iter().filter(|grant| grant.1 == 2).map(|grant| (grant.0, grant.2)).collect();
        check_windows(&of_client, own);
    }
}

#[test]
fn two_clients_share_the_requests_of_a_model_equally() {
    let mut world = world(limits(Some(60), None), &[None, None]);
    // The first client was there first, with ten times as many jobs.
    (0..600).for_each(|_| {
        world.enqueue(0, 1);
    });
    (0..120).for_each(|_| {
        world.enqueue(1, 1);
    });
    assert_eq!(world.run(180), [90, 90]);
    assert_eq!(world.granted[179].0, 120_000, "60 at once, then one a second");
}

#[test]
fn a_parked_model_admits_nothing_and_holds_no_other_model_up() {
    let mut world = world(limits(None, None), &[None, None]);
    let model = world.model;
    world.queue.park(model, 5_000, &mut world.events);
    world.queue.park(model, 2_000, &mut world.events);
    let job = world.enqueue(0, 1);
    let other = NewJob { model: world.queue.model("other"), ..NewJob::flat(1) };
    world.queue.enqueue(world.agents[1], other, 1, &mut world.events).unwrap();
    world.dispatch(&|_| 1);
    assert_eq!(world.granted, [(0, 1, 1)]);
    assert_eq!((world.queue.wait_ms(job), world.queue.next_change_ms()), (Some(5_000), Some(5_000)));
    world.advance(4_999);
    world.dispatch(&|_| 1);
    assert_eq!(world.queue.parked_ms(model), 1);
    world.advance(1);
    world.dispatch(&|_| 1);
    assert_eq!(world.granted, [(0, 1, 1), (5_000, 0, 1)]);
    assert_eq!((world.queue.wait_ms(job), world.queue.next_change_ms()), (None, None));
}

#[test]
fn a_settlement_and_a_direct_taking_move_the_level_to_the_true_count() {
    let mut world = world(limits(None, Some(600)), &[None]);
    let first = world.enqueue(0, 600);
    world.dispatch(&|_| 600);
    // The job took ten tokens of the 600 that it was expected to take.
    world.queue.settle(first, Price { charge: 1, credits: 1, tokens: 10 }, &mut world.events).unwrap();
    let client = world.queue.clients()[0].client;
    world.queue.take_directly(client, world.model, 190, 0, &mut world.events).unwrap();
    world.running.clear();
    let second = world.enqueue(0, 500);
    assert_eq!(world.queue.wait_ms(second), Some(10_000), "400 of 600 are left, and 10 come in a second");
    // A job that was never started returns its request and its tokens.
    world.advance(10_000);
    world.dispatch(&|_| 500);
    world.queue.refund(second, &mut world.events).unwrap();
    let third = world.enqueue(0, 500);
    assert_eq!(world.queue.wait_ms(third), Some(0));
}

#[test]
fn a_slow_rate_loses_no_fraction() {
    let mut world = world(limits(Some(7), None), &[None]);
    (0..100).for_each(|_| {
        world.enqueue(0, 1);
    });
    // Looking often fills no less than looking seldom.
    for _ in 0..60_000 {
        world.dispatch(&|_| 1);
        world.settle_all();
        world.advance(1);
    }
    world.dispatch(&|_| 1);
    assert_eq!(world.granted.len(), 14);
}

#[test]
fn levels_carried_over_to_another_queue_admit_no_second_burst() {
    let limits = limits(Some(2), Some(1_000));
    let mut before = world(limits, &[None]);
    (0..2).for_each(|_| {
        before.enqueue(0, 300);
    });
    before.dispatch(&|_| 300);
    let parked = before.model;
    before.queue.park(parked, 7_000, &mut before.events);
    let mut after = world(limits, &[None]);
    let waiting = after.enqueue(0, 700);
    assert_eq!(after.queue.wait_ms(waiting), Some(0));
    after.queue.restore_levels(&before.queue.levels(), &mut after.events);
    after.dispatch(&|_| 700);
    assert_eq!(after.granted, []);
    assert_eq!(
        after.queue.wait_ms(waiting),
        Some(30_000),
        "a request comes in half a minute, 300 tokens before"
    );
    assert_eq!(after.queue.parked_ms(after.model), 7_000);
}
