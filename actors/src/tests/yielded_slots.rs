//! An attempt that waits for a run without a slot, while what it needs to go on is killed, or it is stopped itself: it goes on, or its
//! slot is free, and the accounts add up.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::event::Event;
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{BoxFuture, CallContext, ChildRunSpec, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::RunStatus;
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::messages::client_change::ClientChange;
use crate::messages::submission::Submission;
use crate::{Measures, Program, ProgramContext, System, SystemConfig};

const DEPOSITED: u64 = 10_000_000;

/// Where calls tell that they have begun, and wait until they are let go.
struct Gate {
    begun: Semaphore,
    go: Semaphore,
}

/// Holds the slot until released.
struct Gated(ToolSpec, Arc<Gate>);

impl Tool for Gated {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async {
            self.1.begun.add_permits(1);
            self.1.go.acquire().await.expect("nobody closes it").forget();
            Ok(json!({}))
        })
    }
}

fn draft(tool: &str) -> PlanDraft {
    draft_with(tool, json!({}))
}

fn draft_with(tool: &str, params: Value) -> PlanDraft {
    let nodes = json!([{"id": "n", "tool": tool, "params": params, "retries": 0, "timeout": "24h"}]);
    serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap()
}

/// A system of one slot with a client that has credits; the gate that its children wait at, and the one of whoever else holds the slot.
async fn system() -> (System, [Arc<Gate>; 2]) {
    let gated = |name: &str| {
        let (name, version, description) = (name.to_owned(), "1".to_owned(), "waits".to_owned());
        let (params, result) = (json!({"type": "object"}), json!({"type": "object"}));
        let gate = Gate { begun: Semaphore::new(0), go: Semaphore::new(0) };
        Gated(ToolSpec { name, version, description, params, result }, Arc::new(gate))
    };
    let (child, other) = (gated("child"), gated("other"));
    let parent = Program::new("parent", "1", async |agent: ProgramContext, input: Value| {
        // Of one that works before it waits.
        if let Some(ms) = input["works_ms"].as_u64() {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        let end = agent.spawn("child", ChildRunSpec::plan(draft("child"))).await?;
        agent.step("after", async || Ok(1)).await?;
        Ok(json!({"outcome": end.outcome}))
    });
    let acting = parent.clone().named("acting").effect(Effect::External);
    let gates = [Arc::clone(&child.1), Arc::clone(&other.1)];
    let tools = ["parent", "acting", "child", "other"].map(|name| (name.to_owned(), None)).into();
    let config = SystemConfig {
        journal: Arc::new(MemoryJournal::default()),
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools: vec![Arc::new(parent), Arc::new(acting), Arc::new(child), Arc::new(other)],
        gate: GatePolicy {
            scopes: [("default".to_owned(), Scope { tools })].into(),
            ceiling: 2,
            ..GatePolicy::default()
        },
        slots: 1,
        run_slots: 4,
        drain: Duration::from_secs(5),
        clients: Vec::new(),
        models: Default::default(),
        measures: Measures::default(),
        evaluation: Default::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    let system = System::start(config).await.unwrap();
    let credits = Some(i64::try_from(DEPOSITED).unwrap());
    system.change_client("acme", ClientChange { credits, ..ClientChange::default() }).await.unwrap();
    (system, gates)
}

async fn submit(system: &System, tool: &str) -> RunId {
    submit_draft(system, draft(tool)).await
}

async fn submit_draft(system: &System, draft: PlanDraft) -> RunId {
    let plan = draft.validate(&system.settings()).unwrap();
    system.submit(Submission { client: "acme".into(), intent: 2, ..Submission::plan(plan) }).await.unwrap()
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not come to be so: {what}");
        tokio::task::yield_now().await;
    }
}

/// Attempts with a slot, and jobs waiting for one.
fn queue(system: &System) -> Option<(u32, u64)> {
    let (row, _) = system.services.scheduler.show()?;
    Some((row.running, row.queued))
}

#[derive(Clone, Copy)]
enum Stands {
    /// The child has the slot.
    Vacated,
    /// The child is over, and somebody else has the slot.
    Queued,
}

/// A parent that stands so, and whoever else has the slot.
async fn standing(system: &System, gates: &[Arc<Gate>; 2], stands: Stands) -> (RunId, Option<RunId>) {
    let parent = submit(system, "parent").await;
    gates[0].begun.acquire().await.unwrap().forget();
    if matches!(stands, Stands::Vacated) {
        return (parent, None);
    }
    let other = submit(system, "other").await;
    until("one waits", async || queue(system) == Some((1, 1))).await;
    // It came before, as what goes on is queued only when the run is over.
    gates[0].go.add_permits(1);
    gates[1].begun.acquire().await.unwrap().forget();
    until("it wants to go on", async || {
        system.runs(true).unwrap().len() == 2 && queue(system) == Some((1, 1))
    })
    .await;
    (parent, Some(other))
}

/// All slots are free, and what the records say was spent is what the client was charged.
async fn check_accounts(system: &System) {
    until("all is free", async || queue(system) == Some((0, 0))).await;
    tokio::time::timeout(Duration::from_secs(60), system.services.attempts.emptied()).await.unwrap();
    let mut spent = 0;
    for row in system.runs(false).unwrap() {
        let see = |record: &ostler_kernel::port::Recorded| match &record.event {
            Event::AttemptResult(result) => spent += result.cost,
            Event::LateResult(result) => spent += result.cost,
            _ => {}
        };
        system.services.runs.fold(&row, None, see).unwrap();
    }
    let left = DEPOSITED - spent;
    assert_eq!(system.services.ledger.client(&"acme".into()).left(), i64::try_from(left).ok());
    let accounts = system.services.scheduler.accounts().unwrap();
    let balance = format!("Some({left}) left, 0 run");
    assert!(accounts.iter().any(|account| account.contains(&balance)), "{balance}: {accounts:?}");
}

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

async fn check_killing(stands: Stands, child: Option<&str>) {
    let (system, gates) = system().await;
    let (parent, other) = standing(&system, &gates, stands).await;
    let agent = parent.to_string();
    let (before, name) = (queue(&system), child.unwrap_or(&agent));
    let scheduler = || system.services.mailboxes.scheduler.get().map(|actor| actor.get_id()).ok();
    let life = scheduler();
    assert!(kill(&system, name));
    // The registry takes it along.
    let is_again = || child.is_none() || scheduler().is_some_and(|again| Some(again) != life);
    until("it is up again", async || is_again() && queue(&system) == before).await;
    gates.iter().for_each(|gate| gate.go.add_permits(1));
    for run in [Some(parent), other].into_iter().flatten() {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    check_accounts(&system).await;
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_without_a_slot_goes_on_whatever_is_killed_meanwhile() {
    for stands in [Stands::Vacated, Stands::Queued] {
        for child in [None, Some("scheduler"), Some("registry")] {
            check_killing(stands, child).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_stopped_while_it_has_no_slot_leaves_nothing_behind() {
    for stands in [Stands::Vacated, Stands::Queued] {
        let (system, gates) = system().await;
        let (parent, other) = standing(&system, &gates, stands).await;
        system.cancel(parent).await.unwrap();
        assert_eq!(system.outcome(parent).await.unwrap(), RunStatus::Cancelled);
        gates[1].go.add_permits(1);
        if let Some(other) = other {
            assert_eq!(system.outcome(other).await.unwrap(), RunStatus::Succeeded);
        }
        until("all are over", async || system.runs(true).unwrap().is_empty()).await;
        check_accounts(&system).await;
        system.shutdown().await;
    }
}

/// Takes the rest of a client's credits and lets an hour pass; a child costs more than its share: returns the earlier
/// balance.
async fn use_up_credits(system: &System) -> i64 {
    let held = system.services.scheduler.held(&"acme".into()).unwrap();
    let left = system.services.ledger.client(&"acme".into()).left().unwrap() - i64::try_from(held).unwrap();
    deposit(system, -left).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    left
}

async fn deposit(system: &System, credits: i64) {
    let change = ClientChange { credits: Some(credits), ..ClientChange::default() };
    system.change_client("acme", change).await.unwrap();
}

/// Whoever has the credits of its client taken away while it waits, and worked for so long before.
async fn check_waiting_for_credits(works_ms: u64) {
    let (system, gates) = system().await;
    let parent = submit_draft(&system, draft_with("parent", json!({"works_ms": works_ms}))).await;
    gates[0].begun.acquire().await.unwrap().forget();
    let left = use_up_credits(&system).await;
    gates[0].go.add_permits(1);
    until("it is parked", async || queue(&system) == Some((0, 1))).await;
    let waits = async || system.view(parent, None).await.unwrap().out_of_credit;
    until("its run tells", waits).await;
    deposit(&system, left).await;
    assert_eq!(system.outcome(parent).await.unwrap(), RunStatus::Succeeded);
    check_accounts(&system).await;
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_goes_on_waits_for_credits_like_anybody() {
    check_waiting_for_credits(0).await;
    // More than it was expected to cost.
    check_waiting_for_credits(3_600_000).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_its_end_to_tell_alone_needs_no_credits_for_that() {
    for is_queued in [false, true] {
        let (system, gates) = system().await;
        let parent = submit(&system, "acting").await;
        gates[0].begun.acquire().await.unwrap().forget();
        let left = use_up_credits(&system).await;
        if is_queued {
            gates[0].go.add_permits(1);
            until("it is parked", async || queue(&system) == Some((0, 1))).await;
        }
        system.cancel(parent).await.unwrap();
        until("all are over", async || system.runs(true).unwrap().is_empty()).await;
        assert_eq!(system.outcome(parent).await.unwrap(), RunStatus::Cancelled);
        deposit(&system, left).await;
        check_accounts(&system).await;
        system.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_of_the_scheduler_that_ends_late_does_not_close_the_queue_of_the_next() {
    let (system, gates) = system().await;
    let (parent, _) = standing(&system, &gates, Stands::Vacated).await;
    let services = &system.services;
    let earlier = services.scheduler.open(1).unwrap();
    services.scheduler.open(1).unwrap();
    services.scheduler.close(earlier);
    assert_eq!(queue(&system), Some((1, 0)));
    gates[0].go.add_permits(1);
    assert_eq!(system.outcome(parent).await.unwrap(), RunStatus::Succeeded);
    check_accounts(&system).await;
    system.shutdown().await;
}
