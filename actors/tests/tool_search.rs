//! A goal with more tools than a prompt lists: models search for the one that they need.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ostler_actors::{Submission, System};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::event::Event;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, Call, ContextForm, FOUND_TOOLS_MAX, GoalModels, GoalTerms, Mode,
    SEARCHES_MAX, View,
};
use ostler_kernel::port::{
    BoxFuture, CallContext, Journal, Recorded, Seq, StreamBatch, StreamId, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::RunOutcome;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

/// A tool that returns its name.
struct Named(ToolSpec);

impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move { Ok(json!({"text": self.0.name})) })
    }
}

fn named(name: &str, description: &str) -> Arc<dyn Tool> {
    let params =
        json!({"type": "object", "properties": {"day": {"type": "string"}}, "additionalProperties": false});
    let (name, version, description) = (name.to_owned(), "1".to_owned(), description.to_owned());
    Arc::new(Named(ToolSpec { name, version, description, params, result: json!({"type": "object"}) }))
}

/// Tools of the system; the goal has a word of all but the last ones.
const FILLERS: usize = 60;

fn tools(folder: &Path, script: &str) -> Vec<Arc<dyn Tool>> {
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    let mut tools = Models::new(&config, folder, &|_| None).unwrap().tools();
    tools.extend((0..FILLERS).map(|number| named(&format!("notes.n{number:02}"), "Counts the notes.")));
    tools.push(named("calendar.add", "Adds an event to a calendar."));
    tools.extend((0..2 * FOUND_TOOLS_MAX).map(|at| named(&format!("crate.c{at:02}"), "Packs a crate.")));
    tools
}

fn terms(mode: Mode) -> GoalTerms {
    let model = || Some("default".to_owned());
    GoalTerms {
        goal: "count the notes, and note the day".to_owned(),
        mode,
        aggregator: Aggregator::Off,
        context: ContextForm::Bounded,
        digest_tokens: 64,
        budgets: Budgets { replans: 0, ..Budgets::of_mode(mode) },
        base: BaseTokens::default(),
        control_timeout: HumanDuration::Whole(60),
        human_timeout: HumanDuration::Whole(60),
        opened_at: 0,
        model_file: None,
        models: GoalModels { planner: model(), executor: model() },
        tools: None,
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    }
}

async fn ask(system: &System, folder: &Path, terms: GoalTerms) -> RunId {
    let plan = common::goal_draft(&terms).validate(&system.settings()).unwrap();
    let goal = Some(Arc::new(terms));
    let submission = Submission { workspace: folder.into(), goal, ..Submission::plan(plan) };
    system.submit(submission).await.unwrap()
}

async fn settled(system: &System, run: RunId) -> (RunOutcome, String) {
    system.outcome(run).await.unwrap();
    let view = system.view(run, None).await.unwrap();
    let goal = View::of(&view.run, 0).unwrap();
    let answer = goal.final_answer().map(|answer| answer.answer).unwrap_or_default();
    let labels: Vec<&str> = goal.labels().iter().map(|label| label.as_str()).collect();
    let states = common::states(system, run).await;
    (view.closed.unwrap(), format!("v{} {states}: {answer:?} {labels:?}", view.run.plan().version))
}

async fn calls(system: &System, run: RunId) -> Vec<Call> {
    let view = system.view(run, None).await.unwrap();
    view.run.goal().unwrap().calls().to_vec()
}

/// Questions of the calls, in order: what the provider was sent.
async fn asked(system: &System, run: RunId) -> Vec<Map<String, Value>> {
    let found = system.model_exchanges(run).await.unwrap();
    assert_eq!(found.left_out, Vec::<String>::new());
    found.exchanges.into_iter().map(|exchange| exchange.params).collect()
}

/// The journal as a process left it that died after so many records of the run.
fn cut(journal: &MemoryJournal, run: RunId, records: usize) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    let stream = StreamId::run(&"local".into(), run);
    let streams = journal.clients().unwrap().into_iter().map(|stream| (stream, usize::MAX));
    for (stream, most) in streams.chain([(stream, records)]) {
        for record in journal.read(stream, Seq(0), usize::MAX).unwrap().into_iter().take(most) {
            let Recorded { seq, at_ms, event, .. } = record;
            let batch = StreamBatch { stream, expected: Seq(seq.0 - 1), at_ms, events: vec![event] };
            left.append(vec![batch]).unwrap();
        }
    }
    left
}

