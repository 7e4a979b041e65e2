//! Runs that only wait: they keep no actor, and nothing that comes for them is lost.
#![allow(clippy::unwrap_used)] // a test that unwraps in vain fails, which is its purpose

mod common;

use common::{memory, plan, states, submit};
use ostler_actors::{AgentProfile, Settled, Submission, System};
use ostler_kernel::run::RunOutcome;
use serde_json::json;

/// Waits until no agent has an actor.
async fn resting(system: &System) {
    while system.agents().await.iter().any(|row| row.state != "row") {
        tokio::task::yield_now().await;
    }
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

    // The ten minutes, and what a person is given.
    assert_eq!(system.outcome(run).await.unwrap(), Settled::WaitsForPerson);
    resting(&system).await;
    assert_eq!(states(&system, run).await, "a waiting_human, s executed");
    let before = tokio::time::Instant::now();
    while system.outcome(run).await.unwrap() == Settled::WaitsForPerson {
        system.stirred().await;
    }
    assert_eq!(system.outcome(run).await.unwrap(), Settled::Closed(RunOutcome::Failed));
    assert_eq!(before.elapsed().as_secs(), 3_600);
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
    assert_eq!(system.outcome(first).await.unwrap(), Settled::Closed(RunOutcome::Cancelled));
    assert_eq!(system.outcome(second).await.unwrap(), Settled::WaitsForPerson);
    system.shutdown().await;
}

/// Whatever the actor is about when a request comes: coming, going, or there.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_on_a_run_that_comes_to_rest_or_leaves_it() {
    let system = memory().await;
    for round in 0..200 {
        let nodes: Vec<_> = ["a", "b", "c", "d"].iter().map(|id| asks(id)).collect();
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        if round % 2 == 0 {
            assert_eq!(system.outcome(run).await.unwrap(), Settled::WaitsForPerson);
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
        assert!(matches!(system.outcome(run).await.unwrap(), Settled::Closed(_)));
        assert_eq!(states(&system, run).await, "a skipped, b skipped, c skipped, d skipped");
    }
    system.shutdown().await;
}
