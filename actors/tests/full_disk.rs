//! A full disk that gets space again, under a running system.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Hold, left_by, over, plan, submit, system};
use ostler_actors::{
    INLINE_BYTES_MAX, Limits, Program, ProgramContext, RunError, Settled, Step, Submission, SubmitError,
    System, new_run_id,
};
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    Artifact, ArtifactError, ArtifactStore, BoxFuture, CallContext, ChildRunSpec, Journal, JournalError, Seq,
    StreamBatch, StreamId, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{RunOutcome, RunStatus};
use ostler_store::disk::FaultyDisk;
use ostler_store::{MemoryArtifacts, MemoryJournal, Options, SegmentJournal};
use serde_json::{Map, Value, json};

/// Counts executions of steps that may run only once.
struct Once {
    spec: ToolSpec,
    done: Mutex<BTreeMap<String, u32>>,
}

impl Once {
    fn new() -> Arc<Once> {
        let params = json!({"type": "object", "properties": {"what": {"type": "string"}}});
        let (name, version, description) = ("once".to_owned(), "1".to_owned(), "acts".to_owned());
        let spec = ToolSpec { name, version, description, params, result: json!({"type": "object"}) };
        Arc::new(Once { spec, done: Mutex::default() })
    }

    fn done(&self) -> BTreeMap<String, u32> {
        self.done.lock().unwrap().clone()
    }
}

impl Tool for Once {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::None }
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let what = permit.params()["what"].as_str().unwrap().to_owned();
            tokio::task::yield_now().await;
            *self.done.lock().unwrap().entry(what).or_default() += 1;
            Ok(json!({}))
        })
    }
}

/// Steps of a run; every other step acts.
const STEPS: usize = 12;

fn chain(name: &str) -> Value {
    let step = |at: usize| {
        let deps: Vec<String> = at.checked_sub(1).map(|before| format!("n{before}")).into_iter().collect();
        match at % 2 {
            0 => {
                json!({"id": format!("n{at}"), "tool": "once", "params": {"what": format!("{name} {at}")}, "deps": deps})
            }
            _ => {
                json!({"id": format!("n{at}"), "tool": "text.render", "params": {"template": "x".repeat(200), "values": {}}, "deps": deps})
            }
        }
    };
    json!({"id": "p", "nodes": (0..STEPS).map(step).collect::<Vec<_>>()})
}

async fn all_over(system: &System, runs: &[RunId]) {
    for run in runs {
        system.outcome(*run).await.unwrap();
    }
}

