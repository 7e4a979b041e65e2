//! Labels of data: they pass through what models have seen, and from run to run.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Hold, config, plan, until, verdicts};
use ostler_actors::{Answer, Program, ProgramContext, Submission, System, SystemConfig};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::gate::{CallClass, GatePolicy, GateRules, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency, TEST_TOOL};
use ostler_kernel::policy::{EarlierRun, GoalTerms, Mode, opening_plan};
use ostler_kernel::port::{
    BoxFuture, CallContext, ChildRunSpec, Journal, RunRowStatus, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{NodeState, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

/// A tool that gives `{}`, and may send data out.
struct Plain {
    spec: ToolSpec,
    sends_out: bool,
    strangers: bool,
}

impl Plain {
    fn tool(name: &str, sends_out: bool, strangers: bool) -> Arc<dyn Tool> {
        let params =
            json!({"type": "object", "properties": {"text": {"type": "string"}, "argv": {"type": "array"}}});
        let spec = ToolSpec {
            name: name.to_owned(),
            version: "1".to_owned(),
            description: format!("Does {name}."),
            params,
            result: json!({"type": "object"}),
        };
        Arc::new(Plain { spec, sends_out, strangers })
    }
}

impl Tool for Plain {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn sends_out(&self) -> bool {
        self.sends_out
    }

    fn reads_strangers(&self) -> bool {
        self.strangers
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async {
            let plan =
                json!({"id": "c", "nodes": [{"id": "out", "tool": "post", "params": {"text": "4711"}}]});
            Ok(json!({"text": "the code is 4711", "plan": plan, "tested": {"id": "c", "nodes": [tested()]}}))
        })
    }
}

/// A node that sends nothing, with a program as its test.
fn tested() -> Value {
    json!({"id": "tested", "tool": "text.render", "params": {"template": "x", "values": {}},
        "contract": [{"method": "test", "spec": {"argv": ["sends"]}}]})
}

/// First `vault` is read; whoever has seen its result sends it in words of its own.
const COPIES: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [{id: read, tool: vault, params: {text: null}, refs: [], after: [], why: null}]}
  reflect:
    - answer: {decision: replan, verdict: null, next: "send it", cancel: []}
    - answer: {decision: conclude, verdict: "done", next: null, cancel: []}
  answer:
    - answer: {answer: done, citations: []}
rules:
  - when: {role: planner, contains: "send it"}
    answer: {answer: null, missing: null, steps: [{id: out, tool: post, params: {text: "4711"}, refs: [], after: [], why: null}]}
"#;

/// A program with two child runs: the older one sends something, or runs a test, once the younger one, opened later, has read what the
/// parameters name.
fn pair(hold: &Arc<Hold>) -> Arc<dyn Tool> {
    let names = json!({"type": "array", "items": {"type": "string"}});
    let opens = |nodes: Value| -> ChildRunSpec {
        ChildRunSpec::plan(serde_json::from_value(json!({"id": "c", "nodes": nodes})).unwrap())
    };
    let hold = Arc::clone(hold);
    let program = Program::new("pair", "1", move |agent: ProgramContext, input: Value| {
        let hold = Arc::clone(&hold);
        async move {
            let reads: Vec<Value> = input["reads"].as_array().unwrap().clone();
            let reads = reads.iter().map(|tool| json!({"id": tool, "tool": tool})).collect::<Vec<Value>>();
            let sends = match input["by_test"].as_bool() {
                Some(true) => json!([{"id": "hold", "tool": "hold", "contract": tested()["contract"]}]),
                _ => json!([
                    {"id": "hold", "tool": "hold"},
                    {"id": "out", "tool": "post", "params": {"text": "own"}, "deps": ["hold"]},
                ]),
            };
            let older = agent.spawn("older", opens(sends));
            let younger = async {
                hold.started().await;
                let end = agent.spawn("younger", opens(json!(reads))).await;
                hold.go(1);
                end
            };
            let (older, younger) = futures::join!(older, younger);
            Ok(json!([older?.outcome, younger?.outcome]))
        }
    });
    Arc::new(
        program
            .input(json!({"type": "object", "properties": {"reads": names, "by_test": {"type": "boolean"}}})),
    )
}

struct World {
    folder: tempfile::TempDir,
    hold: Arc<Hold>,
    journal: Arc<MemoryJournal>,
    system: System,
}

impl World {
    async fn new(rules: Value) -> World {
        World::with_slots(rules, None).await
    }

