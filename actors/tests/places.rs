//! More runs than actors: the order in which runs get an actor, and runs that need none.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Hold, plan, until};
use ostler_actors::{ClientChange, Limits, RunError, Submission, System};
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{Journal, Seq, StreamId};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::json;

fn hold(name: &str) -> Arc<Hold> {
    Hold::new(name, Effect::Read, Idempotency::Natural)
}

async fn within(live_agents: u32, tools: [&Arc<Hold>; 2]) -> (System, Arc<MemoryJournal>) {
    let journal = Arc::new(MemoryJournal::default());
    let tools = tools.map(|tool| tool.clone() as _).into();
    let limits = Limits { live_agents, ..Limits::default() };
    (common::within(journal.clone(), tools, limits).await, journal)
}

async fn open(system: &System, client: &str, tool: &str) -> RunId {
    let plan = plan(system, json!({"id": "p", "nodes": [{"id": "n", "tool": tool}]}));
    system.submit(Submission { client: client.into(), ..Submission::plan(plan) }).await.unwrap()
}

async fn deposit(system: &System, client: &str, credits: i64) {
    let change = ClientChange { credits: Some(credits), ..ClientChange::default() };
    system.change_client(client, change).await.unwrap();
}

async fn in_line(system: &System) -> usize {
    system.agents().await.iter().filter(|agent| agent.state == "waiting").count()
}

#[tokio::test]
async fn clients_take_turns_at_the_places_of_actors() {
    let (flood, other) = (hold("flood"), hold("other"));
    let (system, _) = within(2, [&flood, &other]).await;
    for _ in 0..40 {
        open(&system, "many", "flood").await;
    }
    flood.started().await;
    flood.started().await;
    until(async || in_line(&system).await == 38).await;
    let one = open(&system, "few", "other").await;
    until(async || in_line(&system).await == 39).await;
    // One run of the flood may already have been called; the other client's run is next.
    flood.go(2);
    other.started().await;
    other.go(1);
    assert_eq!(system.outcome(one).await.unwrap(), RunStatus::Succeeded);
    flood.go(38);
    until(async || system.agents().await.is_empty()).await;
    system.shutdown().await;
}

#[tokio::test]
async fn a_run_that_waits_for_a_place_is_cancelled_at_once() {
    let (busy, other) = (hold("busy"), hold("other"));
    let (system, _) = within(1, [&busy, &other]).await;
    let first = open(&system, "acme", "busy").await;
    busy.started().await;
    let (second, third) = (open(&system, "acme", "other").await, open(&system, "acme", "other").await);
    until(async || in_line(&system).await == 2).await;
    system.cancel(second).await.unwrap();
    assert_eq!(system.outcome(second).await.unwrap(), RunStatus::Cancelled);
    assert!(matches!(system.cancel(second).await, Err(RunError::InvalidState(_))));
    busy.go(1);
    other.started().await;
    other.go(1);
    for run in [first, third] {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    until(async || system.agents().await.is_empty()).await;
    system.shutdown().await;
}

/// Each change of whether the run waits for credits.
fn waits(journal: &MemoryJournal, client: &str, run: RunId) -> Vec<bool> {
    let records = journal.read(StreamId::run(&client.into(), run), Seq(0), usize::MAX).unwrap();
    let waits = records.iter().filter_map(|record| match record.event {
        Event::OutOfCredit { out } => Some(out),
        _ => None,
    });
    waits.collect()
}

#[tokio::test]
async fn runs_without_credits_leave_their_places_to_others_and_all_go_on_when_there_are_some() {
    let (poor, other) = (hold("poor"), hold("other"));
    let (system, journal) = within(12, [&poor, &other]).await;
    deposit(&system, "poor", 10).await;
    let mut runs = Vec::new();
    for _ in 0..300 {
        runs.push(open(&system, "poor", "poor").await);
    }
    // The cost is unknown until one run has ended, so none is affordable.
    let one = open(&system, "rich", "other").await;
    other.started().await;
    other.go(1);
    assert_eq!(system.outcome(one).await.unwrap(), RunStatus::Succeeded);
    until(async || {
        let agents = system.agents().await;
        let idle = agents.iter().filter(|agent| agent.state == "idle").count();
        idle == 296 && in_line(&system).await == 0
    })
    .await;
    assert!(!poor.has_started());
    // A run without an actor is cancelled like any other.
    let cancelled = runs.pop().unwrap();
    system.cancel(cancelled).await.unwrap();
    assert_eq!(system.outcome(cancelled).await.unwrap(), RunStatus::Cancelled);
    poor.go(299);
    deposit(&system, "poor", 1_000_000).await;
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        let waits = waits(&journal, "poor", run);
        assert!(waits.is_empty() || waits == [true, false], "{waits:?}");
    }
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_only_run_that_waits_for_credits_stays_where_it_is_while_others_of_its_client_run() {
    let (busy, other) = (hold("busy"), hold("other"));
    let journal = Arc::new(MemoryJournal::default());
    let watched = common::Watched::over(journal.clone());
    let system = common::system(watched.clone(), vec![busy.clone(), other.clone()]).await;
    deposit(&system, "acme", 450).await;
    // Each attempt reserves a hundred.
    for _ in 0..4 {
        open(&system, "acme", "busy").await;
        busy.started().await;
    }
    let last = open(&system, "acme", "other").await;
    until(async || system.clients().await.iter().any(|client| client.parked)).await;
    watched.records_of(last);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(watched.records_of(last), 0, "it is not read again and again");
    // An attempt of several seconds costs more than the old balance.
    deposit(&system, "acme", 1_000_000).await;
    busy.go(4);
    other.go(1);
    assert_eq!(system.outcome(last).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(waits(&journal, "acme", last), [true, false]);
    system.shutdown().await;
}
