//! The workload: clients, costs and keys from a fixed pseudorandom sequence.

use ostler_scheduler::{AgentHandle, Config, NewClient, NewJob, RunQueue};

/// Largest estimate and largest actual cost.
pub(crate) const COST_MAX: u64 = 2_000;

/// Number of draws computed before the measurement.
const DRAWS: usize = 1 << 16;

/// Xorshift pseudorandom numbers.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new() -> Self {
        Self(42)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub(crate) fn cost(&mut self) -> u64 {
        1 + self.below(COST_MAX)
    }
}

/// Parameters of one turn.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) client: u32,
    pub(crate) estimate: u64,
    pub(crate) actual: u64,
    /// Distance of the new key of a bare structure from its first key.
    pub(crate) behind: i64,
}

/// Endless repetition of the computed draws.
pub(crate) struct Draws {
    drawn: Vec<Draw>,
    next: usize,
}

impl Draws {
    pub(crate) fn new(size: Size) -> Self {
        let mut numbers = Numbers::new();
        let draw = |_| Draw {
            client: numbers.below(size.clients) as u32,
            estimate: numbers.cost(),
            actual: numbers.cost(),
            behind: numbers.below(size.jobs * COST_MAX) as i64,
        };
        Self { drawn: (0..DRAWS).map(draw).collect(), next: 0 }
    }

    pub(crate) fn draw(&mut self) -> Draw {
        self.next = (self.next + 1) % DRAWS;
        self.drawn[self.next]
    }
}

/// Number of queued jobs and of clients.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) jobs: u64,
    pub(crate) clients: u64,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |number: u64| match number {
            1_000_000.. => format!("{}M", number / 1_000_000),
            1_000.. => format!("{}k", number / 1_000),
            _ => number.to_string(),
        };
        write!(f, "n={}, k={}", short(self.jobs), short(self.clients))
    }
}

/// Seven different weights, cyclically.
pub(crate) fn weight(client: u64) -> u32 {
    50 + (client % 7) as u32 * 50
}

/// A queue of this size, and the agent of each client. `new` makes a job from its number and its estimate.
pub(crate) fn filled(
    size: Size,
    slots: u32,
    new: fn(u64, u64) -> NewJob,
) -> (RunQueue<u64>, Vec<AgentHandle>) {
    let mut queue = RunQueue::new(Config { slots, cost_max: COST_MAX, ..Config::default() }).unwrap();
    let agent = |client| {
        let weight = weight(client);
        let client = queue.add_client(NewClient { weight, ..NewClient::default() }).unwrap();
        queue.add_agent(client, 100).unwrap()
    };
    let agents: Vec<AgentHandle> = (0..size.clients).map(agent).collect();
    let (mut numbers, mut events) = (Numbers::new(), Vec::new());
    for job in 0..size.jobs {
        let agent = agents[(job % size.clients) as usize];
        queue.enqueue(agent, new(job, numbers.cost()), job, &mut events).unwrap();
    }
    (queue, agents)
}