    async fn with_slots(rules: Value, slots: Option<u32>) -> World {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script.yaml"), COPIES).unwrap();
        let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
        let models = ModelsConfig { models, ..ModelsConfig::default() };
        let mut tools = Models::new(&models, folder.path(), &|_| None).unwrap().tools();
        tools.extend([
            Plain::tool("vault", false, false),
            Plain::tool("post", true, false),
            Plain::tool("page", false, true),
            Plain::tool(TEST_TOOL, true, false),
        ]);
        let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
        tools.extend([pair(&hold), hold.clone() as Arc<dyn Tool>]);
        let journal = Arc::new(MemoryJournal::default());
        let usual = config(journal.clone(), tools);
        let rules: GateRules = serde_json::from_value(rules).unwrap();
        let gate = GatePolicy { epoch: 1, ..usual.gate.clone() }.with_rules(&rules);
        let slots = slots.unwrap_or(usual.slots);
        let system = System::start(SystemConfig { gate, slots, ..usual }).await.unwrap();
        World { folder, hold, journal, system }
    }

    async fn run(&self, nodes: Value) -> RunId {
        let plan = plan(&self.system, json!({"id": "p", "nodes": nodes}));
        let workspace = self.folder.path().into();
        self.system.submit(Submission { workspace, intent: 2, ..Submission::plan(plan) }).await.unwrap()
    }

    async fn ask(&self, on: Vec<EarlierRun>) -> RunId {
        let run = self.begin(on).await;
        self.system.outcome(run).await.unwrap();
        run
    }

    async fn begin(&self, on: Vec<EarlierRun>) -> RunId {
        let terms = GoalTerms { on, ..GoalTerms::new("tell them", Mode::Reflect, "default") };
        let plan = self.system.judge_opening(opening_plan(&terms)).await.unwrap();
        let (goal, workspace) = (Some(Arc::new(terms)), self.folder.path().into());
        let submission = Submission { workspace, goal, ..Submission::plan(plan) };
        self.system.submit(submission).await.unwrap()
    }

    /// Waits until the run has ended, or a call waits for a person.
    async fn settled(&self, run: RunId) {
        until(async || {
            let rows = self.system.runs(false).unwrap();
            let mut held = 0;
            for row in &rows {
                held += self.system.approvals(row.run).await.unwrap().len();
            }
            let is_over = rows.iter().any(|row| row.run == run && row.status != RunRowStatus::Open);
            held > 0 || is_over
        })
        .await;
    }

    /// The last verdict on the call that sends, in the newest run that has one.
    fn verdict(&self) -> String {
        self.verdict_on("post")
    }

    fn verdict_on(&self, tool: &str) -> String {
        let mut rows = self.journal.runs(false).unwrap();
        rows.sort_by_key(|row| row.position);
        let verdicts = rows.iter().flat_map(|row| verdicts(&self.journal, row.run));
        let sending = verdicts.filter(|verdict| verdict.tool == tool);
        sending.map(|verdict| format!("{} {}", verdict.answer.as_str(), verdict.code)).last().unwrap()
    }
}

fn secret_stays() -> Value {
    json!({"labels": {"vault": ["secret"]}, "egress_forbidden_labels": ["secret"]})
}

fn child(of: Value) -> Value {
    json!({"id": "agent", "kind": "sub_agent", "params": {"plan": {"id": "c", "nodes": of}}})
}

const DENIED: &str = "deny EGRESS_LABEL";

#[tokio::test]
async fn a_model_may_not_send_what_it_has_seen() {
    let world = World::new(secret_stays()).await;
    world.ask(Vec::new()).await;
    assert_eq!(world.verdict(), DENIED);
    let world = World::new(json!({"labels": {"page": ["secret"]}})).await;
    world.ask(Vec::new()).await;
    assert_eq!(world.verdict(), "allow OK", "it has seen nothing secret");
}

#[tokio::test]
async fn what_an_earlier_run_answered_keeps_its_labels() {
    let world = World::new(secret_stays()).await;
    let first = world.run(json!([{"id": "read", "tool": "vault"}])).await;
    world.system.outcome(first).await.unwrap();
    let told = world.system.earlier(first).await.unwrap().told;
    assert_eq!(told.results[0].labels, told.labels);
    assert!(told.labels.contains("secret"), "{told:?}");
}

