//! Every child of the tree is killed while a run is under way; nothing is lost and nothing is done twice.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_kernel::event::{Event, RunOpened};
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{
    BoxFuture, CallContext, RunRowStatus, Seq, StreamBatch, StreamId, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{Canceller, Operation, RunStatus};
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use serde_json::{Map, Value, json};

use crate::api::system::ask;
use crate::base::lock::lock;
use crate::messages::agent::Request;
use crate::messages::registry::RegistryMessage;
use crate::messages::submission::Submission;
use crate::metrics::Seen;
use crate::{AgentProfile, Measures, RunError, Settled, System, SystemConfig};

/// Counts its calls by name, and takes a while for each.
struct Count {
    spec: ToolSpec,
    calls: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Tool for Count {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::None }
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let name = permit.params()["name"].as_str().unwrap_or_default().to_owned();
            *lock(&self.calls).entry(name.clone()).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(3)).await;
            // One is under way for as long as the test wants.
            while name == "held" && !lock(&self.calls).contains_key("let go") {
                tokio::task::yield_now().await;
            }
            Ok(json!({}))
        })
    }
}

struct Hour(ToolSpec);

impl Tool for Hour {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(json!({}))
        })
    }
}

async fn counting(calls: &Arc<Mutex<BTreeMap<String, u32>>>) -> System {
    made(calls, 8, Measures::default()).await
}

async fn counting_with(calls: &Arc<Mutex<BTreeMap<String, u32>>>, slots: u32) -> System {
    made(calls, slots, Measures::default()).await
}

async fn measured(calls: &Arc<Mutex<BTreeMap<String, u32>>>, measures: Measures) -> System {
    made(calls, 8, measures).await
}

async fn made(calls: &Arc<Mutex<BTreeMap<String, u32>>>, slots: u32, measures: Measures) -> System {
    let params = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let (name, version, description) = ("count".to_owned(), "1".to_owned(), "counts".to_owned());
    let spec = ToolSpec { name, version, description, params, result: json!({"type": "object"}) };
    let any = json!({"type": "object"});
    let hour = Hour(ToolSpec { name: "hour".to_owned(), params: any, ..spec.clone() });
    let tools = ["count", "hour"].map(|name| (name.to_owned(), None)).into();
    let config = SystemConfig {
        journal: Arc::new(MemoryJournal::default()),
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools: vec![Arc::new(Count { spec, calls: Arc::clone(calls) }), Arc::new(hour)],
        gate: GatePolicy {
            scopes: [("default".to_owned(), Scope { tools })].into(),
            ceiling: 2,
            ..GatePolicy::default()
        },
        slots,
        run_slots: 4,
        drain: Duration::from_secs(5),
        clients: Vec::new(),
        models: Default::default(),
        measures,
        evaluation: Default::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    System::start(config).await.unwrap()
}

/// Kills the child of this name; returns whether the pool had one.
fn kill(system: &System, child: &str) -> bool {
    let links = &system.services.mailboxes;
    match child {
        "registry" => links.registry().map(|actor| actor.get_cell().kill()).is_some(),
        "scheduler" => links.scheduler.get().map(|actor| actor.get_cell().kill()).is_ok(),
        agent => match links.pool().and_then(|(pool, _)| pool.child_ref(agent)) {
            Some(ostler_supervisor::ChildRef::Actor(cell)) => {
                cell.kill();
                true
            }
            _ => false,
        },
    }
}

async fn check_killing(child: Option<&str>, times: u32) {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let recorded = Seen::default();
    let system = measured(&calls, Measures::recording(Arc::new(recorded.clone()))).await;
    let nodes: Vec<Value> = (0..60)
        .map(|at| {
            let deps: Vec<String> = (at >= 3).then(|| format!("n{}", at - 3)).into_iter().collect();
            json!({"id": format!("n{at}"), "deps": deps, "tool": "count", "params": {"name": format!("n{at}")}})
        })
        .collect();
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&system.settings()).unwrap();
    let run = system.submit(Submission::plan(plan)).await.unwrap();
    let agent = run.to_string();
    let mut cursor = system.events(run, ostler_kernel::port::Seq(0)).unwrap();
    let mut killed = 0;
    let mut seen = 0;
    while let Some(record) = cursor.next().await {
        record.unwrap();
        seen += 1;
        if killed < times && seen % 12 == 0 && kill(&system, child.unwrap_or(&agent)) {
            killed += 1;
        }
    }
    assert_eq!(killed, times, "the run was over before all kills");
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let calls = lock(&calls).clone();
    assert_eq!(calls.len(), 60);
    assert!(calls.values().all(|&calls| calls == 1), "{calls:?}");
    tokio::time::timeout(SOON, system.services.attempts.emptied()).await.expect("effects go with their run");
    let restarts = format!("ostler_supervisor_restarts_total {}", child.unwrap_or("agent"));
    let counted = async {
        while recorded.value(&restarts) == Some(0.0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, counted).await.expect("restarts are counted");
    // A kill may come before the restart that the one before it led to.
    assert!(recorded.value(&restarts) <= Some(f64::from(times)));
    system.shutdown().await;
}

/// Longer than anything here takes, and shorter than a test may hang.
const SOON: Duration = Duration::from_secs(60);

/// Waits until it is so.
async fn until(holds: impl AsyncFn() -> bool) {
    let waits = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, waits).await.expect("it comes to be so");
}

