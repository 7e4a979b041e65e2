//! A recall that a process left half done is done by the next one.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{left_by, plan, states, system, until, value};
use ostler_actors::{Again, Answer, RecallTarget, RunError, Submission, System};
use ostler_kernel::event::{Event, RecordPlace, Retraction, ReuseTerms, Withdrawn};
use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_kernel::run::OpeningTerms;
use ostler_store::MemoryJournal;
use serde_json::json;

async fn asking(system: &System) -> RunId {
    let source = json!({"id": "p", "nodes": [
        {"id": "made", "tool": "text.render", "params": {"template": "x", "values": {}}},
        {"id": "ok", "kind": "human_approval", "params": {"text": "well?"}, "deps": ["made"], "human_timeout": "1h"},
        {"id": "apart", "kind": "human_approval", "params": {"text": "well?"}, "human_timeout": "1h"},
    ]});
    let reuse = Some(ReuseTerms::default());
    let submission = Submission {
        client: "acme".into(),
        terms: OpeningTerms { reuse, ..OpeningTerms::default() },
        ..Submission::plan(plan(system, source))
    };
    let run = system.submit(submission).await.unwrap();
    until(async || system.approvals(run).await.unwrap().len() == 2).await;
    run
}

/// Position of the only recorded result of a run.
fn recorded(journal: &MemoryJournal, run: RunId) -> RecordPlace {
    let records = journal.read(StreamId::run(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
    let record = records.iter().find(|record| matches!(record.event, Event::ResultRecorded(_))).unwrap();
    RecordPlace { run, seq: record.seq.0 }
}

#[tokio::test]
async fn a_recall_whose_process_died_after_the_record_is_carried_out_before_any_answer() {
    let journal = Arc::new(MemoryJournal::default());
    let dies = system(journal.clone(), Vec::new()).await;
    let run = asking(&dies).await;
    let left = left_by(&journal);
    dies.shutdown().await;
    // What is left of the recall is its record.
    let client = ClientId::from("acme");
    let place = Some(recorded(&left, run));
    let what = Withdrawn::Result { run, node: "made".into(), place };
    let retraction = Retraction { id: "w1".into(), client: client.clone(), what, by: "ann".into() };
    let stream = StreamId::client(&client);
    let expected = left.read(stream, Seq(0), usize::MAX).unwrap().last().map_or(Seq(0), |last| last.seq);
    let events = vec![Event::Retracted(Box::new(retraction))];
    left.append(vec![StreamBatch { stream, expected, at_ms: 1, events }]).unwrap();

    let system = system(left.clone(), Vec::new()).await;
    let asked = system.approvals(run).await.unwrap();
    let question = |node: &str| asked.iter().find(|asked| asked.id.node.as_str() == node).unwrap();
    let (void, stands) = (question("ok"), question("apart"));
    let answered = system.answer(&void.id, void.digest.unwrap(), Answer::approve().by("ann")).await;
    assert!(matches!(answered, Err(RunError::Answer(_) | RunError::InvalidState(_))), "{answered:?}");
    assert_eq!(states(&system, run).await, "apart waiting_human, made executed, ok cancelled");
    system.answer(&stands.id, stands.digest.unwrap(), Answer::approve().by("ann")).await.unwrap();
    let records = left.read(stream, Seq(0), usize::MAX).unwrap();
    let done = |event: &Event| matches!(event, Event::RetractionCarriedOut { .. });
    assert_eq!(records.iter().filter(|record| done(&record.event)).count(), 1);
    system.shutdown().await;
}

#[tokio::test]
async fn an_open_run_goes_on_without_what_rests_on_the_result() {
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let run = asking(&system).await;
    let target = RecallTarget::Result { run, node: "made".into() };
    let preview = system.recall_preview(target.clone()).await.unwrap();
    assert_eq!(states(&system, run).await, "apart waiting_human, made executed, ok waiting_human");
    let recalled = system.retract(target, "ann").await.unwrap();
    assert_eq!((&recalled.voided, &recalled.reached), (&preview.voided, &preview.reached));
    assert_eq!(states(&system, run).await, "apart waiting_human, made executed, ok cancelled");
    system.shutdown().await;
}

#[tokio::test]
async fn a_withdrawn_result_is_kept_by_no_repetition_not_even_at_second_hand() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note"), "one").unwrap();
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let source = json!({"id": "p", "nodes": [
        {"id": "read", "tool": "fs.read", "params": {"path": "note"}},
        {"id": "apart", "tool": "text.render", "params": {"template": "x", "values": {}}},
    ]});
    let submission = Submission {
        client: "acme".into(),
        workspace: folder.path().into(),
        terms: OpeningTerms { reuse: Some(ReuseTerms::default()), ..OpeningTerms::default() },
        ..Submission::plan(plan(&system, source))
    };
    let first = system.submit(submission).await.unwrap();
    system.outcome(first).await.unwrap();
    std::fs::write(folder.path().join("note"), "two").unwrap();
    let again = async |run| {
        let run =
            system.run_again(run, Again { from: Some("apart".into()), ..Again::default() }).await.unwrap();
        system.outcome(run).await.unwrap();
        (run, value(&system, run, "read").await["text"].clone())
    };
    let (second, kept) = again(first).await;
    assert_eq!(kept, "one");
    let recalled =
        system.retract(RecallTarget::Result { run: first, node: "read".into() }, "ann").await.unwrap();
    let reached: Vec<RunId> = recalled.reached.iter().map(|reached| reached.run).collect();
    assert_eq!(reached, [first, second]);
    for run in [first, second] {
        assert_eq!(again(run).await.1, "two");
    }
    system.shutdown().await;
}
