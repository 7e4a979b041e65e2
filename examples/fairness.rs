//! One client floods the queue, another arrives later. Measures the newcomer's share, wait and regularity, and compares them with
//! the paper's algorithm, which fixes a job's position at submission.
//!
//! ```console
//! $ cargo run --example fairness
//! ```
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

#[path = "../benches/queue/paper.rs"]
mod paper;

use std::error::Error;

use ostler_scheduler::{AgentHandle, Config, Event, NewClient, NewJob, RunQueue, jain};
use paper::PaperQueue;

/// The flooding client and the newcomer, with equal weights.
const CLIENTS: usize = 2;
const FLOOD: usize = 0;
const NEWCOMER: usize = 1;

/// Jobs of the flood, jobs served before the newcomer arrives with as many, and jobs served afterwards.
const JOBS: usize = 1_000;
const BEFORE: usize = 10;
const SERVED: usize = 900;

/// Actual cost of a job in credits.
const COST: u64 = 100;

/// A job queue with one slot.
trait Slot {
    fn enqueue(&mut self, client: usize, declared: u64) -> Result<(), Box<dyn Error>>;
    /// Runs one job at its actual cost; returns its client.
    fn serve(&mut self) -> Result<usize, Box<dyn Error>>;
}

struct Ours {
    queue: RunQueue<usize>,
    agents: Vec<AgentHandle>,
    events: Vec<Event>,
}

impl Ours {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut queue = RunQueue::new(Config::default())?;
        let mut agents = Vec::new();
        for _ in 0..CLIENTS {
            let client = queue.add_client(NewClient::default())?;
            agents.push(queue.add_agent(client, 100)?);
        }
        Ok(Self { queue, agents, events: Vec::new() })
    }
}

impl Slot for Ours {
    fn enqueue(&mut self, client: usize, declared: u64) -> Result<(), Box<dyn Error>> {
        self.queue.enqueue(self.agents[client], NewJob::flat(declared), client, &mut self.events)?;
        Ok(())
    }

    fn serve(&mut self) -> Result<usize, Box<dyn Error>> {
        self.queue.dispatch(1, &mut self.events);
        let Some(Event::Granted(grant)) = self.events.pop() else { return Err("nothing waits".into()) };
        Ok(self.queue.settle(grant.job, COST.into(), &mut self.events)?.payload)
    }
}

struct Paper(PaperQueue<usize>);

impl Paper {
    fn new() -> Self {
        let mut queue = PaperQueue::new();
        (0..CLIENTS).for_each(|_| queue.add_client(false, 100.0));
        Self(queue)
    }
}

impl Slot for Paper {
    fn enqueue(&mut self, client: usize, declared: u64) -> Result<(), Box<dyn Error>> {
        self.0.enqueue(client as u32, declared, client);
        Ok(())
    }

    fn serve(&mut self) -> Result<usize, Box<dyn Error>> {
        Ok(self.0.dequeue().ok_or("nothing waits")?.1)
    }
}

/// Measured values.
struct Outcome {
    shares: [f64; CLIENTS],
    /// Jobs of the flood served before the newcomer's first job, and on average between two of the newcomer's.
    first_wait: usize,
    mean_wait: f64,
}

fn run(slot: &mut dyn Slot, declared: [u64; CLIENTS]) -> Result<Outcome, Box<dyn Error>> {
    for _ in 0..JOBS {
        slot.enqueue(FLOOD, declared[FLOOD])?;
    }
    for _ in 0..BEFORE {
        slot.serve()?;
    }
    for _ in 0..JOBS {
        slot.enqueue(NEWCOMER, declared[NEWCOMER])?;
    }
    let served: Vec<usize> = (0..SERVED).map(|_| slot.serve()).collect::<Result<_, _>>()?;
    let of = |client: usize| served.iter().filter(|&&other| other == client).count();
    let first_wait = served.iter().position(|&client| client == NEWCOMER).unwrap_or(SERVED);
    Ok(Outcome {
        shares: [FLOOD, NEWCOMER].map(|client| of(client) as f64 / SERVED as f64),
        first_wait,
        mean_wait: of(FLOOD) as f64 / (of(NEWCOMER).max(1)) as f64,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "One slot, two clients of equal weight. One queues {JOBS} jobs; after {BEFORE} of them the other comes"
    );
    println!("with {JOBS} of its own. Shares and waits (in jobs) are those of the next {SERVED} jobs.\n");
    println!(
        "{:<36} {:<6} {:>7} {:>9} {:>11} {:>10} {:>6}",
        "", "", "flood", "newcomer", "first wait", "mean wait", "Jain"
    );
    let cases = [
        ("both declare what their jobs cost", [COST; CLIENTS]),
        ("the flood declares a tenth of it", [COST / 10, COST]),
    ];
    for (case, declared) in cases {
        let slots: [(&str, Box<dyn Slot>); 2] =
            [("paper", Box::new(Paper::new())), ("ours", Box::new(Ours::new()?))];
        for (name, mut slot) in slots {
            let Outcome { shares, first_wait, mean_wait } = run(slot.as_mut(), declared)?;
            let [flood, newcomer] = shares.map(|share| share * 100.0);
            let index = jain(&shares).ok_or("no shares")?;
            println!(
                "{case:<36} {name:<6} {flood:>6.1}% {newcomer:>8.1}% {first_wait:>11} {mean_wait:>10.1} {index:>6.3}"
            );
        }
    }
    Ok(())
}