/// Searches, and calls what it found. Both roles find the tool only in what the search says.
const SEARCHES: &str = r#"
rules:
  - when: {role: planner, contains: "Tools found for \"event in a calendar\":\n- calendar.add(day?: string): Adds an event to a calendar.\n"}
    answer: {answer: null, missing: null, search: null, steps: [
      {id: add, tool: calendar.add, params: {day: monday}, refs: [], after: [], why: null}]}
  - when: {role: planner, contains: " more tools are not listed"}
    answer: {answer: null, missing: null, search: "event in  a\ncalendar", steps: []}
  - when: {role: think, contains: "[call.2.1: calendar.add"}
    text: "added by a turn"
  - when: {role: think, contains: "Tools found for \"event in a calendar\":\n- calendar.add\n"}
    calls: [{tool: calendar.add, params: {day: monday}}]
  - when: {role: think}
    calls: [{tool: tools.search, params: {words: "event in a calendar"}}, {tool: notes.n01, params: {day: null}}]
  - when: {role: reflect}
    answer: {decision: conclude, verdict: "added", next: null, cancel: []}
  - when: {role: observe}
    answer: {decision: continue, next: null, cancel: []}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_finds_a_tool_that_no_prompt_lists_whenever_the_process_dies() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, expected) in [
        ("reflect", "add executed, answer executed, plan.1 executed, plan.2 executed, reflect.1 executed"),
        ("nreflect:1", "add executed, answer executed, plan.1 executed, plan.2 executed, reflect.1 executed"),
        ("sgh", "add executed, answer executed, plan.1 executed, plan.2 executed"),
        ("react", "answer executed, call.2.1 executed, think.1 executed, think.2 executed, think.3 executed"),
        (
            "auto",
            "answer executed, call.2.1 executed, reflect.1 executed, think.1 executed, think.2 executed",
        ),
    ] {
        let journal = Arc::new(MemoryJournal::default());
        let first = common::system(journal.clone(), tools(folder.path(), SEARCHES)).await;
        let run = ask(&first, folder.path(), terms(mode.parse().unwrap())).await;
        let whole = settled(&first, run).await;
        assert_eq!(whole.0, RunOutcome::Succeeded, "{mode}: {}", whole.1);
        assert!(whole.1.contains(expected), "{mode}: {}", whole.1);
        let made = calls(&first, run).await;
        assert!(made.iter().all(|call| call.end.unwrap().faults == 0), "no search is a faulty try");
        assert_eq!(made[1].intent.context.searches, ["event in a calendar"]);
        let questions = asked(&first, run).await;
        first.shutdown().await;
        let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
        let ends = records.windows(2).enumerate();
        let ends = ends.filter(|(_, pair)| pair[0].position != pair[1].position);
        let deaths: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
        assert!(deaths.len() > 3, "{deaths:?}");
        for records in deaths {
            let left = cut(&journal, run, records);
            let second = common::system(left, tools(folder.path(), SEARCHES)).await;
            second.resume_all().await.unwrap();
            assert_eq!(settled(&second, run).await, whole, "{mode}: cut after record {records}");
            assert_eq!(asked(&second, run).await, questions, "{mode}: cut after record {records}");
            second.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_has_a_branch_for_a_search_and_then_the_schemas_of_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal, tools(folder.path(), SEARCHES)).await;
    let run = ask(&system, folder.path(), terms(Mode::Sgh)).await;
    settled(&system, run).await;
    let questions = asked(&system, run).await;
    let branches = |question: &Map<String, Value>| {
        let step = &question["schema"]["properties"]["steps"]["items"]["anyOf"];
        let tools = step.as_array().unwrap().iter().map(|step| step["properties"]["tool"]["const"].clone());
        tools.map(|tool| tool.as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    let (before, after) = (branches(&questions[0]), branches(&questions[1]));
    assert_eq!((before.len(), after.len()), (50, 51));
    assert!(!before.contains(&"calendar.add".to_owned()));
    assert_eq!(after[50], "calendar.add", "the listed tools come first, as before");
    let required = |question: &Map<String, Value>| question["schema"]["required"].clone();
    assert_eq!(required(&questions[0]), json!(["answer", "missing", "search", "steps"]));
    let run = ask(&system, folder.path(), terms(Mode::React)).await;
    settled(&system, run).await;
    let offered = |question: &Map<String, Value>| {
        let tools = question["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    let questions = asked(&system, run).await;
    let (before, after) = (offered(&questions[0]), offered(&questions[2]));
    assert_eq!(before[50], "tools.search");
    assert_eq!(after[50..], ["calendar.add", "tools.search"], "what was found stays");
    system.shutdown().await;
}

/// Searches without an end.
const INSISTS: &str = r#"
rules:
  - when: {role: planner}
    answer: {answer: null, missing: null, search: "a crate", steps: []}
  - when: {role: think}
    calls: [{tool: tools.search, params: {words: "a crate"}}]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn one_planning_searches_a_limited_number_of_times() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), tools(folder.path(), INSISTS)).await;
    for (mode, family, told) in [
        (Mode::Reflect, "plan", "F02 search: "),
        (Mode::React, "think", "F05 call.4.1: there is no such tool: \"tools.search\""),
    ] {
        let run = ask(&system, folder.path(), terms(mode)).await;
        let (outcome, states) = settled(&system, run).await;
        assert_eq!(outcome, RunOutcome::Failed, "{states}");
        let last = SEARCHES_MAX + 1;
        assert!(states.contains(&format!("{family}.{last} failed")), "{states}");
        let made = calls(&system, run).await;
        assert_eq!(made.len(), SEARCHES_MAX + 3, "the searches, and three tries of the last");
        assert!(made[..SEARCHES_MAX].iter().all(|call| call.end.unwrap().faults == 0));
        let faulty = system.view(run, None).await.unwrap();
        let node = format!("{family}.{last}").as_str().into();
        let faults = &faulty.run.goal().unwrap().faulty_answer(&node, 3).unwrap().faults;
        assert!(faults.starts_with(told), "{faults}");
        let found = asked(&system, run).await[1].clone();
        let text = Value::Object(found).to_string();
        let lines = text.matches("\\n- crate.c").count();
        assert_eq!(lines, FOUND_TOOLS_MAX, "{text}");
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_no_call_is_left_for_leaves_the_answer_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let system = common::system(Arc::new(MemoryJournal::default()), tools(folder.path(), INSISTS)).await;
    let terms = terms(Mode::Reflect);
    let budgets = Budgets { model_calls: 1, ..terms.budgets.clone() };
    let run = ask(&system, folder.path(), GoalTerms { budgets, ..terms }).await;
    let (outcome, states) = settled(&system, run).await;
    assert_eq!(outcome, RunOutcome::Failed, "an answer from nothing says nothing");
    assert!(states.contains("plan.1 executed: \"\" [\"incomplete\", \"ungrounded\"]"), "{states}");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_about_the_plan_and_not_about_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let system = common::system(Arc::new(MemoryJournal::default()), tools(folder.path(), SEARCHES)).await;
    for (mode, node) in [("reflect", "plan.2"), ("auto", "think.2")] {
        let terms = GoalTerms { confirm: true, ..terms(mode.parse().unwrap()) };
        let run = ask(&system, folder.path(), terms).await;
        common::until(async || {
            let states = common::states(&system, run).await;
            states.contains(&format!("{node} waiting_human"))
        })
        .await;
        let states = common::states(&system, run).await;
        assert_eq!(states, format!("{} executed, {node} waiting_human", node.replace('2', "1")));
        system.cancel(run).await.unwrap();
    }
    system.shutdown().await;
}

/// A search beside steps contradicts itself, and a blank one says nothing.
const CONFUSED: &str = r#"
roles:
  planner:
    - answer: {answer: "x", missing: null, search: "a crate", steps: []}
    - answer: {answer: null, missing: null, search: " ", steps: []}
    - answer: {answer: null, missing: null, search: "xylophone", steps: []}
rules:
  - when: {role: planner, contains: "No other tool fits \"xylophone\"."}
    answer: {answer: null, missing: "a tool for it", steps: []}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_search_stands_alone_and_what_fits_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), tools(folder.path(), CONFUSED)).await;
    let run = ask(&system, folder.path(), terms(Mode::Reflect)).await;
    let (outcome, states) = settled(&system, run).await;
    assert_eq!(outcome, RunOutcome::Succeeded, "{states}");
    assert!(states.contains("capability_gap"), "{states}");
    let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    let faulty = records.into_iter().filter_map(|record| match record.event {
        Event::CallEnded { faulty: Some(faulty), .. } => Some(faulty.faults),
        _ => None,
    });
    let faulty: Vec<String> = faulty.collect();
    assert_eq!(faulty.len(), 2, "{faulty:?}");
    assert!(faulty.iter().all(|faults| faults.starts_with("F03 search: ")), "{faulty:?}");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_has_the_name_by_which_models_search() {
    let more = vec![named("tools.search", "Searches.")];
    let refused = System::start(common::config(Arc::new(MemoryJournal::default()), more)).await;
    let told = refused.err().unwrap().to_string();
    assert!(told.contains("rename the tool"), "{told}");
}