#[tokio::test]
async fn a_child_run_may_not_send_what_its_caller_was_given() {
    // The parameter of the child is made of the result; the child sees a text of its own plan.
    let plan = json!({"id": "c", "nodes": [{"id": "out", "tool": "post", "params": {"text": "4711"}}]});
    let world = World::new(secret_stays()).await;
    let run = world
        .run(json!([
            {"id": "read", "tool": "vault"},
            {"id": "make", "tool": "json.query", "params": {"query": "$"}, "param_refs": {"value": {"from": "read", "path": "plan"}}},
            {"id": "agent", "kind": "sub_agent", "param_refs": {"plan": {"from": "make", "path": "result.0"}}},
        ]))
        .await;
    world.system.outcome(run).await.unwrap();
    assert_eq!(world.verdict(), DENIED);
    let run = world.run(json!([child(plan["nodes"].clone())])).await;
    world.system.outcome(run).await.unwrap();
    assert_eq!(world.verdict(), "allow OK");
}

/// A node whose first tool never satisfies the contract, so another one takes its place.
fn mended(id: &str, tool: &str, by: &str) -> Value {
    let never = json!([{"method": "schema", "spec": {"type": "object", "required": ["nothing"]}}]);
    let any = json!([{"method": "schema", "spec": {"type": "object"}}]);
    json!({
        "id": id, "tool": tool, "retries": 0, "patches": 1, "contract": never,
        "fallback": {"tool": by, "contract": any},
    })
}

#[tokio::test]
async fn what_a_fallback_gives_has_the_labels_of_the_tool_that_gave_it() {
    let world = World::new(secret_stays()).await;
    for (tool, by, expected) in [("page", "vault", DENIED), ("page", "page", "allow OK")] {
        let out =
            json!({"id": "out", "tool": "post", "param_refs": {"text": {"from": "read", "path": "text"}}});
        let run = world.run(json!([mended("read", tool, by), out])).await;
        world.system.outcome(run).await.unwrap();
        assert_eq!(world.verdict(), expected, "{tool}, then {by}");
        let told = world.system.earlier(run).await.unwrap().told;
        assert_eq!(told.labels.contains("secret"), by == "vault", "{told:?}");
        // A child may read what its fallbacks may read.
        let out = json!({"id": "out", "tool": "post", "param_refs": {"text": {"from": "agent", "path": "outcome"}}});
        let run = world.run(json!([child(json!([mended("read", tool, by)])), out])).await;
        world.system.outcome(run).await.unwrap();
        assert_eq!(world.verdict(), expected, "a child with {tool}, then {by}");
    }
}

#[tokio::test]
async fn what_a_child_run_gives_has_the_labels_that_it_could_read() {
    let world = World::new(secret_stays()).await;
    for (tool, expected) in [("vault", DENIED), ("page", "allow OK")] {
        let run = world
            .run(json!([
                child(json!([{"id": "read", "tool": tool}])),
                {"id": "out", "tool": "post", "param_refs": {"text": {"from": "agent", "path": "outcome"}}},
            ]))
            .await;
        world.system.outcome(run).await.unwrap();
        assert_eq!(world.verdict(), expected, "{tool}");
    }
}

#[tokio::test]
async fn the_rule_of_two_counts_what_the_caller_has_read() {
    let world = World::new(json!({"labels": {"vault": ["private"]}, "egress_forbidden_labels": []})).await;
    let after = |tools: &[&str]| {
        let reads = tools.iter().map(|tool| json!({"id": tool, "tool": tool}));
        let mut agent = child(json!([{"id": "out", "tool": "post", "params": {"text": "own"}}]));
        agent["deps"] = json!(tools);
        reads.chain([agent]).collect::<Vec<Value>>()
    };
    for (tools, expected) in
        [(&["vault"][..], "allow OK"), (&["page"], "allow OK"), (&["page", "vault"], "hold RULE_OF_TWO")]
    {
        let run = world.run(json!(after(tools))).await;
        world.settled(run).await;
        assert_eq!(world.verdict(), expected, "{tools:?}");
    }
}

#[tokio::test]
async fn the_rule_of_two_counts_what_earlier_runs_have_read() {
    for (tool, expected) in [("page", "hold RULE_OF_TWO"), ("vault", "allow OK")] {
        let world =
            World::new(json!({"labels": {"vault": ["private"]}, "egress_forbidden_labels": []})).await;
        let first = world.run(json!([{"id": "read", "tool": tool}])).await;
        world.system.outcome(first).await.unwrap();
        let told = world.system.earlier(first).await.unwrap().told;
        // The goal reads what is private itself.
        let run = world.begin(vec![told]).await;
        world.settled(run).await;
        assert_eq!(world.verdict(), expected, "the earlier run read {tool}");
    }
}

