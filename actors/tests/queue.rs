//! Clocks that are set back while no process runs.

mod common;

use std::sync::Arc;

use common::{Hold, PATIENCE, plan, states, system};
use ostler_actors::{AgentHandle, AgentProfile, Answer, RunError, Settled, Submission, System};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::json;

async fn submit_sleep(system: &System, agent: &AgentHandle, ms: u64) -> RunId {
    let source = json!({"id": "p", "nodes": [{"id": "s", "tool": "time.sleep", "params": {"ms": ms}}]});
    agent.submit(Submission::plan(plan(system, source))).await.expect("the plan is taken")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_behind_another_is_cancelled_at_once() {
    let journal = Arc::new(MemoryJournal::default());
    let system_ = system(journal.clone(), Vec::new()).await;
    let agent = system_.spawn(AgentProfile::new("a")).await.unwrap();
    let first = submit_sleep(&system_, &agent, 3_600_000).await;
    let second = submit_sleep(&system_, &agent, 0).await;
    let third = submit_sleep(&system_, &agent, 0).await;

    tokio::time::timeout(PATIENCE, system_.cancel(second))
        .await
        .expect("it does not wait for the first")
        .unwrap();
    assert_eq!(system_.outcome(second).await.unwrap(), RunStatus::Cancelled);
    assert_eq!(states(&system_, second).await, "s cancelled");
    assert!(system_.view(first, None).await.unwrap().closed.is_none(), "the first goes on");
    assert!(matches!(system_.cancel(second).await, Err(RunError::InvalidState(_))));

    // The gap does not hold up the runs behind it.
    system_.cancel(first).await.unwrap();
    assert_eq!(system_.outcome(third).await.unwrap(), RunStatus::Succeeded);
    system_.shutdown().await;

    let again = system(journal, Vec::new()).await;
    assert_eq!(again.resume_all().await.unwrap(), []);
    assert_eq!(states(&again, second).await, "s cancelled");
    again.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_run_behind_one_that_waits_for_a_person_is_told_and_it_goes_on_with_the_answer() {
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let node = json!({"id": "ok", "approval": "before", "human_timeout": "1h", "tool": "text.render", "params": {"template": "x", "values": {}}});
    let asks = json!({"id": "p", "nodes": [node]});
    let first = agent.submit(Submission::plan(plan(&system, asks))).await.unwrap();
    let behind = [submit_sleep(&system, &agent, 0).await, submit_sleep(&system, &agent, 0).await];
    for run in behind {
        let settled = tokio::time::timeout(PATIENCE, system.outcome(run)).await.expect("it is told");
        assert_eq!(settled.unwrap(), RunStatus::Waiting);
        assert_eq!(system.held_up_by(run), Some(first));
    }
    assert_eq!(system.held_up_by(first), None);
    let skipped = tokio::time::timeout(PATIENCE, system.skip_node(behind[0], "s".into())).await;
    let refused = skipped.expect("it does not wait for the first");
    assert!(matches!(refused, Err(RunError::Behind(run)) if run == first), "{refused:?}");
    let asked = system.approvals(first).await.unwrap().remove(0);
    system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
    for run in [first, behind[0], behind[1]] {
        // The question may precede the answer.
        while system.outcome(run).await.unwrap() != Settled::new(RunStatus::Succeeded) {
            tokio::task::yield_now().await;
        }
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wanted_something_of_a_run_before_the_one_in_front_came_to_wait_for_a_person_is_told() {
    let tool = Hold::new("tool", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![tool.clone()]).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let ok = json!({"id": "ok", "kind": "human_approval", "human_timeout": "1h", "deps": ["n"]});
    let nodes = json!([{"id": "n", "tool": "tool"}, ok]);
    let first =
        agent.submit(Submission::plan(plan(&system, json!({"id": "p", "nodes": nodes})))).await.unwrap();
    let behind = submit_sleep(&system, &agent, 0).await;
    tool.started().await;
    let mut skipped = std::pin::pin!(system.skip_node(behind, "s".into()));
    tokio::select! {
        biased;
        answer = &mut skipped => panic!("the first is under way still: {answer:?}"),
        // Once the registry answers this, it has handled the requests before.
        _ = system.agents() => {}
    }
    tool.go(1);
    let refused = tokio::time::timeout(PATIENCE, skipped).await.expect("it does not wait for a person");
    assert!(matches!(refused, Err(RunError::Behind(run)) if run == first), "{refused:?}");
    system.shutdown().await;
}
