//! No answer precedes the durability of the records behind it.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::late::Late;
use common::{Hold, submit, system, until};
use ostler_kernel::event::Event;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::run::RunStatus;
use serde_json::json;

#[tokio::test]
async fn a_run_that_is_cancelled_twice_is_told_to_be_no_earlier_than_the_first_time() {
    let act = Hold::new("act", Effect::External, Idempotency::None);
    let journal = Late::new(|event| matches!(event, Event::Operator(_)));
    let system = system(journal.clone(), vec![act.clone()]).await;
    let run = submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "act"}]})).await;
    act.started().await;
    let cancel = || {
        let system = system.clone();
        tokio::spawn(async move { system.cancel(run).await })
    };
    let first = cancel();
    until(async || journal.waited_for() > 0).await;
    assert_eq!(journal.ordered(), 1);
    // An acting attempt finishes, so a second cancel changes nothing.
    let again = cancel();
    until(async || again.is_finished() || journal.waited_for() > 1).await;
    assert!(!first.is_finished() && !again.is_finished(), "it could be lost still");
    journal.go();
    first.await.unwrap().unwrap();
    again.await.unwrap().unwrap();
    act.go(1);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    system.shutdown().await;
}
