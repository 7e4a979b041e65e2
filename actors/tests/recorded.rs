//! The result of a step is its recorded form, from the first call on.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{submit, value};
use ostler_actors::{Program, ProgramContext, System};
use ostler_kernel::id::RunId;
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

async fn failure(system: &System, run: RunId) -> String {
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    let view = system.view(run, None).await.unwrap();
    let failure = view.run.instance(&"n".into()).unwrap().failure.clone().unwrap();
    format!("{}: {}", failure.category, failure.message)
}

async fn run_of(program: Program) -> (System, RunId) {
    let program = program.named("program");
    let system = common::system(Arc::new(MemoryJournal::default()), vec![Arc::new(program)]).await;
    let run =
        submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "program", "retries": 0}]})).await;
    (system, run)
}

fn gives<T>(given: T) -> Program
where
    T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
{
    Program::new("program", "1", move |agent: ProgramContext, _: Value| {
        let given = given.clone();
        async move {
            let first: T = agent.step("step", async || Ok(given)).await?;
            let first = format!("{:?}", serde_json::to_value(&first));
            let again: T = agent.step("step", async || unreachable!("it is done")).await?;
            Ok(json!([first, format!("{:?}", serde_json::to_value(&again))]))
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_gives_what_each_later_attempt_is_given() {
    for program in
        [gives(json!(1.0)), gives(json!({"b": 1, "a": -0.0})), gives(json!(1e3)), gives(Some(f64::NAN))]
    {
        let (system, run) = run_of(program).await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        let given = value(&system, run, "n").await;
        assert_eq!(given[0], given[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_cannot_be_recorded_is_refused_at_once() {
    let exact = 1_u64 << 53;
    for (program, why) in [
        (gives(f64::NAN), "NaN and infinite numbers are none in JSON"),
        (gives(f64::INFINITY), "NaN and infinite numbers are none in JSON"),
        (gives(exact + 1), "structural: step \"step\": its result is not as it must be: "),
    ] {
        let (system, run) = run_of(program).await;
        let told = failure(&system, run).await;
        assert!(told.contains(why), "{told}");
    }
}
