//! Agents that open child runs: within their own limits, found again after a restart, cancelled together.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod asked;
mod cancelled;
#[path = "../common/mod.rs"]
mod common;
mod open_runs;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use common::{Hold, Watched, left_by, plan, states, submit, system, until, value};
use ostler_actors::{
    Answer, Mapping, Program, ProgramContext, ResolveHow, Settled, Step, Submission, System,
};
use ostler_kernel::event::Failure;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{ChildRunSpec, RunRowStatus, Tool};
use ostler_kernel::run::{FailureCategory, OpeningTerms, RunOutcome, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

const SUCCEEDED: Settled = Settled::new(RunStatus::Succeeded);

fn child(source: Value) -> ChildRunSpec {
    ChildRunSpec::plan(serde_json::from_value::<PlanDraft>(source).unwrap())
}

/// A program that opens one child run and returns its outcome.
fn parent(child: ChildRunSpec) -> Program {
    Program::new("parent", "1", move |agent: ProgramContext, _: Value| {
        let child = child.clone();
        async move {
            let end = agent.spawn("child", child).await?;
            Ok(json!({"run": end.run, "outcome": end.outcome, "outputs": end.outputs}))
        }
    })
}

fn hold() -> Arc<Hold> {
    Hold::new("hold", Effect::Read, Idempotency::Natural)
}

async fn submitted(system: &System, more: Submission) -> RunId {
    let plan = plan(system, json!({"id": "p", "nodes": [{"id": "n", "tool": "parent", "retries": 0}]}));
    system.submit(Submission { plan: plan.into(), ..more }).await.unwrap()
}

fn terms(system: &System) -> Submission {
    let any = plan(system, json!({"id": "x", "nodes": [{"id": "n", "tool": "parent"}]}));
    Submission { intent: 2, ..Submission::plan(any) }
}

fn other(system: &System, run: RunId) -> Option<RunId> {
    system.runs(false).unwrap().iter().map(|row| row.run).find(|other| *other != run)
}

async fn failure(system: &System, run: RunId) -> Failure {
    let view = system.view(run, None).await.unwrap();
    *view.run.instance(&"n".into()).unwrap().failure.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_an_agent_opens_has_no_more_than_the_agent() {
    let source = json!({"id": "c", "nodes": [{"id": "a", "tool": "text.render",
        "params": {"template": "hello", "values": {}}}]});
    let wanted = ChildRunSpec { scope: Some("other".into()), intent: Some(1), ..child(source) };
    let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(parent(wanted))]).await;
    let run = submitted(
        &system,
        Submission {
            terms: OpeningTerms { budget: Some(100_000), ..OpeningTerms::default() },
            ..terms(&system)
        },
    )
    .await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    let given = value(&system, run, "n").await;
    assert_eq!((&given["outcome"], &given["outputs"]["a"]["text"]), (&json!("succeeded"), &json!("hello")));
    let child: RunId = serde_json::from_value(given["run"].clone()).unwrap();
    let view = system.view(child, None).await.unwrap();
    // A read-only program cannot have written anywhere.
    assert_eq!((view.opened.intent, view.opened.scope.as_str()), (0, "default&other"));
    let terms = view.run.terms();
    assert!(terms.budget.is_some_and(|budget| (1..=100_000).contains(&budget)), "{terms:?}");
    let parent = terms.parent.clone().unwrap();
    assert_eq!((parent.run, parent.step.as_str()), (run, "child"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_nobody_approved_is_not_handed_to_who_opened_its_run() {
    let says = Some(Answer::approve());
    let refuses = Some(Answer::reject());
    for (span, answer, expected) in [
        ("1h", says, json!({"asked": {"text": "secret"}, "free": {"text": "hello"}})),
        ("1h", refuses, json!({"free": {"text": "hello"}})),
        ("1ms", None, json!({"free": {"text": "hello"}})),
    ] {
        let source = json!({"id": "c", "nodes": [
            {"id": "asked", "tool": "text.render", "params": {"template": "secret", "values": {}},
                "approval": "after", "human_timeout": span, "retries": 0},
            {"id": "free", "tool": "text.render", "params": {"template": "hello", "values": {}}}
        ]});
        let opens: Arc<dyn Tool> = Arc::new(parent(child(source)));
        let system = system(Arc::new(MemoryJournal::default()), vec![opens]).await;
        let run = submitted(&system, terms(&system)).await;
        if let Some(answer) = answer {
            until(async || system.all_approvals().await.unwrap().approvals.len() == 1).await;
            let approval = system.all_approvals().await.unwrap().approvals.remove(0);
            system.answer(&approval.id, approval.digest.unwrap(), answer).await.unwrap();
        } else {
            // Before its time is over, the question waits for a person.
            until(async || system.outcome(run).await.unwrap() != RunStatus::Waiting).await;
        }
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        assert_eq!(value(&system, run, "n").await["outputs"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_is_left_of_a_budget_is_not_given() {
    let source = json!({"id": "c", "nodes": [{"id": "a", "tool": "time.sleep", "params": {"ms": 1}}]});
    let wanted = ChildRunSpec { budget: Some(100_001), ..child(source) };
    let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(parent(wanted))]).await;
    let run = submitted(
        &system,
        Submission {
            terms: OpeningTerms { budget: Some(100_000), ..OpeningTerms::default() },
            ..terms(&system)
        },
    )
    .await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    let Failure { category, message } = failure(&system, run).await;
    assert_eq!(category, FailureCategory::ResourceExhaustion);
    assert!(message.starts_with("step \"child\": 100001 credits asked for a child run, "), "{message}");
    assert_eq!(other(&system, run), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_costs_stays_within_its_budget() {
    let hold = hold();
    let tools: Vec<Arc<dyn Tool>> = vec![hold.clone()];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let plan = plan(
        &system,
        json!({"id": "p", "policy": {"backoff_base": "1ms"}, "nodes": [{"id": "n", "tool": "hold", "retries": 3}]}),
    );
    let run = system
        .submit(Submission {
            terms: OpeningTerms { budget: Some(500), ..OpeningTerms::default() },
            ..Submission::plan(plan)
        })
        .await
        .unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    let Failure { category, message } = failure(&system, run).await;
    assert_eq!(
        (category, message.as_str()),
        (FailureCategory::ResourceExhaustion, "the budget of the run, 500 credits, is used up")
    );
}

#[tokio::test(start_paused = true)]
async fn what_attempts_cost_that_run_at_once_stays_within_the_budget_together() {
    let hold = hold();
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let holds: Vec<Value> =
        (0..4).map(|at| json!({"id": format!("h{at}"), "tool": "hold", "retries": 0})).collect();
    let plan = plan(&system, json!({"id": "p", "policy": {"slots": 4}, "nodes": holds}));
    let run = system
        .submit(Submission {
            terms: OpeningTerms { budget: Some(2_000), ..OpeningTerms::default() },
            ..Submission::plan(plan)
        })
        .await
        .unwrap();
    for _ in 0..4 {
        hold.started().await;
    }
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    let cost = system.view(run, None).await.unwrap().run.cost();
    // All four ran together until the budget was used up.
    assert!((1_900..=2_000).contains(&cost), "{cost}");
}

#[tokio::test(start_paused = true)]
async fn who_finds_the_budget_set_aside_for_others_waits_for_what_they_leave() {
    let hold = hold();
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let nodes = json!([{"id": "one", "tool": "hold"}, {"id": "two", "tool": "hold"}]);
    let plan = plan(&system, json!({"id": "p", "nodes": nodes}));
    let run = system
        .submit(Submission {
            terms: OpeningTerms { budget: Some(40), ..OpeningTerms::default() },
            ..Submission::plan(plan)
        })
        .await
        .unwrap();
    hold.go(2);
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert!(system.view(run, None).await.unwrap().run.cost() <= 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_run_at_once_give_the_runs_that_they_open_no_more_than_there_is() {
    let asks = json!({"id": "c", "nodes": [{"id": "ask", "kind": "human_approval", "human_timeout": "1h"}]});
    let wants = ChildRunSpec { budget: Some(400_000), ..child(asks) };
    let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(parent(wants))]).await;
    let nodes: Vec<Value> =
        (0..4).map(|at| json!({"id": format!("n{at}"), "tool": "parent", "retries": 0})).collect();
    let plan = plan(&system, json!({"id": "p", "policy": {"slots": 4}, "nodes": nodes}));
    let submission = Submission {
        intent: 2,
        terms: OpeningTerms { budget: Some(1_000_000), ..OpeningTerms::default() },
        ..Submission::plan(plan)
    };
    let run = system.submit(submission).await.unwrap();
    until(async || states(&system, run).await.matches("failed").count() == 2).await;
    until(async || system.runs(false).unwrap().len() == 3).await;
    assert_eq!(states(&system, run).await.matches("running").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_made_again_finds_the_run_that_the_one_before_it_opened() {
    let hold = hold();
    let child = child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]}));
    let tools =
        |hold: &Arc<Hold>| -> Vec<Arc<dyn Tool>> { vec![hold.clone(), Arc::new(parent(child.clone()))] };
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), tools(&hold)).await;
    let run = submitted(&first, terms(&first)).await;
    hold.started().await;
    let left = left_by(&journal);

    let again = self::hold();
    let second = system(left, tools(&again)).await;
    let opened = other(&second, run).unwrap();
    assert_eq!(second.resume_all().await.unwrap().len(), 2);
    again.go(1);
    assert_eq!(second.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(value(&second, run, "n").await["run"], json!(opened));
    assert_eq!(second.runs(false).unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_run_cancels_those_that_its_agents_opened() {
    let hold = hold();
    let child = child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]}));
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), vec![hold.clone(), Arc::new(parent(child))]).await;
    let run = submitted(&system, terms(&system)).await;
    hold.started().await;
    let opened = other(&system, run).unwrap();
    system.cancel(run).await.unwrap();
    assert_eq!(system.outcome(opened).await.unwrap(), RunStatus::Cancelled);
    let acts = async |run: RunId| system.evaluation(run).await.unwrap().row.acts;
    assert_eq!(
        (acts(run).await, acts(opened).await),
        (1, 0),
        "a person cancelled the one, and that the other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_parent_was_cancelled_before_the_process_died_is_cancelled_when_it_is_taken_up() {
    let hold = hold();
    let child = child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]}));
    let tools =
        |hold: &Arc<Hold>| -> Vec<Arc<dyn Tool>> { vec![hold.clone(), Arc::new(parent(child.clone()))] };
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), tools(&hold)).await;
    let run = submitted(&first, terms(&first)).await;
    hold.started().await;
    let left = left_by(&journal);
    let opened = other(&first, run).unwrap();

    // A process whose tools cannot continue the child cancels only the parent, then dies.
    let between = system(left.clone(), tools(&self::hold())).await;
    let mut rows = between.runs(true).unwrap();
    rows.retain(|row| row.run == run);
    let stream = ostler_kernel::port::StreamId::run(&rows[0].client, run);
    let view = between.view(run, None).await.unwrap();
    let closed = ostler_kernel::event::Event::RunClosed { outcome: RunOutcome::Cancelled };
    use ostler_kernel::port::Journal;
    left.append(vec![ostler_kernel::port::StreamBatch {
        stream,
        expected: view.last,
        at_ms: 1,
        events: vec![closed],
    }])
    .unwrap();

    let again = self::hold();
    let second = system(left_by(&left), tools(&again)).await;
    second.resume(opened).await.unwrap();
    assert_eq!(second.outcome(opened).await.unwrap(), RunStatus::Cancelled);
    until(async || second.runs(true).unwrap().iter().all(|row| row.status != RunRowStatus::Open)).await;
}

