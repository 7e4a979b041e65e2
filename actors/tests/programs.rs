//! Agents written as code: steps done once, steps repeated, and steps never repeated.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{left_by, states, submit, system, until, value};
use ostler_actors::{
    INLINE_BYTES_MAX, Program, ProgramContext, ResolveHow, Settled, Step, StepError, System,
};
use ostler_kernel::event::{Event, Failure};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency, TIMEOUT_MS_MAX};
use ostler_kernel::port::{AttemptLogError, Journal, Seq, StreamId, TOKEN_BYTES_MAX, Tool};
use ostler_kernel::run::{FailureCategory, RunStatus};
use ostler_kernel::step_history::{STEP_ID_BYTES_MAX, STEP_RESULT_BYTES_MAX};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn one_more(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

fn transient() -> Failure {
    Failure::new(FailureCategory::Transient, "not now")
}

fn tools(program: Program) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(program)]
}

/// A node that calls `program`, with further fields.
fn node(more: Value) -> Value {
    let mut node = json!({"id": "n", "tool": "program"});
    node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"id": "p", "policy": {"backoff_base": "1ms"}, "nodes": [node]})
}

const SUCCEEDED: Settled = Settled::new(RunStatus::Succeeded);
const FAILED: Settled = Settled::new(RunStatus::Failed);

/// Failure of the node's last attempt.
async fn failure(system: &System, run: RunId) -> Failure {
    let view = system.view(run, None).await.unwrap();
    *view.run.instance(&"n".into()).unwrap().failure.clone().unwrap()
}

/// Runs the program once, as a plan of one node.
async fn run_of(program: Program, more: Value) -> (System, RunId, Settled) {
    let system = system(Arc::new(MemoryJournal::default()), tools(program)).await;
    let run = submit(&system, node(more)).await;
    let settled = system.outcome(run).await.unwrap();
    (system, run, settled)
}

