//! Pages of the questions of all runs: the same questions for every page size, at the cost of one page each.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{Hold, Watched, left_by, states, submit, system, until};
use ostler_actors::{AgentRow, Answer, ApprovalId, ApprovalPage, ReadResult, System};
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// A run with one question for each id; without ids, the run sleeps.
async fn open(system: &System, asking: &[&str]) -> RunId {
    let asks = |id: &&str| json!({"id": id, "kind": "human_approval", "human_timeout": "1h"});
    let mut nodes: Vec<Value> = asking.iter().map(asks).collect();
    if nodes.is_empty() {
        nodes.push(json!({"id": "s", "tool": "time.sleep", "params": {"ms": 3_600_000}}));
    }
    let run = submit(system, json!({"id": "p", "nodes": nodes})).await;
    match asking.is_empty() {
        true => until(async || states(system, run).await == "s running").await,
        false => assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting),
    }
    run
}

/// Many runs in ascending order: of three, one asks, one sleeps, and one asks twice.
async fn many(system: &System) -> Vec<RunId> {
    let mut runs = Vec::new();
    for at in 0..60 {
        let asking: &[&str] = [&["ask"][..], &[], &["left", "right"]][at % 3];
        runs.push(open(system, asking).await);
    }
    runs.sort();
    runs
}