/// Stops the node behind a child run before its attempt has taken a step in the new process.
async fn check_stopped_after_a_restart(parent: Program, stop: impl AsyncFn(&System, RunId)) {
    let journal = Arc::new(MemoryJournal::default());
    let hold = hold();
    let first = system(journal.clone(), vec![hold.clone(), Arc::new(parent.clone())]).await;
    let policy = json!({"recovery": {"crash": "human_escalation"}});
    let nodes = json!([{"id": "n", "tool": "parent", "retries": 0}]);
    let run = submit(&first, json!({"id": "p", "policy": policy, "nodes": nodes})).await;
    hold.started().await;
    let opened = other(&first, run).unwrap();

    let second = system(left_by(&journal), vec![self::hold(), Arc::new(parent)]).await;
    stop(&second, run).await;
    let over = async || second.outcome(opened).await.unwrap() == RunStatus::Cancelled;
    until(over).await;
    assert!(second.outcome(run).await.unwrap().status.is_over());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_a_node_right_after_a_restart_cancels_what_it_opened_before() {
    let opens = || parent(child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]})));
    check_stopped_after_a_restart(opens(), async |system, run| {
        system.skip_node(run, "n".into()).await.unwrap();
    })
    .await;
    check_stopped_after_a_restart(opens(), async |system, run| {
        system.cancel_node(run, "n".into()).await.unwrap();
    })
    .await;
    // An attempt cut off by the end of its process is in doubt, as its policy asks.
    check_stopped_after_a_restart(opens(), async |system, run| {
        system.resume(run).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        system.cancel_node(run, "n".into()).await.unwrap();
    })
    .await;
    check_stopped_after_a_restart(opens(), async |system, run| {
        system.resume(run).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        system.resolve(run, "n".into(), ResolveHow::Fail).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_may_open_runs_of_agents_that_open_runs() {
    let depth = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&depth);
    let program = Program::new("parent", "1", move |agent: ProgramContext, input: Value| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            let left = input["left"].as_u64().unwrap_or(3);
            if left == 0 {
                return Ok(json!(0));
            }
            let params = Map::from_iter([("left".to_owned(), json!(left - 1))]);
            let end = agent.spawn("next", ChildRunSpec::call("parent", params)).await?;
            Ok(json!(end.outputs["call"].as_u64().unwrap() + 1))
        }
    });
    let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(program)]).await;
    let run = submitted(&system, terms(&system)).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(value(&system, run, "n").await, json!(3));
    assert_eq!(depth.load(Ordering::SeqCst), 4);
}

