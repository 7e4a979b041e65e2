//! An operator holds a run and asks a person whether the run may continue.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use common::{Hold, Watched, left_by, memory, plan, states, submit, system, until};
use ostler_actors::{AgentProfile, Answer, RunError, Settled, Submission, System};
use ostler_kernel::agent::InvalidState;
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{Journal, StreamBatch, StreamKind};
use ostler_kernel::run::{RunOutcome, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3_600);

async fn answer(system: &System, run: RunId, answer: Answer) {
    let [question] = &system.approvals(run).await.unwrap()[..] else { panic!("one question") };
    system.answer(&question.id, question.digest.unwrap(), answer).await.unwrap();
}

/// A held node, a dependant, and one node more than the plan has slots for.
fn work() -> Value {
    json!({"id": "p", "policy": {"slots": 1}, "nodes": [
        {"id": "a", "tool": "hold"},
        {"id": "b", "tool": "hold", "deps": ["a"]},
        {"id": "c", "tool": "hold"},
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_goes_on_and_nothing_else_starts_until_somebody_says_yes() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let run = submit(&system, work()).await;
    hold.started().await;
    let node = system.interject(run, "the customer has called", HOUR).await.unwrap();
    assert_eq!(node.as_str(), "interjection-1");
    hold.go(1);
    let held = "a executed, b blocked, c blocked, interjection-1 waiting_human";
    until(async || states(&system, run).await == held).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    let [question] = &system.approvals(run).await.unwrap()[..] else { panic!("one question") };
    assert_eq!(question.shown.params["text"], json!("the customer has called"));
    answer(&system, run, Answer::approve()).await;
    hold.go(2);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_cancels_the_run() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let run = submit(&system, work()).await;
    hold.started().await;
    system.interject(run, "stop?", HOUR).await.unwrap();
    let asks = async || states(&system, run).await.ends_with("interjection-1 waiting_human");
    until(asks).await;
    answer(&system, run, Answer::reject()).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    assert_eq!(states(&system, run).await, "a cancelled, b cancelled, c cancelled, interjection-1 failed");
    assert!(matches!(system.interject(run, "late", HOUR).await, Err(RunError::InvalidState(_))));
    system.shutdown().await;
}

/// Also across a restart: the deadline is that of the question.
#[tokio::test(start_paused = true)]
async fn silence_cancels_the_run_and_a_run_that_rests_is_held_as_well() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    let nap = json!({"id": "s", "tool": "time.sleep", "params": {"ms": 60_000}});
    let say =
        json!({"id": "say", "tool": "text.render", "params": {"template": "x", "values": {}}, "deps": ["s"]});
    let run = submit(&first, json!({"id": "p", "nodes": [nap, say]})).await;
    until(async || first.agents().await.iter().all(|row| row.state == "idle")).await;
    first.interject(run, "go on?", HOUR).await.unwrap();
    first.shutdown().await;

    let second = system(journal, Vec::new()).await;
    assert_eq!(states(&second, run).await, "interjection-1 waiting_human, s running, say blocked");
    let before = tokio::time::Instant::now();
    second.resume(run).await.unwrap();
    let mut changes = second.watch_changes();
    while second.outcome(run).await.unwrap() == RunStatus::Waiting {
        changes.changed().await.unwrap();
    }
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Cancelled);
    assert!(before.elapsed() <= HOUR);
    assert_eq!(states(&second, run).await, "interjection-1 cancelled, s executed, say cancelled");
    second.shutdown().await;
}

/// Others append between the reading and the appending, more than once.
#[tokio::test]
async fn a_run_that_rests_is_held_though_others_write_to_it() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    let nap = json!({"id": "s", "tool": "time.sleep", "params": {"ms": 3_600_000}});
    let run = submit(&first, json!({"id": "p", "nodes": [nap]})).await;
    until(async || states(&first, run).await == "s running").await;
    first.shutdown().await;

    let watched = Watched::over(journal.clone());
    let second = system(watched.clone(), Vec::new()).await;
    let left = AtomicU32::new(5);
    watched.at_end(move |stream, expected| {
        let one_less = |left: u32| left.checked_sub(1);
        if stream.kind == StreamKind::Run
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
        {
            let at_ms = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
            let events = vec![Event::OutOfCredit { out: false }];
            journal.append(vec![StreamBatch { stream, expected, at_ms, events }]).unwrap();
        }
    });
    assert_eq!(second.interject(run, "go on?", HOUR).await.unwrap().as_str(), "interjection-1");
    second.shutdown().await;
}

