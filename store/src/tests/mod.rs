//! Tests of maintenance through the online path, on a disk with faults.

mod collecting;
mod compacting;
mod lost_lock;
mod pipelines;
mod repairing;
mod step_history;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::evaluation::{Scores, Verdict};
use ostler_kernel::event::{
    Accounts, AttemptRef, AttemptResult, Evaluated, Event, Outcome, Output, RunOpened,
};
use ostler_kernel::id::{ClientId, Digest, RunId};
use ostler_kernel::json::canonical;
use ostler_kernel::port::{Journal, RunRow, RunRowStatus, Seq, StreamBatch, StreamId};
use ostler_kernel::run::RunOutcome;
use serde_json::json;

use crate::disk::{Disk, FaultyDisk};
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;
use crate::maintenance::atomic_replace;
use crate::maintenance::collect::collect;
use crate::maintenance::repair::repair;
use crate::maintenance::verify::verify;
use crate::{Findings, Options, RetentionPolicy, SegmentJournal};

fn small() -> Options {
    Options { segment_bytes: 8 * 1024, prepare_bytes: 1024, reserve_bytes: 4096, ..Options::default() }
}

fn open(disk: &FaultyDisk) -> SegmentJournal {
    SegmentJournal::on_disk(Arc::new(disk.clone()), small()).unwrap().0
}

fn run(number: u64) -> RunId {
    format!("00000000-0000-7000-8000-{number:012x}").parse().unwrap()
}

fn client(number: u64) -> ClientId {
    ClientId::from(["acme", "bolt"][(number % 2) as usize])
}

fn stream(number: u64) -> StreamId {
    StreamId::run(&client(number), run(number))
}

fn opened(number: u64) -> Event {
    Event::RunOpened(Box::new(RunOpened {
        run: run(number),
        client: client(number),
        agent: "worker".into(),
        plan: canonical(&json!({"id": format!("plan-{number}"), "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/tmp".into(),
        policy_epoch: 1,
        seed: 7,
    }))
}

fn result(number: u64, step: u64) -> Event {
    let outcome = Outcome::Ok(Output {
        artifact: Digest([number as u8; 32]),
        bytes: 300,
        inline: Some(canonical(&json!("x".repeat(300))).unwrap()),
        directive: None,
    });
    let accounts = Some(Accounts { client_vruntime: (number * 100 + step) as i64, ..Accounts::default() });
    let result = AttemptResult {
        cost: 1 + number,
        accounts,
        ..AttemptResult::without_cost("node".into(), 1, outcome)
    };
    Event::AttemptResult(Box::new(result))
}

fn ending() -> Vec<Event> {
    let scores =
        Scores { quality: None, adherence: None, speed: 900, cost: 800, errors: 700, revisions: 600 };
    vec![
        Event::Evaluated(Evaluated { scores, composite: 750 }),
        Event::RunClosed { outcome: RunOutcome::Succeeded },
    ]
}

fn verdict(number: u64) -> Event {
    let scores =
        Scores { quality: Some(10), adherence: None, speed: 900, cost: 800, errors: 700, revisions: 600 };
    let Event::RunOpened(opened) = opened(number) else { unreachable!("`opened` returns this variant") };
    Event::Verdict(Box::new(Verdict {
        run: run(number),
        agent: Some(opened.agent),
        quality: Some(10),
        adherence: None,
        evaluated: Evaluated { scores, composite: 300 },
        by: "pat".into(),
        note: String::new(),
    }))
}

fn append(journal: &SegmentJournal, stream: StreamId, at_ms: i64, events: Vec<Event>) {
    let last = journal.read(stream, Seq(0), usize::MAX).unwrap().last().map_or(Seq(0), |record| record.seq);
    journal.append(vec![StreamBatch { stream, expected: last, at_ms, events }]).unwrap();
}

const RUNS: u64 = 30;

/// Thirty runs with interleaved records. The first twenty are closed, run N at time N.
fn filled() -> FaultyDisk {
    let disk = FaultyDisk::new();
    let journal = open(&disk);
    for name in ["acme", "bolt"] {
        let set = Event::ClientSet { client: name.into(), weight: 5, contracted: true };
        append(&journal, StreamId::client(&name.into()), 1, vec![set]);
    }
    for number in 0..RUNS {
        append(&journal, stream(number), 0, vec![opened(number)]);
        for back in 0..4.min(number + 1) {
            append(&journal, stream(number - back), 1, vec![result(number - back, number)]);
        }
        if number >= 4 && number - 4 < 20 {
            append(&journal, stream(number - 4), (number - 4) as i64, ending());
            if number % 5 == 0 {
                let stream = StreamId::client(&client(number - 4));
                append(&journal, stream, 2, vec![verdict(number - 4)]);
            }
        }
        if number % 7 == 0 {
            let client = client(number);
            let stream = StreamId::client(&client);
            append(&journal, stream, 2, vec![Event::CreditDeposited { client, credits: 10, spent: 0 }]);
        }
    }
    drop(journal);
    disk
}

#[derive(Debug, Clone, PartialEq)]
struct Content {
    runs: BTreeMap<RunId, (RunRow, Vec<(u64, Event)>)>,
    accounts: BTreeMap<String, (u64, String)>,
    /// Accounts in the order of their last settlement.
    settled: Vec<String>,
    clients: BTreeMap<StreamId, Vec<Event>>,
}

fn content(disk: &FaultyDisk) -> Content {
    atomic_replace::finish(disk).unwrap();
    assert_eq!(verify(&files(disk), None).unwrap(), []);
    let journal = open(disk);
    let records = |stream| journal.read(stream, Seq(0), usize::MAX);
    let rows = journal.runs(false).unwrap().into_iter();
    let runs = rows.map(|row| {
        let read = records(StreamId::run(&row.client, row.run)).unwrap_or_default();
        let read = read.into_iter().map(|record| (record.seq.0, record.event)).collect();
        (row.run, (RunRow { position: Default::default(), ..row }, read))
    });
    let mut rows = journal.accounts().unwrap();
    rows.sort_by_key(|row| row.settled);
    let name = |row: &ostler_kernel::port::AccountRow| format!("{} {:?}", row.client, row.agent);
    let known = |row: &ostler_kernel::port::AccountRow| {
        (row.spent, format!("{:?} {:?}", row.accounts, row.reputation))
    };
    let clients = journal.clients().unwrap().into_iter();
    Content {
        runs: runs.collect(),
        settled: rows.iter().map(name).collect(),
        accounts: rows.iter().map(|row| (name(row), known(row))).collect(),
        clients: clients
            .map(|stream| (stream, records(stream).unwrap().into_iter().map(|record| record.event).collect()))
            .collect(),
    }
}

fn files(disk: &FaultyDisk) -> SegmentFiles {
    atomic_replace::finish(disk).unwrap();
    SegmentFiles::new(Arc::new(disk.clone()), small().segment_bytes)
}

fn before(closed_before_ms: i64) -> RetentionPolicy {
    RetentionPolicy {
        closed_before_ms: Some(closed_before_ms),
        quarantined: false,
        ..RetentionPolicy::default()
    }
}

fn repaired(disk: &FaultyDisk) -> std::io::Result<Findings> {
    atomic_replace::finish(disk)?;
    let files = SegmentFiles::new(Arc::new(disk.clone()), small().segment_bytes);
    let intact = |_| None;
    match repair(&files, &Index::open(None), 0, &intact, Some(&mut || Ok(()))) {
        Ok(findings) => Ok(findings),
        Err(error) => Err(std::io::Error::other(error)),
    }
}
