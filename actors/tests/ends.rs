//! Attempts and runs cut off by the end of their process, and the decisions of people about attempts in doubt.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::{DRAIN, Hold, SLOTS, left_by, over, plan, states, submit, system, until, with_slots};
use ostler_actors::{INLINE_BYTES_MAX, InDoubt, Limits, ResolveHow, RunError, Settled, Submission, System};
use ostler_kernel::event::{AttemptProgress, AttemptRef, Event};
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::canonical;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    Artifact, ArtifactError, ArtifactStore, BoxFuture, CallContext, Journal, Seq, StreamBatch, StreamId,
    Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{NodeState, RECOVERIES_MAX, ResolutionError, RunOutcome, RunStatus};
use ostler_store::{MemoryArtifacts, MemoryJournal};
use serde_json::{Map, Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_what_acts_and_leaves_the_rest_to_the_next_process() {
    let act = Hold::new("act", Effect::External, Idempotency::None);
    let look = Hold::new("look", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![act.clone(), look.clone()]).await;
    let nodes = json!([{"id": "act", "tool": "act"}, {"id": "look", "tool": "look", "retries": 0}]);
    let run = submit(&first, json!({"id": "p", "nodes": nodes})).await;
    act.started().await;
    look.started().await;

    let ending = tokio::spawn({
        let first = first.clone();
        async move { first.shutdown().await }
    });
    look.stopped().await;
    assert!(!ending.is_finished(), "it waits for what acts");
    act.go(1);
    ending.await.unwrap();
    assert_eq!(states(&first, run).await, "act executed, look running");

    look.go(1);
    let second = system(journal, vec![act, look]).await;
    assert_eq!(second.resume_all().await.unwrap(), [run]);
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_when_its_time_is_over_whatever_goes_on() {
    let act = Hold::new("act", Effect::External, Idempotency::None);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![act.clone()]).await;
    let node = json!({"id": "n", "tool": "act", "timeout": 3_600_000});
    let run = submit(&first, json!({"id": "p", "nodes": [node]})).await;
    act.started().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(first.shutdown().await, [InDoubt { run, node: "n".into() }]);
    assert_eq!(begun.elapsed().as_secs(), DRAIN.as_secs());
    act.stopped().await;

    let second = system(journal, vec![act]).await;
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Waiting, "it is in doubt");
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_ends_in_its_true_state_here_and_in_the_next_process() {
    for (idem, reason) in [(Idempotency::Keyed, "crash"), (Idempotency::None, "in_doubt")] {
        let act = Hold::new("act", Effect::External, idem);
        let journal = Arc::new(MemoryJournal::default());
        let first = system(journal.clone(), vec![act.clone()]).await;
        let run = submit(&first, json!({"id": "p", "nodes": [{"id": "n", "tool": "act"}]})).await;
        act.started().await;
        first.cancel(run).await.unwrap();
        let left = left_by(&journal);

        act.go(1);
        assert_eq!(first.outcome(run).await.unwrap(), RunStatus::Cancelled);
        assert_eq!(states(&first, run).await, "n executed");
        first.shutdown().await;

        let second = system(left, vec![act]).await;
        assert_eq!(second.resume_all().await.unwrap(), [run]);
        assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Cancelled);
        assert_eq!(states(&second, run).await, "n failed");
        let culprits = second.view(run, None).await.unwrap().report.root_causes;
        assert_eq!(culprits[0].reason, reason);
        second.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_a_person_gives_is_judged_like_any_other() {
    let fire = Hold::new("fire", Effect::External, Idempotency::None);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![fire.clone()]).await;
    let schema = json!({"type": "object", "required": ["sent"], "properties": {"sent": {"type": "integer"}}});
    let nodes =
        json!([{"id": "n", "tool": "fire", "contract": [{"method": "schema", "p": 1, "spec": schema}]}]);
    let run = submit(&first, json!({"id": "p", "nodes": nodes})).await;
    fire.started().await;
    let left = left_by(&journal);
    fire.go(1);
    first.shutdown().await;

    let second = system(left, vec![fire]).await;
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Waiting);
    for broken in [json!({}), json!({"sent": "two"}), json!(null)] {
        let refused = second.resolve(run, "n".into(), ResolveHow::Done(broken)).await;
        assert!(matches!(refused, Err(RunError::Result(_))), "{refused:?}");
        assert_eq!(states(&second, run).await, "n waiting_human");
    }
    second.resolve(run, "n".into(), ResolveHow::Done(json!({"sent": 2}))).await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(common::value(&second, run, "n").await, json!({"sent": 2}));
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_says_of_one_attempt_settles_no_other_and_may_be_said_again() {
    let fire = Hold::new("fire", Effect::External, Idempotency::None);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![fire.clone()]).await;
    let run = submit(&first, json!({"id": "p", "nodes": [{"id": "n", "tool": "fire"}]})).await;
    fire.started().await;
    let left = left_by(&journal);
    fire.go(1);
    first.shutdown().await;

    let fire = Hold::new("fire", Effect::External, Idempotency::None);
    let second = system(left.clone(), vec![fire.clone()]).await;
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Waiting);
    second.resolve_attempt(run, "n".into(), 1, ResolveHow::Redo).await.unwrap();
    fire.started().await;
    second.resolve_attempt(run, "n".into(), 1, ResolveHow::Redo).await.expect("while it is done again");
    let left = left_by(&left);
    fire.go(1);
    second.shutdown().await;

    let fire = Hold::new("fire", Effect::External, Idempotency::None);
    let third = system(left, vec![fire.clone()]).await;
    third.resume_all().await.unwrap();
    assert_eq!(third.outcome(run).await.unwrap(), RunStatus::Waiting);
    third
        .resolve_attempt(run, "n".into(), 1, ResolveHow::Redo)
        .await
        .expect("attempt 1 was settled like this");
    for (attempt, how) in
        [(1, ResolveHow::Done(json!({"sent": 1}))), (1, ResolveHow::Fail), (3, ResolveHow::Redo)]
    {
        let refused = third.resolve_attempt(run, "n".into(), attempt, how).await;
        let Err(RunError::Resolution(ResolutionError::OtherAttempt { attempt: named, latest: 2, .. })) =
            refused
        else {
            panic!("attempt 2 is in doubt: {refused:?}")
        };
        assert_eq!(named, attempt);
    }
    assert_eq!(states(&third, run).await, "n waiting_human");
    assert!(!fire.has_started());

    third.resolve_attempt(run, "n".into(), 2, ResolveHow::Done(json!({"sent": 2}))).await.unwrap();
    assert_eq!(third.outcome(run).await.unwrap(), RunStatus::Succeeded);
    third
        .resolve_attempt(run, "n".into(), 2, ResolveHow::Done(json!({"sent": 2})))
        .await
        .expect("the run is over, and it was");
    for how in [ResolveHow::Done(json!({"sent": 3})), ResolveHow::Redo, ResolveHow::Fail] {
        let refused = third.resolve_attempt(run, "n".into(), 2, how).await;
        assert!(matches!(refused, Err(RunError::InvalidState(_))), "{refused:?}");
    }
    assert!(!fire.has_started());
    third.shutdown().await;
}

