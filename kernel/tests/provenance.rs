//! What a run has read and written: untrusted whatever becomes of the node that did it.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::event::{AttemptResult, Event, Exposure, Failure, Outcome, Output};
use ostler_kernel::gate::Trust;
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json;
use ostler_kernel::plan::{Effect, PlanDraft, PolicyDraft, SUB_AGENT_TOOL, Settings};
use ostler_kernel::policy::{
    ResultTerms, exposure, has_read_both_before_test, has_read_strangers_and_private, provenance,
};
use ostler_kernel::port::WorkspaceUse;
use ostler_kernel::run::{
    DecisionContext, FailureCategory, NodeState, OutsideAnswer, RuleDiagnoser, Run, RunInput, StaticPlanner,
};
use serde_json::{Map, Value, json};

/// `page` has the words of strangers, and so has what a call brings from outside, `save` and `load` use the workspace, `vault` is private, `plain` is none of it.
/// `shell.run` runs programs: `net` has the network, `own` has not.
struct Terms;

impl ResultTerms for Terms {
    fn trusts(&self, tool: &str, effect: Effect) -> bool {
        tool != "page" && effect != Effect::External
    }

    fn effect(&self, tool: &str, literal: &Map<String, Value>) -> Effect {
        match (tool, literal.get("argv").and_then(|argv| argv.get(0)).and_then(Value::as_str)) {
            ("shell.run", Some("own")) => Effect::Write,
            ("shell.run", _) => Effect::External,
            _ => Effect::None,
        }
    }

    fn workspace_use(&self, tool: &str) -> WorkspaceUse {
        match tool {
            "shell.run" => WorkspaceUse::BOTH,
            "save" => WorkspaceUse::WRITES,
            "load" => WorkspaceUse::READS,
            _ => WorkspaceUse::NONE,
        }
    }

    fn labels(&self, tool: &str) -> Vec<&str> {
        if tool == "vault" { vec!["private"] } else { Vec::new() }
    }

    fn all_labels(&self) -> Vec<&str> {
        vec!["private"]
    }
}

struct Stage {
    run: Run,
    tools: BTreeSet<String>,
}

impl Stage {
    fn new(mut nodes: Value) -> Stage {
        for node in nodes.as_array_mut().unwrap() {
            let rules = node["contract"].take();
            let tests = rules.as_array().into_iter().flatten().cloned();
            node["contract"] = tests.chain([json!({"method": "schema"})]).collect();
        }
        let tools =
            ["page", "save", "load", "vault", "plain", "shell.run", SUB_AGENT_TOOL].map(str::to_owned).into();
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let plan = draft.validate(&Settings::simulation(PolicyDraft::default(), Some(&tools)));
        let run = Run::new(Arc::new(plan.unwrap_or_else(|faults| panic!("{faults:#?}"))), 0, 0);
        let mut stage = Stage { run, tools };
        stage.take(RunInput::Propagate);
        stage
    }

    fn within(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> Vec<Event>) {
        let settings = Settings::simulation(PolicyDraft::default(), Some(&self.tools));
        let mut cx = DecisionContext {
            run_id: RunId::default(),
            now: 5,
            settings: &settings,
            planner: &StaticPlanner,
            diagnoser: &RuleDiagnoser,
        };
        act(&mut self.run, &mut cx);
    }

    fn take(&mut self, input: RunInput) {
        self.within(|run, cx| run.decide(cx, input));
    }

    fn start(&mut self, node: &str) {
        self.within(|run, cx| run.start(cx, &node.into(), None));
    }

    fn end(&mut self, node: &str, outcome: Outcome) {
        self.start(node);
        let attempt = self.run.instance(&node.into()).unwrap().attempts;
        let result = AttemptResult::without_cost(node.into(), attempt, outcome);
        self.take(RunInput::Result(Box::new(result)));
    }

    fn state(&self, node: &str) -> NodeState {
        self.run.instance(&node.into()).unwrap().state()
    }

    fn exposure(&self, node: &str) -> Exposure {
        exposure(&self.run, self.run.node(&node.into()).unwrap(), &Terms)
    }

    /// Trust in the parameter `x` of a node.
    fn trust(&self, node: &str) -> Trust {
        let known = provenance(&self.run, self.run.node(&node.into()).unwrap(), &Terms);
        known.params.get("x").copied().unwrap_or(Trust::Author)
    }
}