fn hello() -> ChildRunSpec {
    child(json!({"id": "c", "nodes": [{"id": "a", "tool": "text.render",
        "params": {"template": "hello", "values": {}}}]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_agents_wait_for_runs_whatever_the_slots() {
    for (slots, parents) in [(1, 3), (4, 100)] {
        let opens = Arc::new(parent(hello()));
        let system = common::with_slots(Arc::new(MemoryJournal::default()), vec![opens], slots).await;
        let mut runs = Vec::new();
        for _ in 0..parents {
            runs.push(submitted(&system, terms(&system)).await);
        }
        for run in runs {
            assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        }
        assert_eq!(system.runs(false).unwrap().len(), 2 * parents);
        system.shutdown().await;
    }
}

/// Each parent has a short and a long child: the end of the short one must not keep the slot from the long one.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_on_for_one_run_keeps_no_slot_from_another_that_it_waits_for() {
    let hold = hold();
    let slow = child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]}));
    let program = Program::new("parent", "1", move |agent: ProgramContext, _: Value| {
        let slow = slow.clone();
        async move {
            let both = async {
                agent.spawn("fast", hello()).await?;
                agent.step("between", async || Ok(1)).await
            };
            let (slow, between) = futures::join!(agent.spawn("slow", slow), both);
            Ok(json!([slow?.outcome, between?]))
        }
    });
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(program), hold.clone()];
    let system = common::with_slots(Arc::new(MemoryJournal::default()), tools, 1).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(submitted(&system, terms(&system)).await);
    }
    hold.go(3);
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        assert_eq!(value(&system, run, "n").await, json!(["succeeded", 1]));
    }
}

