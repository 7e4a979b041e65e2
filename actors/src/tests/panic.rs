//! Actors panic, under load, again and again: nothing that was accepted is lost, nothing that was done is done twice, and
//! nobody is charged for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_kernel::event::Event;
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{BoxFuture, CallContext, Seq, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::RunStatus;
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use ostler_supervisor::ChildState;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::base::keys::FairShareKey;
use crate::base::lock::lock;
use crate::messages::agent::AgentMessage;
use crate::messages::client_change::{ClientChange, Weight};
use crate::messages::evaluator::EvaluatorMessage;
use crate::messages::registry::RegistryMessage;
use crate::messages::submission::Submission;
use crate::pipelines::message::PipelinesMessage;
use crate::run::Agent;
use crate::{AgentHandle, AgentProfile, Measures, Settled, System, SystemConfig};

const SLOTS: u32 = 8;

/// The tool of these tests: a call is counted by its name, acts on the world, and ends when it is let.
#[derive(Clone)]
struct Gated {
    spec: ToolSpec,
    calls: Arc<Mutex<BTreeMap<String, u32>>>,
    gate: Arc<Semaphore>,
}

impl Tool for Gated {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::None }
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let name = permit.params()["name"].as_str().unwrap_or_default().to_owned();
            *lock(&self.calls).entry(name).or_default() += 1;
            self.gate.acquire().await.expect("nobody closes it").forget();
            Ok(json!({}))
        })
    }
}

/// A system in memory, and its only tool.
async fn system() -> (System, Gated) {
    let params = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let (name, version, description) = ("gated".to_owned(), "1".to_owned(), "waits".to_owned());
    let spec = ToolSpec { name, version, description, params, result: json!({"type": "object"}) };
    let tool = Gated { spec, calls: Arc::default(), gate: Arc::new(Semaphore::new(0)) };
    let tools = [("gated".to_owned(), None)].into();
    let config = SystemConfig {
        journal: Arc::new(MemoryJournal::default()),
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools: vec![Arc::new(tool.clone())],
        gate: GatePolicy {
            scopes: [("default".to_owned(), Scope { tools })].into(),
            ceiling: 2,
            ..GatePolicy::default()
        },
        slots: SLOTS,
        run_slots: 4,
        drain: Duration::from_secs(5),
        clients: Vec::new(),
        models: Default::default(),
        measures: Measures::default(),
        evaluation: Default::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    (System::start(config).await.unwrap(), tool)
}

/// Gives an agent a run of so many nodes, four at a time; their calls are named after `run`.
async fn submit(system: &System, agent: &AgentHandle, run: &str, nodes: usize) -> RunId {
    let nodes: Vec<Value> = (0..nodes)
        .map(|at| {
            let deps: Vec<String> = (at >= 4).then(|| format!("n{}", at - 4)).into_iter().collect();
            let params = json!({"name": format!("{run}/n{at}")});
            json!({"id": format!("n{at}"), "deps": deps, "tool": "gated", "params": params, "timeout": "100h"})
        })
        .collect();
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&system.settings()).unwrap_or_else(|faults| panic!("{faults:#?}"));
    agent.submit(Submission::plan(plan)).await.unwrap()
}

/// Looks again and again until it is so; the clock is paused, so that waiting for the next look takes no time.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..10_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to this: {what}");
}

/// Lets an actor panic at its next message, and sends it one.
fn panic_in(system: &System, child: &str) {
    let (services, links) = (&system.services, &system.services.mailboxes);
    if child == "pool" {
        // No actor of its own: it ends as a pool does that gives up.
        let (pool, _) = links.pool().expect("it is up");
        tokio::spawn(async move { pool.kill().await });
        return;
    }
    services.journal.status.faults.arm(child, 1);
    match child {
        "registry" => {
            let (reply, _) = ractor::concurrency::oneshot();
            links.tell_registry(RegistryMessage::Count { reply: reply.into() });
        }
        "evaluator" => {
            let lane = FairShareKey { client: "nobody".into(), agent: None };
            let (run, is_verdict) = (crate::new_run_id(), false);
            links.tell_evaluator(EvaluatorMessage::Evaluated { lane, run, is_verdict });
        }
        "scheduler" => drop(services.scheduler.accounts()),
        "pipelines" => system.pipelines.tell(PipelinesMessage::PoolUp),
        agent => {
            let (pool, _) = links.pool().expect("it is up");
            let actor = pool.child::<Agent>(agent).expect("it is up");
            let _ = actor.cast(AgentMessage::Again);
        }
    }
}

/// How often each child of the root was started, if all of them run; with the restarts of the agents.
async fn starts(system: &System) -> Option<BTreeMap<String, u64>> {
    let mut starts = BTreeMap::new();
    for child in system.root.which_children().await {
        let ChildState::Running(running) = child.state else { return None };
        starts.insert(child.id.to_string(), child.generation);
        if let Some(pool) = running.pool() {
            for agent in pool.which_children().await {
                let ChildState::Running(_) = agent.state else { return None };
                starts.insert(agent.id.to_string(), agent.restarts);
            }
        }
    }
    Some(starts)
}

