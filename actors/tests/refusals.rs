//! A denied call gives a model the same bytes as a call that its tool refuses, and no word of the policy.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::config;
use ostler_actors::{Submission, System, SystemConfig};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, DenialCode, GatePolicy, GateRules, Permit, REFUSAL};
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency};
use ostler_kernel::policy::{Aggregator, BaseTokens, Budgets, ContextForm, GoalModels, GoalTerms, Mode};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::FailureCategory;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

const SCRIPT: &str = r#"
roles:
  think:
    - calls: [{tool: pay, params: {amount: 7}}]
    - calls: [{tool: pay, params: {amount: 8}}]
    - text: "nothing was paid"
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: pay, tool: pay, params: {amount: 7}, refs: [], after: [], why: null}]}
  micro:
    - answer: {decision: retry, tool: null, params: {amount: 9}, refs: null}
  reflect:
    - answer: {decision: conclude, verdict: "nothing was paid", next: null, cancel: []}
  answer:
    - answer: {answer: "nothing was paid", citations: []}
"#;

/// A tool that pays, or refuses to.
struct Pay {
    spec: ToolSpec,
    refuses: bool,
}

impl Tool for Pay {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        let refused = || Failure::new(FailureCategory::Structural, REFUSAL);
        Box::pin(async move { if self.refuses { Err(refused()) } else { Ok(json!({"paid": true})) } })
    }
}

/// A model that records each request.
struct Recorded {
    model: Arc<dyn Tool>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Tool for Recorded {
    fn spec(&self) -> &ToolSpec {
        self.model.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.model.class(params)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.asked.lock().unwrap().push(json!(permit.params()).to_string());
        self.model.call(permit, context)
    }
}

fn terms(mode: Mode) -> GoalTerms {
    let named = || Some("default".to_owned());
    GoalTerms {
        goal: "settle the bill".to_owned(),
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
        tools: Some(vec!["pay".to_owned()]),
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    }
}

/// All requests to the models of a run.
async fn asked(mode: &str, rules: Value, refuses: bool) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("script.yaml"), SCRIPT).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let models = ModelsConfig { models, ..ModelsConfig::default() };
    let models = Models::new(&models, folder.path(), &|_| None).unwrap().tools();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let recorded = models
        .into_iter()
        .map(|model| Arc::new(Recorded { model, asked: Arc::clone(&asked) }) as Arc<dyn Tool>);
    let params = json!({"type": "object", "properties": {"amount": {"type": "number"}}});
    let (name, version) = ("pay".to_owned(), "1".to_owned());
    let spec = ToolSpec { name, version, description: "Pays.".to_owned(), params, result: json!({}) };
    let tools = recorded.chain([Arc::new(Pay { spec, refuses }) as Arc<dyn Tool>]).collect();
    let usual = config(Arc::new(MemoryJournal::default()), tools);
    let rules: GateRules = serde_json::from_value(rules).unwrap();
    let gate = GatePolicy { epoch: 1, ..usual.gate.clone() }.with_rules(&rules);
    let system = System::start(SystemConfig { gate, ..usual }).await.unwrap();
    let terms = terms(mode.parse().unwrap());
    let plan = common::goal_draft(&terms).validate(&system.settings()).unwrap();
    let goal = Some(Arc::new(terms));
    let submission = Submission { workspace: folder.path().into(), goal, ..Submission::plan(plan) };
    let run = system.submit(submission).await.unwrap();
    system.outcome(run).await.unwrap();
    system.shutdown().await;
    let asked = asked.lock().unwrap();
    asked.clone()
}

/// Rules that deny every payment of the script, with words that occur nowhere else.
fn denying() -> Value {
    json!({
        "param_policies": [{"tool": "pay", "param": "amount", "in": [123_456_789], "max": 987_654_321}],
        "budgets": [{"tool": "pay", "param": "amount", "max_sum": 192_837_465}],
        "labels": {"pay": ["canary-label"]},
    })
}

#[tokio::test]
async fn a_denied_call_looks_like_one_that_its_tool_refuses() {
    for mode in ["react", "reflect", "orchestrator"] {
        let (denied, refused) = (asked(mode, denying(), false).await, asked(mode, json!({}), true).await);
        assert!(denied.iter().any(|request| request.contains(REFUSAL)), "{mode}: a model is told of it");
        assert_eq!(denied, refused, "{mode}");
    }
}

#[tokio::test]
async fn no_request_to_a_model_has_a_word_of_the_policy() {
    let codes = DenialCode::ALL.map(DenialCode::as_str);
    let canaries = ["123456789", "987654321", "192837465", "canary-label", "gate_denied", "RULE_OF_TWO"];
    for mode in ["react", "reflect", "orchestrator"] {
        for request in asked(mode, denying(), false).await {
            let found = canaries.iter().chain(&codes).find(|canary| request.contains(**canary));
            assert_eq!(found, None, "{mode}: {request}");
        }
    }
}
