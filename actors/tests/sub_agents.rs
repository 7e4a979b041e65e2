//! Sub-agents: runs of their own for nodes of a plan, within the limits of their parent and found again after a crash.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Hold, plan, states, system, until, value};
use ostler_actors::{CHILD_RUN_DEPTH_MAX, Submission, System};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::event::CallTerms;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::ledger::CallLimits;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::policy::{GoalTerms, Mode, goal_plan};
use ostler_kernel::port::{
    BoxFuture, CallContext, Journal, Position, Recorded, Seq, StreamBatch, StreamId, Tool, ToolResult,
    ToolSpec,
};
use ostler_kernel::run::{FailureCategory, OpeningTerms, RunOutcome};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

const COUNTS: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: notes}, refs: [], after: [], why: null}]}
  reflect:
    - answer: {decision: conclude, verdict: "all was listed", next: null, cancel: []}
  answer:
    - answer: {answer: "there is one note", citations: [list]}
"#;

/// A model that answers from a script and keeps every prompt with its role.
struct Watched {
    model: Arc<dyn Tool>,
    prompts: Arc<Mutex<Vec<(String, String)>>>,
}

impl Tool for Watched {
    fn spec(&self) -> &ToolSpec {
        self.model.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.model.class(params)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        let params = permit.params();
        let role = params["role"].as_str().unwrap_or_default().to_owned();
        self.prompts.lock().unwrap().push((role, params["messages"].to_string()));
        self.model.call(permit, context)
    }
}

type Prompts = Arc<Mutex<Vec<(String, String)>>>;

fn model(folder: &Path, script: &str) -> (Vec<Arc<dyn Tool>>, Prompts) {
    std::fs::create_dir_all(folder.join("notes")).unwrap();
    std::fs::write(folder.join("notes/a.md"), "text").unwrap();
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    let tools = Models::new(&config, folder, &|_| None).unwrap().tools();
    let prompts = Prompts::default();
    let watched = |model| Arc::new(Watched { model, prompts: Arc::clone(&prompts) }) as Arc<dyn Tool>;
    (tools.into_iter().map(watched).collect(), prompts)
}

async fn submit(system: &System, folder: &Path, source: Value, more: Submission) -> RunId {
    let plan = plan(system, source).into();
    system.submit(Submission { plan, workspace: folder.into(), ..more }).await.unwrap()
}

fn terms(system: &System) -> Submission {
    let any =
        plan(system, json!({"id": "x", "nodes": [{"id": "n", "tool": "time.sleep", "params": {"ms": 1}}]}));
    Submission { intent: 2, ..Submission::plan(any) }
}

fn asks(more: Value) -> Value {
    let mut node = json!({"id": "agent", "kind": "sub_agent",
        "params": {"goal": "count the notes", "mode": "reflect", "tools": ["fs.list"]}});
    node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"id": "p", "nodes": [node, {"id": "says", "kind": "aggregator", "deps": ["agent"],
        "params": {"template": "{{ agent.result.answer }} {{ agent.result.citations }} {{ agent.result.labels }}"}}]})
}

fn children(system: &System, run: RunId) -> Vec<RunId> {
    system.runs(false).unwrap().iter().map(|row| row.run).filter(|other| *other != run).collect()
}

/// Positions of the appends to a journal, and what it holds up to one of them.
fn appends(journal: &MemoryJournal) -> Vec<Position> {
    let mut positions: Vec<Position> =
        everything(journal).into_iter().map(|(_, record)| record.position).collect();
    positions.sort();
    positions.dedup();
    positions
}

fn everything(journal: &MemoryJournal) -> Vec<(StreamId, Recorded)> {
    let rows = journal.runs(false).unwrap();
    let of_runs = rows
        .iter()
        .flat_map(|row| [StreamId::run(&row.client, row.run), StreamId::attempts(&row.client, row.run)]);
    let streams = of_runs.chain(journal.clients().unwrap());
    let read = |stream| {
        journal.read(stream, Seq(0), usize::MAX).unwrap().into_iter().map(move |record| (stream, record))
    };
    streams.flat_map(read).collect()
}

