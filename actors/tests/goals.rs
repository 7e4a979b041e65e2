//! Goal runs: every mode reaches its answer, and a process that dies changes no decision.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::{Answer, Submission, System};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::event::Event;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::json;
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency};
use ostler_kernel::policy::{
    ANSWER_TOKENS_RESERVED, Aggregator, BaseTokens, Budgets, ContextForm, Decider, Decision, GoalModels,
    GoalTerms, Mode, OperatorAnswer, View,
};
use ostler_kernel::port::{
    BoxFuture, CallContext, Journal, Recorded, Seq, StreamBatch, StreamId, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{NodeStatus, OpeningTerms, RunOutcome};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value};

const SCRIPT: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: notes}, refs: [], after: [], why: null},
        {id: read, tool: fs.read, params: {}, refs: [{param: path, from: list, path: files.0, template: null}], after: [], why: null}]}
  think:
    - calls: [{tool: fs.list, params: {path: notes}}]
    - text: "one note"
  reflect:
    - answer: {decision: continue, verdict: null, next: null, cancel: []}
    - answer: {decision: conclude, verdict: "all was read", next: null, cancel: []}
  observe:
    - answer: {decision: continue, next: null, cancel: []}
    - answer: {decision: continue, next: null, cancel: []}
  answer:
    - answer: {answer: "there is one note", citations: []}
"#;

fn model(folder: &std::path::Path, script: &str) -> Vec<Arc<dyn Tool>> {
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    Models::new(&config, folder, &|_| None).unwrap().tools()
}

fn terms(mode: Mode, tools: &[&str]) -> GoalTerms {
    let named = || Some("default".to_owned());
    GoalTerms {
        goal: "count the notes".to_owned(),
        mode,
        aggregator: Aggregator::Executor,
        context: ContextForm::Bounded,
        digest_tokens: 64,
        budgets: Budgets::of_mode(mode),
        base: BaseTokens::default(),
        control_timeout: HumanDuration::Whole(60),
        human_timeout: HumanDuration::Whole(60),
        opened_at: 0,
        model_file: None,
        models: GoalModels { planner: named(), executor: named() },
        tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    }
}

async fn ask(system: &System, folder: &std::path::Path, terms: GoalTerms) -> RunId {
    ask_within(system, folder, terms, None).await
}

async fn ask_within(
    system: &System,
    folder: &std::path::Path,
    terms: GoalTerms,
    budget: Option<u64>,
) -> RunId {
    let plan = common::goal_draft(&terms).validate(&system.settings()).unwrap();
    let goal = Some(Arc::new(terms));
    let submission = Submission {
        workspace: folder.into(),
        goal,
        terms: OpeningTerms { budget, ..OpeningTerms::default() },
        ..Submission::plan(plan)
    };
    system.submit(submission).await.unwrap()
}

async fn settled(system: &System, run: RunId) -> RunOutcome {
    system.outcome(run).await.unwrap();
    system.view(run, None).await.unwrap().closed.unwrap()
}

/// The decisions of a run: edges of every node, and the answer.
async fn decided(system: &System, run: RunId) -> (RunOutcome, String) {
    let outcome = settled(system, run).await;
    let view = system.view(run, None).await.unwrap();
    let nodes = view.run.instances().map(|(node, instance)| {
        let deps: Vec<&str> = node.deps.iter().map(|dep| dep.n.as_str()).collect();
        format!("{}({}) {}", node.id, deps.join(" "), instance.state())
    });
    let nodes: Vec<String> = nodes.collect();
    let goal = View::of(&view.run, 0).unwrap();
    let answer = goal.final_answer().map(|answer| answer.answer).unwrap_or_default();
    let labels: Vec<&str> = goal.labels().iter().map(|label| label.as_str()).collect();
    (outcome, format!("v{} {}\n{answer} {labels:?}", view.run.plan().version, nodes.join(", ")))
}

/// Numbers of records after which a process may die: behind each append but the opening.
fn deaths(journal: &MemoryJournal, run: RunId) -> Vec<usize> {
    let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    let ends = records.windows(2).enumerate();
    ends.filter(|(_, pair)| pair[0].position != pair[1].position).map(|(at, _)| at + 1).collect()
}

