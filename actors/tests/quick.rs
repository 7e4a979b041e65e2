//! Attempts of microseconds run on the driver's own thread: properties that must stay.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::{Arc, Mutex};

use common::{Hold, Watched, plan, states, submit, system, until};
use ostler_actors::{Submission, System};
use ostler_kernel::event::Event;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    BoxFuture, CallContext, Journal, Seq, StreamBatch, StreamId, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

/// Quick attempts per turn of an agent.
const IN_A_TURN: usize = 64;

type Deed = Arc<dyn Fn() + Send + Sync>;

/// A tool declared quick; records the task of each call.
struct Quick {
    spec: ToolSpec,
    effect: Effect,
    tasks: Mutex<Vec<tokio::task::Id>>,
    deed: (usize, Deed),
    /// True if the calls wait nevertheless.
    waits: bool,
}

impl Quick {
    fn new(effect: Effect) -> Quick {
        let object = || json!({"type": "object"});
        let (name, version, description) = ("quick".to_owned(), "1".to_owned(), "is quick".to_owned());
        let spec = ToolSpec { name, version, description, params: object(), result: object() };
        let nothing: Deed = Arc::new(|| {});
        Quick { spec, effect, tasks: Mutex::default(), deed: (usize::MAX, nothing), waits: false }
    }

    /// Lengths of the sequences of calls made in one task.
    fn streaks(&self) -> Vec<usize> {
        let tasks = self.tasks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        tasks.chunk_by(|one, next| one == next).map(<[_]>::len).collect()
    }
}

impl Tool for Quick {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: u8::from(self.effect.acts()), effect: self.effect, idem: Idempotency::Natural }
    }

    fn is_quick(&self, _: &Map<String, Value>) -> bool {
        true
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let number = {
                let mut tasks = self.tasks.lock().unwrap();
                tasks.push(tokio::task::id());
                tasks.len()
            };
            if number == self.deed.0 {
                (self.deed.1)();
            }
            if self.waits {
                tokio::task::yield_now().await;
            }
            Ok(json!({}))
        })
    }
}

/// A chain of nodes.
fn chain(nodes: usize) -> Value {
    let node = |at: usize| {
        let deps: Vec<String> = at.checked_sub(1).map(|before| format!("n{before}")).into_iter().collect();
        json!({"id": format!("n{at}"), "tool": "quick", "deps": deps})
    };
    json!({"id": "chain", "nodes": (0..nodes).map(node).collect::<Vec<_>>()})
}

async fn run_chain(system: &System, nodes: usize) -> RunId {
    let submission = Submission { intent: 2, ..Submission::plan(plan(system, chain(nodes))) };
    system.submit(submission).await.unwrap()
}

/// Recorded cost of a run's attempts.
fn recorded_cost(journal: &MemoryJournal, stream: StreamId) -> u64 {
    let records = journal.read(stream, Seq(0), usize::MAX).unwrap();
    let cost = records.into_iter().map(|record| match record.event {
        Event::AttemptResult(result) => result.cost,
        _ => 0,
    });
    cost.sum()
}

#[tokio::test(start_paused = true)]
async fn so_many_are_made_in_a_turn_and_the_others_in_the_next() {
    let (tool, journal) = (Arc::new(Quick::new(Effect::None)), Arc::new(MemoryJournal::default()));
    let system = system(journal.clone(), vec![tool.clone()]).await;
    let run = run_chain(&system, 2 * IN_A_TURN + 10).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(tool.streaks(), [2 * IN_A_TURN + 10], "all by their agent");
    let client = journal.run(run).unwrap().unwrap().client;
    let records = journal.read(StreamId::run(&client, run), Seq(0), usize::MAX).unwrap();
    let ends: Vec<_> =
        records.iter().filter(|record| matches!(record.event, Event::AttemptResult(_))).collect();
    let together: Vec<usize> =
        ends.chunk_by(|one, next| one.position == next.position).map(<[_]>::len).collect();
    assert_eq!(together, [IN_A_TURN, IN_A_TURN, 10]);
    system.shutdown().await;
}

