//! Texts of strangers: what they taint, through files and from run to run.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ostler_actors::{Answer, Submission, System};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency, PlanDraft};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, ContextForm, EARLIER_RUNS_MAX, EARLIER_TEXT_BYTES_MAX, EarlierRun,
    GoalModels, GoalTerms, Mode, Shown, bounded_earlier, opening_plan,
};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

const SCRIPT: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [{id: page, tool: page, params: {}, refs: [], after: [], why: null}]}
  answer:
    - answer: {answer: "the page says hello", citations: [page]}
rules:
  - when: {role: planner, contains: "Said before"}
    answer: {answer: "it said hello", missing: null, steps: []}
"#;

/// A tool that returns the words of a stranger.
struct Page(ToolSpec);

impl Page {
    fn tool() -> Arc<dyn Tool> {
        Page::of("page", json!({}))
    }

    fn of(name: &str, properties: Value) -> Arc<dyn Tool> {
        let params = json!({"type": "object", "properties": properties, "additionalProperties": false});
        Arc::new(Page(ToolSpec {
            name: name.to_owned(),
            version: "1".to_owned(),
            description: "reads the page".to_owned(),
            params,
            result: json!({"type": "object"}),
        }))
    }
}

impl Tool for Page {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn reads_strangers(&self) -> bool {
        true
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async { Ok(json!({"text": "hello"})) })
    }
}

fn terms(mode: Mode, on: Vec<EarlierRun>) -> GoalTerms {
    let named = || Some("default".to_owned());
    GoalTerms {
        goal: "what does the page say?".to_owned(),
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
        tools: None,
        confirm: false,
        on: bounded_earlier(on),
        templates: Vec::new(),
    }
}

async fn ask(system: &System, folder: &Path, terms: GoalTerms) -> RunId {
    let plan = system.judge_opening(opening_plan(&terms)).await.unwrap();
    let goal = Some(Arc::new(terms));
    let submission = Submission { workspace: folder.into(), goal, ..Submission::plan(plan) };
    let run = system.submit(submission).await.unwrap();
    system.outcome(run).await.unwrap();
    run
}

async fn system(folder: &Path) -> System {
    scripted(folder, SCRIPT).await
}

async fn scripted(folder: &Path, script: &str) -> System {
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    let mut tools = Models::new(&config, folder, &|_| None).unwrap().tools();
    tools.extend([Page::tool(), Page::of("leaf", json!({"number": {"type": "integer"}}))]);
    common::system(Arc::new(MemoryJournal::default()), tools).await
}

/// A planner that has `save` write a text to a file and `load` read the file.
fn through_a_file(text: &str) -> String {
    let step = |id: &str, tool: &str, params: &str, refs: &str, after: &str| {
        format!("{{id: {id}, tool: {tool}, params: {params}, refs: [{refs}], after: [{after}], why: null}}")
    };
    let (refs, more) = match text {
        "" => ("{param: text, from: page, path: text, template: null}", ""),
        literal => ("", literal),
    };
    let page = step("page", "page", "{}", "", "");
    let save = step("save", "fs.write", &format!("{{path: note, mode: create{more}}}"), refs, "");
    let load = step("load", "fs.read", "{path: note}", "", "save");
    format!(
        "roles:
  planner: [{{answer: {{answer: null, missing: null, steps: [{page}, {save}, {load}]}}}}]
  answer: [{{answer: {{answer: done, citations: []}}}}]
rules:
  - {{when: {{role: observe}}, answer: {{decision: continue, next: null, cancel: []}}}}
  - {{when: {{role: reflect}}, answer: {{decision: conclude, verdict: read, next: null, cancel: []}}}}
"
    )
}

#[tokio::test]
async fn a_file_hands_on_the_words_of_strangers_that_a_step_wrote() {
    for (text, is_tainted) in [("", true), (", text: own", false)] {
        let folder = tempfile::tempdir().unwrap();
        let system = scripted(folder.path(), &through_a_file(text)).await;
        let run = ask(&system, folder.path(), terms(Mode::Orchestrator, Vec::new())).await;
        let view = system.view(run, None).await.unwrap();
        let calls = view.run.goal().unwrap().calls();
        // An observer is shown the result of its step alone.
        let of_load = |shown: &[Shown]| shown.iter().map(|shown| shown.node.as_str()).eq(["load"]);
        let observer = calls.iter().find(|call| of_load(&call.intent.context.shown)).unwrap();
        assert_eq!(observer.intent.is_tainted, is_tainted, "{text:?}: {calls:?}");
        system.shutdown().await;
    }
}