fn noted(journal: &dyn Journal, run: RunId) -> Vec<Event> {
    let stream = StreamId::attempts(&"local".into(), run);
    journal.read(stream, Seq(0), usize::MAX).unwrap().into_iter().map(|record| record.event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_step_is_not_called_by_the_next_attempt_even_if_its_result_is_null() {
    let (nothing, large, fails) = (Count::default(), Count::default(), Count::default());
    let (n, l, f) = (nothing.clone(), large.clone(), fails.clone());
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let (n, l, f) = (n.clone(), l.clone(), f.clone());
        async move {
            let null: Value = agent
                .step("nothing", async || {
                    n.one_more();
                    Ok(Value::Null)
                })
                .await?;
            assert_eq!(null, Value::Null);
            let text: String = agent
                .step("large", async || {
                    l.one_more();
                    Ok("x".repeat(2 * INLINE_BYTES_MAX))
                })
                .await?;
            // A failed step is called again.
            agent.step("fails", async || if f.one_more() < 3 { Err(transient()) } else { Ok(()) }).await?;
            // A repeated id within one attempt returns the recorded result.
            let again: Value = agent.step("nothing", async || unreachable!("it was done")).await?;
            Ok(json!([again, text.len()]))
        }
    });
    let (system, run, settled) = run_of(program, json!({"retries": 2})).await;
    assert_eq!(settled, SUCCEEDED);
    assert_eq!(value(&system, run, "n").await, json!([null, 2 * INLINE_BYTES_MAX]));
    assert_eq!((nothing.get(), large.get(), fails.get()), (1, 1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_its_process_died_a_program_goes_on_behind_its_last_step() {
    let calls = Count::default();
    let (reached, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let program = {
        let (calls, reached, go) = (calls.clone(), reached.clone(), go.clone());
        Program::new("program", "1", move |agent: ProgramContext, _: Value| {
            let (calls, reached, go) = (calls.clone(), reached.clone(), go.clone());
            async move {
                let first: u32 = agent.step("first", async || Ok(calls.one_more())).await?;
                reached.add_permits(1);
                go.acquire().await.unwrap().forget();
                let second: u32 = agent.step("second", async || Ok(calls.one_more())).await?;
                Ok([first, second])
            }
        })
        .effect(Effect::Write)
    };
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), tools(program.clone())).await;
    let run = submit(&first, node(json!({}))).await;
    reached.acquire().await.unwrap().forget();
    let left = left_by(&journal);

    go.add_permits(1);
    let second = system(left, tools(program)).await;
    second.resume(run).await.unwrap();
    reached.acquire().await.unwrap().forget();
    go.add_permits(1);
    assert_eq!(second.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(value(&second, run, "n").await[0], 1, "the first step was called once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_with_another_input_fails_for_good_and_calls_nothing() {
    let (attempts, calls) = (Count::default(), Count::default());
    let (a, c) = (attempts.clone(), calls.clone());
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let (a, c) = (a.clone(), c.clone());
        async move {
            let attempt = a.one_more();
            let step = Step::new("step").input(&attempt);
            let done = agent.step(step, async || Ok(c.one_more())).await;
            // Even if the program swallows the error.
            if attempt > 1 {
                assert!(matches!(done, Err(StepError::Log(AttemptLogError::StepMismatch(_)))), "{done:?}");
                return Ok(());
            }
            Err(transient())
        }
    });
    let (system, run, settled) = run_of(program, json!({"retries": 5})).await;
    assert_eq!(settled, FAILED);
    let Failure { category, message } = failure(&system, run).await;
    assert_eq!(category, FailureCategory::Structural);
    assert!(message.contains("step \"step\": recorded with input "), "{message}");
    assert_eq!((attempts.get(), calls.get()), (2, 1));
}

/// A program with one acting step; the result is lost with the first attempt.
fn lossy(idem: Idempotency, calls: &Count) -> Program {
    let calls = calls.clone();
    Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let calls = calls.clone();
        async move {
            let key = agent.idempotency_key("act");
            let done: u32 = agent
                .step(Step::new("act").effect(idem), async || {
                    let call = calls.one_more();
                    if call == 1 {
                        std::future::pending::<()>().await
                    }
                    Ok(call)
                })
                .await?;
            Ok(json!([done, key]))
        }
    })
    .effect(Effect::External)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_acts_and_may_be_repeated_is_called_again_under_the_same_key() {
    for idem in [Idempotency::Natural, Idempotency::Keyed] {
        let calls = Count::default();
        let journal = Arc::new(MemoryJournal::default());
        let system = system(journal.clone(), tools(lossy(idem, &calls))).await;
        let run = submit(&system, node(json!({"timeout": "100ms", "retries": 1}))).await;
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        let keys = noted(&*journal, run).into_iter().filter_map(|event| match event {
            Event::StepIntent(intent) => Some(json!(intent.idempotency_key)),
            _ => None,
        });
        let given = value(&system, run, "n").await;
        assert_eq!(keys.collect::<Vec<_>>(), [given[1].clone(), given[1].clone()]);
        assert_eq!(given[0], 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_may_not_be_repeated_is_in_doubt_and_called_again_on_the_word_of_a_person_alone() {
    let calls = Count::default();
    let more = json!({"timeout": "100ms", "retries": 3});
    let (system, run, settled) = run_of(lossy(Idempotency::None, &calls), more).await;
    assert_eq!(settled, RunStatus::Waiting);
    assert_eq!(states(&system, run).await, "n waiting_human");
    assert_eq!(failure(&system, run).await.category, FailureCategory::InDoubt);
    assert_eq!(calls.get(), 1);
    system.resolve(run, "n".into(), ResolveHow::Redo).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(calls.get(), 2);
}

/// The process dies during a step that must not be repeated, and again before a person is asked. The third attempt
/// fails before the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_in_doubt_stays_so_whatever_ends_the_attempt_that_is_done_anew() {
    let (lives, calls) = (Count::default(), Count::default());
    let reached = Arc::new(Semaphore::new(0));
    let (l, c, r) = (lives.clone(), calls.clone(), reached.clone());
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let (life, c, r) = (l.one_more(), c.clone(), r.clone());
        async move {
            if life == 3 {
                return Err(transient());
            }
            let paid = agent.step(Step::new("pay").effect(Idempotency::None), async || {
                if c.one_more() == 1 {
                    r.add_permits(1);
                    std::future::pending::<()>().await;
                }
                Ok(Value::Null)
            });
            let paid = paid.await;
            if life == 2 {
                assert!(matches!(paid, Err(StepError::Log(AttemptLogError::InDoubt(_)))), "{paid:?}");
                r.add_permits(1);
                std::future::pending::<()>().await;
            }
            Ok(paid?)
        }
    })
    .effect(Effect::External);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), tools(program.clone())).await;
    let run = submit(&first, node(json!({"retries": 3}))).await;
    reached.acquire().await.unwrap().forget();
    let left = left_by(&journal);
    let second = system(left.clone(), tools(program.clone())).await;
    second.resume(run).await.unwrap();
    reached.acquire().await.unwrap().forget();
    let third = system(left_by(&left), tools(program)).await;
    third.resume(run).await.unwrap();
    assert_eq!(third.outcome(run).await.unwrap(), RunStatus::Waiting);
    assert_eq!(failure(&third, run).await.category, FailureCategory::InDoubt);
    assert_eq!(calls.get(), 1);
    third.resolve(run, "n".into(), ResolveHow::Redo).await.unwrap();
    assert_eq!(third.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(calls.get(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_acts_is_written_down_before_and_its_failure_after_so_it_is_no_doubt() {
    let calls = Count::default();
    let c = calls.clone();
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let c = c.clone();
        async move {
            let act = Step::new("act").effect(Idempotency::None);
            Ok(agent.step(act, async || if c.one_more() == 1 { Err(transient()) } else { Ok(1) }).await?)
        }
    })
    .effect(Effect::Write);
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), tools(program)).await;
    let run = submit(&system, node(json!({"retries": 1}))).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    let kinds = noted(&*journal, run).into_iter().map(|event| match event {
        Event::StepIntent(_) => "intent",
        Event::StepResult(_) => "result",
        _ => "else",
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["intent", "result", "intent", "result"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_step_is_a_crash_and_what_was_done_before_stays_done() {
    let (done, panics) = (Count::default(), Count::default());
    let (d, p) = (done.clone(), panics.clone());
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let (d, p) = (d.clone(), p.clone());
        async move {
            let first: u32 = agent.step("done", async || Ok(d.one_more())).await?;
            let second: u32 = agent
                .step("panics", async || {
                    assert!(p.one_more() > 1, "not yet");
                    Ok(2)
                })
                .await?;
            Ok([first, second])
        }
    });
    let (system, run, settled) = run_of(program, json!({"retries": 1})).await;
    assert_eq!(settled, SUCCEEDED);
    assert_eq!(value(&system, run, "n").await, json!([1, 2]));
}

/// Runs a program that fails permanently; returns the message.
async fn fails<F, R>(code: F) -> String
where
    F: Fn(ProgramContext, Value) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    let (system, run, settled) = run_of(Program::new("program", "1", code), json!({"retries": 0})).await;
    assert_eq!(settled, FAILED);
    let Failure { category, message } = failure(&system, run).await;
    format!("{category}: {message}")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_may_not_do_is_said() {
    let acts = fails(async |agent: ProgramContext, _| {
        Ok(agent.step(Step::new("act").effect(Idempotency::Keyed), async || Ok(Value::Null)).await?)
    });
    assert_eq!(
        acts.await,
        "structural: step \"act\" acts on the world, and its program says that it does not: give the program an effect"
    );
    let twice = fails(async |agent: ProgramContext, _| {
        let inner = agent.clone();
        let step = agent.step("a", || async move { Ok(inner.step("a", async || Ok(Value::Null)).await?) });
        Ok(step.await?)
    });
    assert_eq!(twice.await, "structural: step \"a\": already running; give each step its own id");
    let long = fails(async |agent: ProgramContext, _| {
        let id = "x".repeat(STEP_ID_BYTES_MAX + 1);
        Ok(agent.step(id, async || Ok(Value::Null)).await?)
    });
    assert_eq!(long.await, "structural: step id of 201 bytes: use 1 to 200 bytes");
    let large = fails(async |agent: ProgramContext, _| {
        let large: String = agent.step("large", async || Ok("x".repeat(STEP_RESULT_BYTES_MAX))).await?;
        Ok(large.len().into())
    });
    assert!(large.await.contains("step \"large\": the result has 16777218 bytes, at most 16777216 are kept"));
    let token = fails(async |agent: ProgramContext, _| {
        let large = agent.progress("x".repeat(TOKEN_BYTES_MAX)).unwrap_err();
        assert_eq!(agent.progress("x".repeat(TOKEN_BYTES_MAX - 2)), Ok(()));
        Err(Failure::new(FailureCategory::Structural, large.to_string()))
    });
    assert_eq!(token.await, "structural: resume token of 4098 bytes: use at most 4096 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_and_output_are_held_to_their_schemas() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let program =
        Program::new("program", "1", async |_: ProgramContext, input: Value| Ok(input["n"].clone()))
            .input(schema)
            .output(json!({"type": "integer", "maximum": 9}));
    let (system, run, settled) = run_of(program, json!({"params": {"n": 10}, "retries": 0})).await;
    assert_eq!(settled, FAILED);
    let Failure { category, message } = failure(&system, run).await;
    assert_eq!(category, FailureCategory::Structural);
    assert!(message.starts_with("program: its output is not as it must be: "), "{message}");
    let run = submit(&system, node(json!({"params": {"n": 9}}))).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    let plan = serde_json::from_value::<ostler_kernel::plan::PlanDraft>(node(json!({"params": {"n": "9"}})));
    assert!(plan.unwrap().validate(&system.settings()).is_err(), "known before the run");
}

#[tokio::test(start_paused = true)]
async fn silence_fails_an_attempt_and_signs_of_life_keep_it_going() {
    let attempts = Count::default();
    let a = attempts.clone();
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let a = a.clone();
        async move {
            let from = agent.resume_token().unwrap();
            for minute in 0..10 {
                tokio::time::sleep(Duration::from_secs(59)).await;
                agent.progress(minute).unwrap();
                tokio::time::sleep(Duration::from_secs(59)).await;
                agent.beat();
            }
            if a.one_more() == 1 {
                tokio::time::sleep(Duration::from_secs(61)).await;
            }
            Ok(from)
        }
    });
    let more = json!({"timeout": "2h", "heartbeat_timeout": "60s", "retries": 1});
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), tools(program)).await;
    let run = submit(&system, node(more)).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(attempts.get(), 2);
    assert_eq!(value(&system, run, "n").await, json!(9), "the next attempt was given the last token");
    let failed = system.events(run, Seq(0)).unwrap().collect_failures().await;
    assert_eq!(failed, ["timeout: no sign of life for 60000 ms, which is its heartbeat_timeout"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reported_is_written_down_while_the_attempt_goes_on() {
    let go = Arc::new(Semaphore::new(0));
    let goes = go.clone();
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let goes = goes.clone();
        async move {
            for number in 0..3 {
                agent.progress(number).unwrap();
                goes.acquire().await.unwrap().forget();
            }
            Ok(())
        }
    });
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), tools(program)).await;
    let run = submit(&system, node(json!({}))).await;
    for number in 0..3 {
        until(async || noted(&*journal, run).len() > number).await;
        go.add_permits(1);
    }
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(noted(&*journal, run).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_heartbeat_timeout_there_is_ends_nothing() {
    let program = Program::new("program", "1", async |agent: ProgramContext, _: Value| {
        agent.beat();
        Ok(agent.progress(1).is_ok())
    });
    let more = json!({"timeout": TIMEOUT_MS_MAX / 1_000, "heartbeat_timeout": TIMEOUT_MS_MAX / 1_000 - 1});
    let (system, run, settled) = run_of(program, more).await;
    assert_eq!(settled, SUCCEEDED);
    assert_eq!(value(&system, run, "n").await, json!(true));
}

#[tokio::test(start_paused = true)]
async fn a_chatty_program_does_not_flood_the_journal_and_its_last_token_counts() {
    let attempts = Count::default();
    let a = attempts.clone();
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let a = a.clone();
        async move {
            if a.one_more() == 2 {
                return Ok(agent.resume_token().unwrap());
            }
            for number in 0..10_000 {
                agent.progress(number).unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(transient())
        }
    });
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), tools(program)).await;
    let run = submit(&system, node(json!({"timeout": "1h", "retries": 1}))).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(value(&system, run, "n").await, json!(9_999));
    let count = noted(&*journal, run).len();
    assert!((40..=60).contains(&count), "{count} records in ten seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlives_its_attempt_writes_nothing_in_its_name() {
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let over = Arc::new(Semaphore::new(0));
    let ended = over.clone();
    let program = Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let (told, ended) = (told.clone(), ended.clone());
        async move {
            tokio::spawn(async move {
                ended.acquire().await.unwrap().forget();
                let step: Result<u32, StepError> =
                    agent.step("late", async || unreachable!("it is over")).await;
                told.send((step.unwrap_err(), agent.progress(1).unwrap_err())).unwrap();
            });
            Ok(())
        }
    });
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), tools(program)).await;
    let run = submit(&system, node(json!({}))).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    over.add_permits(1);
    assert_eq!(
        tells.recv().await.unwrap(),
        (StepError::Log(AttemptLogError::AttemptEnded), AttemptLogError::AttemptEnded)
    );
    assert_eq!(noted(&*journal, run), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_acts_and_is_under_way_is_not_taken_for_lost() {
    let given = fails_acting(async |agent: ProgramContext, _| {
        let inner = agent.clone();
        let act = || Step::new("act").effect(Idempotency::None);
        let outer = agent.step(act(), || async move {
            let twice: Result<u32, _> = inner.step(act(), async || Ok(2)).await;
            Ok(format!("{}", twice.unwrap_err()))
        });
        Ok(outer.await?.into())
    });
    assert_eq!(given.await, "structural: step \"act\": already running; give each step its own id");
}

/// Like [`fails`], with an acting program.
async fn fails_acting<F, R>(code: F) -> String
where
    F: Fn(ProgramContext, Value) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    let program = Program::new("program", "1", code).effect(Effect::External);
    let (system, run, settled) = run_of(program, json!({"retries": 0})).await;
    assert_eq!(settled, FAILED);
    let Failure { category, message } = failure(&system, run).await;
    format!("{category}: {message}")
}