fn left_at(journal: &MemoryJournal, last: Position) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    let mut records = everything(journal);
    records.retain(|(_, record)| record.position <= last);
    records.sort_by_key(|(_, record)| record.position);
    for (stream, record) in records {
        let (expected, events) = (Seq(record.seq.0 - 1), vec![record.event]);
        left.append(vec![StreamBatch { stream, expected, at_ms: record.at_ms, events }]).unwrap();
    }
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_the_process_dies_a_sub_agent_answers_from_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), model(folder.path(), COUNTS).0).await;
    let run = submit(&first, folder.path(), asks(json!({})), terms(&first)).await;
    first.outcome(run).await.unwrap();
    let said = value(&first, run, "says").await;
    assert_eq!(said, json!({"text": "there is one note [\"list\"] [\"grounded\"]"}));
    let child = children(&first, run);
    assert_eq!(value(&first, run, "agent").await["run"], json!(child[0]));
    first.shutdown().await;
    let appends = appends(&journal);
    assert!(appends.len() > 8, "there are places to die at: {appends:?}");
    for last in appends {
        let left = left_at(&journal, last);
        if left.run(run).unwrap().is_none() {
            continue;
        }
        let second = system(left, model(folder.path(), COUNTS).0).await;
        second.resume_all().await.unwrap();
        second.outcome(run).await.unwrap();
        assert_eq!(value(&second, run, "says").await, said, "died behind {last:?}");
        assert_eq!(children(&second, run), child, "died behind {last:?}");
        second.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_has_no_more_than_its_node() {
    let folder = tempfile::tempdir().unwrap();
    for (more, intent) in [(json!({}), 0), (json!({"impact": 1, "effect": "write"}), 1)] {
        let system = system(Arc::new(MemoryJournal::default()), model(folder.path(), COUNTS).0).await;
        let submission = Submission {
            scope: "other".into(),
            terms: OpeningTerms { budget: Some(100_000), ..OpeningTerms::default() },
            ..terms(&system)
        };
        let run = submit(&system, folder.path(), asks(more), submission).await;
        system.outcome(run).await.unwrap();
        let child = system.view(children(&system, run)[0], None).await.unwrap();
        assert_eq!((child.opened.intent, child.opened.scope.as_str()), (intent, "other"));
        let terms = child.run.terms();
        assert!(terms.budget.is_some_and(|budget| (1..=100_000).contains(&budget)), "{terms:?}");
        assert_eq!(terms.parent.as_ref().map(|parent| parent.run), Some(run));
        system.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_that_asks_for_more_than_is_left_gets_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), model(folder.path(), COUNTS).0).await;
    let wants = json!({"params": {"goal": "count", "budget": 100_001}, "retries": 0});
    let submission = Submission {
        terms: OpeningTerms { budget: Some(100_000), ..OpeningTerms::default() },
        ..terms(&system)
    };
    let run = submit(&system, folder.path(), asks(wants), submission).await;
    system.outcome(run).await.unwrap();
    let view = system.view(run, None).await.unwrap();
    let failure = view.run.instance(&"agent".into()).unwrap().failure.clone().unwrap();
    assert_eq!(failure.category, FailureCategory::ResourceExhaustion, "{failure:?}");
    assert_eq!(children(&system, run), []);
}

