//! Trials in the engine itself: a scripted model and a tool that take their time, in a system of memory alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use ostler::Ostler;
use ostler::config::Config;
use ostler_actors::Submission;
use ostler_drivers::model::ModelConfig;
use ostler_kernel::event::Event;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency, PlanDraft, PolicyDraft};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, CallIntent, ContextForm, GoalModels, GoalTerms, opening_plan,
};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::RunOutcome;
use ostler_kernel::text::TOKEN_BYTES;
use ostler_sim::modes::experiment::{Costs, GoalShape, Measured, MeasuredCall, Strategy, Trial, measure};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::report::AGGREGATORS;
use crate::cli::exit::Failure;

/// A goal that the engine reached, beside its simulation.
#[derive(Debug, Clone, Serialize)]
pub(super) struct EngineTrial {
    pub(super) strategy: Strategy,
    #[serde(flatten)]
    pub(super) goal: GoalShape,
    pub(super) aggregator: Aggregator,
    /// Calls of models.
    pub(super) calls: usize,
    /// Input tokens of all calls, as the engine counts them.
    pub(super) input_tokens: u64,
    /// Time of the calls of models and tools on the longest path, made without the engine at the same time.
    pub(super) alone_ms: f64,
    /// Time from submission to outcome.
    pub(super) took_ms: f64,
    /// What the mode costs beyond its calls, as a share of them; the median of all samples.
    pub(super) overhead: f64,
    /// How the calls differ from the simulation; `null` if they do not.
    pub(super) difference: Option<String>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One goal, once.
    Short,
    /// Several goals, several times.
    Full,
}

/// Samples of a full measurement; the median counts.
const SAMPLES: usize = 3;

/// Time between the starts of trials of one goal: their calls do not end at the same instant.
const STAGGER: Duration = Duration::from_millis(13);

const TOOL: &str = "experiment.work";

/// Slots, of the system and of each run: no call waits for one.
const SLOTS: u32 = 256;

/// Nodes, versions, depth and calls of a run. No trial comes near.
const LIMIT: u32 = 1_000;

impl Extent {
    fn samples(self) -> usize {
        match self {
            Extent::Short => 1,
            Extent::Full => SAMPLES,
        }
    }

    fn trials(self, costs: &Costs) -> Vec<Vec<Trial>> {
        let goals: &[(GoalShape, &[Aggregator])] = match self {
            Extent::Short => &[(GoalShape { tools: 4, levels: 2 }, &AGGREGATORS[1..])],
            Extent::Full => &[
                (GoalShape { tools: 1, levels: 1 }, &AGGREGATORS),
                (GoalShape { tools: 2, levels: 1 }, &AGGREGATORS[..1]),
                (GoalShape { tools: 3, levels: 1 }, &AGGREGATORS),
                (GoalShape { tools: 3, levels: 3 }, &AGGREGATORS),
                (GoalShape { tools: 4, levels: 2 }, &AGGREGATORS),
                (GoalShape { tools: 8, levels: 1 }, &AGGREGATORS[..1]),
            ],
        };
        let trial = |strategy, goal, aggregator| Trial {
            strategy,
            goal,
            context: ContextForm::Bounded,
            aggregator,
            costs: *costs,
        };
        let rounds = goals.iter().flat_map(|(goal, aggregators)| {
            aggregators.iter().map(move |aggregator| {
                let mut strategies = Strategy::all_on(*goal);
                // Two levels are reviewed level by level, anything else at its end.
                let results = if goal.levels == 2 { goal.width() } else { goal.tools };
                strategies.retain(|strategy| match strategy {
                    Strategy::NReflect(every) => *every == results,
                    _ => true,
                });
                strategies.into_iter().map(|strategy| trial(strategy, *goal, *aggregator)).collect()
            })
        });
        rounds.collect()
    }
}

/// Makes trials in the engine, those of one goal at once.
///
/// # Errors
///
/// The engine did not start, or a run did not succeed.
pub(super) async fn trials(extent: Extent, costs: &Costs) -> Result<Vec<EngineTrial>, Failure> {
    let folder = tempfile::tempdir().map_err(|error| Failure::internal(error.to_string()))?;
    let rounds = extent.trials(costs);
    let flat: Vec<Trial> = rounds.iter().flatten().copied().collect();
    let os = start(folder.path(), &flat, costs).await?;
    let mut done = Vec::new();
    for round in rounds {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); round.len()];
        for _ in 0..extent.samples() {
            let begun = done.len();
            let os = &os;
            let running = round.iter().enumerate().map(|(at, trial)| async move {
                tokio::time::sleep(STAGGER * u32::try_from(at).unwrap_or(0)).await;
                sample(os, trial, begun + at).await
            });
            for (at, sample) in try_join_all(running).await?.into_iter().enumerate() {
                samples[at].push(sample);
            }
        }
        for (trial, samples) in round.iter().zip(samples) {
            done.push(judged(trial, samples)?);
        }
    }
    os.shutdown().await;
    Ok(done)
}