/// Recovery of a run after the death number `recoveries` of its process. `told`: progress of the attempt in the process
/// before, and in the last one.
async fn check_recovered(recoveries: u32, told: [&[u32]; 2], expected: Settled) {
    let look = Hold::new("look", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![look.clone()]).await;
    let run = submit(&first, json!({"id": "p", "nodes": [{"id": "n", "tool": "look"}]})).await;
    look.started().await;
    let left = left_by(&journal);
    first.shutdown().await;
    look.stopped().await;

    let client = left.run(run).unwrap().unwrap().client;
    let append = |stream, events: Vec<Event>| {
        let expected = left.read(stream, Seq(0), usize::MAX).unwrap().last().map_or(Seq(0), |last| last.seq);
        left.append(vec![StreamBatch { stream, expected, at_ms: 0, events }]).unwrap();
    };
    let report = |token: &u32| {
        let of = AttemptRef { node: "n".into(), generation: 1, patch_count: 0, attempt: 1 };
        let token = canonical(&json!(token)).unwrap();
        append(
            StreamId::attempts(&client, run),
            vec![Event::AttemptProgress(Box::new(AttemptProgress { of, token }))],
        );
    };
    told[0].iter().for_each(report);
    append(StreamId::run(&client, run), vec![Event::RunRecovered { count: recoveries }]);
    told[1].iter().for_each(report);

    look.go(1);
    let second = system(left, vec![look]).await;
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), expected);
    if expected == RunStatus::Suspended {
        assert_eq!(second.resume_all().await.unwrap(), [], "it is left alone");
        assert_eq!(second.view(run, None).await.unwrap().parked, expected.reason);
        second.resume(run).await.unwrap();
        assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ended_its_process_too_often_is_set_aside_until_asked_for() {
    let parked =
        || Settled::suspended(format!("the process died {RECOVERIES_MAX} times in a row without progress"));
    let over = || Settled::new(RunStatus::Succeeded);
    check_recovered(RECOVERIES_MAX - 1, [&[], &[]], over()).await;
    check_recovered(RECOVERIES_MAX, [&[], &[]], parked()).await;
    // Repeated progress is no progress: each attempt begins from the start.
    check_recovered(RECOVERIES_MAX, [&[1, 2], &[1]], parked()).await;
    check_recovered(RECOVERIES_MAX, [&[1, 2], &[1, 2, 3]], over()).await;
}

/// A run of one attempt without progress in consecutive processes, each killed or shut down: its outcome in the last
/// one.
async fn check_ends(are_killed: &[bool], expected: Settled) {
    let mut left = Arc::new(MemoryJournal::default());
    let mut run = None;
    for is_killed in are_killed {
        let look = Hold::new("look", Effect::Read, Idempotency::Natural);
        let system = system(left.clone(), vec![look.clone()]).await;
        match run {
            None => {
                run = Some(submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "look"}]})).await)
            }
            Some(_) => drop(system.resume_all().await.unwrap()),
        }
        until(async || look.has_started()).await;
        let killed = left_by(&left);
        system.shutdown().await;
        left = if *is_killed { killed } else { left_by(&left) };
    }
    let look = Hold::new("look", Effect::Read, Idempotency::Natural);
    look.go(1);
    let last = system(left, vec![look]).await;
    last.resume_all().await.unwrap();
    assert_eq!(last.outcome(run.unwrap()).await.unwrap(), expected, "{are_killed:?}");
    last.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_in_good_order_counts_against_no_run() {
    let over = || Settled::new(RunStatus::Succeeded);
    let reason = format!("the process died {RECOVERIES_MAX} times in a row without progress");
    check_ends(&[false; 6], over()).await;
    check_ends(&[true; 4], Settled::suspended(reason.clone())).await;
    check_ends(&[true, true, true, false, true, true], over()).await;
    check_ends(&[false, true, true, true], Settled::suspended(reason)).await;
}