fn given() -> Outcome {
    let inline = Some(json::canonical(&json!({"text": "x"})).unwrap());
    Outcome::Ok(Output { artifact: Digest([3; 32]), bytes: 12, inline, directive: None })
}

fn failed() -> Outcome {
    Outcome::Failed(Failure { category: FailureCategory::Structural, message: "why".to_owned() })
}

#[test]
fn what_was_read_counts_from_the_start_of_the_attempt_whatever_it_comes_to() {
    let nodes = || {
        json!([
            {"id": "page", "tool": "page", "retries": 0},
            {"id": "vault", "tool": "vault", "retries": 0},
            {"id": "child", "tool": "plain"},
        ])
    };
    type End = fn(&mut Stage, &str);
    let ends: [(&str, End); 3] = [
        ("runs", |stage, node| stage.start(node)),
        ("failed", |stage, node| stage.end(node, failed())),
        ("executed", |stage, node| stage.end(node, given())),
    ];
    for (state, end) in ends {
        let mut stage = Stage::new(nodes());
        assert_eq!(stage.exposure("child"), Exposure::default());
        end(&mut stage, "page");
        let exposure = stage.exposure("child");
        assert_eq!((exposure.strangers, exposure.private), (true, false), "{state}");
        assert!(!stage.exposure("page").strangers, "a call is not exposed to itself");
        assert!(!has_read_strangers_and_private(&stage.run, &Terms));
        end(&mut stage, "vault");
        assert!(stage.exposure("child").private && has_read_strangers_and_private(&stage.run, &Terms));
    }
}

#[test]
fn an_answer_to_a_wait_is_untrusted_unless_an_operator_gave_it() {
    for (by, trust) in [("", Trust::Untrusted), ("ann", Trust::Author)] {
        for is_early in [false, true] {
            let mut stage = Stage::new(json!([
                {"id": "before", "tool": "plain"},
                {"id": "w", "kind": "wait", "deadline": 60, "deps": ["before"]},
                {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "w", "path": "text"}}},
            ]));
            let Outcome::Ok(output) = given() else { unreachable!("it was given") };
            let answer = RunInput::WaitAnswer(Box::new(OutsideAnswer {
                node: "w".into(),
                id: None,
                output: Some(output),
                holds: true,
                by: by.to_owned(),
                at: 5,
            }));
            if is_early {
                stage.take(answer.clone());
            }
            stage.end("before", given());
            assert_eq!(stage.trust("act"), Trust::Author, "nothing has come yet");
            stage.within(|run, cx| run.start_wait(cx, &"w".into(), true));
            match is_early {
                true => stage.take(RunInput::KeptAnswer { node: "w".into(), holds: true }),
                false => stage.take(answer),
            }
            assert_eq!(stage.state("w"), NodeState::Executed);
            assert_eq!(
                (stage.trust("act"), stage.exposure("act").strangers),
                (trust, by.is_empty()),
                "{by:?}"
            );
        }
    }
}

#[test]
fn a_write_stays_one_after_a_fallback_has_taken_the_place_of_its_node() {
    for (source, trust) in [("page", Trust::Untrusted), ("plain", Trust::Author)] {
        let mut stage = Stage::new(json!([
            {"id": "from", "tool": source},
            {"id": "save", "tool": "save", "retries": 0, "param_refs": {"text": {"from": "from", "path": "text"}},
             "fallback": {"tool": "plain", "param_refs": {}}},
            {"id": "load", "tool": "load", "deps": ["save"]},
            {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "load", "path": "text"}}},
        ]));
        stage.end("from", given());
        stage.end("save", failed());
        assert_eq!(stage.run.node(&"save".into()).unwrap().tool.as_deref(), Some("plain"), "the fallback");
        stage.end("save", given());
        stage.end("load", given());
        assert_eq!(stage.trust("act"), trust, "{source}");
    }
}

#[test]
fn what_a_call_brings_from_outside_is_a_strangers() {
    for (effect, trust) in [("external", Trust::Untrusted), ("write", Trust::Author)] {
        let mut stage = Stage::new(
            json!([{"id": "ask", "tool": "plain", "effect": effect, "impact": 1, "idem": "natural"},
            {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "ask", "path": "text"}}}]),
        );
        stage.end("ask", given());
        assert_eq!((stage.trust("act"), stage.exposure("act").strangers), (trust, effect == "external"));
    }
}