/// Sixteen concurrent nodes with sixteen steps each: no step is lost or mixed up.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_run_at_once_share_the_stream_of_their_run() {
    let program = Program::new("program", "1", async |agent: ProgramContext, input: Value| {
        let mut sum = 0;
        for step in 0..16_u64 {
            let number = input["n"].as_u64().unwrap_or(0);
            sum += agent.step(format!("{step}"), async || Ok(number + step)).await?;
            agent.progress(step).unwrap();
        }
        Ok(sum)
    });
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), tools(program)).await;
    let nodes: Vec<Value> = (0..16)
        .map(|n| json!({"id": format!("n{n}"), "tool": "program", "params": {"n": n}, "retries": 0}))
        .collect();
    let run = submit(&system, json!({"id": "p", "policy": {"slots": 16}, "nodes": nodes})).await;
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    for n in 0..16 {
        assert_eq!(value(&system, run, &format!("n{n}")).await, json!(16 * n + 120));
    }
    let results = noted(&*journal, run).into_iter().filter(|event| matches!(event, Event::StepResult(_)));
    assert_eq!(results.count(), 256);
}

trait Failures {
    async fn collect_failures(self) -> Vec<String>;
}

impl Failures for ostler_actors::EventCursor {
    async fn collect_failures(mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Some(record) = self.next().await {
            if let Event::AttemptResult(result) = record.unwrap().event
                && let ostler_kernel::event::Outcome::Failed(failure) = result.outcome
            {
                failures.push(format!("{}: {}", failure.category, failure.message));
            }
        }
        failures
    }
}