/// How the accounts stand, once all slots are taken by attempts that run and nothing moves any more.
async fn accounts(system: &System) -> Vec<String> {
    let look = || system.services.scheduler.accounts();
    let seen = Mutex::new(None);
    until("all slots are taken", async || {
        let is_full = system.services.attempts.slots().len() == SLOTS as usize
            && system.queue().await.is_some_and(|queue| queue.running == SLOTS && queue.queued > 0);
        let now = look();
        let before = std::mem::replace(&mut *lock(&seen), now.clone());
        is_full && now.is_some() && now == before
    })
    .await;
    lock(&seen).take().expect("it was looked at")
}

/// Recorded cost of the attempts of these runs.
async fn recorded_cost(system: &System, runs: &[RunId]) -> u64 {
    let mut cost = 0;
    for run in runs {
        let mut cursor = system.events(*run, Seq(0)).unwrap();
        while let Some(record) = cursor.next_known().await {
            if let Event::AttemptResult(result) | Event::LateResult(result) = record.unwrap().event {
                cost += result.cost;
            }
        }
    }
    cost
}

/// Lets every child panic in turn, so often in all, while more attempts are ready than there are slots.
async fn check_panics(panics: usize) {
    let (system, tool) = system().await;
    let runs_each = panics / 50;
    let deposited = 1_000_000_000;
    let change =
        ClientChange { weight: Some(Weight::Chosen(100)), credits: Some(deposited), ..Default::default() };
    system.change_client("acme", change).await.unwrap();
    let mut runs: BTreeMap<&str, Vec<RunId>> = BTreeMap::new();
    let mut agents = Vec::new();
    for (at, client) in ["acme", "acme", "umbrella", "umbrella", "initech", "initech"].into_iter().enumerate()
    {
        let name = format!("agent-{at}");
        let profile = AgentProfile::new(&name).client(client).weight(100 + at as u32);
        let agent = system.spawn(profile).await.unwrap();
        for run in 0..runs_each {
            let run = submit(&system, &agent, &format!("{name}/{run}"), 10).await;
            runs.entry(client).or_default().push(run);
        }
        agents.push(name);
    }
    let mut left = agents.iter().cycle();
    for panicked in 0..panics {
        let child = match panicked % 6 {
            0 => "registry",
            1 => "evaluator",
            2 => "scheduler",
            3 => "pipelines",
            4 => "pool",
            _ => left.next().expect("it goes round"),
        };
        until("all is up", async || {
            starts(&system).await.is_some_and(|starts| starts.len() == 5 + agents.len())
        })
        .await;
        let charged = accounts(&system).await;
        let before = starts(&system).await.expect("all is up");
        panic_in(&system, child);
        until(child, async || starts(&system).await.is_some_and(|now| now.get(child) > before.get(child)))
            .await;
        until("all is up again", async || {
            starts(&system).await.is_some_and(|starts| starts.len() == 5 + agents.len())
        })
        .await;
        assert_eq!(accounts(&system).await, charged, "after panic {panicked}, of {child}");
        // Something gets done, and the windows of restarts forget.
        tool.gate.add_permits(1);
        tokio::time::advance(Duration::from_secs(7)).await;
    }
    tool.gate.add_permits(100_000);
    for run in runs.values().flatten() {
        let settled = tokio::time::timeout(Duration::from_secs(3_600), system.outcome(*run)).await;
        assert_eq!(settled.expect("it is not lost").unwrap(), RunStatus::Succeeded);
    }
    let calls = lock(&tool.calls).clone();
    assert_eq!(calls.len(), 6 * runs_each * 10);
    assert!(calls.values().all(|&calls| calls == 1), "{calls:?}");
    until("all is paid", async || system.clients().await.iter().all(|row| row.reserved == 0)).await;
    for row in system.clients().await {
        let Some(runs) = runs.get(row.client.as_str()) else { continue };
        let cost = recorded_cost(&system, runs).await;
        assert_eq!(row.spent, cost, "{}", row.client);
        assert_eq!(row.left, (row.client.as_str() == "acme").then_some(deposited - cost as i64));
    }
    let scored = system.services.journal.accounts().unwrap();
    let scores: u64 = scored.iter().map(|row| row.reputation.scores()).sum();
    assert_eq!(scores, 6 * runs_each as u64, "each run counts once");
    until("all reputations are what the journal says", async || {
        let ledger = &system.services.ledger;
        scored.iter().all(|row| ledger.reputation(&row.client, row.agent.as_ref()) == row.reputation)
    })
    .await;
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_panics_of_all_children_lose_repeat_and_charge_nothing() {
    check_panics(1_000).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes half a minute: a figure of docs/performance.md"]
async fn ten_thousand_panics_of_all_children_lose_repeat_and_charge_nothing() {
    check_panics(10_000).await;
}

#[tokio::test(start_paused = true)]
async fn k02_what_an_agent_has_to_do_outlives_its_panic() {
    let (system, tool) = system().await;
    let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
    let mut runs = Vec::new();
    for job in 0..100 {
        runs.push(submit(&system, &agent, &job.to_string(), 1).await);
    }
    until("the first is under way", async || lock(&tool.calls).len() == 1).await;
    panic_in(&system, "a");
    until("it is up again", async || starts(&system).await.is_some_and(|starts| starts.get("a") == Some(&1)))
        .await;
    tool.gate.add_permits(100);
    for run in runs {
        let settled = tokio::time::timeout(Duration::from_secs(3_600), system.outcome(run)).await;
        assert_eq!(settled.expect("it is not lost").unwrap(), RunStatus::Succeeded);
    }
    let calls = lock(&tool.calls).clone();
    assert!(calls.len() == 100 && calls.values().all(|&calls| calls == 1), "{calls:?}");
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn k05_an_agent_that_crashes_at_every_start_is_the_only_one_to_suffer() {
    const HEALTHY: usize = 10_000;
    const BUSY: usize = 10;
    let (system, tool) = system().await;
    let mut runs = Vec::new();
    for at in 0..HEALTHY {
        let agent = system.spawn(AgentProfile::new(&format!("well-{at}"))).await.unwrap();
        if at % BUSY == 0 {
            runs.push(submit(&system, &agent, &at.to_string(), 1).await);
        }
    }
    let poisoned = system.spawn(AgentProfile::new("ill")).await.unwrap();
    system.services.journal.status.faults.arm("ill", u32::MAX);
    let mut parked = Vec::new();
    for job in ["x", "y", "z"] {
        parked.push(submit(&system, &poisoned, job, 1).await);
    }
    let ill = async || system.agents().await.into_iter().find(|row| row.agent.as_str() == "ill").unwrap();
    system.outcome(parked[2]).await.unwrap();
    let reason = "it failed too often: panicked: ill was to panic";
    assert_eq!((ill().await.state, ill().await.reason.as_deref()), ("quarantined".into(), Some(reason)));
    let why = async |run| match system.outcome(run).await.unwrap() {
        Settled { status: RunStatus::Suspended, reason } => reason.unwrap(),
        other => panic!("{other:?}"),
    };
    // The runs that it crashed on are set aside before those behind them.
    assert_eq!(why(parked[0]).await, "it ended its agent 3 times in a row without getting on");
    assert_eq!(why(parked[1]).await, "it ended its agent 3 times in a row without getting on");
    assert_eq!(why(parked[2]).await, reason);

    until("all others have their actor", async || {
        starts(&system).await.is_some_and(|starts| starts.len() == 5 + HEALTHY / BUSY)
    })
    .await;
    let tree = starts(&system).await.expect("all is up");
    let restarted: Vec<_> =
        tree.iter().filter(|(name, count)| **count != u64::from(!name.contains('-'))).collect();
    assert!(restarted.is_empty(), "{restarted:?}");
    tool.gate.add_permits(2 * HEALTHY);
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }

    // A person mends it, and puts it back.
    system.services.journal.status.faults.disarm_all();
    system.release("ill").await.unwrap();
    assert!(matches!(system.release("ill").await, Err(crate::ReleaseError::InService(_))));
    assert!(matches!(system.release("nobody").await, Err(crate::ReleaseError::Unknown(_))));
    assert_eq!((ill().await.state, ill().await.reason), ("idle".into(), None));
    for run in parked {
        system.resume(run).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_no_restart_helps_halts_the_system_and_tells_why() {
    for (child, how) in [
        ("evaluator", "panicked: evaluator was to panic"),
        ("scheduler", "failed: the run queue panicked: scheduler was to panic"),
    ] {
        let (system, _tool) = system().await;
        let agent = system.spawn(AgentProfile::new("a")).await.unwrap();
        let run = submit(&system, &agent, "r", 1).await;
        system.services.journal.status.faults.arm(child, u32::MAX);
        until("it gives up", async || {
            let links = &system.services.mailboxes;
            if links.evaluator.get().is_ok() && links.scheduler.get().is_ok() {
                panic_in(&system, child);
                // It is to go on with that.
                system.services.journal.status.faults.arm(child, u32::MAX);
            }
            system.halted().is_some()
        })
        .await;
        let why = format!("too many restarts: {child} ended: {how}");
        assert_eq!(system.halted(), Some(why.clone()));
        let outcome = system.outcome(run).await;
        assert!(matches!(&outcome, Err(crate::RunError::Halted(told)) if *told == why), "{outcome:?}");
    }
}