fn cut(journal: &MemoryJournal, run: RunId, records: usize) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    for stream in journal.clients().unwrap() {
        copy(journal, &left, stream, usize::MAX);
    }
    copy(journal, &left, StreamId::run(&"local".into(), run), records);
    left
}

fn copy(from: &MemoryJournal, to: &MemoryJournal, stream: StreamId, records: usize) {
    for record in from.read(stream, Seq(0), usize::MAX).unwrap().into_iter().take(records) {
        let Recorded { seq, at_ms, event, .. } = record;
        let batch = StreamBatch { stream, expected: Seq(seq.0 - 1), at_ms, events: vec![event] };
        to.append(vec![batch]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_the_process_dies_a_goal_run_takes_the_same_decisions() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    std::fs::write(folder.path().join("notes/a.md"), "text").unwrap();
    for mode in ["reflect", "nreflect:2", "orchestrator", "react", "auto", "sgh"] {
        let journal = Arc::new(MemoryJournal::default());
        let first = common::system(journal.clone(), model(folder.path(), SCRIPT)).await;
        let mode: Mode = mode.parse().unwrap();
        let run = ask(&first, folder.path(), terms(mode, &["fs.list", "fs.read"])).await;
        let whole = decided(&first, run).await;
        assert_eq!(whole.0, RunOutcome::Succeeded, "{mode}: {}", whole.1);
        first.shutdown().await;
        let deaths = deaths(&journal, run);
        assert!(deaths.len() > 2, "there are places to die at: {deaths:?}");
        for records in deaths {
            let left = cut(&journal, run, records);
            let second = common::system(left, model(folder.path(), SCRIPT)).await;
            second.resume_all().await.unwrap();
            assert_eq!(decided(&second, run).await, whole, "{mode}: cut after record {records}");
            second.shutdown().await;
        }
    }
}

/// The path of the step is wrong, so the step fails for good; the micro-planner corrects it.
const PATCHED: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: read, tool: fs.read, params: {path: notes/none.md}, refs: [], after: [], why: null}]}
  micro:
    - answer: {decision: retry, tool: null, params: {path: notes/a.md}, refs: null}
  reflect:
    - answer: {decision: conclude, verdict: "all was read", next: null, cancel: []}
  answer:
    - answer: {answer: "there is one note", citations: [read]}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_gets_a_patch_of_the_micro_planner_even_if_the_process_dies() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    std::fs::write(folder.path().join("notes/a.md"), "text").unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = common::system(journal.clone(), model(folder.path(), PATCHED)).await;
    let run = ask(&first, folder.path(), terms(Mode::Reflect, &["fs.read"])).await;
    let whole = decided(&first, run).await;
    let expected = "v4 answer(read) executed, plan.1() executed, read() executed, reflect.1(read) executed\nthere is one note [\"grounded\"]";
    assert_eq!(whole, (RunOutcome::Succeeded, expected.to_owned()));
    let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    for record in records {
        if let Event::CallBegun { intent, reserved } = record.event {
            assert_eq!(
                reserved, ANSWER_TOKENS_RESERVED,
                "the micro-planner reserves like any role: {intent:?}"
            );
        }
    }
    first.shutdown().await;
    for records in deaths(&journal, run) {
        let left = cut(&journal, run, records);
        let second = common::system(left, model(folder.path(), PATCHED)).await;
        second.resume_all().await.unwrap();
        assert_eq!(decided(&second, run).await, whole, "cut after record {records}");
        second.shutdown().await;
    }
}

/// A model whose calls for the micro-planner hold for ever; other calls are answered by `model`.
struct Advising {
    model: Arc<dyn Tool>,
    hold: Arc<common::Hold>,
}

impl Tool for Advising {
    fn spec(&self) -> &ToolSpec {
        self.model.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.model.class(params)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        match context.origin.role.as_str() {
            "micro" => self.hold.call(permit, context),
            _ => self.model.call(permit, context),
        }
    }
}

