//! Oversight levels: which nodes need approval, and the effect of a rejection and of each failure category.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::event::{AttemptResult, Failure, Outcome, Output};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::json;
use ostler_kernel::plan::{BadParam, PlanDraft, PolicyDraft, Settings, ToolDefaults, Tools};
use ostler_kernel::run::{
    DecisionContext, FailureCategory, NodeState, RuleDiagnoser, Run, RunInput, StaticPlanner,
};
use serde_json::{Map, Value, json};

/// `plain` accepts any parameter but `feedback`; `revised` accepts `feedback` too.
struct TwoTools;

impl Tools for TwoTools {
    fn defaults(&self, tool: &str, _: &Map<String, Value>) -> Option<ToolDefaults> {
        ["plain", "revised"].contains(&tool).then(ToolDefaults::default)
    }

    fn names(&self) -> Vec<String> {
        vec!["plain".to_owned(), "revised".to_owned()]
    }

    fn check_params(&self, tool: &str, literal: &Map<String, Value>, _: &BTreeSet<&str>) -> Vec<BadParam> {
        let unknown = |name: &String| BadParam::Unknown {
            pointer: format!("/{name}"),
            name: name.clone(),
            known: Vec::new(),
        };
        literal.keys().filter(|name| tool == "plain" && *name == "feedback").map(unknown).collect()
    }
}

struct Stage {
    run: Run,
    id: RunId,
}

impl Stage {
    fn new(policy: Value, nodes: Value) -> Stage {
        let mut plan = json!({"id": "p", "policy": policy, "nodes": nodes});
        for node in plan["nodes"].as_array_mut().unwrap() {
            node["contract"] = json!([{"method": "schema"}]);
        }
        let draft: PlanDraft = serde_json::from_value(plan).unwrap();
        let plan = draft.validate(&Self::settings()).unwrap();
        let mut stage = Stage { run: Run::new(Arc::new(plan), 0, 0), id: RunId::default() };
        stage.take(RunInput::Propagate);
        stage
    }

    fn settings() -> Settings<'static> {
        Settings::simulation(PolicyDraft::default(), Some(&TwoTools))
    }

    fn within<T>(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T) -> T {
        let settings = Self::settings();
        let mut cx = DecisionContext {
            run_id: self.id,
            now: 5,
            settings: &settings,
            planner: &StaticPlanner,
            diagnoser: &RuleDiagnoser,
        };
        act(&mut self.run, &mut cx)
    }

    fn take(&mut self, input: RunInput) {
        self.within(|run, cx| run.decide(cx, input));
    }

    fn end(&mut self, node: &str, outcome: Outcome, unsure: bool) -> NodeState {
        self.within(|run, cx| run.start(cx, &node.into(), None));
        let attempt = self.run.instance(&node.into()).unwrap().attempts;
        let result = Box::new(AttemptResult::without_cost(node.into(), attempt, outcome));
        self.take(if unsure { RunInput::Unsure(result) } else { RunInput::Result(result) });
        self.state(node)
    }

    fn answer(&mut self, node: &str, approve: bool, note: &str) -> NodeState {
        let request = self.run.instance(&node.into()).unwrap().requests;
        let (by, note) = ("ann".to_owned(), note.to_owned());
        self.take(RunInput::HumanAnswer {
            node: node.into(),
            request,
            approve,
            by,
            note,
            raise: Default::default(),
        });
        self.state(node)
    }

    fn state(&self, node: &str) -> NodeState {
        self.run.instance(&node.into()).unwrap().state()
    }

    fn params(&self, node: &str) -> Value {
        self.run.node(&node.into()).unwrap().params.as_value().clone()
    }
}

fn given() -> Outcome {
    let inline = Some(json::canonical(&json!({"text": "x"})).unwrap());
    Outcome::Ok(Output { artifact: Digest([3; 32]), bytes: 12, inline, directive: None })
}