/// Opens a child run in a nested step, beside other work of the outer step.
fn deep() -> Program {
    Program::new("parent", "1", |agent: ProgramContext, _: Value| async move {
        let outer = async || {
            let inner = agent.step("inner", async || Ok(agent.spawn("child", hello()).await?.outcome));
            let (inner, beside) = futures::join!(inner, agent.step("beside", async || Ok(1)));
            Ok(json!([inner?, beside?]))
        };
        Ok(agent.step("outer", outer).await?)
    })
}

/// Opens a child run in a separate task, as every stage but the last does within a step.
fn in_a_task() -> Program {
    Program::new("parent", "1", |agent: ProgramContext, _: Value| async move {
        let task = tokio::spawn(async move { agent.spawn("child", hello()).await });
        Ok(json!({"outcome": task.await.unwrap()?.outcome}))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_run_within_another_step_has_no_slot_either() {
    let then = |first: Program| {
        first.then(Mapping::none(), Program::identity()).then(Mapping::none(), parent(hello()))
    };
    for program in [then(parent(hello())), then(in_a_task()), deep()] {
        let opens = Arc::new(program.named("parent"));
        let system = common::with_slots(Arc::new(MemoryJournal::default()), vec![opens], 1).await;
        let run = submitted(&system, terms(&system)).await;
        until(async || system.runs(true).unwrap().is_empty()).await;
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        system.shutdown().await;
    }
}

/// Otherwise the work would use a slot for free.
#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_for_a_run_goes_on_when_it_has_a_slot_and_pays_for_it() {
    let (hold, went_on) = (hold(), Arc::new(AtomicBool::new(false)));
    let slow = child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold", "timeout": "24h"}]}));
    let sees = Arc::clone(&went_on);
    let program = Program::new("parent", "1", move |agent: ProgramContext, _: Value| {
        let (slow, sees) = (slow.clone(), Arc::clone(&sees));
        async move {
            let ended = tokio::time::timeout(Duration::from_secs(10), agent.spawn("child", slow)).await;
            tokio::task::yield_now().await;
            sees.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(json!({"ended": ended.is_ok()}))
        }
    });
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(program), hold.clone()];
    let system = common::with_slots(Arc::new(MemoryJournal::default()), tools, 1).await;
    let run = submit(
        &system,
        json!({"id": "p", "nodes": [{"id": "n", "tool": "parent", "timeout": "1m", "heartbeat_timeout": "20s"}]}),
    )
    .await;
    hold.started().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!went_on.load(Ordering::SeqCst), "its child has the slot");
    hold.go(1);
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(value(&system, run, "n").await, json!({"ended": false}));
    let cost = system.view(run, None).await.unwrap().run.cost();
    assert!((1_000..1_100).contains(&cost), "{cost}");
}

