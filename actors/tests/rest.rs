//! Waiting runs: they keep no actor, and no message for them is lost.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{Hold, PATIENCE, SLOTS, memory, plan, states, submit, system, until};
use ostler_actors::{AgentProfile, Submission, System};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::json;

/// Waits until no agent has an actor.
async fn resting(system: &System) {
    until(async || system.agents().await.iter().all(|row| row.state == "idle")).await;
}

fn asks(id: &str) -> serde_json::Value {
    let params = json!({"template": "done", "values": {}});
    json!({"id": id, "tool": "text.render", "params": params, "approval": "before", "human_timeout": "1h"})
}

#[tokio::test(start_paused = true)]
async fn a_run_that_only_waits_keeps_no_actor_and_goes_on_when_its_time_has_come() {
    let system = memory().await;
    let mut asks = asks("a");
    asks["deps"] = json!(["s"]);
    let nodes = json!([{"id": "s", "tool": "time.sleep", "params": {"ms": 600_000}}, asks]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    resting(&system).await;
    assert_eq!(states(&system, run).await, "a pending, s running");

    // The ten minutes of the wait, and the person's time limit.
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    resting(&system).await;
    assert_eq!(states(&system, run).await, "a waiting_human, s executed");
    let before = tokio::time::Instant::now();
    let mut changes = system.watch_changes();
    while system.outcome(run).await.unwrap() == RunStatus::Waiting {
        changes.changed().await.unwrap();
    }
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    assert_eq!(before.elapsed().as_secs(), 3_600);
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_less_than_a_second_is_waited_for_by_the_actor() {
    let system = memory().await;
    let begun = tokio::time::Instant::now();
    let sleeps =
        |ms: u32| json!({"id": "p", "nodes": [{"id": "s", "tool": "time.sleep", "params": {"ms": ms}}]});
    let long = submit(&system, sleeps(1_000)).await;
    resting(&system).await;
    let short = submit(&system, sleeps(999)).await;
    until(async || states(&system, short).await == "s running").await;
    // Test time stands still while any task is ready; settling takes far fewer turns than this.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let live = system.agents().await.into_iter().filter(|row| row.state == "live").map(|row| row.agent);
    assert_eq!(live.collect::<Vec<_>>(), [short.to_string().as_str().into()]);
    assert!(begun.elapsed().is_zero(), "{:?}", begun.elapsed());
    for run in [short, long] {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    assert_eq!(begun.elapsed().as_secs(), 1);
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_run_of_an_agent_does_not_overtake_one_that_rests() {
    let system = memory().await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let waits = plan(&system, json!({"id": "waits", "nodes": [asks("a")]}));
    let first = agent.submit(Submission::plan(waits.clone())).await.unwrap();
    let second = agent.submit(Submission::plan(waits)).await.unwrap();
    resting(&system).await;
    assert_eq!(states(&system, second).await, "a pending");
    system.cancel(first).await.unwrap();
    assert_eq!(system.outcome(first).await.unwrap(), RunStatus::Cancelled);
    assert_eq!(system.outcome(second).await.unwrap(), RunStatus::Waiting);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_granted_to_a_run_that_rests_by_then_is_free_again() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let holds: Vec<_> = (0..SLOTS).map(|at| json!({"id": format!("h{at}"), "tool": "hold"})).collect();
    let full = submit(&system, json!({"id": "full", "policy": {"slots": SLOTS}, "nodes": holds})).await;
    for _ in 0..SLOTS {
        hold.started().await;
    }
    // The second node is queued and cancelled there.
    let nodes = json!([asks("a"), {"id": "late", "tool": "hold"}]);
    let rests = submit(&system, json!({"id": "rests", "nodes": nodes})).await;
    until(async || states(&system, rests).await == "a waiting_human, late ready").await;
    system.cancel_node(rests, "late".into()).await.unwrap();
    until(async || system.agents().await.iter().filter(|row| row.state != "idle").count() <= 1).await;

    hold.go(SLOTS);
    assert_eq!(system.outcome(full).await.unwrap(), RunStatus::Succeeded);
    let holds: Vec<_> = (0..SLOTS).map(|at| json!({"id": format!("h{at}"), "tool": "hold"})).collect();
    let all = submit(&system, json!({"id": "all", "policy": {"slots": SLOTS}, "nodes": holds})).await;
    let all_at_once = async {
        for _ in 0..SLOTS {
            hold.started().await;
        }
    };
    tokio::time::timeout(PATIENCE, all_at_once).await.expect("no slot is lost");
    hold.go(SLOTS);
    assert_eq!(system.outcome(all).await.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}

/// The request may arrive while the actor starts, stops or runs.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_on_a_run_that_comes_to_rest_or_leaves_it() {
    let system = memory().await;
    for round in 0..200 {
        let nodes: Vec<_> = ["a", "b", "c", "d"].iter().map(|id| asks(id)).collect();
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        if round % 2 == 0 {
            assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        }
        let skipped = ["a", "b", "c", "d"].map(|id| {
            let system = system.clone();
            tokio::spawn(async move {
                let mut spins = round;
                while spins > 0 {
                    tokio::task::yield_now().await;
                    spins -= 1;
                }
                system.skip_node(run, id.into()).await
            })
        });
        for skipped in skipped {
            skipped.await.unwrap().unwrap();
        }
        assert!(system.outcome(run).await.unwrap().status.is_over());
        assert_eq!(states(&system, run).await, "a skipped, b skipped, c skipped, d skipped");
    }
    system.shutdown().await;
}