#[tokio::test]
async fn a_run_is_exposed_to_what_a_run_beside_it_reads_later() {
    let private = json!({"labels": {"vault": ["private"]}, "egress_forbidden_labels": []});
    for (rules, reads, expected) in [
        (&private, &["page", "vault"][..], "hold RULE_OF_TWO"),
        (&private, &["page"], "allow OK"),
        (&private, &["vault"], "allow OK"),
        (&secret_stays(), &["vault"], DENIED),
        (&secret_stays(), &["page"], "allow OK"),
    ] {
        let world = World::new(rules.clone()).await;
        let run = world.run(json!([{"id": "n", "tool": "pair", "params": {"reads": reads}}])).await;
        world.settled(run).await;
        assert_eq!(world.verdict(), expected, "{reads:?}");
        // A test that is about to run waits for nobody.
        let expected = if expected.starts_with("hold") { DENIED } else { expected };
        let world = World::new(rules.clone()).await;
        let params = json!({"reads": reads, "by_test": true});
        let run = world.run(json!([{"id": "n", "tool": "pair", "params": params}])).await;
        world.settled(run).await;
        assert_eq!(world.verdict_on(TEST_TOOL), expected, "{reads:?}, by a test");
    }
}

fn private() -> Value {
    json!({"labels": {"vault": ["private"]}, "egress_forbidden_labels": []})
}

fn after(deps: &[&str], node: Value) -> Vec<Value> {
    let reads = deps.iter().map(|tool| json!({"id": tool, "tool": tool}));
    let mut node = node;
    node["deps"] = json!(deps);
    reads.chain([node]).collect()
}

#[tokio::test]
async fn the_rule_of_two_asks_before_the_attempt_of_a_node_whose_test_sends() {
    for (reads, tool, expected) in [
        (&["page", "vault"][..], "text.render", "hold RULE_OF_TWO"),
        (&["page"], "text.render", "allow OK"),
        (&["vault"], "text.render", "allow OK"),
        // The test runs after the call of its own node.
        (&["page"], "vault", "hold RULE_OF_TWO"),
    ] {
        let world = World::new(private()).await;
        let mut node = tested();
        if tool != "text.render" {
            (node["tool"], node["params"]) = (json!(tool), json!({}));
        }
        let run = world.run(json!(after(reads, node))).await;
        world.settled(run).await;
        assert_eq!(world.verdict_on(TEST_TOOL), expected, "{reads:?} {tool}");
        let Some(asked) = world.system.approvals(run).await.unwrap().pop() else { continue };
        assert_eq!((asked.id.node.as_str(), asked.shown.tests.len()), ("tested", 1));
        world.system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
        assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        assert_eq!(world.verdict_on(TEST_TOOL), "allow OK", "a person has allowed it");
    }
}

#[tokio::test]
async fn a_call_that_was_queued_before_the_run_read_both_is_held_when_it_gets_its_slot() {
    for (reads, expected) in [(&["page", "vault"][..], "hold RULE_OF_TWO"), (&["page"], "allow OK")] {
        let world = World::with_slots(private(), Some(1)).await;
        let mut nodes = vec![
            json!({"id": "hold", "tool": "hold"}),
            json!({"id": "out", "tool": "post", "params": {"text": "own"}}),
        ];
        // The longer path goes first.
        for (deps, id) in [(vec!["hold"], "a"), (vec!["a"], "b"), (reads.to_vec(), "c"), (vec!["c"], "d")] {
            nodes.push(json!({"id": id, "tool": "hold", "deps": deps}));
        }
        nodes.extend(reads.iter().map(|tool| json!({"id": tool, "tool": tool})));
        let run = world.run(json!(nodes)).await;
        world.hold.started().await;
        world.hold.go(9);
        world.settled(run).await;
        assert_eq!(world.verdict(), expected, "{reads:?}");
    }
}

