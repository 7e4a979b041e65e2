//! Plans that run for real, in memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use common::{Watched, left_by, memory, plan, states, submit, system, value};
use ostler_actors::{Submission, SubmitError, System, Term, new_run_id};
use ostler_kernel::event::Event;
use ostler_kernel::port::{Journal, Seq, StreamId};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::json;
use tokio::sync::Semaphore;

fn render(id: &str, deps: &[&str]) -> serde_json::Value {
    json!({"id": id, "tool": "text.render", "deps": deps, "params": {"template": "hello", "values": {}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_runs_to_its_end() {
    let system = memory().await;
    let run = submit(&system, json!({"id": "p", "nodes": [render("a", &[]), render("b", &["a"])]})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&system, run).await, "a executed, b executed");
    assert_eq!(value(&system, run, "b").await, json!({"text": "hello"}));
    system.shutdown().await;
}

/// Two runs are opened at once, and the second caller is answered first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_opened_here_was_not_taken_over_from_another_process() {
    let journal = Watched::over(Arc::default());
    let system = system(journal.clone(), Vec::new()).await;
    let (appends, ordered) = (AtomicU32::new(0), Arc::new(Semaphore::new(0)));
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (gate, is_ordered) = (Mutex::new(gate), ordered.clone());
    journal.after_append(move || {
        if appends.fetch_add(1, Ordering::SeqCst) == 0 {
            is_ordered.add_permits(1);
            let _ = gate.lock().unwrap().recv();
        }
    });
    let first = {
        let system = system.clone();
        tokio::spawn(async move { submit(&system, json!({"id": "p", "nodes": [render("a", &[])]})).await })
    };
    ordered.acquire().await.unwrap().forget();
    submit(&system, json!({"id": "p", "nodes": [render("a", &[])]})).await;
    go.send(()).unwrap();
    let mut records = system.events(first.await.unwrap(), Seq(0)).unwrap();
    while let Some(record) = records.next().await {
        let event = record.unwrap().event;
        assert!(!matches!(event, Event::RunRecovered { .. }), "{event:?}");
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_and_in_runs_to_its_end() {
    let system = memory().await;
    let mut nodes = vec![render("in", &[])];
    let names: Vec<String> = (0..300).map(|number| format!("n{number}")).collect();
    nodes.extend(names.iter().map(|name| render(name, &["in"])));
    nodes.push(render("out", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn references_reach_into_results_and_missing_ones_fail() {
    let system = memory().await;
    let run = submit(
        &system,
        json!({"id": "p", "nodes": [
            render("a", &[]),
            {"id": "b", "tool": "text.render", "params": {"template": "{{ x }}!"},
             "param_refs": {"values": {"from": "a", "path": "text", "template": "{}"}}},
            {"id": "q", "tool": "json.query", "params": {"value": [{}], "query": "$[0]"}},
            {"id": "c", "tool": "text.render", "params": {"template": "x"},
             "param_refs": {"values": {"from": "q", "path": "result.0.nowhere"}}},
        ]}),
    )
    .await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    let report = system.view(run, None).await.unwrap().report;
    let culprits: Vec<String> =
        report.root_causes.iter().map(|c| format!("{} {}", c.node, c.reason)).collect();
    assert_eq!(culprits, ["b gate_denied", "c param_missing"]);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregator_sees_a_failure_and_still_reports() {
    let system = memory().await;
    let run = submit(
        &system,
        json!({"id": "p", "outputs": ["report"], "nodes": [
            {"id": "bad", "tool": "shell.run", "params": {"argv": ["false"]}},
            render("good", &[]),
            {"id": "report", "kind": "aggregator",
             "deps": [{"n": "bad", "on": "terminal"}, {"n": "good", "on": "terminal"}],
             "params": {"template": "{{ bad.state }}, {{ good.result.text }}"}},
        ]}),
    )
    .await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(value(&system, run, "report").await, json!({"text": "failed, hello"}));
    system.shutdown().await;
}

/// Leaves have the same way to the end as the last node of a chain.
#[tokio::test]
async fn the_end_of_a_path_that_was_begun_goes_before_nodes_without_a_path() {
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), Vec::new()).await;
    let nodes = [render("a", &[]), render("b", &[]), render("y", &[]), render("z", &["y"])];
    let run = submit(&system, json!({"id": "p", "policy": {"slots": 1}, "nodes": nodes})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    let begun = records.iter().filter_map(|record| match &record.event {
        Event::AttemptIntent(intent) => Some(intent.node.as_str()),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), ["y", "z", "a", "b"]);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sleeps_hold_no_slot() {
    let system = memory().await;
    let nodes: Vec<_> =
        (0..50).map(|n| json!({"id": format!("s{n}"), "tool": "time.sleep", "params": {"ms": 30}})).collect();
    let run = submit(&system, json!({"id": "p", "policy": {"slots": 1}, "nodes": nodes})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(system.view(run, None).await.unwrap().report.peak_ready, 50);
    assert_eq!(system.view(run, None).await.unwrap().report.rounds, [50]);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_closed_as_cancelled() {
    let system = memory().await;
    let nodes = json!([{"id": "s", "tool": "time.sleep", "params": {"ms": 3_600_000}}, render("a", &["s"])]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    system.cancel(run).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    assert_eq!(states(&system, run).await, "a cancelled, s cancelled");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_clients_that_want_one_id_at_once_one_gets_it() {
    let system = memory().await;
    for _ in 0..50 {
        let wanted = Some(new_run_id());
        let nap = json!({"id": "n", "tool": "time.sleep", "params": {"ms": 3_600_000}});
        let submission =
            Submission { run: wanted, ..Submission::plan(plan(&system, json!({"id": "p", "nodes": [nap]}))) };
        let submits = ["a", "b", "c"].map(|client| {
            let (system, submission) = (system.clone(), submission.clone());
            tokio::spawn(
                async move { system.submit(Submission { client: client.into(), ..submission }).await },
            )
        });
        let mut opened = 0;
        for submit in submits {
            match submit.await.unwrap() {
                Ok(_) => opened += 1,
                Err(SubmitError::Taken { differs, .. }) => assert_eq!(differs, [Term::Client]),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(opened, 1);
    }
    assert_eq!(system.runs(false).unwrap().len(), 50);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_comes_twice_is_one_run() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    let wait =
        |ms: u32| json!({"id": "p", "nodes": [{"id": "n", "tool": "time.sleep", "params": {"ms": ms}}]});
    let wanted = Some(new_run_id());
    let submission =
        |system: &System, ms| Submission { run: wanted, ..Submission::plan(plan(system, wait(ms))) };
    let run = first.submit(submission(&first, 50)).await.unwrap();
    assert_eq!((first.submit(submission(&first, 50)).await.unwrap(), Some(run)), (run, wanted));
    let same = || submission(&first, 50);
    for (other, expected) in [
        (submission(&first, 51), vec![Term::Plan]),
        (Submission { client: "other".into(), ..same() }, vec![Term::Client]),
        (Submission { agent: Some("other".into()), ..same() }, vec![Term::Agent]),
        (Submission { intent: 0, ..same() }, vec![Term::Intent]),
        (Submission { scope: "other".to_owned(), ..same() }, vec![Term::Scope]),
        (Submission { workspace: "/".into(), ..same() }, vec![Term::Workspace]),
        (Submission { intent: 2, client: "other".into(), ..same() }, vec![Term::Client, Term::Intent]),
    ] {
        let other = first.submit(other).await;
        let Err(SubmitError::Taken { run: taken, differs }) = &other else { panic!("{other:?}") };
        assert_eq!((*taken, differs), (run, &expected));
    }
    // The same folder by another path.
    let here = std::env::current_dir().unwrap();
    assert_eq!(first.submit(Submission { workspace: here.join("."), ..same() }).await.unwrap(), run);

    // The process died before the answer: the next one continues the run.
    let second = system(left_by(&journal), Vec::new()).await;
    assert_eq!(second.submit(submission(&second, 50)).await.unwrap(), run);
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(second.submit(submission(&second, 50)).await.unwrap(), run);
    assert_eq!(second.runs(false).unwrap().len(), 1);
    first.shutdown().await;
    second.shutdown().await;
}