/// Both choose the same name and arrive in one turn: each refused one sees the state before it.
#[tokio::test(flavor = "multi_thread")]
async fn interjections_at_the_same_time_all_ask() {
    let system = memory().await;
    let asks =
        json!({"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"});
    let expected: Vec<String> = (1..=5).map(|number| format!("interjection-{number}")).collect();
    // The race once failed in one of sixteen rounds.
    for _ in 0..32 {
        let run = submit(&system, json!({"id": "p", "nodes": [&asks]})).await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        let all = (0..5).map(|_| {
            let system = system.clone();
            tokio::spawn(async move { system.interject(run, "?", HOUR).await.unwrap() })
        });
        let mut nodes = Vec::new();
        for one in all.collect::<Vec<_>>() {
            nodes.push(one.await.unwrap().to_string());
        }
        nodes.sort();
        assert_eq!(nodes, expected);
        assert_eq!(system.approvals(run).await.unwrap().len(), 6);
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_nothing_or_too_much_or_leaves_no_time_holds_nothing() {
    let system = memory().await;
    let asks =
        json!({"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"});
    let run = submit(&system, json!({"id": "p", "nodes": [asks]})).await;
    let long = "x".repeat(ostler_actors::NOTE_BYTES_MAX + 1);
    for (text, wait, told) in [
        (" \n", HOUR, "says what a person is to decide"),
        (long.as_str(), HOUR, "has at most 4096 bytes, this has 4097"),
        ("x", Duration::ZERO, "V14"),
    ] {
        let refused = system.interject(run, text, wait).await.unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    assert_eq!(system.view(run, None).await.unwrap().run.plan().version, 1);
    let most = "x".repeat(ostler_actors::NOTE_BYTES_MAX);
    system.interject(run, &most, HOUR).await.unwrap();
    system.shutdown().await;
}

/// A run behind another run of its agent is held at once and starts nothing when its turn comes; earlier requests are
/// handled before it starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_line_is_held_before_anything_of_it_starts() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let of = |nodes: Value| Submission::plan(plan(&system, json!({"id": "p", "nodes": nodes})));
    let one = json!([{"id": "n", "tool": "hold"}]);
    let first = agent.submit(of(one.clone())).await.unwrap();
    let second =
        agent.submit(of(json!([{"id": "m", "tool": "hold"}, {"id": "n", "tool": "hold"}]))).await.unwrap();
    hold.started().await;
    let skips = tokio::spawn({
        let system = system.clone();
        async move { system.skip_node(second, "m".into()).await }
    });
    until(async || system.interject(second, "wait", HOUR).await.is_ok()).await;
    assert_eq!(states(&system, second).await, "interjection-1 ready, m blocked, n blocked");
    hold.go(1);
    skips.await.unwrap().unwrap();
    assert_eq!(system.outcome(first).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(system.outcome(second).await.unwrap(), RunStatus::Waiting);
    assert_eq!(states(&system, second).await, "interjection-1 waiting_human, m skipped, n blocked");
    assert!(!hold.has_started(), "nothing but the first run");
    answer(&system, second, Answer::approve()).await;
    hold.go(1);
    assert!(system.outcome(second).await.unwrap().status.is_over());
    assert_eq!(states(&system, second).await, "interjection-1 executed, m skipped, n executed");
    system.shutdown().await;
}

/// Without a hold: requests made while the run stood in line are handled before its first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_of_a_run_in_line_comes_before_its_first_attempt() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let nodes = json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]});
    let first = agent.submit(Submission::plan(plan(&system, nodes.clone()))).await.unwrap();
    let second = agent.submit(Submission::plan(plan(&system, nodes))).await.unwrap();
    hold.started().await;
    let mut skips = std::pin::pin!(system.skip_node(second, "n".into()));
    tokio::select! {
        biased;
        answer = &mut skips => panic!("its turn has not come: {answer:?}"),
        // Once the registry answers, it has handled the earlier requests.
        _ = system.agents() => {}
    }
    hold.go(1);
    skips.await.unwrap();
    assert_eq!(system.outcome(first).await.unwrap(), RunStatus::Succeeded);
    system.outcome(second).await.unwrap();
    assert_eq!(states(&system, second).await, "n skipped");
    assert!(!hold.has_started());
    system.shutdown().await;
}

/// The interrupted attempt is repeated only after the yes.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_died_with_its_process_is_not_done_again_while_its_run_is_held() {
    for (approve, ends) in [(true, RunOutcome::Succeeded), (false, RunOutcome::Cancelled)] {
        let holds = || Hold::new("hold", Effect::Read, Idempotency::Natural);
        let (died, hold) = (holds(), holds());
        let journal = Arc::new(MemoryJournal::default());
        let first = system(journal.clone(), vec![died.clone()]).await;
        let run = submit(&first, work()).await;
        died.started().await;
        first.interject(run, "go on?", HOUR).await.unwrap();
        until(async || states(&first, run).await.ends_with("interjection-1 waiting_human")).await;

        let second = system(left_by(&journal), vec![hold.clone()]).await;
        second.resume(run).await.unwrap();
        // A later request is handled later.
        let say = json!({"id": "n", "tool": "text.render", "params": {"template": "x", "values": {}}});
        let other = submit(&second, json!({"id": "q", "nodes": [say]})).await;
        assert_eq!(second.outcome(other).await.unwrap(), RunStatus::Succeeded);
        let held = "a running, b blocked, c blocked, interjection-1 waiting_human";
        assert_eq!(states(&second, run).await, held);
        assert!(!hold.has_started(), "under the hold");
        answer(&second, run, if approve { Answer::approve() } else { Answer::reject() }).await;
        if approve {
            hold.started().await;
            hold.go(3);
        }
        assert_eq!(second.outcome(run).await.unwrap(), Settled::from(ends));
        second.shutdown().await;
        first.shutdown().await;
    }
}

/// Nobody could answer before the run is resumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_rests_until_it_is_resumed_is_not_held() {
    let hold = Hold::new("hold", Effect::External, Idempotency::Keyed);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let run = submit(&system, work()).await;
    hold.started().await;
    let mut rests = std::pin::pin!(system.checkpoint(run));
    let refused = loop {
        tokio::select! {
            biased;
            rested = &mut rests => panic!("what is under way has not ended: {rested:?}"),
            refused = system.interject(run, "go on?", HOUR) => match refused {
                // The run has not received the checkpoint yet.
                Ok(node) => system.skip_node(run, node).await.unwrap(),
                Err(refused) => break refused,
            }
        }
    };
    assert!(matches!(refused, RunError::InvalidState(InvalidState::SUSPENDED)), "{refused}");
    hold.go(1);
    rests.await.unwrap();
    let refused = system.interject(run, "go on?", HOUR).await.unwrap_err();
    assert!(matches!(refused, RunError::InvalidState(InvalidState::SUSPENDED)), "{refused}");
    system.resume(run).await.unwrap();
    system.interject(run, "go on?", HOUR).await.unwrap();
    // Attempts begun before the hold end.
    hold.go(2);
    system.shutdown().await;
}
