//! Acting steps, whatever happens to their attempt: lost, failed, patched, or swallowed by the program.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::{Arc, Mutex};

use common::{states, submit, system, value};
use ostler_actors::{Answer, Mapping, Program, ProgramContext, ResolveHow, Settled, Step, System};
use ostler_kernel::event::Failure;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::run::{FailureCategory, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

const SUCCEEDED: Settled = Settled::new(RunStatus::Succeeded);

/// Acts in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    /// Records an act; returns the number of earlier acts.
    fn act(&self, what: impl Into<String>) -> usize {
        let mut acts = self.0.lock().unwrap();
        acts.push(what.into());
        acts.len() - 1
    }

    fn acts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The fault of the first call of a step, or after it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum First {
    Hangs,
    Panics,
    /// The step succeeds and the program fails afterwards.
    ThenFails,
    Succeeds,
}

/// A program that pays once; its step is keyed by its id, and by the amount if asked.
fn pays(world: &World, idem: Idempotency, first: First, tells_amount: bool) -> Program {
    let world = world.clone();
    let params =
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "feedback": {"type": "string"}}});
    Program::new("program", "1", move |agent: ProgramContext, input: Value| {
        let world = world.clone();
        async move {
            let is_first = world.acts().is_empty();
            let key = agent.idempotency_key("pay").to_string();
            let step = Step::new("pay").effect(idem);
            let step = if tells_amount { step.input(&input["n"]) } else { step };
            let paid: String = agent
                .step(step, async || {
                    world.act(key.clone());
                    match first {
                        First::Hangs if is_first => std::future::pending::<()>().await,
                        First::Panics if is_first => panic!("lost"),
                        _ => {}
                    }
                    Ok(key.clone())
                })
                .await?;
            if is_first && first == First::ThenFails {
                return Err(Failure::new(FailureCategory::Structural, "later"));
            }
            Ok(paid)
        }
    })
    .input(params)
    .effect(Effect::External)
}

fn plan(more: Value, policy: Value) -> Value {
    let mut node = json!({"id": "n", "tool": "program", "params": {"n": 1}});
    node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"id": "p", "policy": policy, "nodes": [node]})
}

async fn run(program: Program, plan: Value) -> (System, RunId, Settled) {
    let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(program)]).await;
    let run = submit(&system, plan).await;
    let settled = system.outcome(run).await.unwrap();
    (system, run, settled)
}