/// A tool with a call that kills its process, by keeping a copy of the journal.
struct Deadly {
    tool: Arc<Hold>,
    /// The copy at the first death.
    dies: Mutex<Option<Arc<MemoryJournal>>>,
    left: Mutex<Option<Arc<MemoryJournal>>>,
}

impl Tool for Deadly {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        if let Some(journal) = self.dies.lock().unwrap().take() {
            *self.left.lock().unwrap() = Some(left_by(&journal));
        }
        self.tool.class(params)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.tool.call(permit, context)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_its_process_before_anything_of_it_is_written_down_is_set_aside_too() {
    let journal = Arc::new(MemoryJournal::default());
    let hold = Hold::new("look", Effect::Read, Idempotency::Natural);
    let first = system(journal.clone(), vec![hold.clone()]).await;
    let busy = (0..SLOTS).map(|at| json!({"id": format!("h{at}"), "tool": "look"})).collect::<Vec<_>>();
    submit(&first, json!({"id": "busy", "policy": {"slots": SLOTS}, "nodes": busy})).await;
    for _ in 0..SLOTS {
        hold.started().await;
    }
    let node = json!({"id": "n", "tool": "look"});
    let run = submit(&first, json!({"id": "p", "nodes": [node]})).await;
    let mut left = left_by(&journal);
    first.shutdown().await;

    for life in 1..=RECOVERIES_MAX {
        let (dies, tool) = (Mutex::default(), Hold::new("look", Effect::Read, Idempotency::Natural));
        let deadly = Arc::new(Deadly { tool, dies, left: Mutex::default() });
        let system = system(left.clone(), vec![deadly.clone()]).await;
        *deadly.dies.lock().unwrap() = Some(left.clone());
        system.resume_among_all(run).await.unwrap();
        until(async || deadly.left.lock().unwrap().is_some()).await;
        system.shutdown().await;
        left = deadly.left.lock().unwrap().take().unwrap();
        let client = left.run(run).unwrap().unwrap().client;
        let records = left.read(StreamId::run(&client, run), Seq(0), usize::MAX).unwrap();
        let last = &records.last().unwrap().event;
        assert_eq!(*last, Event::RunRecovered { count: life }, "before it is known what it is to do");
        assert!(!records.iter().any(|record| matches!(record.event, Event::AttemptIntent(_))));
    }
    let last = system(left, vec![hold]).await;
    last.resume_among_all(run).await.unwrap();
    let reason = format!("the process died {RECOVERIES_MAX} times in a row without progress");
    assert_eq!(last.outcome(run).await.unwrap(), Settled::suspended(reason));
    last.shutdown().await;
}

/// Three processes in a row end before the run gets a slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_only_queued_has_ended_no_process() {
    let journal = Arc::new(MemoryJournal::default());
    let hold = Hold::new("look", Effect::Read, Idempotency::Natural);
    let first = with_slots(journal.clone(), vec![hold.clone()], 1).await;
    let node = json!({"id": "n", "tool": "look"});
    let asks = json!({"id": "n", "tool": "look", "approval": "before", "human_timeout": "1h"});
    submit(&first, json!({"id": "p", "nodes": [node.clone()]})).await;
    hold.started().await;
    let queued = submit(&first, json!({"id": "p", "nodes": [node]})).await;
    let asking = submit(&first, json!({"id": "p", "nodes": [asks]})).await;
    assert_eq!(first.outcome(asking).await.unwrap(), RunStatus::Waiting);
    let mut left = left_by(&journal);
    first.shutdown().await;
    for _ in 0..=RECOVERIES_MAX {
        let hold = Hold::new("look", Effect::Read, Idempotency::Natural);
        let next = with_slots(left.clone(), vec![hold.clone()], 1).await;
        submit(&next, json!({"id": "p", "nodes": [{"id": "n", "tool": "look"}]})).await;
        hold.started().await;
        next.resume_among_all(queued).await.unwrap();
        next.resume_among_all(asking).await.unwrap();
        assert_eq!(next.outcome(asking).await.unwrap(), RunStatus::Waiting);
        until(async || states(&next, queued).await == "n ready").await;
        let after = left_by(&left);
        next.shutdown().await;
        left = after;
    }
    let last = system(left, vec![hold.clone()]).await;
    last.resume_among_all(queued).await.unwrap();
    hold.go(1);
    assert_eq!(last.outcome(queued).await.unwrap(), RunStatus::Succeeded);
    last.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_a_plan_is_judged_at_its_end_and_runs_nothing() {
    let shell = Hold::new("shell.run", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![shell.clone()]).await;
    let node = json!({"id": "t", "tool": "text.render", "params": {"template": "x", "values": {}}});
    let rule = |rule| serde_json::from_value(rule).unwrap();
    let asks = |value| {
        rule(json!({"method": "code", "spec": {"check": "equals", "path": "t.text", "value": value}}))
    };
    // Validation rejects such a test; this plan bypasses validation.
    let test = rule(json!({"method": "test", "spec": {"argv": ["make"]}}));
    for (rule, outcome) in
        [(asks("x"), RunOutcome::Succeeded), (asks("y"), RunOutcome::Failed), (test, RunOutcome::Failed)]
    {
        let mut plan = plan(&system, json!({"id": "p", "nodes": [node]}));
        plan.contract.push(rule);
        let run = system.submit(Submission::plan(plan)).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(outcome));
        assert_eq!(states(&system, run).await, "t executed");
    }
    assert!(!shell.has_started());
    system.shutdown().await;
}

