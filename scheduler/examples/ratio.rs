//! How long enqueue + dispatch + settle take, as a multiple of inserting into and popping from a bare `BTreeMap` that
//! holds as many entries, and what a queued job and a client cost in memory.
//!
//! `cargo run --release -p ostler-scheduler --example ratio [JOBS CLIENTS]...`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a measurement, not the queue"
)]

use std::collections::{BTreeMap, BinaryHeap};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use ostler_scheduler::{AgentHandle, Config, Event, NewClient, NewJob, RunQueue};

/// Operations of one round, and rounds of which the median counts.
const OPERATIONS: u64 = 200_000;
const ROUNDS: usize = 7;
const PAGE_BYTES: usize = 4096;

/// Xorshift: the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let sizes = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    let default = [1_000, 10, 100_000, 1_000, 1_000_000, 1_000, 1_000_000, 100_000];
    println!(
        "{:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9}",
        "jobs", "clients", "queue ns", "BTreeMap", "heap", "/BTreeMap", "/heap", "B/job", "B/client"
    );
    for size in (if sizes.is_empty() { &default[..] } else { &sizes }).chunks_exact(2) {
        measure(size[0], size[1])?;
    }
    Ok(())
}

fn measure(jobs: u64, clients: u64) -> Result<(), Box<dyn Error>> {
    let start = resident_bytes()?;
    let (mut queue, agents) = filled_with_clients(clients)?;
    let with_clients = resident_bytes()?;
    let (mut numbers, mut events) = (Numbers(42), Vec::new());
    for job in 0..jobs {
        queue.enqueue(
            agents[(job % clients) as usize],
            NewJob::flat(1 + numbers.below(2000)),
            job,
            &mut events,
        )?;
    }
    let with_jobs = resident_bytes()?;
    let mut map: BTreeMap<(u8, i64, u64), u64> =
        (0..jobs).map(|seq| ((1, numbers.below(jobs * 1000) as i64, seq), seq)).collect();
    let mut heap: BinaryHeap<_> = map.iter().map(|(&(_, key, seq), &job)| (-key, seq, job)).collect();

    let (mut of_queue, mut of_map, mut of_heap) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut agent = agents[0];
        of_queue.push(time(|round| {
            numbers.below(clients);
            queue
                .enqueue(agent, NewJob::flat(1 + numbers.below(2000)), round, &mut events)
                .expect("there is room");
            queue.dispatch(1, &mut events);
            let Some(Event::Granted(grant)) = events.first() else { unreachable!("one slot is free") };
            let grant = *grant;
            agent = grant.agent;
            black_box(
                queue.settle(grant.job, (1 + numbers.below(2000)).into(), &mut events).expect("it runs"),
            );
            events.clear();
        }));
        let mut last = 0;
        of_map.push(time(|round| {
            map.insert((1, last + numbers.below(jobs * 2000) as i64, round), round);
            last = black_box(map.pop_first()).expect("it is not empty").0.1;
            numbers.below(clients);
            numbers.below(2000);
        }));
        let mut last = 0;
        of_heap.push(time(|round| {
            heap.push((-(last + numbers.below(jobs * 2000) as i64), round, round));
            last = -black_box(heap.pop()).expect("it is not empty").0;
            numbers.below(clients);
            numbers.below(2000);
        }));
    }
    let [of_queue, of_map, of_heap] = [of_queue, of_map, of_heap].map(median);
    println!(
        "{jobs:>9} {clients:>7} {of_queue:>9.1} {of_map:>9.1} {of_heap:>9.1} {:>9.2} {:>9.2} {:>8.1} {:>9.0}",
        of_queue / of_map,
        of_queue / of_heap,
        with_jobs.saturating_sub(with_clients) as f64 / jobs as f64 - size_of::<u64>() as f64,
        with_clients.saturating_sub(start) as f64 / clients as f64,
    );
    Ok(())
}

fn filled_with_clients(clients: u64) -> Result<(RunQueue<u64>, Vec<AgentHandle>), Box<dyn Error>> {
    let mut queue = RunQueue::new(Config::default())?;
    let mut agents = Vec::new();
    for client in 0..clients {
        let weight = 50 + (client % 7) as u32 * 50;
        let client = queue.add_client(NewClient { weight, ..NewClient::default() })?;
        agents.push(queue.add_agent(client, 100)?);
    }
    Ok((queue, agents))
}

/// Nanoseconds of one operation.
fn time(mut operation: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..OPERATIONS).for_each(&mut operation);
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Memory of this process, from Linux's own account of it; 0 elsewhere.
fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let Ok(text) = std::fs::read_to_string("/proc/self/statm") else { return Ok(0) };
    Ok(text.split(' ').nth(1).unwrap_or("0").parse::<usize>()? * PAGE_BYTES)
}