/// A call that nobody waits for any more would be paid for nothing, and a call of the same advice beside it twice.
#[tokio::test(start_paused = true)]
async fn a_call_of_the_micro_planner_ends_when_nobody_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    for act in ["cancel", "skip", "checkpoint"] {
        let hold = common::Hold::new("hold", Effect::Read, Idempotency::Natural);
        let model = model(folder.path(), PATCHED).remove(0);
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Advising { model, hold: hold.clone() })];
        let system = common::system(Arc::new(MemoryJournal::default()), tools).await;
        let run = ask(&system, folder.path(), terms(Mode::Reflect, &["fs.read"])).await;
        hold.started().await;
        match act {
            "cancel" => system.cancel(run).await.unwrap(),
            "skip" => system.skip_node(run, "read".into()).await.unwrap(),
            _ => system.checkpoint(run).await.unwrap(),
        }
        let stopped = tokio::time::timeout(Duration::from_secs(10), hold.stopped()).await;
        assert!(stopped.is_ok(), "{act}: the call goes on");
        assert!(!hold.has_started(), "{act}: another call was made");
        if act == "checkpoint" {
            system.resume(run).await.unwrap();
            hold.started().await;
        }
        system.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_amid_an_advice_knows_its_call() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    let script = PATCHED.replace("refs: null}\n", "refs: null}\n      latency: 2m\n");
    let system = common::system(Arc::new(MemoryJournal::default()), model(folder.path(), &script)).await;
    let run = ask(&system, folder.path(), terms(Mode::Reflect, &["fs.read"])).await;
    let begun =
        async || system.view(run, None).await.unwrap().run.goal().map_or(0, |goal| goal.calls().len());
    common::until(async || begun().await == 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    system.cancel(run).await.unwrap();
    assert_eq!(settled(&system, run).await, RunOutcome::Cancelled);
    assert_eq!(system.view(run, None).await.unwrap().run.model_usage().calls, 2);
}

#[tokio::test]
async fn a_faulty_answer_is_shown_again_with_its_faults_and_counts_as_a_try() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: plan.9, tool: fs.nothing, params: {}, refs: [], after: [gone], why: null}]}
    - text: "no plan at all"
    - answer: {answer: "nothing to do", missing: null, steps: []}
rules:
  - when: {role: planner, contains: "no plan at all"}
    answer: {answer: "the last try saw the second", missing: null, steps: []}
"#;
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), model(folder.path(), script)).await;
    let run = ask(&system, folder.path(), terms("reflect".parse().unwrap(), &["fs.list"])).await;
    let (outcome, told) = decided(&system, run).await;
    assert_eq!(outcome, RunOutcome::Succeeded, "{told}");
    let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    let faults: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::CallEnded { faulty, .. } => faulty.as_ref().map(|faulty| faulty.faults.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    for named in [
        "plan.9: the id is malformed, reserved or used before",
        "F05 plan.9: there is no such tool",
        "plan.9:gone",
    ] {
        assert!(faults[0].contains(named), "{named} in {faults:?}");
    }
}

/// The text of a failure reaches planners and reflections, and no call of a tool.
#[tokio::test]
async fn a_model_that_fails_for_good_leaves_an_answer_from_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.md"), "text").unwrap();
    let script = r#"
roles:
  think:
    - calls: [{tool: fs.list, params: {path: .}}]
    - fail: auth
"#;
    let system = common::system(Arc::new(MemoryJournal::default()), model(folder.path(), script)).await;
    let run = ask(&system, folder.path(), terms("react".parse().unwrap(), &["fs.list"])).await;
    let (outcome, told) = decided(&system, run).await;
    assert_eq!(outcome, RunOutcome::Succeeded, "{told}");
    assert!(told.contains("think.2(call.1.1) failed") && told.contains("incomplete"), "{told}");
}