/// A planner that calls `leaf` for each element of a list.
const THROUGH_A_LIST: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: json.query, params: {query: "$.*", value: [1]}, refs: [], after: [], why: null},
        {id: pages, tool: leaf, params: {}, refs: [], after: [], why: null, when: null,
         for_each: {from: list, path: result, as: number, max: 5, on_child: collect}}]}
  answer: [{answer: {answer: done, citations: []}}]
rules:
  - {when: {role: observe}, answer: {decision: continue, next: null, cancel: []}, repeat: true}
  - {when: {role: reflect}, answer: {decision: conclude, verdict: read, next: null, cancel: []}, repeat: true}
"#;

#[tokio::test]
async fn a_list_of_the_words_of_strangers_is_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let system = scripted(folder.path(), THROUGH_A_LIST).await;
    let run = ask(&system, folder.path(), terms(Mode::Orchestrator, Vec::new())).await;
    let view = system.view(run, None).await.unwrap();
    let calls = view.run.goal().unwrap().calls();
    let shows = |shown: &[Shown], node: &str| shown.iter().map(|shown| shown.node.as_str()).eq([node]);
    for (node, is_tainted) in [("list", false), ("pages", true)] {
        let observer = calls.iter().find(|call| shows(&call.intent.context.shown, node));
        let observer = observer.unwrap_or_else(|| panic!("nobody saw {node}: {calls:?}"));
        assert_eq!(observer.intent.is_tainted, is_tainted, "{node}");
    }
    system.shutdown().await;
}

/// Answers yes to the question of `node`, in whichever run.
async fn approve(system: &System, node: &str) {
    let asked = async || {
        system.all_approvals().await.unwrap().approvals.into_iter().find(|asked| asked.id.node == node.into())
    };
    common::until(async || asked().await.is_some()).await;
    let asked = asked().await.unwrap();
    system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
}

#[tokio::test]
async fn a_run_that_was_open_before_another_one_read_strangers_does_not_trust_the_files_of_that_one() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(folder.path()).await;
    let question = |id: &str, deps: &[&str]| json!({"id": id, "kind": "human_approval", "human_timeout": "1h", "deps": deps});
    let reads = json!({"id": "reads", "nodes": [
        {"id": "page", "tool": "page"},
        {"id": "save", "tool": "fs.write", "params": {"path": "note", "mode": "create"},
         "param_refs": {"text": {"from": "page", "path": "text"}}}]});
    let acts = json!({"id": "acts", "nodes": [
        question("second", &[]),
        {"id": "load", "tool": "fs.read", "deps": ["second"], "params": {"path": "note"}},
        {"id": "act", "tool": "fs.write", "params": {"text": "x", "mode": "create"}, "human_timeout": "1h",
         "param_refs": {"path": {"from": "load", "path": "text"}}}]});
    let child = |id: &str, deps: &[&str], plan: Value| json!({"id": id, "kind": "sub_agent", "impact": 1, "effect": "write", "deps": deps, "params": {"plan": plan}});
    let nodes = [question("first", &[]), child("a", &["first"], reads), child("b", &[], acts)];
    let plan = common::plan(&system, json!({"id": "p", "nodes": nodes}));
    let submission = Submission { workspace: folder.path().into(), intent: 2, ..Submission::plan(plan) };
    system.submit(submission).await.unwrap();
    // The second child is open, and waits, before the first one begins.
    let is_asked = async || {
        system.all_approvals().await.unwrap().approvals.iter().any(|asked| asked.id.node == "second".into())
    };
    common::until(is_asked).await;
    approve(&system, "first").await;
    common::until(async || folder.path().join("note").exists()).await;
    approve(&system, "second").await;
    common::until(async || {
        let approvals = system.all_approvals().await.unwrap().approvals;
        approvals.iter().any(|asked| asked.id.node == "act".into()) || folder.path().join("hello").exists()
    })
    .await;
    assert!(!folder.path().join("hello").exists(), "a stranger chose the name of the file");
    system.shutdown().await;
}

/// A goal below a run that has written the words of a stranger to a file, which it reads.
#[tokio::test]
async fn a_goal_below_a_run_that_has_read_strangers_trusts_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let script = "roles:
  planner: [{answer: {answer: null, missing: null, steps: [{id: load, tool: fs.read, params: {path: note}, refs: [], after: [], why: null}]}}]
  answer: [{answer: {answer: done, citations: []}}]
rules:
  - {when: {role: reflect}, answer: {decision: conclude, verdict: read, next: null, cancel: []}}