#[tokio::test(start_paused = true)]
async fn a_lost_step_that_may_not_be_repeated_leaves_its_node_in_doubt_whatever_is_left_to_try() {
    let fallback = json!({"params": {"n": 2}});
    for (first, policy, more) in [
        (First::Hangs, json!({"domain": "legal"}), json!({"timeout": "200ms", "fallback": fallback})),
        (First::Hangs, json!({}), json!({"timeout": "200ms", "retries": 0, "fallback": fallback})),
        (First::Panics, json!({}), json!({"retries": 0, "fallback": fallback})),
        (First::Panics, json!({}), json!({"retries": 1})),
        (First::Hangs, json!({}), json!({"timeout": "200ms", "retries": 0})),
    ] {
        let world = World::default();
        let program = pays(&world, Idempotency::None, first, false);
        let (system, run, settled) = run(program, plan(more, policy)).await;
        assert_eq!(settled, RunStatus::Waiting, "{first:?}");
        assert_eq!(states(&system, run).await, "n waiting_human");
        assert_eq!(world.acts().len(), 1);
        // The person's decision is final: there is no second question.
        system.resolve(run, "n".into(), ResolveHow::Redo).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        assert_eq!(world.acts().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_not_done_again_by_a_fallback() {
    for idem in [Idempotency::None, Idempotency::Keyed] {
        let world = World::default();
        let more = json!({"retries": 0, "fallback": {"params": {"n": 2}}});
        let (system, run, settled) =
            run(pays(&world, idem, First::ThenFails, false), plan(more, json!({}))).await;
        assert_eq!(settled, SUCCEEDED);
        assert_eq!(json!(world.acts()), json!([value(&system, run, "n").await]), "{idem:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_not_done_again_because_of_what_a_person_said() {
    for idem in [Idempotency::None, Idempotency::Keyed] {
        let world = World::default();
        let more = json!({"retries": 0, "approval": "after", "human_timeout": "1h", "patches": 1});
        let (system, run, settled) =
            run(pays(&world, idem, First::Succeeds, false), plan(more, json!({}))).await;
        assert_eq!(settled, RunStatus::Waiting);
        answer(&system, run, Answer::reject().note("do it better")).await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        assert_eq!(system.view(run, None).await.unwrap().run.plan().version, 2, "it was patched");
        answer(&system, run, Answer::approve()).await;
        assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
        assert_eq!(world.acts().len(), 1, "{idem:?}");
    }
}

async fn answer(system: &System, run: RunId, answer: Answer) {
    let approvals = system.approvals(run).await.unwrap();
    system.answer(&approvals[0].id, approvals[0].digest.unwrap(), answer).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_and_may_be_repeated_keeps_its_key_across_a_patch() {
    let world = World::default();
    let more = json!({"timeout": "200ms", "retries": 0, "fallback": {"params": {"n": 2}}});
    let program = pays(&world, Idempotency::Keyed, First::Hangs, false);
    let (_, _, settled) = run(program, plan(more, json!({}))).await;
    assert_eq!(settled, SUCCEEDED);
    let acts = world.acts();
    assert_eq!(acts.len(), 2);
    assert_eq!(acts[0], acts[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_a_patch_would_do_otherwise_is_for_a_person_to_say() {
    for (idem, asks) in [(Idempotency::None, true), (Idempotency::Keyed, true), (Idempotency::Natural, false)]
    {
        let world = World::default();
        let more = json!({"retries": 0, "fallback": {"params": {"n": 2}}});
        let (system, run, mut settled) =
            run(pays(&world, idem, First::ThenFails, true), plan(more, json!({}))).await;
        if asks {
            assert_eq!(settled, RunStatus::Waiting, "{idem:?}");
            assert_eq!(world.acts().len(), 1);
            let view = system.view(run, None).await.unwrap();
            let failure = view.run.instance(&"n".into()).unwrap().failure.clone().unwrap();
            assert_eq!(failure.category, FailureCategory::InDoubt);
            assert!(failure.message.contains("done before a patch of its node"), "{failure:?}");
            system.resolve(run, "n".into(), ResolveHow::Redo).await.unwrap();
            settled = system.outcome(run).await.unwrap();
        }
        assert_eq!(settled, SUCCEEDED, "{idem:?}");
        assert_eq!(world.acts().len(), 2);
        assert_ne!(world.acts()[0], world.acts()[1], "it is another deed, under another key");
    }
}

#[tokio::test(start_paused = true)]
async fn after_what_ends_an_attempt_no_step_begins_and_no_stage_is_kept_whatever_its_program_makes_of_it() {
    let world = World::default();
    let (paying, mailing) = (world.clone(), world.clone());
    let pay = Program::new("pay", "1", move |agent: ProgramContext, _: Value| {
        let world = paying.clone();
        async move {
            let pay = Step::new("pay").effect(Idempotency::None);
            let paid = agent.step(pay, async || {
                if world.act("pay") == 0 {
                    std::future::pending::<()>().await;
                }
                Ok("paid".to_owned())
            });
            let within = tokio::time::timeout(std::time::Duration::from_secs(1), paid).await;
            let paid = match within {
                Err(_) => return Err(Failure::new(FailureCategory::Transient, "slow")),
                Ok(paid) => paid.unwrap_or_else(|_| "not paid".to_owned()),
            };
            let _: Result<(), _> = agent
                .step("more", async || {
                    world.act("more");
                    Ok(())
                })
                .await;
            Ok(json!({"told": paid}))
        }
    })
    .effect(Effect::External);
    let mail = Program::new("mail", "1", move |agent: ProgramContext, input: Value| {
        let world = mailing.clone();
        async move {
            let told = input["told"].as_str().unwrap_or("nothing").to_owned();
            let mail = Step::new("mail").effect(Idempotency::None);
            agent
                .step(mail, async || {
                    world.act(format!("mail: {told}"));
                    Ok(())
                })
                .await?;
            Ok(told)
        }
    })
    .effect(Effect::External);
    let both = pay.then(Mapping::none(), mail).named("program");
    let (system, run, settled) = run(both, plan(json!({"retries": 3, "params": {}}), json!({}))).await;
    assert_eq!(settled, RunStatus::Waiting);
    assert_eq!(world.acts(), ["pay"]);
    system.resolve(run, "n".into(), ResolveHow::Redo).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), SUCCEEDED);
    assert_eq!(world.acts(), ["pay", "pay", "more", "mail: paid"]);
}