/// A suspended run with a ready node and a dependant: the work that a change starts.
async fn check_at_rest(change: impl AsyncFnOnce(&System, RunId), expected: Settled, left_over: &str) {
    let first_step = Hold::new("first", Effect::Read, Idempotency::Natural);
    let fire = Hold::new("fire", Effect::External, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![first_step.clone(), fire.clone()]).await;
    let nodes = json!([{"id": "a", "tool": "first"}, {"id": "b", "tool": "fire", "deps": ["a"]},
                       {"id": "c", "tool": "text.render", "params": {"template": "x", "values": {}},
                        "deps": [{"n": "b", "on": "terminal"}]}]);
    let run = submit(&first, json!({"id": "p", "outputs": ["c"], "nodes": nodes})).await;
    first_step.started().await;
    first_step.go(1);
    fire.started().await;
    // As before `b` got its slot.
    let stream = StreamId::run(&journal.run(run).unwrap().unwrap().client, run);
    let left = Arc::new(MemoryJournal::default());
    let (mut seq, mut last) = (Seq(0), false);
    for record in journal.read(stream, Seq(0), usize::MAX).unwrap() {
        last |= matches!(&record.event, Event::NodeTransition(step)
            if step.node.as_str() == "b" && step.to == NodeState::Running);
        if !last {
            let batch =
                StreamBatch { stream, expected: seq, at_ms: record.at_ms, events: vec![record.event] };
            left.append(vec![batch]).unwrap();
            seq = record.seq;
        }
    }
    fire.go(1);
    first.shutdown().await;

    let second = system(left, vec![first_step, fire.clone()]).await;
    assert_eq!(states(&second, run).await, "a executed, b ready, c pending");
    change(&second, run).await;
    assert_eq!(second.outcome(run).await.unwrap(), expected);
    assert_eq!(states(&second, run).await, left_over);
    second.shutdown().await;
    assert!(!fire.has_started(), "what was not wanted any more was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_rests_starts_nothing_that_it_is_to_do_without() {
    let over = Settled::new(RunStatus::Succeeded);
    check_at_rest(
        async |system, run| system.cancel(run).await.unwrap(),
        Settled::new(RunStatus::Cancelled),
        "a executed, b cancelled, c cancelled",
    )
    .await;
    let skip = async |system: &System, run| system.skip_node(run, "b".into()).await.unwrap();
    check_at_rest(skip, over.clone(), "a executed, b skipped, c executed").await;
    let cancel = async |system: &System, run| system.cancel_node(run, "b".into()).await.unwrap();
    check_at_rest(cancel, over, "a executed, b cancelled, c executed").await;
}

/// A store that accepts nothing while full.
#[derive(Default)]
struct Full {
    kept: MemoryArtifacts,
    is_full: AtomicBool,
}

impl ArtifactStore for Full {
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Box::pin(async { Err(ArtifactError::Io("no space left".to_owned())) }),
            false => self.kept.put(artifact),
        }
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>> {
        self.kept.get(digest)
    }
}

