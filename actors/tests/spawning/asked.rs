//! Runs that wait for a person who is asked in them, or in runs below them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::{Answer, CHECKPOINTED, Program, ProgramContext, Settled};
use ostler_kernel::port::{ChildRunSpec, Tool};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

use crate::common::{submit, system, until, value};
use crate::{SUCCEEDED, child, hold, other, parent, submitted, terms};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_asks_a_person_amid_its_work() {
    for (span, answer, expected) in [
        (Duration::from_secs(3_600), Some(Answer::approve()), true),
        (Duration::from_secs(3_600), Some(Answer::reject()), false),
        (Duration::from_millis(1), None, false),
    ] {
        let asks = Program::new("parent", "1", move |agent: ProgramContext, _: Value| async move {
            Ok(agent.request_approval("send", "send the mail?", span).await?)
        });
        let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(asks)]).await;
        let run = submitted(&system, terms(&system)).await;
        if let Some(answer) = answer {
            until(async || system.all_approvals().await.unwrap().approvals.len() == 1).await;
            let asked = system.all_approvals().await.unwrap().approvals.remove(0);
            assert_eq!(asked.shown.params["text"], "send the mail?");
            system.answer(&asked.id, asked.digest.unwrap(), answer).await.unwrap();
        } else {
            // Before its time is over, the question waits for a person.
            until(async || system.outcome(run).await.unwrap() != RunStatus::Waiting).await;
        }
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        assert_eq!(value(&system, run, "n").await, json!(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_person_who_is_asked_far_below() {
    let asks = json!({"id": "c", "nodes": [
        {"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"}]});
    let outer = Program::new("outer", "1", |agent: ProgramContext, _: Value| async move {
        Ok(json!(agent.spawn("middle", ChildRunSpec::call("parent", Map::new())).await?.outcome))
    });
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(parent(child(asks))), Arc::new(outer)];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let run = submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "outer"}]})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    let asked = system.all_approvals().await.unwrap().approvals.remove(0);
    assert_eq!(system.asking_below(run), [asked.id.run]);
    assert_eq!(asked.parent.unwrap().step.as_str(), "child");
    let view = system.view(run, None).await.unwrap();
    assert_eq!(system.status(&view).unwrap().status, RunStatus::Waiting);
    system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_run_below_that_a_person_suspended() {
    let hold = hold();
    let node = |at: usize| {
        let deps = at.checked_sub(1).map(|before| format!("h{before}"));
        json!({"id": format!("h{at}"), "tool": "hold", "deps": Vec::from_iter(deps)})
    };
    // More nodes than can run before the checkpoint arrives.
    let nodes: Vec<Value> = (0..200).map(node).collect();
    let opens = Arc::new(parent(child(json!({"id": "c", "nodes": nodes}))));
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone(), opens]).await;
    let run = submitted(&system, terms(&system)).await;
    hold.started().await;
    let below = other(&system, run).unwrap();
    let checkpoint = {
        let system = system.clone();
        tokio::spawn(async move { system.checkpoint(below).await })
    };
    hold.go(1);
    until(async || {
        if hold.has_started() {
            hold.started().await;
            hold.go(1);
        }
        checkpoint.is_finished()
    })
    .await;
    checkpoint.await.unwrap().unwrap();
    assert_eq!(system.outcome(below).await.unwrap(), Settled::suspended(CHECKPOINTED.to_owned()));
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    assert_eq!(system.asking_below(run), [below]);
    system.resume(below).await.unwrap();
    hold.go(200);
    assert_eq!(system.outcome(below).await.unwrap(), SUCCEEDED);
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_other_work_does_not_wait_for_a_person_below() {
    let asks = json!({"id": "c", "nodes": [
        {"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"}]});
    let hold = hold();
    let tools: Vec<Arc<dyn Tool>> = vec![hold.clone(), Arc::new(parent(child(asks)))];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let nodes = json!([{"id": "n", "tool": "parent"}, {"id": "h", "tool": "hold"}]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    hold.started().await;
    until(async || system.all_approvals().await.unwrap().approvals.len() == 1).await;
    let mut settles = pin!(system.outcome(run));
    assert!(futures::poll!(&mut settles).is_pending());
    hold.go(1);
    assert_eq!(settles.await.unwrap(), RunStatus::Waiting);
    system.shutdown().await;
}
