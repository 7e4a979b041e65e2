//! A suite as a running system: its tools, a scope for each task of a user, and a scripted model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ostler::Ostler;
use ostler::config::Config;
use ostler_actors::{Answer, Submission};
use ostler_drivers::model::ModelConfig;
use ostler_kernel::event::{Event, GateAnswer, GateVerdict};
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency, PlanDraft, PolicyDraft, model_tool};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, ContextForm, GOAL_LIMIT, GoalModels, GoalTerms, Mode, opening_plan,
};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::NodeStatus;
use serde_json::{Map, Value, json};

use super::corpus::{Suite, SuiteTool, UserTask};
use crate::cli::exit::Failure;

pub(super) struct World {
    os: Ostler,
}

/// The scripted model.
const MODEL: &str = "script";

/// A planned call of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meant {
    pub(super) tool: String,
    pub(super) params: Map<String, Value>,
}

/// A simulated person: allows each call of the task once, and nothing else.
#[derive(Debug)]
pub(super) struct Person {
    expects: Vec<Meant>,
}

impl Person {
    pub(super) fn of(task: &UserTask) -> Person {
        Person { expects: task.meant() }
    }

    fn allows(&mut self, meant: &Meant) -> bool {
        let at = self.expects.iter().position(|expected| expected.is(meant));
        at.map(|at| self.expects.swap_remove(at)).is_some()
    }
}

impl Meant {
    /// True if `other` is the same call; `other` may have the defaults of the tool filled in.
    pub(super) fn is(&self, other: &Meant) -> bool {
        self.tool == other.tool
            && self
                .params
                .iter()
                .all(|(name, value)| other.params.get(name).is_some_and(|it| is_same(value, it)))
    }
}

/// True if two parameters are equal; numbers are equal by value, as in JSON.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|it| is_same(value, it)))
        }
        _ => one == other,
    }
}

impl UserTask {
    /// Calls in the form that a model writes.
    pub(super) fn meant(&self) -> Vec<Meant> {
        let calls = self.calls.iter();
        calls.map(|call| Meant { tool: call.tool.clone(), params: call.args.clone() }).collect()
    }
}

/// Outcome of the calls of a run.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Calls that ran, with the parameters that the tools received.
    pub(super) ran: Vec<Meant>,
    /// Verdicts of each node, the oldest first.
    pub(super) verdicts: Vec<GateVerdict>,
    /// Questions that a person was asked.
    pub(super) asked: usize,
}

impl Told {
    /// Code of the first verdict that stopped the call of a node; `None` if the call was allowed or never judged.
    pub(super) fn stopped_by(&self, node: &str) -> Option<&str> {
        let mut of_node = self.verdicts.iter().filter(|verdict| verdict.node.as_str() == node);
        of_node.find(|verdict| verdict.answer != GateAnswer::Allow).map(|verdict| verdict.code.as_str())
    }

    pub(super) fn was_judged(&self, node: &str) -> bool {
        self.verdicts.iter().any(|verdict| verdict.node.as_str() == node)
    }
}

fn failed(what: impl ToString) -> Failure {
    Failure::internal(what.to_string())
}

impl World {
    /// Starts a suite with a model that makes `turns`, one call a turn.
    pub(super) async fn start(folder: &Path, suite: &Suite, turns: &[Meant]) -> Result<World, Failure> {
        let file = folder.join("script.yaml");
        std::fs::write(&file, script(turns).to_string()).map_err(failed)?;
        let models = BTreeMap::from([(MODEL.to_owned(), ModelConfig::scripted(file))]);
        let rights = |task: &UserTask| {
            let tools = task.tools().into_iter().map(str::to_owned).chain([model_tool(MODEL)]);
            Scope { tools: tools.map(|tool| (tool, None)).collect() }
        };
        let scopes = suite.user_tasks.iter().map(|task| (task.id.clone(), rights(task))).collect();
        let gate = GatePolicy { scopes, ceiling: 2, epoch: 1, ..GatePolicy::default() };
        let config = Config { models, folder: folder.to_owned(), ..Config::default() };
        let results = Arc::new(results(suite));
        let mut builder = Ostler::builder().memory().config(config).gate(gate);
        for tool in &suite.tools {
            builder = builder.tool(Replayed::new(tool, &results));
        }
        let os = builder.start().await.map_err(failed)?;
        Ok(World { os })
    }

    pub(super) async fn end(self) {
        self.os.shutdown().await;
    }

    /// Runs a plan with the rights of a task. A person answers its questions.
    pub(super) async fn run_plan(
        &self,
        (suite, task): (&Suite, &UserTask),
        nodes: Vec<Value>,
        person: &mut Person,
    ) -> Result<Told, Failure> {
        let draft = json!({"id": "replay", "nodes": nodes});
        let draft: PlanDraft = serde_json::from_value(draft).map_err(failed)?;
        let plan = self.os.plan(draft).map_err(|faults| failed(format!("{}: {faults}", task.id)))?;
        self.follow((suite, task), Submission::plan(plan), person).await
    }