/// The template needs no credit, so the end of the budget does not take the answer away. Paused, a call takes the least that it
/// can; else a busy machine ends the first call at its reservation.
#[tokio::test(start_paused = true)]
async fn a_goal_whose_credits_are_used_up_answers_from_what_is_there() {
    for mode in ["react", "reflect", "orchestrator"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("notes")).unwrap();
        std::fs::write(folder.path().join("notes/a.md"), "text").unwrap();
        let system = common::system(Arc::new(MemoryJournal::default()), model(folder.path(), SCRIPT)).await;
        // The first call uses it up.
        let terms = terms(mode.parse().unwrap(), &["fs.list", "fs.read"]);
        let run = ask_within(&system, folder.path(), terms, Some(1)).await;
        let (_, told) = decided(&system, run).await;
        let is_answered = |node: &str| node.contains("answer(") && node.ends_with(" executed");
        assert!(told.split(['\n', ',']).any(is_answered), "{told}");
        assert!(told.contains("incomplete"), "{told}");
    }
}

/// The scope of a run may leave no tool to offer.
#[tokio::test]
async fn a_goal_without_a_tool_is_answered_directly_in_every_mode() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
roles:
  planner:
    - answer: {answer: "42", missing: null, steps: []}
  think:
    - text: "42"
  answer:
    - answer: {answer: "42", citations: []}
"#;
    for mode in ["reflect", "nreflect:2", "orchestrator", "react", "auto", "sgh"] {
        let system = common::system(Arc::new(MemoryJournal::default()), model(folder.path(), script)).await;
        let run = ask(&system, folder.path(), terms(mode.parse().unwrap(), &[])).await;
        let (outcome, told) = decided(&system, run).await;
        assert_eq!(outcome, RunOutcome::Succeeded, "{mode}: {told}");
        assert!(told.contains("\n42 "), "{mode}: {told}");
    }
}

#[tokio::test]
async fn a_wish_to_a_running_goal_is_considered_before_anything_else_starts() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: wait, tool: hold, params: {}, refs: [], after: [], why: null},
        {id: later, tool: hold, params: {}, refs: [], after: [wait], why: null}]}
  interject:
    - answer: {decision: conclude, verdict: "stopped as you wished", next: null, cancel: []}
"#;
    let hold = common::Hold::new("hold", Effect::Read, Idempotency::Natural);
    let mut tools = model(folder.path(), script);
    tools.push(hold.clone());
    let system = common::system(Arc::new(MemoryJournal::default()), tools).await;
    let terms = GoalTerms { aggregator: Aggregator::Off, ..terms(Mode::Reflect, &["hold"]) };
    let run = ask(&system, folder.path(), terms).await;
    hold.started().await;
    let node = system.interject(run, "stop now", Duration::from_secs(60)).await.unwrap();
    assert_eq!(node.as_str(), "interject.1");
    let (outcome, told) = decided(&system, run).await;
    assert_eq!(outcome, RunOutcome::Succeeded, "{told}");
    assert!(told.contains("stopped as you wished"), "{told}");
    assert!(
        told.contains("interject.1() executed") && told.contains("later(wait reflect.1) skipped"),
        "{told}"
    );
}

const HELD: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: .}, refs: [], after: [], why: null},
        {id: wait, tool: hold, params: {}, refs: [], after: [], why: null}]}
"#;

const WALL_MS: i64 = 10_000;

/// A run with a step that never ends and a wall before the step's timeout.
fn walled(mode: Mode) -> GoalTerms {
    let budgets = Budgets { wall: Some(WALL_MS), ..Budgets::of_mode(mode) };
    GoalTerms { aggregator: Aggregator::Off, budgets, ..terms(mode, &["fs.list", "hold"]) }
}

fn held(folder: &std::path::Path) -> Vec<Arc<dyn Tool>> {
    let mut tools = model(folder, HELD);
    tools.push(common::Hold::new("hold", Effect::Read, Idempotency::Natural));
    tools
}