/// All questions in pages of `limit`, and the unreadable runs; each page is handed to `see`.
async fn paged(system: &System, limit: usize, see: &mut dyn FnMut(usize)) -> (Vec<ApprovalId>, Vec<RunId>) {
    let (mut all, mut unreadable): (Vec<ApprovalId>, Vec<RunId>) = Default::default();
    loop {
        let page = system.approval_page(all.last(), limit).await.unwrap();
        assert!(page.approvals.len() == limit || !page.has_more, "a page is full, or the last");
        see(page.approvals.len());
        all.extend(page.approvals.into_iter().map(|asked| asked.id));
        unreadable.extend(page.unreadable.into_iter().map(|(run, _)| run));
        if !page.has_more {
            return (all, unreadable);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_questions_reads_no_run_that_asks_nothing_and_none_of_another_page() {
    let memory = Arc::new(MemoryJournal::default());
    let watched = Watched::over(memory.clone());
    let first = system(watched.clone(), Vec::new()).await;
    let runs = many(&first).await;
    let mut questions = Vec::new();
    for run in &runs {
        questions.extend(first.approvals(*run).await.unwrap().into_iter().map(|asked| asked.id));
    }
    assert_eq!(questions.len(), 60);
    watched.read_of(&runs);
    for limit in [1, 2, 7, 59, 60, 1_000] {
        let mut pages = Vec::new();
        let read = &mut |questions| pages.push((questions, watched.read_of(&runs).len()));
        assert_eq!(paged(&first, limit, read).await, (questions.clone(), Vec::new()), "by {limit}");
        // With one question per run, a page reads that many runs, the run it continues after, and the run that proves a
        // next page.
        assert!(pages.iter().all(|(questions, read)| *read <= questions + 2), "by {limit}: {pages:?}");
    }
    let all = first.all_approvals().await.unwrap();
    assert_eq!((all.approvals.len(), all.has_more), (60, false));
    assert_eq!(watched.read_of(&runs).len(), 40, "those that sleep are not read");

    // Answered questions disappear, new ones appear.
    let answered = all.approvals.iter().find(|asked| asked.id.node.as_str() == "ask").unwrap();
    first.answer(&answered.id, answered.digest.unwrap(), Answer::approve()).await.unwrap();
    let late = open(&first, &["ask"]).await;
    let mut now = questions.clone();
    now.retain(|id| *id != answered.id);
    now.push(ApprovalId { run: late, node: "ask".into(), request: 1 });
    assert_eq!(paged(&first, 7, &mut |_| ()).await.0, now);
    first.shutdown().await;

    // In the next process no run is driven: a page reads the runs up to its end only.
    let watched = Watched::over(left_by(&memory));
    let second = system(watched.clone(), Vec::new()).await;
    let page = second.approval_page(None, 6).await.unwrap();
    assert_eq!(
        page.approvals.iter().map(|asked| &asked.id).collect::<Vec<_>>(),
        now.iter().take(6).collect::<Vec<_>>()
    );
    let read = watched.read_of(&runs);
    assert!(read.len() <= 6 + 6 / 2 + 3, "{}", read.len());
    assert_eq!(paged(&second, 7, &mut |_| ()).await.0, now);
    // After the runs were resumed, sleeping runs are not read.
    second.resume_all().await.unwrap();
    for run in second.runs(true).unwrap() {
        let rests = |row: &AgentRow| row.agent != run.agent || row.state == "idle";
        until(async || second.agents().await.iter().all(rests)).await;
    }
    watched.read_of(&runs);
    assert_eq!(paged(&second, 1_000, &mut |_| ()).await.0, now);
    assert_eq!(watched.read_of(&runs).len(), 39);
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_read_is_told_on_one_page() {
    let memory = Arc::new(MemoryJournal::default());
    let first = system(memory.clone(), Vec::new()).await;
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(open(&first, &["ask"]).await);
    }
    runs.sort();
    first.shutdown().await;
    let left = left_by(&memory);
    let broken: Vec<RunId> = [0, 1, 4, 7, 8, 11].map(|at| runs[at]).into();
    for run in &broken {
        let stream = StreamId::run(&left.run(*run).unwrap().unwrap().client, *run);
        let expected = left.read(stream, Seq(0), usize::MAX).unwrap().last().unwrap().seq;
        let events = vec![Event::Draining { node: "nobody".into() }];
        left.append(vec![StreamBatch { stream, expected, at_ms: 0, events }]).unwrap();
    }
    let second = system(left, Vec::new()).await;
    for limit in 1..8 {
        let (questions, unreadable) = paged(&second, limit, &mut |_| ()).await;
        assert_eq!((questions.len(), unreadable), (6, broken.clone()), "by {limit}");
    }
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_results_of_a_run_are_read_from_one_fold_of_its_records() {
    let memory = Arc::new(MemoryJournal::default());
    let watched = Watched::over(memory);
    let system = system(watched.clone(), Vec::new()).await;
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "text.render", "params": {"template": "t", "values": {}}});
    let nodes: Vec<Value> = (0..20).map(node).collect();
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    watched.records_of(run);
    let results = system.read_results(run).await.unwrap();
    let records = system.view(run, None).await.unwrap().last.0 as usize;
    assert_eq!(watched.records_of(run), 2 * records, "once for the results, once for the view");
    assert_eq!(results.len(), 20);
    for ReadResult { node, artifact, found } in results {
        let (digest, bytes) = found.unwrap();
        assert_eq!((digest, bytes), (artifact, r#"{"text":"t"}"#.len() as u64), "{node}");
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_ends_behind_the_question_that_is_too_large_for_more() {
    let hold = Hold::new("page", Effect::Read, Idempotency::Natural);
    hold.gives(json!({"text": "x".repeat(9 << 20)}));
    hold.go(1);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold]).await;
    let asks = |id: &str| {
        let from = json!({"text": {"from": "page", "path": "text"}});
        json!({"id": id, "tool": "fs.write", "approval": "before", "human_timeout": "1h", "params": {"path": id, "mode": "replace"}, "param_refs": from})
    };
    let nodes = json!([{"id": "page", "tool": "page"}, asks("a"), asks("b"), asks("c")]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    until(async || system.approvals(run).await.unwrap().len() == 3).await;
    let nodes = |page: &ApprovalPage| -> Vec<String> {
        page.approvals.iter().map(|asked| asked.id.node.to_string()).collect()
    };
    for all_runs in [true, false] {
        let page = async |after: Option<&ApprovalId>| match all_runs {
            true => system.approval_page(after, 100).await.unwrap(),
            false => system.approval_page_of(run, after, 100).await.unwrap(),
        };
        let first = page(None).await;
        assert_eq!((nodes(&first), first.has_more), (vec!["a".to_owned(), "b".to_owned()], true));
        let second = page(Some(&first.approvals[1].id)).await;
        assert_eq!((nodes(&second), second.has_more), (vec!["c".to_owned()], false));
    }
}
