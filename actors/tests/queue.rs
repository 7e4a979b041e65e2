//! Runs that wait behind another run of the same agent.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{plan, states, system};
use ostler_actors::{AgentHandle, AgentProfile, RunError, Settled, Submission, System};
use ostler_kernel::id::RunId;
use ostler_kernel::run::RunOutcome;
use ostler_store::MemoryJournal;
use serde_json::json;

/// Longer than anything here takes, and shorter than a test may hang.
const SOON: Duration = Duration::from_secs(20);

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

    tokio::time::timeout(SOON, system_.cancel(second))
        .await
        .expect("it does not wait for the first")
        .unwrap();
    assert_eq!(system_.outcome(second).await.unwrap(), Settled::Closed(RunOutcome::Cancelled));
    assert_eq!(states(&system_, second).await, "s cancelled");
    assert!(system_.view(first, None).await.unwrap().closed.is_none(), "the first goes on");
    assert!(matches!(system_.cancel(second).await, Err(RunError::InvalidState(_))));

    // What waits behind it is not held up by the gap.
    system_.cancel(first).await.unwrap();
    assert_eq!(system_.outcome(third).await.unwrap(), Settled::Closed(RunOutcome::Succeeded));
    system_.shutdown().await;

    let again = system(journal, Vec::new()).await;
    assert_eq!(again.resume_all().await.unwrap(), []);
    assert_eq!(states(&again, second).await, "s cancelled");
    again.shutdown().await;
}