#[tokio::test(start_paused = true)]
async fn when_the_time_is_up_a_run_answers_though_nothing_else_happens() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, outcome) in [("reflect", RunOutcome::Succeeded), ("sgh", RunOutcome::Failed)] {
        let journal = Arc::new(MemoryJournal::default());
        let first = common::system(journal.clone(), held(folder.path())).await;
        let begun = tokio::time::Instant::now();
        let run = ask(&first, folder.path(), walled(mode.parse().unwrap())).await;
        let whole = decided(&first, run).await;
        assert_eq!(whole.0, outcome, "{}", whole.1);
        assert!(whole.1.contains("list() executed") && whole.1.contains("wait() skipped"), "{}", whole.1);
        assert!(whole.1.contains("incomplete") == (mode == "reflect"), "{}", whole.1);
        let wall = Duration::from_millis(WALL_MS.unsigned_abs());
        assert!((wall..wall + Duration::from_secs(1)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        first.shutdown().await;
        for records in deaths(&journal, run) {
            let second = common::system(cut(&journal, run, records), held(folder.path())).await;
            second.resume_all().await.unwrap();
            assert_eq!(decided(&second, run).await, whole, "{mode}: cut after record {records}");
            second.shutdown().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_goes_on_while_no_process_drives_it() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = common::system(journal.clone(), held(folder.path())).await;
    let run = ask(&first, folder.path(), walled(Mode::Reflect)).await;
    decided(&first, run).await;
    first.shutdown().await;

    let left = Arc::new(MemoryJournal::default());
    let stream = StreamId::run(&"local".into(), run);
    for record in cut(&journal, run, 2).read(stream, Seq(0), usize::MAX).unwrap() {
        let event = match record.event {
            Event::GoalOpened { terms } => {
                let then: GoalTerms = serde_json::from_str(terms.as_str()).unwrap();
                let opened_at = then.opened_at - WALL_MS;
                let earlier = GoalTerms { opened_at, ..then };
                Event::GoalOpened { terms: json::to_canonical(&earlier).unwrap() }
            }
            event => event,
        };
        let (expected, at_ms) = (Seq(record.seq.0 - 1), record.at_ms - WALL_MS);
        left.append(vec![StreamBatch { stream, expected, at_ms, events: vec![event] }]).unwrap();
    }
    let second = common::system(left, held(folder.path())).await;
    second.resume_all().await.unwrap();
    let (outcome, told) = decided(&second, run).await;
    assert_eq!(outcome, RunOutcome::Failed, "no model was asked, so there is nothing to answer from: {told}");
    assert!(told.contains("plan.1() skipped"), "{told}");
}

/// A run that holds in its first step; the step behind it has not started.
async fn holding(
    journal: Arc<MemoryJournal>,
    folder: &std::path::Path,
) -> (System, Arc<common::Hold>, RunId) {
    let script = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: wait, tool: hold, params: {}, refs: [], after: [], why: null},
        {id: later, tool: hold, params: {}, refs: [], after: [wait], why: null}]}
    - answer: {answer: "two were enough", missing: null, steps: []}
  reflect:
    - answer: {decision: continue, verdict: null, next: null, cancel: []}
    - answer: {decision: conclude, verdict: "all was done", next: null, cancel: []}
rules:
  - when: {role: interject}
    fail: auth
"#;
    let hold = common::Hold::new("hold", Effect::Read, Idempotency::Natural);
    let mut tools = model(folder, script);
    tools.push(hold.clone());
    let system = common::system(journal, tools).await;
    let terms = GoalTerms { aggregator: Aggregator::Off, ..terms(Mode::Reflect, &["hold"]) };
    let run = ask(&system, folder, terms).await;
    hold.started().await;
    (system, hold, run)
}

