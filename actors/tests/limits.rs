//! Limits of a system: accepted at the limit, refused beyond.

mod common;

use std::pin::pin;
use std::sync::Arc;

use common::{Hold, plan, states, submit, system, wide, within};
use ostler_actors::{
    AgentProfile, ClientChange, ClientError, Limits, RESULT_DEPTH_MAX, RegisterError, RunError, Settled,
    SpawnError, Submission, SubmitError, TEST_MS_MAX,
};
use ostler_kernel::gate::DENIALS_MAX;
use ostler_kernel::json::memory;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::Journal;
use ostler_kernel::run::{RunOutcome, RunStatus};
use ostler_store::{MemoryJournal, Store};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_agents_than_the_limit_also_after_a_restart() {
    let journal = Arc::new(MemoryJournal::default());
    let limits = Limits { agents: 2, ..Limits::default() };
    let system = within(journal.clone(), Vec::new(), limits).await;
    for name in ["a", "b", "a"] {
        system.spawn(AgentProfile::new(name)).await.unwrap();
    }
    let full = |refused: &SpawnError| matches!(refused, SpawnError::Register(RegisterError::TooMany(2)));
    assert!(system.spawn(AgentProfile::new("c")).await.is_err_and(|refused| full(&refused)));
    // Unnamed agents do not count.
    let run = submit(
        &system,
        json!({"id": "p", "nodes": [{"id": "s", "tool": "time.sleep", "params": {"ms": 0}}]}),
    );
    assert_eq!(system.outcome(run.await).await.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;

    let system = within(journal, Vec::new(), limits).await;
    assert!(system.spawn(AgentProfile::new("c")).await.is_err_and(|refused| full(&refused)));
    system.spawn(AgentProfile::new("b")).await.unwrap();
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_agents_are_live_than_the_limit_and_the_others_have_their_turn() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let limits = Limits { live_agents: 1, ..Limits::default() };
    let system = within(Arc::new(MemoryJournal::default()), vec![hold.clone()], limits).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]})).await);
    }
    for _ in &runs {
        hold.started().await;
        let live = system.agents().await.into_iter().filter(|row| row.state == "live").count();
        assert_eq!(live, 1);
        hold.go(1);
    }
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_requests_wait_than_the_limit() {
    let limits = Limits { waiting: 1, ..Limits::default() };
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = within(Arc::new(MemoryJournal::default()), vec![hold.clone()], limits).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let nodes = json!([{"id": "s", "tool": "hold"}]);
    let source = plan(&system, json!({"id": "p", "nodes": nodes}));
    let first = agent.submit(Submission::plan(source.clone())).await.unwrap();
    let second = agent.submit(Submission::plan(source)).await.unwrap();
    hold.started().await;

    let (one, other) =
        (pin!(system.skip_node(second, "s".into())), pin!(system.skip_node(second, "s".into())));
    let (refused, waits) = futures::future::select(one, other).await.factor_first();
    assert!(matches!(refused, Err(RunError::Crowded(1))), "{refused:?}");

    system.cancel(first).await.unwrap();
    waits.await.expect("its turn came");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_up_to_the_limit_and_refused_beyond() {
    let result_bytes = r#"{"text":"12345"}"#.len();
    let limits = Limits { result_bytes, ..Limits::default() };
    let system = within(Arc::new(MemoryJournal::default()), Vec::new(), limits).await;
    for (text, expected) in [("12345", RunOutcome::Succeeded), ("123456", RunOutcome::Failed)] {
        let params = json!({"template": text, "values": {}});
        let nodes = json!([{"id": "n", "tool": "text.render", "params": params, "retries": 0}]);
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(expected), "{text}");
        if expected == RunOutcome::Failed {
            let report = system.view(run, None).await.unwrap().report;
            let told = format!("the result has {} bytes, at most {result_bytes} are kept", result_bytes + 1);
            assert_eq!(report.root_causes[0].message, Some(told));
        }
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_contract_of_a_plan_judges_is_no_more_than_one_result_may_be() {
    let limits = Limits { result_bytes: r#"{"text":"12345"}"#.len(), ..Limits::default() };
    let system = within(Arc::new(MemoryJournal::default()), Vec::new(), limits).await;
    for (ids, expected) in [(&["a"][..], RunOutcome::Succeeded), (&["a", "b"], RunOutcome::Failed)] {
        let params = json!({"template": "12345", "values": {}});
        let node = |id: &&str| json!({"id": id, "tool": "text.render", "params": params});
        let nodes: Vec<_> = ids.iter().map(node).collect();
        let contract = json!([{"method": "schema", "spec": {"type": "object"}}]);
        let run = submit(&system, json!({"id": "p", "nodes": nodes, "contract": contract})).await;
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(expected), "{ids:?}");
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_up_to_what_it_takes_in_memory() {
    let lists = |count: usize| json!({"lists": vec![json!([[]]); count]});
    let result_memory = memory(&lists(10));
    let limits = Limits { result_memory, ..Limits::default() };
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = within(Arc::new(MemoryJournal::default()), vec![hold.clone()], limits).await;
    for (count, expected) in [(10, RunOutcome::Succeeded), (11, RunOutcome::Failed)] {
        hold.gives(lists(count));
        hold.go(1);
        let nodes = json!([{"id": "n", "tool": "hold", "retries": 0}]);
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(expected), "{count}");
        if expected == RunOutcome::Failed {
            let report = system.view(run, None).await.unwrap().report;
            let (bytes, taken) = (lists(count).to_string().len(), memory(&lists(count)));
            let told = format!(
                "the result has {bytes} bytes and would take about {taken} in memory, at most {result_memory} are kept: use fewer small \
                 lists and maps within others, or write them as a text"
            );
            assert_eq!(report.root_causes[0].message, Some(told));
        }
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_up_to_a_depth() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    for (deep, outcome) in
        [(RESULT_DEPTH_MAX, RunOutcome::Succeeded), (RESULT_DEPTH_MAX + 1, RunOutcome::Failed)]
    {
        hold.gives((1..deep).fold(json!({}), |inner, _| json!({"x": inner})));
        hold.go(1);
        let nodes = json!([{"id": "n", "tool": "hold", "retries": 0}]);
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(outcome), "{deep}");
    }
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_test_of_a_contract_is_ended_at_its_limit_however_long_its_node_may_take() {
    let program = Hold::new("shell.run", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![program.clone()]).await;
    let contract = json!([{"method": "test", "spec": {"argv": ["wait"]}}]);
    let params = json!({"template": "x", "values": {}});
    let node = json!({"id": "n", "tool": "text.render", "params": params, "retries": 0, "timeout": 3_600_000, "contract": contract});
    let begun = tokio::time::Instant::now();
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    program.stopped().await;
    assert!(begun.elapsed().as_millis() < 2 * u128::from(TEST_MS_MAX), "{:?}", begun.elapsed());
    let culprits = system.view(run, None).await.unwrap().report.root_causes;
    let told = format!("contract[0]: the test wait was ended: a test may take {TEST_MS_MAX} ms");
    assert_eq!(culprits[0].message, Some(told));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_clients_than_the_limit() {
    let limits = Limits { clients: 2, ..Limits::default() };
    let system = within(Arc::new(MemoryJournal::default()), Vec::new(), limits).await;
    let run = async |client: &str| {
        let nodes = json!([{"id": "s", "tool": "time.sleep", "params": {"ms": 0}}]);
        let submission = Submission::plan(plan(&system, json!({"id": "p", "nodes": nodes})));
        let run = system.submit(Submission { client: client.into(), ..submission }).await?;
        Ok::<_, SubmitError>(system.outcome(run).await.unwrap())
    };
    let credits = || ClientChange { credits: Some(5), ..ClientChange::default() };
    system.change_client("a", credits()).await.unwrap();
    let render = json!([{"id": "n", "tool": "text.render", "params": {"template": "x", "values": {}}}]);
    let submission = Submission::plan(plan(&system, json!({"id": "p", "nodes": render})));
    let second = system.submit(Submission { client: "b".into(), ..submission }).await.unwrap();
    system.outcome(second).await.unwrap();
    assert!(matches!(run("c").await, Err(SubmitError::TooManyClients(2))));
    assert_eq!(system.change_client("c", credits()).await, Err(ClientError::TooMany(2)));
    assert_eq!(run("b").await.unwrap(), RunStatus::Succeeded);
    system.change_client("a", credits()).await.unwrap();
    assert!(matches!(run("no name").await, Err(SubmitError::Client(name)) if name == "no name"));
    system.shutdown().await;
}

/// More results than fit in one frame of the journal, all ended before the first is read.
#[tokio::test]
async fn results_that_end_together_are_written_in_as_many_appends_as_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path()).unwrap();
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    hold.gives(json!({"text": "x".repeat(4_000)}));
    let (many, limits) = (2_000, Limits::default());
    let system = wide(many, store.journal.clone(), store.artifacts.clone(), vec![hold.clone()], limits).await;
    let nodes: Vec<_> = (0..many).map(|at| json!({"id": format!("n{at}"), "tool": "hold"})).collect();
    let run = submit(&system, json!({"id": "p", "policy": {"slots": many}, "nodes": nodes})).await;
    for _ in 0..many {
        hold.started().await;
    }
    hold.go(many as usize);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_gate_refuses_again_and_again_is_cancelled() {
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), Vec::new()).await;
    let asks =
        json!({"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"});
    for denied in [DENIALS_MAX - 1, DENIALS_MAX] {
        let escape =
            |at| json!({"id": format!("n{at}"), "tool": "fs.read", "params": {"path": "/etc/passwd"}});
        let mut nodes: Vec<_> = (0..denied).map(escape).collect();
        nodes.push(asks.clone());
        let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
        let (outcome, ok) = match denied {
            DENIALS_MAX => (Settled::new(RunStatus::Cancelled), "ok cancelled"),
            _ => (Settled::new(RunStatus::Waiting), "ok waiting_human"),
        };
        assert_eq!(system.outcome(run).await.unwrap(), outcome);
        assert!(states(&system, run).await.contains(ok));
        assert_eq!(journal.run(run).unwrap().unwrap().acts, 0, "nobody did anything");
    }
    system.shutdown().await;
}