/// Runs continue over a disk that is full after `room` bytes; one run is cancelled meanwhile.
async fn check(room: u64) {
    let disk = FaultyDisk::new();
    let options =
        Options { segment_bytes: 32 * 1024, prepare_bytes: 0, reserve_bytes: 8192, ..Options::default() };
    let journal = || Arc::new(SegmentJournal::on_disk(Arc::new(disk.clone()), options.clone()).unwrap().0);
    let (once, store) = (Once::new(), journal());
    let system = system(store.clone(), vec![once.clone()]).await;
    let mut runs = Vec::new();
    for name in ["a", "b", "c"] {
        runs.push(submit(&system, chain(name)).await);
    }
    disk.set_capacity(Some(disk.used() + room));
    // Driving begins before the opening is durable, and ends with its rollback.
    let late = new_run_id();
    let submission = Submission { run: Some(late), ..Submission::plan(plan(&system, chain("d"))) };
    let submitted = system.submit(submission).await;
    match &submitted {
        Ok(_) => runs.push(late),
        Err(SubmitError::Journal(JournalError::Full(_))) => {}
        Err(error) => panic!("{room}: {error}"),
    }
    let mut full = system.full();
    let was_full = tokio::select! {
        full = full.wait_for(Option::is_some) => full.is_ok(),
        () = all_over(&system, &runs) => false,
    };
    let cancelled = system.cancel(runs[0]).await;
    // The run may have ended before.
    let is_refused = matches!(&cancelled, Err(RunError::Over | RunError::InvalidState(_)));
    assert!(cancelled.is_ok() || is_refused, "{room}: an operator has room: {cancelled:?}");
    disk.set_capacity(None);
    for (at, run) in runs.iter().enumerate() {
        let settled = system.outcome(*run).await.unwrap();
        let expected =
            if at == 0 && cancelled.is_ok() { RunOutcome::Cancelled } else { RunOutcome::Succeeded };
        assert_eq!(settled, Settled::from(expected), "{room}: run {at}, full: {was_full}");
    }
    system.full().wait_for(Option::is_none).await.unwrap();
    let done = once.done();
    assert!(done.values().all(|times| *times == 1), "{room}: nothing is done twice: {done:?}");
    let acting = |name| done.keys().filter(|what| what.starts_with(name)).count();
    assert_eq!((acting("b"), acting("c")), (STEPS / 2, STEPS / 2), "{room}");
    assert_eq!(acting("d"), if submitted.is_ok() { STEPS / 2 } else { 0 }, "{room}: {submitted:?}");
    assert_eq!(store.runs(false).unwrap().len(), runs.len(), "{room}");
    // The rolled back run is read again after a while, in test time.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let recorded: u64 = store.accounts().unwrap().iter().map(|row| row.spent).sum();
    let spent: u64 = system.clients().await.iter().map(|row| row.spent).sum();
    assert_eq!(spent, recorded, "{room}: nobody pays for what was undone");
    system.shutdown().await;
    drop((system, store));
    assert_eq!(journal().verify().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_stops_what_goes_on_and_room_lets_it_go_on_and_nothing_is_done_twice() {
    for room in (0..50).map(|at| at * 263) {
        check(room).await;
    }
}

/// The agent then records nothing, not even that it loaded the run.
#[tokio::test]
async fn a_run_that_is_taken_up_on_a_full_disk_waits_for_a_person_all_the_same() {
    let before = Arc::new(MemoryJournal::default());
    let first = system(before.clone(), Vec::new()).await;
    let params = json!({"template": "done", "values": {}});
    let asks = json!({"id": "n", "tool": "text.render", "params": params, "approval": "before", "human_timeout": "1h"});
    let run = submit(&first, json!({"id": "p", "nodes": [asks]})).await;
    assert_eq!(first.outcome(run).await.unwrap(), RunStatus::Waiting);
    first.shutdown().await;

    let disk = FaultyDisk::new();
    let options =
        Options { segment_bytes: 32 * 1024, prepare_bytes: 0, reserve_bytes: 8192, ..Options::default() };
    let store = Arc::new(SegmentJournal::on_disk(Arc::new(disk.clone()), options).unwrap().0);
    let stream = StreamId::run(&before.run(run).unwrap().unwrap().client, run);
    for record in before.read(stream, Seq(0), usize::MAX).unwrap() {
        let (expected, events) = (Seq(record.seq.0 - 1), vec![record.event]);
        let batch = StreamBatch { stream, expected, at_ms: record.at_ms, events };
        let position = store.append(vec![batch]).unwrap();
        store.durable(position).await.unwrap();
    }
    let second = system(store, Vec::new()).await;
    disk.set_capacity(Some(disk.used()));
    let other = json!({"id": "n", "tool": "text.render", "params": {"template": "x", "values": {}}});
    let other = json!({"id": "o", "nodes": [other]});
    let refused = second.submit(Submission::plan(plan(&second, other))).await;
    assert!(matches!(refused, Err(SubmitError::Journal(JournalError::Full(_)))), "{refused:?}");
    second.full().wait_for(Option::is_some).await.unwrap();
    second.resume(run).await.unwrap();
    let settled = tokio::time::timeout(Duration::from_secs(60), second.outcome(run)).await;
    assert_eq!(settled.expect("a person can answer").unwrap(), RunStatus::Waiting);
    disk.set_capacity(None);
    second.shutdown().await;
}

/// A store that accepts nothing while full.
#[derive(Default)]
struct Room {
    kept: MemoryArtifacts,
    is_full: AtomicBool,
}

impl ArtifactStore for Room {
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Box::pin(async { Err(ArtifactError::Full("no space left".to_owned())) }),
            false => self.kept.put(artifact),
        }
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>> {
        self.kept.get(digest)
    }
}

impl Room {
    fn full() -> Arc<Room> {
        Arc::new(Room { is_full: AtomicBool::new(true), ..Room::default() })
    }
}

/// In test time: far beyond the one second of the work.
const HOUR: Duration = Duration::from_secs(3600);

/// A run with a finished node; its result has waited one hour for space.
async fn waiting(effect: Effect, idem: Idempotency) -> (Arc<Hold>, Arc<Room>, System, RunId) {
    let (tool, store) = (Hold::new("tool", effect, idem), Room::full());
    tool.gives(json!({"text": "x".repeat(INLINE_BYTES_MAX)}));
    let journal = Arc::new(MemoryJournal::default());
    let system = over(journal, store.clone(), vec![tool.clone()], Limits::default()).await;
    let node = json!({"id": "n", "tool": "tool", "retries": 0, "timeout": "1s"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    tool.go(1);
    system.full().wait_for(Option::is_some).await.unwrap();
    tokio::time::sleep(HOUR).await;
    assert!(system.full().borrow().is_some(), "it waits still");
    (tool, store, system, run)
}

#[tokio::test(start_paused = true)]
async fn a_result_that_has_no_room_waits_for_some_and_the_wait_costs_nothing() {
    let (tool, store, system, run) = waiting(Effect::External, Idempotency::None).await;
    store.is_full.store(false, Ordering::SeqCst);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    system.full().wait_for(Option::is_none).await.unwrap();
    tool.started().await;
    assert!(!tool.has_started(), "it was done once");
    let cost = system.view(run, None).await.unwrap().report.cost;
    assert!(cost < 100, "{cost}");
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_result_has_no_room_waits_beside_its_time_and_others_go_on() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let calls = counted.clone();
        async move {
            let large = Step::new("large").effect(Idempotency::None);
            let text: String = agent
                .step(large, async || {
                    calls.fetch_add(1, Ordering::SeqCst);
                    Ok("x".repeat(INLINE_BYTES_MAX))
                })
                .await?;
            Ok(text.len())
        }
    })
    .effect(Effect::External);
    let (journal, store) = (Arc::new(MemoryJournal::default()), Room::full());
    let system = over(journal, store.clone(), vec![Arc::new(program)], Limits::default()).await;
    let node =
        json!({"id": "n", "tool": "program", "retries": 0, "timeout": "1s", "heartbeat_timeout": "500ms"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    system.full().wait_for(Option::is_some).await.unwrap();
    tokio::time::sleep(HOUR).await;
    assert!(system.full().borrow().is_some(), "it waits still");
    let other = json!({"id": "n", "tool": "text.render", "params": {"template": "small", "values": {}}});
    let other = submit(&system, json!({"id": "o", "nodes": [other]})).await;
    assert_eq!(system.outcome(other).await.unwrap(), RunStatus::Succeeded, "it has room");
    store.is_full.store(false, Ordering::SeqCst);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    system.full().wait_for(Option::is_none).await.unwrap();
    let cost = system.view(run, None).await.unwrap().report.cost;
    assert!(cost < 100, "{cost}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_cut_off_a_step_whose_result_waits_for_room_beside_the_wait_for_a_run() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let sleep = json!({"id": "s", "tool": "time.sleep", "params": {"ms": HOUR.as_millis() as u64 * 24}});
    let child = ChildRunSpec::plan(serde_json::from_value(json!({"id": "c", "nodes": [sleep]})).unwrap());
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let (calls, child) = (counted.clone(), child.clone());
        async move {
            let large = agent.step(Step::new("large").effect(Idempotency::None), async || {
                calls.fetch_add(1, Ordering::SeqCst);
                Ok("x".repeat(INLINE_BYTES_MAX))
            });
            let (end, large) = futures::join!(agent.spawn("child", child), large);
            Ok(json!([end?.outcome, large?.len()]))
        }
    });
    let program = || -> Vec<Arc<dyn Tool>> { vec![Arc::new(program.clone().effect(Effect::External))] };
    let (journal, store) = (Arc::new(MemoryJournal::default()), Room::full());
    let first = over(journal.clone(), store.clone(), program(), Limits::default()).await;
    let node = json!({"id": "n", "tool": "program", "retries": 0, "timeout": "48h"});
    let run = submit(&first, json!({"id": "p", "nodes": [node]})).await;
    first.full().wait_for(Option::is_some).await.unwrap();
    tokio::time::sleep(HOUR).await;
    let ending = tokio::spawn(async move { first.shutdown().await });
    // Before the next try.
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.is_full.store(false, Ordering::SeqCst);
    assert_eq!(ending.await.unwrap(), []);

    let second = over(left_by(&journal), store, program(), Limits::default()).await;
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_while_its_result_waits_for_room_pays_for_its_work_alone() {
    let (.., system, run) = waiting(Effect::Read, Idempotency::Natural).await;
    system.cancel(run).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    let cost = system.view(run, None).await.unwrap().report.cost;
    assert!((1..100).contains(&cost), "{cost}");
    system.shutdown().await;
}