fn answer(decision: Decision, cancel: &[&str]) -> Decider {
    let cancel = cancel.iter().map(|node| NodeId::from(*node)).collect();
    Decider::Operator(OperatorAnswer { decision, cancel })
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_decides_in_place_of_a_model_that_would_fail() {
    let folder = tempfile::tempdir().unwrap();
    for (decision, cancel, expected) in [
        (Decision::Conclude, &[][..], "enough now"),
        (Decision::Replan, &[], "plan.2(interject.1) executed"),
        (Decision::Continue, &["later"], "later(wait reflect.1) cancelled"),
    ] {
        let journal = Arc::new(MemoryJournal::default());
        let (first, hold, run) = holding(journal.clone(), folder.path()).await;
        let node = first.interject_by(run, "enough now", MINUTE, answer(decision, cancel)).await.unwrap();
        if decision == Decision::Replan {
            // The verdict on the last step would skip a planner that has not answered.
            let plan = NodeId::from("plan.2");
            common::until(async || {
                let view = first.view(run, None).await.unwrap();
                view.run.instance(&plan).is_some_and(|plan| plan.status == NodeStatus::Executed)
            })
            .await;
        }
        hold.go(2);
        let whole = decided(&first, run).await;
        assert_eq!(whole.0, RunOutcome::Succeeded, "{}", whole.1);
        assert!(whole.1.contains("interject.1() executed"), "{node}: {}", whole.1);
        assert!(whole.1.contains(expected), "{}", whole.1);
        first.shutdown().await;
        let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
        let asks = |event: &Event| matches!(event, Event::CallBegun { intent, .. } if intent.as_str().contains(node.as_str()));
        assert!(!records.iter().any(|record| asks(&record.event)), "no model is asked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_an_operator_is_checked_like_one_of_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let (system, hold, run) = holding(Arc::new(MemoryJournal::default()), folder.path()).await;
    for (decider, named) in [
        (answer(Decision::Continue, &["nothing"]), "F07 cancel:nothing"),
        (answer(Decision::Continue, &["wait"]), "F07 cancel:wait"),
        (answer(Decision::Conclude, &["later"]), "--cancel does not go with conclude"),
    ] {
        let refused = system.interject_by(run, "enough", MINUTE, decider).await.unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
    hold.go(2);
    let (_, told) = decided(&system, run).await;
    assert!(!told.contains("interject"), "nothing has changed: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_is_asked_about_a_goal_goes_on_or_cancels_it() {
    let folder = tempfile::tempdir().unwrap();
    for (reply, outcome, state) in [
        (Answer::approve(), RunOutcome::Succeeded, "executed"),
        (Answer::reject(), RunOutcome::Cancelled, "cancelled"),
    ] {
        let (system, hold, run) = holding(Arc::new(MemoryJournal::default()), folder.path()).await;
        system.interject_by(run, "go on?", MINUTE, Decider::Person).await.unwrap();
        hold.go(2);
        common::until(async || !system.all_approvals().await.unwrap().approvals.is_empty()).await;
        let asked = system.all_approvals().await.unwrap().approvals.remove(0);
        assert_eq!(asked.id.node.as_str(), "interject.1");
        system.answer(&asked.id, asked.digest.unwrap(), reply).await.unwrap();
        let (ended, told) = decided(&system, run).await;
        assert_eq!(ended, outcome, "{told}");
        assert!(told.contains(&format!("interject.1() {state}")), "{told}");
        system.shutdown().await;
    }
}

/// More tools than a prompt may list: the next planner is offered those that have to do with what is missing.
#[tokio::test]
async fn what_is_missing_chooses_among_many_tools() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}]}
    - answer: {answer: "no such tool", missing: null, steps: []}
  reflect:
    - answer: {decision: replan, verdict: null, next: "send it as a telegram", cancel: []}
rules:
  - when: {role: planner, contains: "zz.telegram"}
    answer: {answer: "the tool is offered", missing: null, steps: []}
"#;
    let names: Vec<String> =
        (0..60).map(|at| format!("x.{at:02}")).chain(["zz.telegram".to_owned()]).collect();
    let mut tools = model(folder.path(), script);
    for name in &names {
        tools.push(common::Hold::new(name.clone().leak(), Effect::Read, Idempotency::Natural));
    }
    let system = common::system(Arc::new(MemoryJournal::default()), tools).await;
    let offered: Vec<&str> = names.iter().map(String::as_str).chain(["fs.list"]).collect();
    let terms = GoalTerms { aggregator: Aggregator::Off, ..terms(Mode::Reflect, &offered) };
    let run = ask(&system, folder.path(), terms).await;
    let (outcome, told) = decided(&system, run).await;
    assert_eq!(outcome, RunOutcome::Succeeded, "{told}");
    assert!(told.contains("the tool is offered"), "{told}");
}