fn failed(category: FailureCategory) -> Outcome {
    Outcome::Failed(Failure { category, message: "why".to_owned() })
}

#[test]
fn the_stricter_the_oversight_the_more_is_asked() {
    use NodeState::{Executed, Ready, WaitingHuman};
    let check = |oversight: &str, node: Value, unsure: bool, expected: NodeState| {
        let policy = if oversight.is_empty() { json!({}) } else { json!({ "oversight": oversight }) };
        let mut stage = Stage::new(policy, json!([node]));
        let asks = stage.within(|run, cx| run.ask(cx, &"a".into(), Some(Digest([9; 32]))));
        let state = if asks.is_empty() { stage.end("a", given(), unsure) } else { stage.state("a") };
        assert_eq!(state, expected, "{oversight:?} {node} unsure: {unsure}");
    };
    let plain = || json!({"id": "a", "tool": "plain"});
    let controls = || json!({"id": "a", "tool": "plain", "effect": "external", "impact": 2});
    for (oversight, checkpoint, escalation) in [
        ("", Executed, Executed),
        ("autonomous_escalation", Executed, WaitingHuman),
        // The sampled value of this node is below 30 %.
        ("spot_check", WaitingHuman, WaitingHuman),
        ("supervised", WaitingHuman, WaitingHuman),
    ] {
        check(oversight, plain(), false, checkpoint);
        check(oversight, plain(), true, escalation);
        check(oversight, controls(), false, escalation);
    }
    let mut stage = Stage::new(json!({"oversight": "supervised"}), json!([controls()]));
    assert!(stage.within(|run, cx| run.start(cx, &"a".into(), None)).is_empty(), "nothing starts unasked");
    stage.within(|run, cx| run.ask(cx, &"a".into(), Some(Digest([9; 32]))));
    assert_eq!(stage.answer("a", true, ""), Ready);
    assert_eq!(stage.end("a", given(), false), WaitingHuman, "and its result is looked at as well");
    assert_eq!(stage.answer("a", true, ""), Executed);
}

#[test]
fn spot_checks_ask_about_the_same_steps_whenever_they_are_decided() {
    let nodes: Vec<Value> = (0..100).map(|at| json!({"id": format!("n{at}"), "tool": "plain"})).collect();
    let policy = json!({"oversight": "spot_check", "max_nodes": 100});
    let asked = || {
        let mut stage = Stage::new(policy.clone(), json!(nodes));
        let ids: Vec<NodeId> = stage.run.plan().nodes.iter().map(|node| node.id.clone()).collect();
        let asked = ids.iter().filter(|id| stage.end(id.as_str(), given(), false) == NodeState::WaitingHuman);
        asked.cloned().collect::<Vec<_>>()
    };
    assert_eq!(asked(), asked());
    assert!((20..=40).contains(&asked().len()), "{}", asked().len());
}

#[test]
fn what_a_person_says_of_a_result_reaches_the_tool_that_takes_it_as_often_as_there_are_patches() {
    let node = |tool: &str| json!([{"id": "a", "tool": tool, "patches": 2, "params": {"text": "t"}}]);
    let policy = json!({"oversight": "supervised"});
    let mut stage = Stage::new(policy.clone(), node("revised"));
    for note in ["too long", "still too long"] {
        assert_eq!(stage.end("a", given(), false), NodeState::WaitingHuman);
        assert_eq!(stage.answer("a", false, note), NodeState::Ready);
        assert_eq!(stage.params("a"), json!({"text": "t", "feedback": note}));
    }
    stage.end("a", given(), false);
    assert_eq!(stage.answer("a", false, "no"), NodeState::Failed, "no patch is left");

    let mut stage = Stage::new(policy.clone(), node("plain"));
    stage.end("a", given(), false);
    assert_eq!(
        stage.answer("a", false, "too long"),
        NodeState::Failed,
        "it would not know what to do with it"
    );
    let mut stage = Stage::new(policy, node("revised"));
    stage.end("a", given(), false);
    assert_eq!(stage.answer("a", false, ""), NodeState::Failed, "nothing was said");
}