#[test]
fn what_runs_above_read_later_is_added_to_what_they_had_read() {
    let mut stage = Stage::new(json!([{"id": "load", "tool": "load"},
        {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "load", "path": "text"}}}]));
    let exposed = |label: &str, strangers, private| Exposure {
        labels: Some(label.to_owned()).into_iter().filter(|label| !label.is_empty()).collect(),
        strangers,
        private,
    };
    assert_eq!(stage.run.expose(5, &Exposure::default()), None, "nothing is new");
    assert_eq!(stage.trust("act"), Trust::Author);
    let first = stage.run.expose(5, &exposed("a", false, true));
    assert_eq!(first, Some(Event::Exposed(Box::new(exposed("a", false, true)))));
    assert!(stage.run.expose(6, &exposed("", true, false)).is_some());
    let both = Exposure { private: true, ..exposed("a", true, false) };
    assert_eq!(stage.run.exposure(), &both);
    assert_eq!(stage.run.expose(7, &exposed("a", true, true)), None);
    assert_eq!(stage.trust("act"), Trust::Untrusted, "a run above may have written the file");
}

/// A rule that runs a program.
fn test(program: &str) -> Value {
    json!({"method": "test", "p": 1, "spec": {"argv": [program]}})
}

/// A program as a node of its own, and as the test of a node that does nothing else.
fn as_node_and_as_test(id: &str, program: &str) -> [Value; 2] {
    [
        json!({"id": id, "tool": "shell.run", "effect": "write", "impact": 1, "retries": 1, "params": {"argv": [program]}}),
        json!({"id": id, "tool": "plain", "retries": 1, "contract": [test(program)]}),
    ]
}

#[test]
fn a_program_hands_on_what_it_read_outside_as_a_node_and_as_a_test_from_the_start_of_its_attempt() {
    for (program, trust) in [("net", Trust::Untrusted), ("own", Trust::Author)] {
        for fetch in as_node_and_as_test("fetch", program) {
            let mut stage = Stage::new(json!([fetch,
                {"id": "load", "tool": "load"},
                {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "load", "path": "text"}}}]));
            assert_eq!(stage.trust("act"), Trust::Author, "nothing has run yet");
            stage.start("fetch");
            assert_eq!((stage.trust("act"), stage.exposure("load").strangers), (trust, program == "net"));
            stage.end("fetch", failed());
            assert_eq!((stage.trust("act"), stage.exposure("load").strangers), (trust, program == "net"));
        }
    }
}

#[test]
fn a_result_is_untrusted_if_a_test_of_it_may_quote_strangers() {
    for (program, trust) in [("net", Trust::Untrusted), ("own", Trust::Author)] {
        for fetch in as_node_and_as_test("fetch", program) {
            let mut stage = Stage::new(json!([fetch,
                {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "fetch", "path": "text"}}}]));
            stage.end("fetch", given());
            assert_eq!(stage.trust("act"), trust, "{program}");
        }
    }
}

#[test]
fn a_test_without_the_network_puts_nothing_of_what_its_node_read_into_the_workspace() {
    let mut stage = Stage::new(json!([
        {"id": "page", "tool": "page", "contract": [test("own")]},
        {"id": "load", "tool": "load"},
        {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "load", "path": "text"}}},
    ]));
    stage.end("page", given());
    assert_eq!(stage.trust("act"), Trust::Author, "a test has no inputs");
}

#[test]
fn a_write_by_a_test_stays_one_after_a_fallback_has_taken_the_place_of_its_node() {
    let mut stage = Stage::new(json!([
        {"id": "make", "tool": "plain", "retries": 0, "contract": [test("net")],
         "fallback": {"tool": "plain", "contract": [{"method": "schema"}]}},
        {"id": "load", "tool": "load"},
        {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "load", "path": "text"}}},
    ]));
    stage.end("make", failed());
    assert_eq!(stage.run.node(&"make".into()).unwrap().contract.len(), 1, "the fallback has no test");
    assert_eq!(stage.trust("act"), Trust::Untrusted);
}