/// One run of a trial.
#[derive(Debug, Clone)]
struct Sample {
    calls: Vec<MeasuredCall>,
    took: Duration,
    /// Time of the calls on the longest path, made beside the run without the engine.
    alone: Duration,
}

async fn sample(os: &Ostler, trial: &Trial, number: usize) -> Result<Sample, Failure> {
    let path = longest_path(trial)?;
    let (ran, alone) = tokio::join!(run(os, trial, number), alone(path, &trial.costs));
    let (took, calls) = ran?;
    Ok(Sample { calls, took, alone })
}

/// Compares the samples of a trial with its simulation.
fn judged(trial: &Trial, mut samples: Vec<Sample>) -> Result<EngineTrial, Failure> {
    let calls = samples[0].calls.clone();
    // The first call has the base and the description of the tools, which the simulation takes from here.
    let first = calls.first().map_or(0, |call| call.input_tokens);
    let index_tokens = first.saturating_sub(trial.costs.base_tokens);
    let simulated = Trial { costs: Costs { index_tokens, ..trial.costs }, ..*trial };
    let simulated = simulate(&simulated)?;
    let difference = samples.iter().find_map(|sample| difference(&sample.calls, &simulated));
    let ratio = |sample: &Sample| sample.took.as_secs_f64() / sample.alone.as_secs_f64();
    samples.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let middle = &samples[samples.len() / 2];
    let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    Ok(EngineTrial {
        strategy: trial.strategy,
        goal: trial.goal,
        aggregator: trial.aggregator,
        calls: calls.len(),
        input_tokens: calls.iter().map(|call| call.input_tokens).sum(),
        alone_ms: ms(middle.alone),
        took_ms: ms(middle.took),
        overhead: ratio(middle) - 1.0,
        difference,
    })
}

/// How calls differ from the simulated ones. Those of one instant may come in any order.
fn difference(calls: &[MeasuredCall], simulated: &Measured) -> Option<String> {
    let sorted = |calls: &[MeasuredCall]| {
        let mut sorted = calls.to_vec();
        sorted.sort();
        sorted
    };
    let (ours, theirs) = (sorted(calls), sorted(&simulated.calls));
    let told = |call: Option<&MeasuredCall>| {
        call.map_or("no call".to_owned(), |call| format!("{} with {} tokens", call.node, call.input_tokens))
    };
    let at = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at))?;
    Some(format!("{}, simulated {}", told(ours.get(at)), told(theirs.get(at))))
}

/// Starts a system with a model for each trial.
async fn start(folder: &Path, trials: &[Trial], costs: &Costs) -> Result<Ostler, Failure> {
    let mut models = BTreeMap::new();
    for (at, trial) in trials.iter().enumerate() {
        let file = folder.join(format!("{}.yaml", model(at)));
        std::fs::write(&file, script(trial).to_string())
            .map_err(|error| Failure::internal(format!("{}: {error}", file.display())))?;
        models.insert(model(at), ModelConfig::scripted(file));
    }
    let config = Config { models, folder: folder.to_owned(), ..Config::default() };
    let started = Ostler::builder().memory().config(config).slots(SLOTS).tool(Work::of(costs)).start().await;
    started.map_err(|error| Failure::internal(error.to_string()))
}

fn model(trial: usize) -> String {
    format!("m{trial}")
}

/// The script of a trial's model. JSON is YAML.
fn script(trial: &Trial) -> Value {
    let answer = |answer: &Value| match (answer.get("calls").and_then(Value::as_array), answer.get("text")) {
        (Some(calls), _) if !calls.is_empty() => json!({"calls": calls}),
        (Some(_), text) => json!({"text": text}),
        (None, _) => json!({"answer": answer}),
    };
    let roles = trial.answers(TOOL).into_iter();
    let roles: Map<String, Value> =
        roles.map(|(role, answers)| (role.to_owned(), answers.iter().map(answer).collect())).collect();
    json!({"latency": format!("{}ms", trial.costs.model_ms), "repeat": true, "roles": roles})
}