#[tokio::test]
async fn those_that_take_longer_than_they_should_are_made_beside_their_agent() {
    let wait: Deed = Arc::new(|| std::thread::sleep(std::time::Duration::from_millis(5)));
    let tool = Arc::new(Quick { deed: (1, wait), ..Quick::new(Effect::None) });
    let system = system(Arc::new(MemoryJournal::default()), vec![tool.clone()]).await;
    let run = run_chain(&system, 3).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(tool.streaks()[..2], [1, 1], "the second does not wait for its agent");
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_acts_or_waits_is_made_beside_its_agent() {
    for (effect, waits) in [(Effect::Write, false), (Effect::Read, true)] {
        let tool = Arc::new(Quick { waits, ..Quick::new(effect) });
        let system = system(Arc::new(MemoryJournal::default()), vec![tool.clone()]).await;
        let run = run_chain(&system, 5).await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded, "{effect:?}");
        if effect.acts() {
            assert_eq!(tool.streaks(), [1; 5]);
        }
        system.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_attempt_and_nothing_else() {
    let tool = Arc::new(Quick { deed: (3, Arc::new(|| panic!("no"))), ..Quick::new(Effect::None) });
    let system = system(Arc::new(MemoryJournal::default()), vec![tool.clone()]).await;
    let run = run_chain(&system, 5).await;
    // One crash, then a retry.
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(tool.tasks.lock().map_or(0, |tasks| tasks.len()), 6);
    until(async || system.queue().await.is_some_and(|queue| queue.running == 0)).await;
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_done_and_is_not_written_down_costs_nothing_and_is_done_again() {
    let journal = Arc::new(MemoryJournal::default());
    let stream: Arc<Mutex<Option<StreamId>>> = Arc::default();
    // During the third attempt another writer appends to the run's stream: the agent starts again.
    let (others, of) = (Arc::clone(&journal), Arc::clone(&stream));
    let intrude: Deed = Arc::new(move || {
        let [row] = &others.runs(true).unwrap()[..] else { panic!("one run") };
        let stream = StreamId::run(&row.client, row.run);
        let last = others.read(stream, Seq(0), usize::MAX).unwrap().last().unwrap().seq;
        let events = vec![Event::OutOfCredit { out: false }];
        others.append(vec![StreamBatch { stream, expected: last, at_ms: 0, events }]).unwrap();
        *of.lock().unwrap() = Some(stream);
    });
    let tool = Arc::new(Quick { deed: (3, intrude), ..Quick::new(Effect::None) });
    let system = system(journal.clone(), vec![tool.clone()]).await;
    let run = run_chain(&system, 5).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert!(tool.streaks().iter().sum::<usize>() > 5, "what was not written down is done again");
    let stream = stream.lock().unwrap().expect("it was meddled with");
    let cost = recorded_cost(&journal, stream);
    assert_eq!(cost, 5, "each step counts once");
    until(async || system.clients().await.iter().map(|row| row.spent).sum::<u64>() == cost).await;
    assert!(states(&system, run).await.starts_with("n0 executed, n1 executed"));
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_all_quick_attempts_lets_others_have_their_turn() {
    let tool = Arc::new(Quick::new(Effect::None));
    let system = system(Arc::new(MemoryJournal::default()), vec![tool.clone()]).await;
    let long = run_chain(&system, 5_000).await;
    let short = submit(&system, chain(1)).await;
    assert_eq!(system.outcome(short).await.unwrap(), RunStatus::Succeeded);
    let open: Vec<RunId> = system.runs(true).unwrap().iter().map(|row| row.run).collect();
    assert_eq!(open, [long]);
    system.cancel(long).await.unwrap();
    assert_eq!(system.outcome(long).await.unwrap(), RunStatus::Cancelled);
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_quick_attempt_makes_needless_does_not_begin() {
    let (quick, slow) =
        (Arc::new(Quick::new(Effect::None)), Hold::new("slow", Effect::Read, Idempotency::Natural));
    let system = system(Arc::new(MemoryJournal::default()), vec![quick, slow.clone()]).await;
    // Both are granted at once; before the first could begin, the second has won.
    let source = json!({"id": "p", "nodes": [
        {"id": "a", "tool": "slow"},
        {"id": "b", "tool": "quick"},
        {"id": "c", "tool": "quick", "join": "any_of", "deps": ["a", "b"]},
    ]});
    let run = submit(&system, source).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&system, run).await, "a skipped, b executed, c executed");
    assert!(!slow.has_started());
    until(async || system.queue().await.is_some_and(|queue| queue.running == 0)).await;
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn so_many_refusals_as_there_are_nodes_are_more_than_one_turn() {
    const NODES: usize = 10_000;
    let journal = Watched::over(Arc::new(MemoryJournal::default()));
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    hold.go(1);
    let system = system(journal.clone(), vec![hold]).await;
    // Their inputs are missing.
    let write = |at: usize| {
        let refs = json!({"text": {"from": "s", "path": "nothing"}});
        let params = json!({"path": "x", "mode": "create"});
        json!({"id": format!("n{at}"), "tool": "fs.write", "params": params, "param_refs": refs, "retries": 0, "patches": 0})
    };
    let start = json!({"id": "s", "tool": "hold"});
    let nodes: Vec<_> = std::iter::once(start).chain((1..NODES).map(write)).collect();
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    let view = system.view(run, None).await.unwrap();
    assert!(view.run.instances().all(|(_, instance)| instance.attempts == 1), "each was asked for once");
    // First, each of them becomes ready.
    assert!(journal.largest() < 2 * NODES, "{}", journal.largest());
    system.shutdown().await;
}