#[test]
fn what_the_node_of_a_test_reads_and_its_earlier_tests_read_counts_before_the_test() {
    let reads = |tool: &str, tests: &[&str]| {
        let tests: Value = tests.iter().map(|program| test(program)).collect();
        json!([{"id": "page", "tool": "page"}, {"id": "vault", "tool": "vault"},
            {"id": "tested", "tool": tool, "retries": 2, "contract": tests}])
    };
    // Tools called before, tool and tests of the node, number of the attempt, and whether both were read before its test.
    for (before, tool, tests, attempt, both) in [
        (&["page", "vault"][..], "plain", &["own"][..], 1, true),
        (&["page"], "plain", &["own"], 1, false),
        (&["vault"], "plain", &["own"], 1, false),
        (&["page"], "vault", &["own"], 1, true),
        (&["vault"], "page", &["own"], 1, true),
        // What a test reads outside counts for the tests after it, and for those of later attempts.
        (&["vault"], "plain", &["net"], 1, false),
        (&["vault"], "plain", &["net", "own"], 1, true),
        (&["vault"], "plain", &["net"], 2, true),
        (&["vault"], "plain", &["own"], 2, false),
    ] {
        let mut stage = Stage::new(reads(tool, tests));
        before.iter().for_each(|node| stage.end(node, given()));
        (1..attempt).for_each(|_| stage.start("tested"));
        let told = || {
            let node = stage.run.node(&"tested".into()).unwrap();
            has_read_both_before_test(&stage.run, node, attempt, &Terms)
        };
        assert_eq!(told(), both, "{before:?} {tool} {tests:?}, attempt {attempt}, ready");
        stage.start("tested");
        let node = stage.run.node(&"tested".into()).unwrap();
        let told = has_read_both_before_test(&stage.run, node, attempt, &Terms);
        assert_eq!(told, both, "{before:?} {tool} {tests:?}, attempt {attempt}, running");
    }
}

#[test]
fn a_plan_that_calls_its_program_harmless_changes_nothing() {
    // The file says `write`, and the tool knows that the program has the network.
    let [fetch, _] = as_node_and_as_test("fetch", "net");
    let mut stage = Stage::new(json!([fetch,
        {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "fetch", "path": "text"}}}]));
    stage.end("fetch", given());
    assert_eq!((stage.trust("act"), stage.exposure("act").strangers), (Trust::Untrusted, true));
}

#[test]
fn a_child_run_has_the_labels_of_all_that_its_plan_may_call() {
    struct Labelled;
    impl ResultTerms for Labelled {
        fn trusts(&self, _: &str, _: Effect) -> bool {
            true
        }
        fn effect(&self, _: &str, _: &Map<String, Value>) -> Effect {
            Effect::None
        }
        fn workspace_use(&self, _: &str) -> WorkspaceUse {
            WorkspaceUse::NONE
        }
        fn labels(&self, tool: &str) -> Vec<&str> {
            if tool == "shell.run" { vec!["private"] } else { Vec::new() }
        }
        fn all_labels(&self) -> Vec<&str> {
            vec!["private", "other"]
        }
    }
    for (node, is_private) in [
        (json!({"id": "n", "tool": "plain"}), false),
        (json!({"id": "n", "tool": "plain", "contract": [test("own")]}), true),
        (json!({"id": "n", "tool": "plain", "fallback": {"contract": [test("own")]}}), true),
        (json!({"id": "n", "tool": "plain", "undo": {"tool": "shell.run"}}), true),
        (json!({"id": "n", "tool": "plain", "undo": {"tool": "plain", "contract": [test("own")]}}), true),
    ] {
        let plan = json!({"id": "c", "nodes": [node]});
        let mut stage = Stage::new(json!([{"id": "agent", "tool": SUB_AGENT_TOOL, "params": {"plan": plan}},
            {"id": "act", "tool": "plain", "param_refs": {"x": {"from": "agent", "path": "text"}}}]));
        stage.end("agent", given());
        let of_act = provenance(&stage.run, stage.run.node(&"act".into()).unwrap(), &Labelled);
        assert_eq!(of_act.labels, BTreeSet::from_iter(is_private.then(|| "private".to_owned())), "{node}");
    }
}