/// Opens a child run and takes a step in another task, which ends or is dropped on permission.
fn beside(gives_up: bool, may: Arc<Semaphore>) -> Program {
    Program::new("parent", "1", move |agent: ProgramContext, _: Value| {
        let (beside, may) = (agent.clone(), Arc::clone(&may));
        let beside = tokio::spawn(async move {
            let until = async || Ok(may.acquire().await.is_ok());
            match gives_up {
                false => drop(beside.step("beside", until).await),
                true => {
                    let never = beside.step("beside", std::future::pending::<Result<u32, Failure>>);
                    futures::future::select(pin!(never), pin!(until())).await;
                }
            }
        });
        async move {
            let end = agent.spawn("child", hello()).await?;
            beside.await.unwrap();
            Ok(json!({"outcome": end.outcome}))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_run_alone_when_a_step_in_another_task_is_over_has_no_slot() {
    for gives_up in [false, true] {
        let may = Arc::new(Semaphore::new(0));
        let opens = Arc::new(beside(gives_up, Arc::clone(&may)));
        let system = common::with_slots(Arc::new(MemoryJournal::default()), vec![opens], 1).await;
        let run = submitted(&system, terms(&system)).await;
        // Test time advances only when all tasks are idle.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(system.runs(true).unwrap().len(), 2);
        may.add_permits(1);
        until(async || system.runs(true).unwrap().is_empty()).await;
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        system.shutdown().await;
    }
}

/// A program that opens a child run of one wait.
fn waiting(ms: u64) -> Arc<dyn Tool> {
    let sleep = json!({"id": "s", "tool": "time.sleep", "params": {"ms": ms}});
    Arc::new(parent(child(json!({"id": "c", "nodes": [sleep]}))))
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_run_costs_nothing_and_takes_time_all_the_same() {
    let system = system(Arc::new(MemoryJournal::default()), vec![waiting(3_600_000)]).await;
    let within = |span: &str| json!({"id": "n", "tool": "parent", "retries": 0, "timeout": span});
    let plan = |span| plan(&system, json!({"id": "p", "nodes": [within(span)]}));
    for budget in [None, Some(1_000)] {
        let done = Submission {
            intent: 2,
            terms: OpeningTerms { budget, ..OpeningTerms::default() },
            ..Submission::plan(plan("2h"))
        };
        let done = system.submit(done).await.unwrap();
        assert_eq!(system.outcome(done).await.unwrap(), SUCCEEDED);
        let cost = system.view(done, None).await.unwrap().run.cost();
        assert!((1..100).contains(&cost), "{cost}");
    }
    let late = system.submit(Submission { intent: 2, ..Submission::plan(plan("10m")) }).await.unwrap();
    assert_eq!(system.outcome(late).await.unwrap(), RunStatus::Failed);
    let Failure { category, message } = failure(&system, late).await;
    assert_eq!((category, message.as_str()), (FailureCategory::Timeout, "not done within 600000 ms"));
}

/// Time between the child's end and the new slot does not count.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_slot_to_go_on_is_no_time_of_an_attempt() {
    let hold = hold();
    let tools = vec![waiting(1_000), hold.clone() as Arc<dyn Tool>];
    let system = common::with_slots(Arc::new(MemoryJournal::default()), tools, 1).await;
    let node = json!({"id": "n", "tool": "parent", "retries": 0, "timeout": "1m"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    until(async || other(&system, run).is_some()).await;
    let holds =
        submit(&system, json!({"id": "q", "nodes": [{"id": "h", "tool": "hold", "timeout": "24h"}]})).await;
    hold.started().await;
    let opened = system.runs(false).unwrap().into_iter().map(|row| row.run);
    let opened = opened.into_iter().find(|other| *other != run && *other != holds).unwrap();
    assert_eq!(system.outcome(opened).await.unwrap(), SUCCEEDED);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(states(&system, run).await, "n running");
    hold.go(1);
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert!(system.view(run, None).await.unwrap().run.cost() < 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_run_reads_it_once_however_often_anything_else_stirs() {
    let ask = json!({"id": "ask", "kind": "human_approval", "human_timeout": "1h"});
    let opens = Arc::new(parent(child(json!({"id": "c", "nodes": [ask]}))));
    let watched = Watched::over(Arc::new(MemoryJournal::default()));
    let system = system(watched.clone(), vec![opens]).await;
    let run = submitted(&system, terms(&system)).await;
    until(async || other(&system, run).is_some()).await;
    let opened = other(&system, run).unwrap();
    let asks = async || system.outcome(opened).await.unwrap() == RunStatus::Waiting;
    until(asks).await;
    let rests = async || system.agents().await.iter().filter(|row| row.state == "idle").count() == 1;
    until(rests).await;
    watched.records_of(opened);
    for _ in 0..20 {
        let source = json!({"id": "x", "nodes": [{"id": "a", "tool": "text.render",
            "params": {"template": "hello", "values": {}}}]});
        let stirs = submit(&system, source).await;
        assert_eq!(system.outcome(stirs).await.unwrap(), SUCCEEDED);
    }
    assert!(watched.records_of(opened) < 20, "each stir read it from its beginning");
    let approval = system.all_approvals().await.unwrap().approvals.remove(0);
    system.answer(&approval.id, approval.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_program_that_waits_for_a_run() {
    let source = json!({"id": "c", "nodes": [{"id": "a", "tool": "hold"}]});
    let (journal, hold) = (Arc::new(MemoryJournal::default()), hold());
    let acting = || -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(parent(child(source.clone())).effect(Effect::External)), hold.clone()]
    };
    let first = system(journal.clone(), acting()).await;
    let run = submitted(&first, terms(&first)).await;
    hold.started().await;
    let begun = tokio::time::Instant::now();
    first.shutdown().await;
    assert!(begun.elapsed() < common::DRAIN, "nothing of it can come to its end");

    let second = system(left_by(&journal), acting()).await;
    second.resume_all().await.unwrap();
    hold.started().await;
    hold.go(1);
    assert_eq!(second.outcome(run).await.unwrap(), SUCCEEDED);
    second.shutdown().await;
}

/// A program that waits for a child run beside a step that ends on permission.
fn paying(
    child: ChildRunSpec,
    acting: Option<Idempotency>,
    may: &Arc<Semaphore>,
    paid: &Arc<AtomicU32>,
) -> Arc<dyn Tool> {
    let (may, paid) = (Arc::clone(may), Arc::clone(paid));
    let program = Program::new("parent", "1", move |agent: ProgramContext, _: Value| {
        let (child, may, paid) = (child.clone(), Arc::clone(&may), Arc::clone(&paid));
        async move {
            let pay = Step::new("pay");
            let pay = agent.step(acting.map_or(pay.clone(), |idem| pay.effect(idem)), async || {
                may.acquire().await.unwrap().forget();
                Ok(paid.fetch_add(1, Ordering::SeqCst))
            });
            let (end, pay) = futures::join!(agent.spawn("child", child), pay);
            Ok(json!([end?.outcome, pay?]))
        }
    });
    Arc::new(program.effect(Effect::External))
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_step_that_acts_beside_the_wait_for_a_run() {
    let source = json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]});
    for acting in [Some(Idempotency::None), None] {
        let (journal, hold) = (Arc::new(MemoryJournal::default()), hold());
        let (may, paid) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
        let tools = || vec![paying(child(source.clone()), acting, &may, &paid), hold.clone()];
        let first = system(journal.clone(), tools()).await;
        let run = submitted(&first, terms(&first)).await;
        hold.started().await;
        // Test time advances only when all tasks are idle.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ending = tokio::spawn(async move { first.shutdown().await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(ending.is_finished(), acting.is_none(), "what looks or computes is done again");
        may.add_permits(1);
        let begun = tokio::time::Instant::now();
        assert_eq!(ending.await.unwrap(), []);
        assert!(begun.elapsed() < Duration::from_secs(1), "then nothing of it can come to its end");
        assert_eq!(paid.load(Ordering::SeqCst), u32::from(acting.is_some()));

        let second = system(left_by(&journal), tools()).await;
        second.resume_all().await.unwrap();
        hold.go(1);
        assert_eq!(second.outcome(run).await.unwrap(), SUCCEEDED);
        assert_eq!(paid.load(Ordering::SeqCst), 1);
        second.shutdown().await;
    }
}
