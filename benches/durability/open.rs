//! Opening a journal of a million events, with and without its index.

use std::path::Path;
use std::time::{Duration, Instant};

use ostler::kernel::event::{AttemptResult, Event, NodeTransition, Outcome, Output, RunOpened};
use ostler::kernel::id::{Digest, NodeId, RunId};
use ostler::kernel::json::canonical;
use ostler::kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler::kernel::run::{NodeState, RunOutcome, TransitionReason};
use ostler_store::Store;
use serde_json::json;

use crate::steps;
use crate::table::{Must, Row, median};

const RUNS: u64 = 10_000;

/// Steps per run. A step has three events; opening and closing the run add one each.
const STEPS: u64 = 33;

const ROUNDS: usize = 5;

pub(crate) fn rows() -> Vec<Row> {
    let folder = steps::folder();
    let path = folder.path().join("data");
    let events = fill(&path);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        with.push(open(&path));
        std::fs::remove_file(path.join("index.redb")).unwrap();
        without.push(open(&path));
    }
    let seconds = |times: Vec<Duration>| median(times.iter().map(Duration::as_secs_f64));
    let note = format!("{events} events of {RUNS} runs");
    vec![
        Row::new("opening a journal, its index gone", Must::Most(3.0), 1.5, seconds(without))
            .unit("s")
            .note(note),
        Row::new("the same with its index", Must::Most(0.3), 0.2, seconds(with)).unit("s"),
    ]
}

/// Time to open; the journal is closed before the return.
fn open(path: &Path) -> Duration {
    let begun = Instant::now();
    let (store, _) = Store::open(path).unwrap();
    let took = begun.elapsed();
    assert_eq!(store.journal.runs(true).unwrap().len() as u64, RUNS / 100);
    took
}

/// Writes runs, of which one in a hundred stays open; returns the number of events.
fn fill(path: &Path) -> u64 {
    let (store, _) = Store::open(path).unwrap();
    let (mut count, mut last) = (0, Default::default());
    for number in 0..RUNS {
        let run: RunId = format!("01900000-0000-7000-8000-{number:012x}").parse().unwrap();
        let stream = StreamId::run(&"local".into(), run);
        let mut expected = 0;
        let steps = (0..STEPS).flat_map(step);
        let end =
            (!number.is_multiple_of(100)).then(|| vec![Event::RunClosed { outcome: RunOutcome::Succeeded }]);
        for events in std::iter::once(vec![opened(run)]).chain(steps).chain(end) {
            let after = expected + events.len() as u64;
            let batch = StreamBatch { stream, expected: Seq(expected), at_ms: 1_700_000_000_000, events };
            last = store.journal.append(vec![batch]).unwrap();
            expected = after;
        }
        count += expected;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(store.journal.durable(last)).unwrap();
    count
}

fn opened(run: RunId) -> Event {
    Event::RunOpened(Box::new(RunOpened {
        run,
        client: "local".into(),
        agent: "worker".into(),
        plan: canonical(&json!({"id": "plan", "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/srv/work".into(),
        policy_epoch: 1,
        seed: 1,
    }))
}

/// The records of a step: start and result.
fn step(number: u64) -> [Vec<Event>; 2] {
    let node = NodeId::from(format!("step-{number:03}").as_str());
    let moved = |from, to, reason| {
        let node = node.clone();
        Event::NodeTransition(NodeTransition { node, version: 1, from, to, reason, attempt: 1 })
    };
    let output = Output {
        artifact: Digest([number as u8; 32]),
        bytes: 20,
        inline: Some(canonical(&json!({"text": "constant"})).unwrap()),
        directive: None,
    };
    let result = AttemptResult::without_cost(node.clone(), 1, Outcome::Ok(output));
    [
        vec![moved(NodeState::Ready, NodeState::Running, TransitionReason::Attempt(1))],
        vec![
            Event::AttemptResult(Box::new(result)),
            moved(NodeState::Running, NodeState::Executed, TransitionReason::Ok),
        ],
    ]
}