";
    let system = scripted(folder.path(), script).await;
    std::fs::write(folder.path().join("note"), "hello").unwrap();
    let nodes = json!([{"id": "page", "tool": "page"},
        {"id": "goal", "kind": "sub_agent", "deps": ["page"], "params": {"goal": "read", "mode": "reflect", "tools": ["fs.read"]}}]);
    let plan = common::plan(&system, json!({"id": "p", "nodes": nodes}));
    let submission = Submission { workspace: folder.path().into(), intent: 2, ..Submission::plan(plan) };
    let run = system.submit(submission).await.unwrap();
    system.outcome(run).await.unwrap();
    let child = system.runs(false).unwrap().iter().map(|row| row.run).find(|other| *other != run).unwrap();
    let view = system.view(child, None).await.unwrap();
    let calls = view.run.goal().unwrap().calls();
    let seen =
        calls.iter().find(|call| call.intent.context.shown.iter().any(|shown| shown.node == "load".into()));
    assert!(seen.unwrap_or_else(|| panic!("{calls:?}")).intent.is_tainted);
    system.shutdown().await;
}

#[tokio::test]
async fn words_of_strangers_stay_such_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(folder.path()).await;
    let first = ask(&system, folder.path(), terms(Mode::Sgh, Vec::new())).await;
    let told = system.earlier(first).await.unwrap().told;
    assert_eq!(told.answered.as_deref(), Some("the page says hello"));
    assert!(told.is_tainted && told.results[0].is_tainted, "{told:?}");

    let second = ask(&system, folder.path(), terms(Mode::Sgh, vec![told.clone()])).await;
    let view = system.view(second, None).await.unwrap();
    let calls = view.run.goal().unwrap().calls();
    assert!(!calls.is_empty() && calls.iter().all(|call| call.intent.is_tainted), "{calls:?}");
    let told_again = system.earlier(second).await.unwrap().told;
    assert!(told_again.is_tainted);
    // The second run hands the page on under the name of the first one, so it is not held twice.
    assert_eq!(told_again.results, told.results);
    let both = bounded_earlier(vec![told, told_again]);
    assert_eq!(both.iter().map(|earlier| earlier.results.len()).sum::<usize>(), 1);
}

#[tokio::test]
async fn a_run_of_a_plan_file_hands_on_its_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(folder.path()).await;
    let draft: PlanDraft = serde_json::from_value(json!({"id": "pages", "title": "Pages", "nodes": [
        {"id": "page", "tool": "page"},
        {"id": "report", "kind": "aggregator", "deps": ["page"], "params": {"template": "{{ page.result.text }}"}},
        {"id": "plain", "kind": "aggregator", "params": {"template": "own words"}}]}))
    .unwrap();
    let plan = system.judge_plan(draft).await.unwrap();
    let run = system
        .submit(Submission { workspace: folder.path().into(), ..Submission::plan(plan) })
        .await
        .unwrap();
    system.outcome(run).await.unwrap();
    let told = system.earlier(run).await.unwrap().told;
    assert_eq!((told.asked.as_str(), told.answered), ("Pages", None));
    let taint: Vec<(&str, bool)> =
        told.results.iter().map(|result| (result.node.as_str(), result.is_tainted)).collect();
    assert_eq!(taint, [("plain", false), ("report", true)], "a template is tainted by what it shows");
}

#[test]
fn the_latest_runs_get_the_room() {
    let run = |number: u128, text: &str| EarlierRun {
        run: RunId(uuid::Uuid::from_u128(number)),
        asked: text.to_owned(),
        answered: Some("x".repeat(4 << 10)),
        is_tainted: false,
        labels: Default::default(),
        results: Vec::new(),
    };
    let all: Vec<EarlierRun> = (0..10).map(|number| run(number, "what?")).collect();
    let kept = bounded_earlier(all);
    assert_eq!(kept.len(), EARLIER_RUNS_MAX);
    assert_eq!(kept[0].run, RunId(uuid::Uuid::from_u128(2)), "the oldest ones leave");
    let bytes: Vec<usize> = kept.iter().map(|told| told.answered.as_ref().unwrap().len()).collect();
    assert_eq!(bytes[EARLIER_RUNS_MAX - 1], 4 << 10);
    assert_eq!(bytes[0], 0);
    let asked: usize = kept.iter().map(|told| told.asked.len()).sum();
    assert_eq!(bytes.iter().sum::<usize>() + asked, EARLIER_TEXT_BYTES_MAX);
}
