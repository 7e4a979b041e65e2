//! What agents tell of themselves in the course of a life: each event once, where it happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{GatePolicy, Scope};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::PlanDraft;
use ostler_kernel::port::Tool;
use ostler_kernel::run::FailureCategory;
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::messages::answer::Answer;
use crate::messages::submission::Submission;
use crate::metrics::Seen;
use crate::{AgentProfile, Measures, Program, ProgramContext, System, SystemConfig};

struct Life {
    system: System,
    seen: Seen,
    told: BTreeMap<&'static str, u64>,
    /// Lets a call of `hold` end.
    go: Arc<Semaphore>,
    story: String,
}

/// Two steps; the second fails at its first call.
fn steps() -> Program {
    let calls = Arc::new(AtomicU32::new(0));
    Program::new("steps", "1", move |agent: ProgramContext, _: Value| {
        let calls = Arc::clone(&calls);
        async move {
            agent.step("first", async || Ok(())).await?;
            let not_now = || Failure::new(FailureCategory::Transient, "not now");
            let second = async || match calls.fetch_add(1, Ordering::SeqCst) {
                0 => Err(not_now()),
                _ => Ok(()),
            };
            agent.step("second", second).await?;
            Ok(json!({}))
        }
    })
}

impl Life {
    async fn begin() -> Life {
        let (seen, go) = (Seen::default(), Arc::new(Semaphore::new(0)));
        let held = Arc::clone(&go);
        let hold = Program::new("hold", "1", move |_: ProgramContext, _: Value| {
            let held = Arc::clone(&held);
            async move {
                held.acquire().await.expect("it stays open").forget();
                Ok(json!({}))
            }
        });
        let fails = async |_: ProgramContext, _: Value| -> Result<Value, Failure> {
            Err(Failure::new(FailureCategory::Structural, "never"))
        };
        let tools = [steps(), hold, Program::new("fails", "1", fails)];
        let granted = tools.iter().map(|tool| (tool.name().to_owned(), None)).collect();
        let config = SystemConfig {
            journal: Arc::new(MemoryJournal::default()),
            artifacts: Arc::new(MemoryArtifacts::default()),
            output: Arc::new(MemoryOutput::default()),
            writes: Arc::new(WriteCounts::default()),
            tools: tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect(),
            gate: GatePolicy {
                scopes: [("default".to_owned(), Scope { tools: granted })].into(),
                ceiling: 2,
                ..GatePolicy::default()
            },
            slots: 8,
            run_slots: 4,
            drain: Duration::from_secs(5),
            clients: Vec::new(),
            models: Default::default(),
            measures: Measures::recording(Arc::new(seen.clone())),
            evaluation: Default::default(),
            planner: Arc::new(ostler_kernel::run::StaticPlanner),
            diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
        };
        let system = System::start(config).await.unwrap();
        Life { system, seen, told: BTreeMap::new(), go, story: String::new() }
    }

    /// Submits one node after the other, to the agent of this name or to one of its own.
    async fn submit(&self, agent: Option<&str>, nodes: Value) -> RunId {
        let plan = json!({"id": "p", "policy": {"backoff_base": "1ms"}, "nodes": nodes});
        let draft: PlanDraft = serde_json::from_value(plan).unwrap();
        let plan = draft.validate(&self.system.settings()).unwrap();
        let agent = agent.map(Into::into);
        let run =
            self.system.submit(Submission { agent, intent: 2, ..Submission::plan(plan) }).await.unwrap();
        idle().await;
        run
    }

    async fn checkpoint(&self, run: RunId) {
        let system = self.system.clone();
        let checkpoint = tokio::spawn(async move { system.checkpoint(run).await });
        idle().await;
        self.go.add_permits(1);
        checkpoint.await.unwrap().unwrap();
    }

    /// Records the events since the last question.
    async fn tell(&mut self, what: &str) {
        idle().await;
        self.story += &format!("{what}\n");
        for event in Telemetry::ALL.map(Telemetry::as_str) {
            let now = self.seen.value(&format!("ostler_agent_events_total {event}")).unwrap() as u64;
            let before = self.told.insert(event, now).unwrap_or(0);
            if now > before {
                self.story += &format!("  {event} {}\n", now - before);
            }
        }
    }
}

/// Waits until nothing is left to do: only then does the clock of the test go on.
async fn idle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(start_paused = true)]
async fn a_life_is_told_event_by_event() {
    let mut life = Life::begin().await;
    life.submit(None, json!([{"id": "n", "tool": "steps", "retries": 1}])).await;
    life.tell("two steps, one of which fails once").await;

    let asks = json!([{"id": "n", "tool": "steps", "approval": "before", "human_timeout": "1h"}]);
    let run = life.submit(None, asks.clone()).await;
    life.tell("it waits for a person").await;
    let question = life.system.approvals(run).await.unwrap().remove(0);
    life.system.answer(&question.id, question.digest.unwrap(), Answer::approve()).await.unwrap();
    life.tell("it goes on").await;

    life.submit(None, json!([{"id": "n", "tool": "fails", "retries": 0}])).await;
    life.tell("it fails").await;

    let hold = json!([{"id": "n", "tool": "hold"}]);
    let two = json!([{"id": "n", "tool": "hold"}, {"id": "m", "tool": "hold", "deps": ["n"]}]);
    let run = life.submit(None, hold.clone()).await;
    life.system.cancel(run).await.unwrap();
    life.tell("it is cancelled at work").await;

    let run = life.submit(None, two.clone()).await;
    life.checkpoint(run).await;
    life.tell("it comes to rest").await;
    life.system.resume(run).await.unwrap();
    idle().await;
    life.go.add_permits(1);
    life.tell("it is taken up again").await;

    let run = life.submit(None, two).await;
    life.checkpoint(run).await;
    life.tell("another comes to rest").await;
    life.system.cancel(run).await.unwrap();
    life.tell("it is cancelled there").await;

    life.system.spawn(AgentProfile::new("a")).await.unwrap();
    life.submit(Some("a"), hold.clone()).await;
    let behind = life.submit(Some("a"), hold).await;
    life.tell("two of one agent").await;
    life.system.cancel(behind).await.unwrap();
    life.tell("the second is cancelled in the line").await;
    life.go.add_permits(1);
    life.tell("the first goes on").await;
    life.system.shutdown().await;
    expect![[r#"
        two steps, one of which fails once
          agent_started 1
          job_assigned 1
          step_completed 3
          step_replayed 1
          step_failed 2
          job_completed 1
          agent_terminated 1
        it waits for a person
          agent_started 1
          job_assigned 1
          approval_requested 1
          agent_terminated 1
        it goes on
          agent_started 1
          step_completed 3
          job_completed 1
          agent_terminated 1
        it fails
          agent_started 1
          job_assigned 1
          step_failed 1
          agent_terminated 1
        it is cancelled at work
          agent_started 1
          job_assigned 1
          agent_cancelled 1
          agent_terminated 1
        it comes to rest
          agent_started 1
          job_assigned 1
          step_completed 1
          checkpoint_created 1
          agent_terminated 1
        it is taken up again
          agent_started 1
          step_completed 1
          job_completed 1
          agent_terminated 1
        another comes to rest
          agent_started 1
          job_assigned 1
          step_completed 1
          checkpoint_created 1
          agent_terminated 1
        it is cancelled there
          agent_cancelled 1
        two of one agent
          agent_started 1
          job_assigned 1
        the second is cancelled in the line
          agent_cancelled 1
        the first goes on
          step_completed 1
          job_completed 1
          agent_terminated 1
    "#]]
    .assert_eq(&life.story);
}
