//! Clocks that are set back while no process runs.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{submit, system};
use ostler_kernel::event::{Event, Timer, TimerKind};
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::json;
use tokio::time::Instant;

const HOUR_MS: i64 = 3_600_000;

/// Journal of a process that died after setting a timer of this kind, with a clock one hour ahead.
fn left_ahead(journal: &MemoryJournal, kind: TimerKind) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    let row = journal.runs(false).unwrap().remove(0);
    let stream = StreamId::run(&row.client, row.run);
    for record in journal.read(stream, Seq(0), usize::MAX).unwrap() {
        let (expected, at_ms) = (Seq(record.seq.0 - 1), record.at_ms + HOUR_MS);
        let (event, is_last) = match record.event {
            Event::TimerSet(timer) if timer.kind == kind => {
                (Event::TimerSet(Timer { at: timer.at + HOUR_MS, ..timer }), true)
            }
            event => (event, false),
        };
        left.append(vec![StreamBatch { stream, expected, at_ms, events: vec![event] }]).unwrap();
        if is_last {
            return left;
        }
    }
    panic!("no timer of this kind was set");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_makes_no_wait_for_a_retry_longer() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    let contract = json!([{"method": "schema", "spec": false}]);
    let params = json!({"template": "x", "values": {}});
    let node =
        json!({"id": "n", "tool": "text.render", "params": params, "retries": 1, "contract": contract});
    let run = submit(&first, json!({"id": "p", "nodes": [node]})).await;
    assert_eq!(first.outcome(run).await.unwrap(), RunStatus::Failed);
    first.shutdown().await;

    let second = system(left_ahead(&journal, TimerKind::Backoff), Vec::new()).await;
    let begun = Instant::now();
    second.resume(run).await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Failed);
    // The backoff of a first retry by default, neither an hour nor the cap of all backoffs.
    assert!(begun.elapsed() <= Duration::from_millis(1_100), "{:?}", begun.elapsed());
    second.shutdown().await;
}
