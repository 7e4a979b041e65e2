//! Three clients that always have work: their shares follow their weights, independent of the cost of their jobs.
//!
//! `cargo run -p ostler-scheduler --example weights`
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

use std::error::Error;

use ostler_scheduler::{Config, Event, NewClient, NewJob, RunQueue};

/// Weight of a client, and the declared and the true cost of its jobs, in credits.
const CLIENTS: [(u32, u64, u64); 3] = [(100, 50, 50), (100, 500, 700), (200, 90, 30)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut queue = RunQueue::new(Config { slots: 4, ..Config::default() })?;
    let (mut agents, mut events) = (Vec::new(), Vec::new());
    for (number, (weight, estimate, _)) in CLIENTS.into_iter().enumerate() {
        let client = queue.add_client(NewClient { weight, ..NewClient::default() })?;
        let agent = queue.add_agent(client, 100)?;
        agents.push(agent);
        for _ in 0..10 {
            queue.enqueue(agent, NewJob::flat(estimate), number, &mut events)?;
        }
    }
    for _ in 0..20_000 {
        queue.dispatch(4, &mut events);
        for event in std::mem::take(&mut events) {
            let Event::Granted(grant) = event else { continue };
            let number = *queue.job(grant.job).ok_or("a granted job runs")?;
            let (_, estimate, actual) = CLIENTS[number];
            // Each settlement enqueues the next job, so every client always has work.
            let next = vec![(agents[number], NewJob::flat(estimate), number)];
            queue.settle_and_enqueue(grant.job, actual.into(), next, &mut events)?;
        }
    }
    let clients = queue.clients();
    let all: i128 = clients.iter().map(|client| client.charged).sum();
    for (client, (_, estimate, actual)) in clients.iter().zip(CLIENTS) {
        let share = client.charged as f64 / all as f64 * 100.0;
        println!("weight {:>3}, jobs of {actual:>3} declared as {estimate:>3}: {share:.2} %", client.weight);
    }
    Ok(())
}