/// The account of the parent has no limit of tokens, so nobody would be asked about the child's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_keeps_its_tokens_under_a_parent_whose_budget_asks() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), model(folder.path(), COUNTS).0).await;
    let limits = CallLimits { tokens: Some(1_000_000), nano_usd: None };
    for calls in [None, Some(CallTerms { account: None, limits, asks: true })] {
        let few = json!({"params": {"goal": "count", "mode": "reflect", "tools": ["fs.list"], "tokens": 10}});
        let submission =
            Submission { terms: OpeningTerms { calls, ..OpeningTerms::default() }, ..terms(&system) };
        let known = system.runs(false).unwrap().len();
        let run = submit(&system, folder.path(), asks(few), submission).await;
        system.outcome(run).await.unwrap();
        let rows = system.runs(false).unwrap();
        assert_eq!(rows.len(), known + 2);
        let parent = async |row: RunId| {
            system.view(row, None).await.unwrap().run.terms().parent.as_ref().map(|of| of.run)
        };
        for row in rows {
            if parent(row.run).await == Some(run) {
                let child = system.view(row.run, None).await.unwrap();
                assert_eq!(child.run.model_usage().calls, 0, "{calls:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_the_parent_cancels_its_sub_agent() {
    let folder = tempfile::tempdir().unwrap();
    let script = COUNTS.replace("fs.list, params: {path: notes}", "hold, params: {}");
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let mut tools = model(folder.path(), &script).0;
    tools.push(hold.clone());
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let params = json!({"params": {"goal": "count", "mode": "reflect", "tools": ["hold"]}});
    let run = submit(&system, folder.path(), asks(params), terms(&system)).await;
    hold.started().await;
    system.cancel(run).await.unwrap();
    let child = children(&system, run)[0];
    system.outcome(child).await.unwrap();
    assert_eq!(system.view(child, None).await.unwrap().closed, Some(RunOutcome::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_runs_a_plan_and_gives_its_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let inner = json!({"id": "q", "nodes": [{"id": "s", "tool": "text.render",
        "params": {"template": "hello", "values": {}}}]});
    let source =
        json!({"id": "p", "nodes": [{"id": "agent", "kind": "sub_agent", "params": {"plan": inner}}]});
    let run = submit(&system, folder.path(), source, terms(&system)).await;
    system.outcome(run).await.unwrap();
    let given = value(&system, run, "agent").await;
    assert_eq!(
        (&given["outcome"], &given["outputs"]),
        (&json!("succeeded"), &json!({"s": {"text": "hello"}}))
    );
}

/// A planner that hands every goal on to another agent.
const ENDLESS: &str = r#"
rules:
  - when: {role: planner}
    answer: {answer: null, missing: null, steps: [
      {id: next, tool: agent.ask, params: {goal: "count the notes", plan: null, mode: sgh, model: null, tools: [agent.ask],
        budget: null, calls: null, tokens: null, wall: null, answer: "off"}, refs: [], after: [], why: null}]}
  - when: {role: micro}
    answer: {decision: skip, tool: null, params: null, refs: null}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_hand_their_goal_on_open_runs_so_deep_and_no_deeper() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), model(folder.path(), ENDLESS).0).await;
    let params = json!({"goal": "count", "mode": "sgh", "tools": ["agent.ask"], "answer": "off"});
    let run = submit(&system, folder.path(), asks(json!({"params": params})), terms(&system)).await;
    system.outcome(run).await.unwrap();
    let mut deepest = 0;
    for child in children(&system, run) {
        let (mut above, mut at) = (0, child);
        while let Some(parent) = system.view(at, None).await.unwrap().run.terms().parent.clone() {
            (above, at) = (above + 1, parent.run);
        }
        deepest = deepest.max(above);
        let view = system.view(child, None).await.unwrap();
        let failure = view.run.instance(&"next".into()).and_then(|node| node.failure.clone());
        let is_last = failure.is_some_and(|failure| failure.message.contains("deep at most"));
        assert_eq!(is_last, above == CHILD_RUN_DEPTH_MAX, "{above} runs above");
    }
    assert_eq!(deepest, CHILD_RUN_DEPTH_MAX);
}

const CANARY: &str = "canary-4711";

/// Plans a step that fails; then, having seen the failure, lets an agent do the work.
const DELEGATES: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: try, tool: fs.read, params: {path: canary-4711.md}, refs: [], after: [], why: null}]}
    - answer: {answer: null, missing: null, steps: [
        {id: other, tool: agent.ask, params: {goal: "count the notes", plan: null, mode: react, model: null, tools: null,
          budget: null, calls: null, tokens: null, wall: null, answer: null}, refs: [], after: [], why: null}]}
  micro:
    - answer: {decision: skip, tool: null, params: null, refs: null}
  think:
    - calls: [{tool: fs.list, params: {path: notes}}]
    - text: "one note"
  answer:
    - answer: {answer: "one note, by an agent", citations: [other]}
"#;

/// A failure is shown to those who plan around it. Agents and tools that do the work never see it (SGH §5: C_diag and C_exec).
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_failure_reaches_planners_and_no_sub_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (tools, prompts) = model(folder.path(), DELEGATES);
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let tools = Some(["fs.read", "agent.ask"].map(str::to_owned).to_vec());
    let goal = GoalTerms { tools, ..GoalTerms::new("how many notes are there?", Mode::Sgh, "default") };
    let plan = Arc::new(goal_plan(&goal).validate(&system.settings()).unwrap());
    let submission = Submission {
        plan: Arc::clone(&plan),
        goal: Some(goal.into()),
        workspace: folder.path().into(),
        ..terms(&system)
    };
    let run = system.submit(submission).await.unwrap();
    system.outcome(run).await.unwrap();
    let view = system.view(run, None).await.unwrap();
    assert_eq!(view.closed, Some(RunOutcome::Succeeded), "{}", states(&system, run).await);
    until(async || children(&system, run).len() == 1).await;
    let prompts = prompts.lock().unwrap().clone();
    let sees = |role: &str| prompts.iter().filter(|(of, text)| of == role && text.contains(CANARY)).count();
    assert_eq!(sees("planner"), 1, "the planner that is asked about the failure: {prompts:#?}");
    assert!(prompts.iter().any(|(role, _)| role == "think"), "the agent has thought: {prompts:#?}");
    assert_eq!(sees("think"), 0, "{prompts:#?}");
    let child = system.view(children(&system, run)[0], None).await.unwrap();
    let goal = child.run.goal().unwrap().terms().goal.clone();
    assert!(!goal.contains(CANARY), "{goal}");
    tokio::time::timeout(Duration::from_secs(5), system.shutdown()).await.unwrap();
}
