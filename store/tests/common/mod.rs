//! Events, batches and journals for tests.
#![allow(dead_code)] // each test file uses a part

use std::sync::Arc;

use ostler_kernel::event::{Accounts, AttemptResult, Event, Outcome, Output, RunOpened};
use ostler_kernel::id::{AgentId, ClientId, Digest, NodeId, RunId};
use ostler_kernel::json::canonical;
use ostler_kernel::port::{Journal, Position, RunRow, RunsPage, Seq, StreamBatch, StreamId};
use ostler_store::disk::FaultyDisk;
use ostler_store::{Options, SegmentJournal};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits until a position is durable, on a runtime of its own.
pub(crate) fn wait(
    journal: &dyn Journal,
    position: Position,
) -> Result<(), ostler_kernel::port::JournalError> {
    let answer = async { tokio::time::timeout(PATIENCE, journal.durable(position)).await };
    runtime().block_on(answer).expect("the journal answers")
}

pub(crate) fn client() -> ClientId {
    ClientId::from("acme")
}

pub(crate) fn run(number: u64) -> RunId {
    format!("00000000-0000-7000-8000-{number:012x}").parse().unwrap()
}

pub(crate) fn stream(number: u64) -> StreamId {
    StreamId::run(&client(), run(number))
}

pub(crate) fn opened(number: u64) -> Event {
    Event::RunOpened(Box::new(RunOpened {
        run: run(number),
        client: client(),
        agent: AgentId::from("worker"),
        plan: canonical(&json!({"id": format!("plan-{number}"), "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/tmp".into(),
        policy_epoch: 1,
        seed: 7,
    }))
}

pub(crate) fn numbered(number: u64) -> Event {
    Event::Parked { reason: format!("number {number}") }
}

/// A result of about `bytes`.
pub(crate) fn result(bytes: usize) -> Event {
    Event::AttemptResult(Box::new(AttemptResult {
        node: NodeId::from("node-001"),
        attempt: 1,
        outcome: Outcome::Ok(Output {
            artifact: Digest([7; 32]),
            bytes: bytes as u64,
            inline: Some(canonical(&json!("x".repeat(bytes))).unwrap()),
            directive: None,
        }),
        duration_ms: 12,
        cost: 3,
        accounts: None,
    }))
}

/// The result of an attempt with the client's virtual time afterwards, and a cost.
pub(crate) fn charged(vruntime: i64, cost: u64) -> Event {
    let Event::AttemptResult(result) = result(1_000) else { unreachable!() };
    let accounts = Some(Accounts { client_vruntime: vruntime, ..Accounts::default() });
    Event::AttemptResult(Box::new(AttemptResult { cost, accounts, ..*result }))
}

pub(crate) fn batch(stream: StreamId, expected: u64, events: Vec<Event>) -> StreamBatch {
    StreamBatch { stream, expected: Seq(expected), at_ms: 1_700_000_000_000 + expected as i64, events }
}

/// Options with segments of a few kilobytes.
pub(crate) fn small() -> Options {
    Options { segment_bytes: 8 * 1024, prepare_bytes: 1024, reserve_bytes: 4096, ..Options::default() }
}

pub(crate) fn on(disk: &FaultyDisk) -> SegmentJournal {
    SegmentJournal::on_disk(Arc::new(disk.clone()), small()).unwrap().0
}

pub(crate) fn events(journal: &dyn Journal, stream: StreamId) -> Vec<Event> {
    journal.read(stream, Seq(0), usize::MAX).unwrap().into_iter().map(|record| record.event).collect()
}

/// Checks that pages of every size, joined, are the table of runs. Rows lose their position when the index has them, which
/// may happen in between.
pub(crate) fn pages_join_to_the_table(journal: &dyn Journal) {
    for open_only in [false, true] {
        let placed = |rows: Vec<RunRow>| rows.into_iter().map(|row| RunRow { position: Position(0), ..row });
        let all: Vec<RunRow> = placed(journal.runs(open_only).unwrap()).collect();
        for limit in 1..=all.len() + 1 {
            let (mut joined, mut before) = (Vec::new(), None);
            loop {
                let page = journal.runs_page(RunsPage { open_only, before, limit }).unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                before = Some(last.place());
                joined.extend(placed(page));
            }
            assert_eq!(joined, all, "open only: {open_only}, {limit} at once");
        }
    }
}