/// A run of one call with a result that cannot be stored: its outcome and the state of its node.
async fn check_unstorable(effect: Effect, idem: Idempotency, expected: (Settled, &str)) {
    let tool = Hold::new("tool", effect, idem);
    let large = json!({"text": "x".repeat(INLINE_BYTES_MAX)});
    tool.gives(large.clone());
    let store = Arc::new(Full::default());
    store.is_full.store(true, Ordering::SeqCst);
    let journal = Arc::new(MemoryJournal::default());
    let system = over(journal, store.clone(), vec![tool.clone()], Limits::default()).await;
    let run = submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "tool", "retries": 0}]})).await;
    tool.go(1);
    let told = format!("{effect:?} {idem:?}");
    assert_eq!((system.outcome(run).await.unwrap(), &*states(&system, run).await), expected, "{told}");
    tool.started().await;
    assert!(!tool.has_started(), "{told}: it was done twice");
    let culprits = system.view(run, None).await.unwrap().report.root_causes;
    let why = culprits.first().and_then(|culprit| culprit.message.clone());
    if expected.0 == RunStatus::Waiting {
        // A person's answer `done` needs space for the result too.
        let refused = system.resolve(run, "n".into(), ResolveHow::Done(large.clone())).await;
        assert!(
            matches!(&refused, Err(RunError::Result(why)) if why.contains("no space left")),
            "{refused:?}"
        );
        assert_eq!(states(&system, run).await, "n waiting_human");
        store.is_full.store(false, Ordering::SeqCst);
        system.resolve(run, "n".into(), ResolveHow::Done(large.clone())).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        assert_eq!(common::value(&system, run, "n").await, large);
        assert!(!tool.has_started(), "{told}: it was done again");
    } else {
        assert_eq!(why.as_deref(), Some("the result could not be stored: artifact store: no space left"));
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_whose_result_cannot_be_stored_is_in_doubt_and_not_done_twice() {
    let failed = || (Settled::new(RunStatus::Failed), "n failed");
    let asked = (Settled::new(RunStatus::Waiting), "n waiting_human");
    check_unstorable(Effect::External, Idempotency::None, asked).await;
    check_unstorable(Effect::External, Idempotency::Keyed, failed()).await;
    check_unstorable(Effect::Read, Idempotency::Natural, failed()).await;
}
