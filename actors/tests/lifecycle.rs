//! Agents that report their state, and lifecycle messages to their runs.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Hold, PATIENCE, left_by, plan, states, submit, system, until, with_slots};
use expect_test::expect;
use ostler_actors::{
    AgentProfile, Answer, ApprovalId, CHECKPOINTED, Program, ProgramContext, RegisterError, RunError,
    Settled, SpawnError, Submission, SubmitError, System, new_run_id,
};
use ostler_kernel::agent::{InvalidState, LifecycleMessage, Oversight};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::Tool;
use ostler_kernel::run::{RunOutcome, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// Length of a chain that is suspended midway.
const NODES: usize = 400;

const SUCCEEDED: Settled = Settled::new(RunStatus::Succeeded);

fn lawyer() -> AgentProfile {
    let output = json!({"type": "object", "properties": {"text": {"const": "ok"}}});
    AgentProfile::new("lawyer").capabilities(["review", "draft"]).domain("legal").output(output).price(40)
}

fn render(text: &str) -> Value {
    json!({"id": "p", "nodes": [
        {"id": "say", "tool": "text.render", "params": {"template": text, "values": {}}},
    ]})
}

async fn give(system: &System, agent: AgentProfile, source: Value) -> RunId {
    let agent = system.spawn(agent).await.unwrap();
    agent.submit(Submission::plan(plan(system, source))).await.unwrap()
}

async fn status(system: &System, run: RunId) -> RunStatus {
    let view = system.view(run, None).await.unwrap();
    system.status(&view).unwrap().status
}

fn invalid(answer: Result<(), RunError>) -> (RunStatus, &'static [RunStatus]) {
    match answer {
        Err(RunError::InvalidState(InvalidState { current, expected })) => (current, expected),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_says_of_itself_never_changes_and_outlives_the_process() {
    let journal = Arc::new(MemoryJournal::default());
    for life in 0..2 {
        let system = system(journal.clone(), Vec::new()).await;
        system.spawn(lawyer()).await.unwrap();
        // An empty profile finds the agent.
        system.spawn(AgentProfile::new("lawyer")).await.unwrap();
        let other = system.spawn(lawyer().domain("security")).await;
        assert!(matches!(other, Err(SpawnError::Register(RegisterError::Profile(_)))), "life {life}");
        let heavier = system.spawn(AgentProfile::new("lawyer").weight(7)).await;
        assert!(matches!(heavier, Err(SpawnError::Register(RegisterError::Weight { .. }))), "life {life}");
        let row = system.agent(&"lawyer".into()).await.unwrap();
        assert_eq!((row.profile.domain.as_deref(), row.profile.price), (Some("legal"), Some(40)));
        assert_eq!(row.profile.capabilities, ["draft", "review"]);
        assert!(system.agent(&"nobody".into()).await.is_none());
        system.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_give_what_its_agent_promises_has_failed() {
    let system = common::memory().await;
    for (text, outcome) in [("ok", RunOutcome::Succeeded), ("something else", RunOutcome::Failed)] {
        let run = give(&system, lawyer(), render(text)).await;
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(outcome), "{text}");
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_takes_no_run_that_gives_it_something_else_than_it_says() {
    let system = common::memory().await;
    let input = json!({"type": "object", "properties": {"template": {"maxLength": 3}}});
    let agent = system.spawn(AgentProfile::new("short").input(input)).await.unwrap();
    for (text, taken) in [("abc", true), ("abcd", false)] {
        let submitted = agent.submit(Submission::plan(plan(&system, render(text)))).await;
        match submitted {
            Ok(run) => assert!(taken && system.outcome(run).await.unwrap() == SUCCEEDED, "{text}"),
            Err(refused) => {
                assert!(!taken && matches!(refused, SubmitError::Input { .. }), "{text}: {refused}")
            }
        }
    }
    assert_eq!(system.runs(false).unwrap().len(), 1, "nothing is left of what was refused");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervised_agent_waits_for_a_person_and_says_where_it_stands() {
    let system = common::memory().await;
    let run = give(&system, AgentProfile::new("watched").oversight(Oversight::Supervised), render("x")).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    assert_eq!(status(&system, run).await, RunStatus::Waiting);
    let refused = invalid(system.checkpoint(run).await);
    assert_eq!(refused, (RunStatus::Waiting, LifecycleMessage::Checkpoint.expected()));

    let [question] = &system.approvals(run).await.unwrap()[..] else { panic!("one question") };
    let answered = system.answer(&question.id, question.digest.unwrap(), Answer::approve()).await;
    answered.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    until(async || status(&system, run).await == RunStatus::Succeeded).await;
    for (answer, message) in [
        (system.cancel(run).await, LifecycleMessage::Cancel),
        (system.resume(run).await, LifecycleMessage::ExecuteStep),
        (system.checkpoint(run).await, LifecycleMessage::Checkpoint),
        (system.skip_node(run, "say".into()).await, LifecycleMessage::Cancel),
    ] {
        assert_eq!(invalid(answer), (RunStatus::Succeeded, message.expected()));
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_checkpointed_rests_after_what_is_under_way_and_goes_on_where_it_was() {
    let journal = Arc::new(MemoryJournal::default());
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    let first = system(journal.clone(), vec![hold.clone()]).await;
    // More nodes than can run before the checkpoint arrives.
    let nodes: Vec<Value> = (0..NODES)
        .map(|at| match at {
            0 => json!({"id": "n000", "tool": "hold"}),
            _ => json!({"id": format!("n{at:03}"), "tool": "hold", "deps": [format!("n{:03}", at - 1)]}),
        })
        .collect();
    let run = give(&first, AgentProfile::new("a"), json!({"id": "p", "nodes": nodes})).await;
    hold.started().await;
    let mut done = 1;
    assert_eq!(status(&first, run).await, RunStatus::Running);
    let behind = give(&first, AgentProfile::new("a"), render("x")).await;
    assert_eq!(status(&first, behind).await, RunStatus::Queued);

    let checkpoint = {
        let first = first.clone();
        tokio::spawn(async move { first.checkpoint(run).await })
    };
    hold.go(1);
    until(async || {
        if hold.has_started() {
            hold.go(1);
            hold.started().await;
        }
        checkpoint.is_finished()
    })
    .await;
    checkpoint.await.unwrap().unwrap();
    assert_eq!(first.outcome(run).await.unwrap(), Settled::suspended(CHECKPOINTED.to_owned()));
    assert_eq!(status(&first, run).await, RunStatus::Suspended);
    assert_eq!(first.outcome(behind).await.unwrap(), SUCCEEDED, "its agent is free");
    let told = states(&first, run).await;
    done = told.matches("executed").count().max(done);
    assert!(done < NODES && told.matches("ready").count() == 1 && !told.contains("running"), "{told}");
    first.shutdown().await;

    let second = system(journal, vec![hold.clone()]).await;
    assert_eq!(second.resume_all().await.unwrap(), [], "nobody goes on with it unasked");
    assert_eq!(status(&second, run).await, RunStatus::Suspended);
    let refused = invalid(second.checkpoint(run).await);
    assert_eq!(refused, (RunStatus::Suspended, LifecycleMessage::Checkpoint.expected()));
    let last = format!("n{:03}", NODES - 1);
    for answer in [
        second.skip_node(run, last.as_str().into()).await,
        second.cancel_node(run, last.as_str().into()).await,
    ] {
        assert_eq!(invalid(answer), (RunStatus::Suspended, InvalidState::SUSPENDED.expected));
    }
    assert_eq!(second.outcome(run).await.unwrap(), Settled::suspended(CHECKPOINTED.to_owned()));
    assert_eq!(states(&second, run).await, told);
    second.resume(run).await.unwrap();
    hold.go(NODES - done);
    assert_eq!(second.outcome(run).await.unwrap(), SUCCEEDED);
    for _ in done..NODES {
        hold.started().await;
    }
    assert!(!hold.has_started(), "each step was done once");
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_no_attempt_that_is_done_again_as_a_run_that_was_to_rest_goes_on() {
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let nap = json!({"id": "nap", "tool": "time.sleep", "params": {"ms": 3_600_000}, "retries": 0});
    let nodes = json!([nap, {"id": "hold", "tool": "hold", "timeout": "2h"}]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    hold.started().await;
    let mut rests = std::pin::pin!(system.checkpoint(run));
    for _ in 0..100 {
        assert!(futures::poll!(&mut rests).is_pending(), "it waits for what is under way");
        tokio::task::yield_now().await;
    }
    system.resume(run).await.unwrap();
    hold.go(1);
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED, "{}", states(&system, run).await);
    let view = system.view(run, None).await.unwrap();
    assert_eq!(view.run.instance(&"nap".into()).unwrap().attempts, 1);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_comes_to_its_end_is_not_checkpointed() {
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let source = json!({"id": "p", "nodes": [{"id": "one", "tool": "hold"}]});
    let run = give(&system, AgentProfile::new("a"), source).await;
    hold.started().await;
    let checkpoint = {
        let system = system.clone();
        tokio::spawn(async move { system.checkpoint(run).await })
    };
    hold.go(1);
    // There was nothing left to suspend, whichever came first.
    let answer = checkpoint.await.unwrap();
    assert_eq!(invalid(answer), (RunStatus::Succeeded, LifecycleMessage::Checkpoint.expected()));
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_back_while_a_run_was_to_rest_is_queued_again_if_it_is_resumed() {
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    let system = with_slots(Arc::new(MemoryJournal::default()), vec![hold.clone()], 2).await;
    // Independent nodes, two at a time; more than can run before the checkpoint arrives.
    let nodes: Vec<Value> = (0..NODES).map(|at| json!({"id": format!("n{at:03}"), "tool": "hold"})).collect();
    let run = give(&system, AgentProfile::new("a"), json!({"id": "p", "nodes": nodes})).await;
    hold.started().await;
    hold.started().await;
    let checkpoint = {
        let system = system.clone();
        tokio::spawn(async move { system.checkpoint(run).await })
    };
    // One ends, and its slot is given to no other; the other one keeps running.
    let ended = AtomicUsize::new(0);
    hold.go(1);
    until(async || {
        if hold.has_started() {
            hold.started().await;
            hold.go(1);
            ended.fetch_add(1, Ordering::SeqCst);
        }
        let queue = system.queue().await.unwrap();
        let executed = states(&system, run).await.matches(" executed").count();
        executed == ended.load(Ordering::SeqCst) + 1 && (queue.running, queue.queued) == (1, 0)
    })
    .await;
    let ended = ended.into_inner();
    assert!(!checkpoint.is_finished() && ended + 2 < NODES);
    system.resume(run).await.unwrap();
    assert!(matches!(checkpoint.await.unwrap(), Err(RunError::Said(_))));
    hold.go(NODES - ended - 1);
    let over = tokio::time::timeout(PATIENCE, system.outcome(run));
    assert_eq!(over.await.expect("nothing of it is left behind").unwrap(), SUCCEEDED);
    system.shutdown().await;
}

/// The cancel may arrive before, during or after the suspension.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_even_in_the_moment_that_it_is_set_aside() {
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let node = |at: usize| {
        let deps = at.checked_sub(1).map(|before| format!("n{before:03}"));
        let params = json!({"template": "hello", "values": {}});
        json!({"id": format!("n{at:03}"), "tool": "text.render", "params": params, "deps": Vec::from_iter(deps)})
    };
    let nodes: Vec<Value> = (0..NODES / 10).map(node).collect();
    for round in 0..300 {
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        let checkpoint = {
            let system = system.clone();
            tokio::spawn(async move { system.checkpoint(run).await })
        };
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let (cancelled, outcome) = (system.cancel(run).await, system.outcome(run).await.unwrap());
        match cancelled {
            Ok(()) => assert_eq!(outcome, Settled::new(RunStatus::Cancelled)),
            Err(error) => assert_eq!(outcome, SUCCEEDED, "{error}"),
        }
        let _ = checkpoint.await.unwrap();
    }
    system.shutdown().await;
}

/// A run of agent `a` in a given state, its tool, and its open question.
struct Stood {
    system: System,
    journal: Arc<MemoryJournal>,
    hold: Arc<Hold>,
    submission: Submission,
    run: RunId,
    question: (ApprovalId, Digest),
}

/// States to bring a run into.
const STANDS: [&str; 12] = [
    "queued",
    "running",
    "waiting",
    "suspended",
    "succeeded",
    "failed",
    "cancelled",
    "waiting, and may be sent back",
    "running, and a node asks",
    "queued, and no process executes it",
    "waiting, and no process executes it",
    "queued, as its process left it",
];

/// True for messages that a run's own work sends.
fn is_of_work(message: LifecycleMessage) -> bool {
    matches!(
        message,
        LifecycleMessage::RequestApproval | LifecycleMessage::Complete | LifecycleMessage::Raise
    )
}

/// Waits until all tasks are idle: only then does test time advance.
async fn idle() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

/// The plan of a run for a given state.
fn work(stands: &str, message: LifecycleMessage) -> Value {
    let ask = json!({"id": "ask", "tool": "text.render", "params": {"template": "x", "values": {}},
        "approval": "before", "human_timeout": "1h"});
    let hold = |id: &str, dep: &str| json!({"id": id, "tool": "hold", "deps": [dep]});
    let first = json!({"id": "first", "tool": "hold"});
    let nodes = match (stands, message) {
        ("queued" | "queued, and no process executes it", _) => vec![first],
        ("running", LifecycleMessage::RequestApproval) => {
            vec![json!({"id": "first", "tool": "hold", "approval": "after", "human_timeout": "1h"})]
        }
        ("running", LifecycleMessage::Complete) => vec![first],
        ("running", LifecycleMessage::Raise) => vec![json!({"id": "first", "tool": "hold", "retries": 0,
            "contract": [{"method": "schema", "spec": {"required": ["more"]}}]})],
        ("running", _) => vec![first, hold("next", "first")],
        ("waiting, and may be sent back", _) => vec![
            json!({"id": "ask", "tool": "draft", "approval": "after", "human_timeout": "1h", "patches": 1}),
            hold("next", "ask"),
        ],
        ("succeeded", _) => vec![ask],
        ("running, and a node asks" | "suspended" | "queued, as its process left it", _) => {
            vec![ask, first, hold("next", "first")]
        }
        _ => vec![ask, hold("next", "ask")],
    };
    json!({"id": "p", "nodes": nodes})
}

/// One slot, so that ready work may have to wait.
async fn begin(journal: &Arc<MemoryJournal>, hold: &Arc<Hold>) -> System {
    let draft = async |_: ProgramContext, _: Value| Ok(json!({"text": "a draft"}));
    let draft = Program::new("draft", "1", draft)
        .input(json!({"type": "object", "properties": {"feedback": {"type": "string"}}}));
    let tools: [Arc<dyn Tool>; 2] = [hold.clone(), Arc::new(draft)];
    with_slots(journal.clone(), tools.into(), 1).await
}

/// Brings a run into a state, to receive this message.
async fn stand(stands: &str, message: LifecycleMessage) -> Stood {
    let (journal, run) = (Arc::new(MemoryJournal::default()), new_run_id());
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    let system = begin(&journal, &hold).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let holds = json!({"id": "before", "nodes": [{"id": "first", "tool": "hold"}]});
    if matches!(stands, "queued" | "queued, and no process executes it") {
        agent.submit(Submission::plan(plan(&system, holds.clone()))).await.unwrap();
        idle().await;
    }
    let plan_of = plan(&system, work(stands, message));
    let submission =
        Submission { run: Some(run), agent: Some("a".into()), intent: 2, ..Submission::plan(plan_of) };
    system.submit(submission.clone()).await.unwrap();
    idle().await;
    let asked = system.approvals(run).await.unwrap().into_iter().next();
    let question = asked.map(|asked| (asked.id, asked.digest.unwrap()));
    let none = (ApprovalId { run, node: "first".into(), request: 1 }, Digest([0; 32]));
    let question = question.unwrap_or(none);
    let answer = async |answer| system.answer(&question.0, question.1, answer).await.unwrap();
    match stands {
        "suspended" => rest(&system, run, &hold).await.unwrap(),
        "succeeded" => answer(Answer::approve()).await,
        "failed" => answer(Answer::reject()).await,
        "cancelled" => system.cancel(run).await.unwrap(),
        "waiting, and may be sent back" => {
            submit(&system, holds).await;
        }
        _ => {}
    }
    idle().await;
    let stood = Stood { system, journal, hold, submission, run, question };
    match stands {
        "queued, and no process executes it"
        | "waiting, and no process executes it"
        | "queued, as its process left it" => {
            let journal = left_by(&stood.journal);
            stood.system.shutdown().await;
            Stood { system: begin(&journal, &stood.hold).await, journal, ..stood }
        }
        _ => stood,
    }
}

/// Suspends a run with one attempt in flight.
async fn rest(system: &System, run: RunId, hold: &Hold) -> Result<(), RunError> {
    let checkpoint = {
        let system = system.clone();
        tokio::spawn(async move { system.checkpoint(run).await })
    };
    idle().await;
    if !checkpoint.is_finished() {
        hold.go(1);
    }
    checkpoint.await.unwrap()
}

impl Stood {
    /// Sends the message to the run, unless only its own work can send it.
    async fn say(&self, message: LifecycleMessage) -> Result<(), RunError> {
        let Stood { system, run, question: (id, digest), .. } = self;
        match message {
            // A second submission is the same run; an unassigned run is assigned when its turn comes.
            LifecycleMessage::AssignJob => {
                assert_eq!(system.submit(self.submission.clone()).await.unwrap(), *run);
                idle().await;
                if !system.view(*run, None).await.unwrap().run.has_started() {
                    self.hold.go(1);
                }
                Ok(())
            }
            LifecycleMessage::ExecuteStep => system.resume(*run).await,
            LifecycleMessage::Checkpoint => rest(system, *run, &self.hold).await,
            LifecycleMessage::Approve => system.answer(id, *digest, Answer::approve()).await,
            LifecycleMessage::Reject => system.answer(id, *digest, Answer::reject().note("no")).await,
            LifecycleMessage::Cancel => system.cancel(*run).await,
            LifecycleMessage::RequestApproval | LifecycleMessage::Complete | LifecycleMessage::Raise => {
                self.hold.go(1);
                Ok(())
            }
        }
    }

    /// The run's reaction to the message.
    async fn answer(&self, message: LifecycleMessage) -> String {
        let stands = async || status(&self.system, self.run).await;
        let view = self.system.view(self.run, None).await.unwrap();
        let before = stands().await;
        if is_of_work(message) && before != RunStatus::Running {
            assert!(!view.run.has_work_in_flight() || before == RunStatus::Queued);
            return "nothing of it is at work".to_owned();
        }
        let said = self.say(message).await;
        idle().await;
        let after = stands().await;
        match said {
            Ok(()) if after == before => "as it was".to_owned(),
            Ok(()) => after.to_string(),
            Err(RunError::InvalidState(InvalidState { current, expected })) => {
                let last = self.system.view(self.run, None).await.unwrap().last;
                assert_eq!((current, after, last), (before, before, view.last), "nothing has changed");
                let expected = expected.iter().map(|state| state.as_str()).collect::<Vec<_>>();
                format!("invalid_state, expected {}", expected.join(" or "))
            }
            Err(other) => format!("refused: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_in_every_state_what_the_matrix_says_and_nothing_else() {
    let mut matrix = String::new();
    for stands in STANDS {
        matrix += &format!("{stands}\n");
        let is_said =
            |message: &LifecycleMessage| stands != "running, and a node asks" || !is_of_work(*message);
        for message in LifecycleMessage::ALL.into_iter().filter(is_said) {
            let stood = stand(stands, message).await;
            let state = status(&stood.system, stood.run).await;
            assert!(stands.starts_with(state.as_str()), "{stands}: {state}");
            matrix += &format!("  {:15} {}\n", format!("{message:?}"), stood.answer(message).await);
            stood.hold.go(9);
            stood.system.shutdown().await;
        }
    }
    expect![[r#"
        queued
          AssignJob       running
          ExecuteStep     invalid_state, expected running or suspended
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          cancelled
        running
          AssignJob       as it was
          ExecuteStep     as it was
          RequestApproval waiting
          Checkpoint      suspended
          Complete        succeeded
          Raise           failed
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          cancelled
        waiting
          AssignJob       as it was
          ExecuteStep     invalid_state, expected running or suspended
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         running
          Reject          failed
          Cancel          cancelled
        suspended
          AssignJob       as it was
          ExecuteStep     running
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          cancelled
        succeeded
          AssignJob       as it was
          ExecuteStep     invalid_state, expected running or suspended
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          invalid_state, expected queued or running or waiting or suspended
        failed
          AssignJob       as it was
          ExecuteStep     invalid_state, expected running or suspended
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          invalid_state, expected queued or running or waiting or suspended
        cancelled
          AssignJob       as it was
          ExecuteStep     invalid_state, expected running or suspended
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          invalid_state, expected queued or running or waiting or suspended
        waiting, and may be sent back
          AssignJob       as it was
          ExecuteStep     invalid_state, expected running or suspended
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         running
          Reject          queued
          Cancel          cancelled
        running, and a node asks
          AssignJob       as it was
          ExecuteStep     as it was
          Checkpoint      suspended
          Approve         as it was
          Reject          as it was
          Cancel          cancelled
        queued, and no process executes it
          AssignJob       running
          ExecuteStep     running
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         invalid_state, expected waiting
          Reject          invalid_state, expected waiting
          Cancel          cancelled
        waiting, and no process executes it
          AssignJob       as it was
          ExecuteStep     as it was
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         running
          Reject          failed
          Cancel          cancelled
        queued, as its process left it
          AssignJob       running
          ExecuteStep     running
          RequestApproval nothing of it is at work
          Checkpoint      invalid_state, expected running
          Complete        nothing of it is at work
          Raise           nothing of it is at work
          Approve         running
          Reject          running
          Cancel          cancelled
    "#]]
    .assert_eq(&matrix);
}