#[tokio::test]
async fn a_yes_from_before_the_run_read_both_is_void_and_the_question_says_why() {
    let world = World::with_slots(private(), Some(1)).await;
    let mut nodes = vec![
        json!({"id": "hold", "tool": "hold"}),
        json!({"id": "out", "tool": "post", "params": {"text": "own"}, "approval": "before", "human_timeout": "1h"}),
    ];
    // The longer path goes first.
    for (deps, id) in [(vec!["hold"], "a"), (vec!["a"], "b"), (vec!["page", "vault"], "c"), (vec!["c"], "d")]
    {
        nodes.push(json!({"id": id, "tool": "hold", "deps": deps}));
    }
    nodes.extend(["page", "vault"].map(|tool| json!({"id": tool, "tool": tool})));
    let run = world.run(json!(nodes)).await;
    let asked = async || world.system.approvals(run).await.unwrap().pop();
    until(async || asked().await.is_some()).await;
    let first = asked().await.unwrap();
    assert_eq!(first.shown.holds, []);
    world.hold.started().await;
    world.system.answer(&first.id, first.digest.unwrap(), Answer::approve()).await.unwrap();
    world.hold.go(9);
    until(async || asked().await.is_some()).await;
    let second = asked().await.unwrap();
    let codes: Vec<&str> = second.shown.holds.iter().map(|held| held.code.as_str()).collect();
    assert_eq!((world.verdict().as_str(), codes), ("hold RULE_OF_TWO", vec!["RULE_OF_TWO"]));
    assert_ne!(first.digest, second.digest, "an answer to the first question is none to the second");
    world.system.answer(&second.id, second.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(world.verdict(), "allow OK");
}

#[tokio::test]
async fn a_node_without_a_tool_is_held_for_its_tests() {
    let world = World::new(private()).await;
    let contract = tested()["contract"].take();
    let report =
        json!({"id": "report", "kind": "aggregator", "params": {"template": "x"}, "contract": contract});
    let run = world.run(json!(after(&["page", "vault"], report))).await;
    world.settled(run).await;
    assert_eq!(world.verdict_on(TEST_TOOL), "hold RULE_OF_TWO");
}

#[tokio::test]
async fn a_test_sends_nothing_that_the_run_has_read_since_its_attempt_began() {
    for (reads, expected) in [(&["page", "vault"][..], DENIED), (&["page"], "allow OK")] {
        let world = World::new(private()).await;
        let mut nodes = vec![
            json!({"id": "hold", "tool": "hold", "contract": tested()["contract"]}),
            json!({"id": "begin", "tool": "page"}),
        ];
        nodes.extend(reads.iter().map(|tool| json!({"id": tool, "tool": tool, "deps": ["begin"]})));
        let run = world.run(json!(nodes)).await;
        world.hold.started().await;
        until(async || {
            let view = world.system.view(run, None).await.unwrap();
            reads.iter().all(|id| view.run.instance(&(*id).into()).unwrap().state() == NodeState::Executed)
        })
        .await;
        world.hold.go(1);
        world.settled(run).await;
        assert_eq!(world.verdict_on(TEST_TOOL), expected, "{reads:?}");
    }
}

#[tokio::test]
async fn a_yes_to_a_question_without_a_hold_lets_no_test_send_what_was_read_since() {
    for (reads, expected) in [(&["page", "vault"][..], DENIED), (&["page"], "allow OK")] {
        let world = World::new(private()).await;
        let contract = tested()["contract"].take();
        let mut nodes = vec![
            json!({"id": "hold", "tool": "hold", "approval": "before", "human_timeout": "1h", "contract": contract}),
            json!({"id": "gate", "kind": "human_approval", "human_timeout": "1h"}),
        ];
        nodes.extend(reads.iter().map(|tool| json!({"id": tool, "tool": tool, "deps": ["gate"]})));
        let run = world.run(json!(nodes)).await;
        until(async || world.system.approvals(run).await.unwrap().len() == 2).await;
        let mut asked = world.system.approvals(run).await.unwrap();
        asked.sort_by_key(|question| question.id.node.as_str() != "hold");
        for question in asked {
            let is_gate = question.id.node.as_str() == "gate";
            world.system.answer(&question.id, question.digest.unwrap(), Answer::approve()).await.unwrap();
            if !is_gate {
                world.hold.started().await;
            }
        }
        until(async || {
            let view = world.system.view(run, None).await.unwrap();
            reads.iter().all(|id| view.run.instance(&(*id).into()).unwrap().state() == NodeState::Executed)
        })
        .await;
        world.hold.go(1);
        world.settled(run).await;
        assert_eq!(world.verdict_on(TEST_TOOL), expected, "{reads:?}");
    }
}

#[tokio::test]
async fn a_test_in_a_child_run_may_not_send_what_its_caller_was_given() {
    for (path, expected) in [("tested", DENIED), ("", "allow OK")] {
        let world = World::new(secret_stays()).await;
        let made = json!([
            {"id": "read", "tool": "vault"},
            {"id": "make", "tool": "json.query", "params": {"query": "$"}, "param_refs": {"value": {"from": "read", "path": path}}},
            {"id": "agent", "kind": "sub_agent", "param_refs": {"plan": {"from": "make", "path": "result.0"}}},
        ]);
        let nodes = if path.is_empty() { json!([child(json!([tested()]))]) } else { made };
        let run = world.run(nodes).await;
        world.system.outcome(run).await.unwrap();
        assert_eq!(world.verdict_on(TEST_TOOL), expected);
    }
}