fn hour(system: &System) -> Submission {
    let nodes = json!([{"id": "s", "tool": "hour"}]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    Submission::plan(draft.validate(&system.settings()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_effects_of_a_cancelled_run_are_forgotten_with_it() {
    let system = counting(&Arc::default()).await;
    let run = system.submit(hour(&system)).await.unwrap();
    let mut cursor = system.events(run, ostler_kernel::port::Seq(0)).unwrap();
    while !matches!(cursor.next().await.unwrap().unwrap().event, Event::AttemptIntent(_)) {}
    system.cancel(run).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    tokio::time::timeout(SOON, system.services.attempts.emptied()).await.expect("effects go with their run");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_an_agent_that_is_taken_out_of_service_is_answered() {
    let system = counting(&Arc::default()).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let first = agent.submit(hour(&system)).await.unwrap();
    let second = agent.submit(hour(&system)).await.unwrap();
    let third = agent.submit(hour(&system)).await.unwrap();
    let mut waits = pin!(system.tell(third, Request::Operate(Operation::Skip("s".into()))));
    assert!(futures::poll!(waits.as_mut()).is_pending());
    let quarantine = async {
        while system.agents().await[0].state != "quarantined" {
            kill(&system, "a");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, quarantine).await.expect("it fails too often");
    let answer = tokio::time::timeout(SOON, waits).await.expect("it is answered");
    assert!(matches!(answer, Err(RunError::Over)), "{answer:?}");
    for (run, expected) in [(first, "it "), (second, "it "), (third, "it failed too often: killed")] {
        let settled = system.outcome(run).await.unwrap();
        assert!(
            settled == RunStatus::Suspended
                && settled.reason.as_ref().is_some_and(|why| why.starts_with(expected)),
            "{settled:?}"
        );
    }
    let row = &system.agents().await[0];
    assert_eq!(
        (row.state.clone(), row.reason.as_deref()),
        ("quarantined".into(), Some("it failed too often: killed"))
    );
    let fourth = agent.submit(hour(&system)).await.unwrap();
    let settled = system.outcome(fourth).await.unwrap();
    assert_eq!(settled, Settled::suspended("its agent is quarantined".to_owned()));
    // The registry ends before it has heard that somebody wants it driven.
    system.services.active_runs.add(fourth, true);
    kill(&system, "registry");
    let settled = tokio::time::timeout(SOON, system.outcome(fourth)).await.expect("nobody drives it");
    assert_eq!(settled.unwrap(), Settled::suspended("its agent is quarantined".to_owned()));
    until(async || system.agents().await.iter().any(|row| row.state == "quarantined")).await;
    // What its attempts come to is learned by nobody: `first` was under way.
    for run in [first, second, third, fourth] {
        let row = system.row(run).unwrap();
        system.cancel(run).await.unwrap();
        // Somebody resumes it who saw it as it was: its agent does not take it, and it is over all the same.
        system.drive(row, true);
        system.agents().await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    }
    tokio::time::timeout(SOON, system.services.attempts.emptied()).await.expect("effects go with their run");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_attempt_comes_to_that_ends_after_its_run_was_set_aside_is_recorded_and_counts() {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let system = counting(&calls).await;
    let nodes = json!([{"id": "n", "tool": "count", "params": {"name": "held"}}]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&system.settings()).unwrap();
    let run = system.submit(Submission::plan(plan)).await.unwrap();
    until(async || lock(&calls).contains_key("held")).await;
    let agent = run.to_string();
    let is_aside =
        || matches!(system.services.journal.run(run).unwrap().unwrap().status, RunRowStatus::Parked(_));
    until(async || {
        kill(&system, &agent);
        is_aside()
    })
    .await;
    lock(&calls).insert("let go".to_owned(), 1);
    tokio::time::timeout(SOON, system.services.attempts.emptied()).await.expect("its end is taken in");
    let row = system.services.journal.run(run).unwrap().unwrap();
    let mut results = Vec::new();
    system
        .services
        .runs
        .fold(&row, None, |record| {
            if let Event::AttemptResult(result) = &record.event {
                results.push(result.clone());
            }
        })
        .unwrap();
    assert!(matches!(&results[..], [one] if one.cost > 0 && one.accounts.is_some()), "{results:?}");
    system.resume(run).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(lock(&calls).get("held"), Some(&1), "nothing is done again");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_agent_repeats_nothing() {
    check_killing(None, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_scheduler_repeats_nothing() {
    check_killing(Some("scheduler"), 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_registry_repeats_nothing() {
    check_killing(Some("registry"), 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_in_a_run_that_then_only_waits_is_forgotten() {
    let system = counting(&Arc::default()).await;
    let nodes = json!([
        {"id": "ok", "kind": "human_approval", "human_timeout": "1h"},
        {"id": "s", "tool": "hour"},
    ]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&system.settings()).unwrap();
    let run = system.submit(Submission::plan(plan)).await.unwrap();
    let mut cursor = system.events(run, ostler_kernel::port::Seq(0)).unwrap();
    while !matches!(cursor.next().await.unwrap().unwrap().event, Event::AttemptIntent(_)) {}
    system.cancel_node(run, "s".into()).await.unwrap();
    tokio::time::timeout(SOON, system.services.attempts.emptied()).await.expect("its end is taken in");
    until(async || system.agents().await[0].state == "idle").await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_late_does_not_meet_the_next_run_of_the_agent() {
    let system = counting(&Arc::default()).await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let first = agent.submit(hour(&system)).await.unwrap();
    let second = agent.submit(hour(&system)).await.unwrap();
    system.cancel(first).await.unwrap();
    let registry = system.services.mailboxes.registry().unwrap();
    let cancel = |reply| RegistryMessage::Ask {
        agent: "a".into(),
        run: first,
        request: Request::Operate(Operation::CancelPlan(Canceller::Operator)),
        reply,
    };
    let answer = ask(&registry, cancel).await.unwrap();
    assert!(matches!(answer, Err(RunError::Over)), "{answer:?}");
    assert!(!system.view(second, None).await.unwrap().run.is_cancelled());
    system.cancel(second).await.unwrap();
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_are_held_when_the_scheduler_dies_stay_held_and_paid_for() {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let system = counting_with(&calls, 1).await;
    system
        .change_client("acme", crate::ClientChange { credits: Some(150), ..Default::default() })
        .await
        .unwrap();
    let submit = async |client: &str, node: Value| {
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": [node]})).unwrap();
        let plan = draft.validate(&system.settings()).unwrap();
        system.submit(Submission { client: client.into(), ..Submission::plan(plan) }).await.unwrap()
    };
    let looking = submit("acme", json!({"id": "h", "tool": "hour", "timeout": "2h"})).await;
    let queue = async || system.queue().await.map(|queue| (queue.running, queue.queued));
    // Granted is not started: only what runs holds its slot.
    until(async || !system.services.attempts.slots().is_empty()).await;
    assert!(kill(&system, "scheduler"));
    let waiting = submit("other", json!({"id": "n", "tool": "count", "params": {"name": "n"}})).await;
    until(async || queue().await == Some((1, 1))).await;
    // Whoever heard of its agent's end late speaks of a slot that was adopted meanwhile.
    system.services.scheduler.unregister(&looking.to_string().as_str().into());
    // What runs holds its slot; what waits may just be queued anew, with the new scheduler.
    until(async || queue().await == Some((1, 1))).await;
    assert!(lock(&calls).is_empty(), "the only slot is taken");
    let acme = async || {
        let rows = system.clients().await;
        rows.into_iter()
            .find(|row| row.client.as_str() == "acme")
            .map(|row| (row.left, row.reserved))
            .unwrap()
    };
    assert_eq!(acme().await, (Some(50), 100));
    system.cancel(looking).await.unwrap();
    assert_eq!(system.outcome(waiting).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(lock(&calls).get("n"), Some(&1));
    until(async || acme().await.1 == 0).await;
    let rows = system.clients().await;
    let row = rows.iter().find(|row| row.client.as_str() == "acme").unwrap();
    assert_eq!(row.left, Some(150 - row.spent as i64));
    assert!(row.spent > 0);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_closed_though_its_agent_dies_after_an_attempt_was_stopped() {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    for _ in 0..20 {
        let system = counting_with(&calls, 4).await;
        let nodes = json!([{"id": "h", "tool": "hour", "timeout": "2h"}, {"id": "i", "tool": "hour", "timeout": "2h"}]);
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let plan = draft.validate(&system.settings()).unwrap();
        let run = system.submit(Submission::plan(plan)).await.unwrap();
        until(async || system.queue().await.is_some_and(|queue| queue.running == 2)).await;
        let agent = run.to_string();
        let (cancelled, _) = tokio::join!(system.cancel(run), async {
            tokio::task::yield_now().await;
            kill(&system, &agent)
        });
        if cancelled.is_err() {
            // The actor died with the question: it is asked again.
            until(async || matches!(system.cancel(run).await, Ok(()) | Err(RunError::InvalidState(_)))).await;
        }
        let outcome = tokio::time::timeout(SOON, system.outcome(run)).await;
        assert_eq!(outcome.expect("it is closed").unwrap(), RunStatus::Cancelled);
        system.shutdown().await;
    }
}

/// A run of agent `a` with one step, which is under way as long as it is called `held`.
async fn one_step(system: &System, run: RunId, step: &str) {
    let nodes = json!([{"id": "n", "tool": "count", "params": {"name": step}}]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&system.settings()).unwrap();
    let agent = Some("a".into());
    system.submit(Submission { run: Some(run), agent, intent: 2, ..Submission::plan(plan) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_begun_is_not_behind_an_older_one_in_the_next_life_of_the_registry() {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let system = counting(&calls).await;
    let (older, begun) = (crate::new_run_id(), crate::new_run_id());
    one_step(&system, begun, "held").await;
    while !lock(&calls).contains_key("held") {
        tokio::task::yield_now().await;
    }
    one_step(&system, older, "older").await;
    assert!(kill(&system, "registry"));
    lock(&calls).insert("let go".to_owned(), 0);
    let mut ended = Vec::new();
    let (mut first, mut second) = (pin!(system.outcome(begun)), pin!(system.outcome(older)));
    while ended.len() < 2 {
        tokio::select! {
            biased;
            _ = &mut first, if !ended.contains(&begun) => ended.push(begun),
            _ = &mut second, if !ended.contains(&older) => ended.push(older),
        }
    }
    assert_eq!(ended, [begun, older]);
    assert_eq!(lock(&calls)["held"], 1);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_which_the_registry_could_not_be_told_is_driven_when_the_pool_is_up() {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let system = counting(&calls).await;
    let (run, services) = (crate::new_run_id(), &system.services);
    let nodes = json!([{"id": "n", "tool": "count", "params": {"name": "n"}}]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = services.runs.plans.spell(Arc::new(draft.validate(&system.settings()).unwrap())).unwrap();
    // It is opened and to be driven, and what tells the registry so has met one that had just ended.
    let opened = RunOpened {
        run,
        client: "acme".into(),
        agent: run.to_string().as_str().into(),
        plan,
        intent: 2,
        scope: "default".to_owned(),
        workspace: "/".to_owned(),
        policy_epoch: services.gatekeeper.policy().epoch,
        seed: 7,
    };
    let stream = StreamId::run(&opened.client, run);
    let events = vec![Event::RunOpened(Box::new(opened))];
    services.journal.append_batch(StreamBatch { stream, expected: Seq(0), at_ms: 0, events }).unwrap();
    services.active_runs.add(run, false);
    services.mailboxes.tell_registry(RegistryMessage::PoolUp);
    let outcome = tokio::time::timeout(SOON, system.outcome(run)).await.expect("it is driven");
    assert_eq!(outcome.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}