/// Runs a trial; returns its duration and its calls.
async fn run(os: &Ostler, trial: &Trial, number: usize) -> Result<(Duration, Vec<MeasuredCall>), Failure> {
    let failed = |what: String| Failure::internal(format!("{}: {what}", trial.strategy));
    let terms = terms(trial, model(number));
    let limit = Some(LIMIT);
    let policy = PolicyDraft {
        max_nodes: limit,
        max_versions: limit,
        max_depth: limit,
        max_replans: Some(0),
        slots: Some(SLOTS),
        ..PolicyDraft::default()
    };
    let draft = PlanDraft { policy: Some(policy), ..opening_plan(&terms) };
    let plan = os.plan(draft).map_err(|faults| failed(faults.to_string()))?;
    let submission = Submission { goal: Some(Arc::new(terms)), ..Submission::plan(plan) };
    let begun = Instant::now();
    let run = os.submit(submission).await.map_err(|error| failed(error.to_string()))?;
    let settled = run.outcome().await.map_err(|error| failed(error.to_string()))?;
    let took = begun.elapsed();
    if settled.status.outcome() != Some(RunOutcome::Succeeded) {
        let why = settled.reason.unwrap_or_default();
        return Err(failed(format!("the run is {}: {why}", settled.status)));
    }
    Ok((took, calls(&run).await.map_err(failed)?))
}

/// The calls of a run as it meant to make them: the provider's own counts come later.
async fn calls(run: &ostler::Run) -> Result<Vec<MeasuredCall>, String> {
    let mut events = run.events().map_err(|error| error.to_string())?;
    let mut calls = Vec::new();
    while let Some(record) = events.next().await {
        let Event::CallBegun { intent, .. } = record.map_err(|error| error.to_string())?.event else {
            continue;
        };
        let intent: CallIntent = serde_json::from_str(intent.as_str()).map_err(|error| error.to_string())?;
        calls.push(MeasuredCall { node: intent.node.to_string(), input_tokens: intent.input_tokens });
    }
    Ok(calls)
}

/// Calls of models and of tools on the longest path of a trial.
fn longest_path(trial: &Trial) -> Result<[u32; 2], Failure> {
    // In units so small that one more for each call of a model changes no order.
    const UNITS: i64 = 1_000_000;
    let Costs { model_ms, tool_ms, .. } = trial.costs;
    let finer = Costs { model_ms: model_ms * UNITS + 1, tool_ms: tool_ms * UNITS, ..trial.costs };
    let makespan = simulate(&Trial { costs: finer, ..*trial })?.makespan_ms;
    let models = makespan % UNITS;
    let tools = (makespan / UNITS - models * model_ms) / tool_ms;
    Ok([models, tools].map(|count| u32::try_from(count).unwrap_or(0)))
}

fn simulate(trial: &Trial) -> Result<Measured, Failure> {
    measure(trial).map_err(|error| Failure::internal(error.to_string()))
}

/// Takes the time of these calls, one after another, without the engine: timers end late, with it and without.
async fn alone([models, tools]: [u32; 2], costs: &Costs) -> Duration {
    let begun = Instant::now();
    for (calls, ms) in [(models, costs.model_ms), (tools, costs.tool_ms)] {
        for _ in 0..calls {
            tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())).await;
        }
    }
    begun.elapsed()
}

fn terms(trial: &Trial, model: String) -> GoalTerms {
    let mode = trial.strategy.mode();
    let budgets = Budgets { model_calls: LIMIT.into(), ..Budgets::of_mode(mode) };
    let timeout = HumanDuration::Millis(trial.costs.model_ms.saturating_add(60_000));
    GoalTerms {
        goal: "done".to_owned(),
        mode,
        aggregator: trial.aggregator,
        context: trial.context,
        digest_tokens: trial.costs.digest_tokens,
        budgets,
        base: BaseTokens { other: trial.costs.base_tokens, ..BaseTokens::default() },
        control_timeout: timeout,
        human_timeout: timeout,
        opened_at: 0,
        models: GoalModels { planner: Some(model.clone()), executor: Some(model) },
        model_file: None,
        tools: Some(vec![TOOL.to_owned()]),
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    }
}

/// A tool that takes its time and returns a text of fixed size.
struct Work {
    spec: ToolSpec,
    takes: Duration,
    result: Value,
}

impl Work {
    fn of(costs: &Costs) -> Work {
        let frame = json!({"text": ""}).to_string().len() as u64;
        let bytes = (costs.result_tokens * TOKEN_BYTES).saturating_sub(frame);
        Work {
            spec: ToolSpec {
                name: TOOL.to_owned(),
                version: "1".to_owned(),
                description: "Work for a fixed time.".to_owned(),
                params: json!({"type": "object", "properties": {}, "additionalProperties": false}),
                result: json!({"type": "object"}),
            },
            takes: Duration::from_millis(costs.tool_ms.unsigned_abs()),
            result: json!({"text": "x".repeat(usize::try_from(bytes).unwrap_or(0))}),
        }
    }
}

impl Tool for Work {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async {
            tokio::time::sleep(self.takes).await;
            Ok(self.result.clone())
        })
    }
}