    /// Lets the model act with the rights of a task.
    pub(super) async fn converse(
        &self,
        (suite, task): (&Suite, &UserTask),
        person: &mut Person,
    ) -> Result<Told, Failure> {
        let terms = terms();
        let limit = Some(GOAL_LIMIT);
        let policy = PolicyDraft {
            max_nodes: limit,
            max_versions: limit,
            max_depth: limit,
            max_replans: Some(0),
            backoff_base: Some(HumanDuration::Whole(0)),
            ..PolicyDraft::default()
        };
        let draft = PlanDraft { policy: Some(policy), ..opening_plan(&terms) };
        let plan = self.os.plan(draft).map_err(failed)?;
        let submission = Submission { goal: Some(Arc::new(terms)), ..Submission::plan(plan) };
        self.follow((suite, task), submission, person).await
    }

    async fn follow(
        &self,
        (suite, task): (&Suite, &UserTask),
        submission: Submission,
        person: &mut Person,
    ) -> Result<Told, Failure> {
        let submission = Submission { scope: task.id.clone(), intent: task.intent(suite), ..submission };
        let run = self.os.submit(submission).await.map_err(failed)?;
        let mut told = Told::default();
        while run.outcome().await.map_err(failed)?.status.outcome().is_none() {
            for approval in run.approvals().await.map_err(failed)? {
                let tool = approval.shown.tool.clone().unwrap_or_default();
                let meant = Meant { tool, params: approval.shown.params.clone() };
                let answer = if person.allows(&meant) { Answer::approve() } else { Answer::reject() };
                told.asked += 1;
                self.os.answer(&approval, answer).await.map_err(failed)?;
            }
        }
        let mut events = run.events().map_err(failed)?;
        while let Some(record) = events.next().await {
            if let Event::GateVerdict(verdict) = record.map_err(failed)?.event {
                told.verdicts.push(*verdict);
            }
        }
        let view = self.os.system().view(run.id(), None).await.map_err(failed)?;
        for (node, instance) in view.run.instances() {
            let Some(tool) = node.tool.clone().filter(|_| instance.status == NodeStatus::Executed) else {
                continue;
            };
            told.ran.push(Meant { tool, params: Map::clone(&node.params) });
        }
        Ok(told)
    }
}

/// The script of a model: one call a turn, then a closing answer. JSON is YAML.
fn script(turns: &[Meant]) -> Value {
    let call = |meant: &Meant| json!({"calls": [{"tool": meant.tool, "params": meant.params}]});
    let turns: Vec<Value> = turns.iter().map(call).chain([json!({"text": "done"})]).collect();
    let answer = json!([{"answer": {"answer": "done", "citations": []}}]);
    json!({"repeat": true, "roles": {"think": turns, "answer": answer}})
}

fn terms() -> GoalTerms {
    let (mode, model) = (Mode::React, MODEL.to_owned());
    GoalTerms {
        goal: "replay".to_owned(),
        mode,
        aggregator: Aggregator::Off,
        context: ContextForm::Bounded,
        digest_tokens: 64,
        budgets: Budgets { model_calls: GOAL_LIMIT.into(), ..Budgets::of_mode(mode) },
        base: BaseTokens::default(),
        control_timeout: HumanDuration::Whole(60),
        human_timeout: HumanDuration::Whole(60),
        opened_at: 0,
        models: GoalModels { planner: Some(model.clone()), executor: Some(model) },
        model_file: None,
        tools: None,
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    }
}

/// The result of every call: the parameters of all calls of the corpus, so that a call can take its values from any result.
fn results(suite: &Suite) -> Value {
    let attack: Map<String, Value> = suite
        .injection_tasks
        .iter()
        .map(|task| (task.id.clone(), task.calls().iter().map(|call| json!(call.args)).collect()))
        .collect();
    let own: Map<String, Value> = suite
        .user_tasks
        .iter()
        .map(|task| (task.id.clone(), task.calls.iter().map(|call| json!(call.args)).collect()))
        .collect();
    json!({"attack": attack, "own": own})
}

/// A tool of the corpus, which only answers.
struct Replayed {
    spec: ToolSpec,
    class: CallClass,
    sensitive: Vec<String>,
    egress: bool,
    trusted: bool,
    result: Arc<Value>,
}

impl Replayed {
    fn new(tool: &SuiteTool, result: &Arc<Value>) -> Replayed {
        let effect = match tool.proposed.impact {
            0 => Effect::Read,
            _ => Effect::External,
        };
        Replayed {
            spec: ToolSpec {
                name: tool.name.clone(),
                version: "1".to_owned(),
                description: String::new(),
                params: tool.parameters.clone(),
                result: json!({"type": "object"}),
            },
            class: CallClass { impact: tool.proposed.impact, effect, idem: Idempotency::Natural },
            sensitive: tool.proposed.sensitive.clone(),
            egress: tool.proposed.egress,
            trusted: tool.proposed.output_trusted,
            result: Arc::clone(result),
        }
    }
}

impl Tool for Replayed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        self.class
    }

    fn reads_strangers(&self) -> bool {
        !self.trusted
    }

    fn sends_out(&self) -> bool {
        self.egress
    }

    fn sensitive(&self) -> Vec<String> {
        self.sensitive.clone()
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async { Ok(Value::clone(&self.result)) })
    }
}