#[test]
fn a_fallback_takes_over_once_retries_cannot_help() {
    let node = json!([{
        "id": "a", "tool": "plain", "params": {"size": "large"}, "fallback": {"params": {"size": "small"}},
    }]);
    let mut stage = Stage::new(json!({}), node.clone());
    assert_eq!(stage.end("a", failed(FailureCategory::ResourceExhaustion), false), NodeState::Ready);
    assert_eq!(stage.params("a"), json!({"size": "small"}));
    assert_eq!(
        stage.end("a", failed(FailureCategory::ResourceExhaustion), false),
        NodeState::Failed,
        "there is one"
    );

    let mut retried = node;
    retried[0]["retries"] = json!(5);
    let mut stage = Stage::new(json!({}), retried.clone());
    assert_eq!(stage.end("a", failed(FailureCategory::Timeout), false), NodeState::FailedRetryable);
    for (policy, category) in [
        (json!({"domain": "legal"}), FailureCategory::Timeout),
        (json!({"recovery": {"transient": "fallback_agent"}}), FailureCategory::Transient),
    ] {
        let mut stage = Stage::new(policy, retried.clone());
        assert_eq!(stage.end("a", failed(category), false), NodeState::Ready, "{category}");
        assert_eq!(stage.params("a"), json!({"size": "small"}), "no retry comes before it");
    }
}

#[test]
fn a_crash_in_a_legal_run_is_for_a_person_to_settle() {
    let node = || json!([{"id": "a", "tool": "plain", "retries": 5}]);
    for (policy, expected) in [
        (json!({"in_doubt": "ask"}), NodeState::FailedRetryable),
        (json!({"in_doubt": "ask", "domain": "legal"}), NodeState::WaitingHuman),
        (json!({"in_doubt": "ask", "recovery": {"crash": "human_escalation"}}), NodeState::WaitingHuman),
        // Without an approver the node fails.
        (json!({"in_doubt": "fail", "domain": "legal"}), NodeState::Failed),
    ] {
        let mut stage = Stage::new(policy.clone(), node());
        assert_eq!(stage.end("a", failed(FailureCategory::Crash), false), expected, "{policy}");
    }
}

#[test]
fn a_fallback_that_is_none_is_a_fault_of_the_plan() {
    let check = |fallback: Value, expected: &str| {
        let plan = json!({"id": "p", "nodes": [{
            "id": "a", "tool": "plain", "contract": [{"method": "schema"}], "fallback": fallback,
            "approval": "before", "human_timeout": 9,
        }]});
        let draft: PlanDraft = serde_json::from_value(plan).unwrap();
        let faults = draft.validate(&Stage::settings()).unwrap_err();
        let faults: Vec<String> =
            faults.iter().map(|fault| format!("{} {} {}", fault.code, fault.pointer, fault.detail)).collect();
        assert_eq!(faults, [expected]);
    };
    check(json!({"tool": "plane"}), "V20 /nodes/0/fallback in its fallback: unknown tool plane");
    check(json!({"timeout": 0}), "V14 /nodes/0/fallback in its fallback: timeout is 0, expected more than 0");
    check(json!({"deps": []}), "D06 /nodes/0/fallback in its fallback: sets `deps`");
    check(
        json!({"approval": "none"}),
        "V14 /nodes/0/fallback in its fallback: drops the approval of the node",
    );
}

#[test]
fn a_rejection_ends_a_node_whose_rejections_are_for_a_person() {
    let policy = json!({"oversight": "supervised", "recovery": {"human_rejection": "human_escalation"}});
    let mut stage = Stage::new(policy, json!([{"id": "a", "tool": "revised", "patches": 3}]));
    stage.end("a", given(), false);
    assert_eq!(stage.answer("a", false, "no"), NodeState::Failed);
}
