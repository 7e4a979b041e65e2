//! The example `telehealth.yaml` in a system of memory alone: its runs, and the calls of the loops.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ostler::Ostler;
use ostler::config::Config;
use ostler::plan_file::{Format, PlanFile};
use ostler_actors::{Again, NodeEdit, Submission};
use ostler_drivers::model::ModelConfig;
use ostler_kernel::event::{Event, Fresh, ReuseBasis, ReuseDecision, ReuseTerms};
use ostler_kernel::id::RunId;
use ostler_kernel::lineage::StalePolicy;
use ostler_kernel::plan::{Plan, PlanDraft};
use ostler_kernel::run::{OpeningTerms, RunOutcome};
use serde::Serialize;
use serde_json::{Value, json};

use super::metrics::{Artifact, Artifacts};
use crate::cli::exit::Failure;

const PLAN: &str = include_str!("../../../../../examples/plans/telehealth.yaml");
const WRITER: &str = include_str!("../../../../../examples/models/telehealth.yaml");
/// The latency of the example's script, which an experiment replaces.
const WRITER_LATENCY: &str = "latency: 20ms";
const SOURCES: [(&str, &str); 5] = [
    ("utilization", include_str!("../../../../../examples/data/telehealth/utilization.md")),
    ("reimbursement", include_str!("../../../../../examples/data/telehealth/reimbursement.md")),
    ("operations", include_str!("../../../../../examples/data/telehealth/operations.md")),
    ("access_cost", include_str!("../../../../../examples/data/telehealth/access_cost.md")),
    ("recruiting", include_str!("../../../../../examples/data/telehealth/recruiting.md")),
];

/// Where the plan reads the sources.
const SOURCES_FOLDER: &str = "examples/data/telehealth";

/// The scripted loops: each call writes the memo anew from the current materials, all of them.
const LOOP: &str = include_str!("loop.yaml");

/// Beginning of the materials within the prompt of a loop, and place where the script cuts.
const MATERIALS: &str = "=== Current materials ===";

/// The memo, its sources, and the system that writes it.
pub(super) struct Memo {
    os: Ostler,
    workspace: tempfile::TempDir,
    plan: Arc<Plan>,
}

/// Calls that wait for each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Path {
    pub(super) calls: usize,
    /// Time of the calls alone.
    pub(super) ms: u64,
}

/// Calls of models, and their tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tokens {
    pub(super) calls: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl Tokens {
    pub(super) fn and(self, other: Tokens) -> Tokens {
        Tokens {
            calls: self.calls + other.calls,
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
        }
    }
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub(super) struct Ran {
    pub(super) run: RunId,
    /// Results of all nodes that write, not of the reads.
    pub(super) artifacts: Artifacts,
    /// Writing nodes that were executed.
    pub(super) executed: BTreeSet<String>,
    /// Nodes with the result of their last execution, although something above them was executed.
    pub(super) cut_off: BTreeSet<String>,
    pub(super) tokens: BTreeMap<String, Tokens>,
    /// Time of the calls of each node.
    call_ms: BTreeMap<String, u64>,
    /// Time from the submission to the outcome.
    pub(super) took_ms: f64,
}

impl Ran {
    pub(super) fn all_tokens(&self) -> Tokens {
        self.tokens.values().copied().fold(Tokens::default(), Tokens::and)
    }

    pub(super) fn memo(&self) -> &Artifact {
        &self.artifacts["memo"]
    }
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::internal(error.to_string())
}

impl Memo {
    /// Starts a system. `model` writes instead of the scripts, whose calls take `latency_ms`.
    pub(super) async fn start(latency_ms: i64, model: Option<ModelConfig>) -> Result<Memo, Failure> {
        let workspace = tempfile::tempdir().map_err(internal)?;
        let script = |name: &str, text: &str| -> Result<ModelConfig, Failure> {
            let file = workspace.path().join(name);
            let text = text.replacen(WRITER_LATENCY, &format!("latency: {latency_ms}ms"), 1);
            std::fs::write(&file, text).map_err(internal)?;
            Ok(ModelConfig::scripted(file))
        };
        let (writer, looping) = match model {
            Some(model) => (model.clone(), model),
            None => (script("writer.yaml", WRITER)?, script("loop.yaml", LOOP)?),
        };
        let models = BTreeMap::from([("default".to_owned(), writer), ("loop".to_owned(), looping)]);
        let config = Config { models, folder: workspace.path().to_owned(), ..Config::default() };
        let os = Ostler::builder().memory().config(config).slots(32).start().await.map_err(internal)?;
        let file = PlanFile::parse("telehealth.yaml", Format::Yaml, PLAN, &BTreeMap::new());
        let draft = file.draft().ok_or_else(|| internal("the plan of the example has faults"))?.clone();
        let plan = Arc::new(os.plan(draft).map_err(internal)?);
        let memo = Memo { os, workspace, plan };
        std::fs::create_dir_all(memo.workspace.path().join(SOURCES_FOLDER)).map_err(internal)?;
        memo.restore_sources()?;
        Ok(memo)
    }

    pub(super) async fn stop(self) {
        self.os.shutdown().await;
    }

    fn source_file(&self, name: &str) -> PathBuf {
        self.workspace.path().join(SOURCES_FOLDER).join(format!("{name}.md"))
    }

    /// Names of the sources, in the order of the loops' materials.
    pub(super) fn sources() -> impl Iterator<Item = &'static str> {
        SOURCES.into_iter().map(|(name, _)| name)
    }

    pub(super) fn source(&self, name: &str) -> Result<String, Failure> {
        std::fs::read_to_string(self.source_file(name)).map_err(internal)
    }

    pub(super) fn set_source(&self, name: &str, text: &str) -> Result<(), Failure> {
        std::fs::write(self.source_file(name), text).map_err(internal)
    }

    /// Gives every source its first content.
    pub(super) fn restore_sources(&self) -> Result<(), Failure> {
        SOURCES.into_iter().try_for_each(|(name, text)| self.set_source(name, text))
    }

    /// Nodes that write, without the reads.
    pub(super) fn writers(&self) -> BTreeSet<String> {
        self.plan.nodes.iter().filter(|node| node.calls_model()).map(|node| node.id.to_string()).collect()
    }

    /// Writing nodes below a node.
    pub(super) fn below(&self, node: &str) -> BTreeSet<String> {
        let at = self.plan.position(&node.into()).expect("the experiment names nodes of its plan");
        let below = self.plan.graph().below(at).into_iter();
        let ids: BTreeSet<String> = below.map(|at| self.plan.nodes[at].id.to_string()).collect();
        ids.intersection(&self.writers()).cloned().collect()
    }

    /// Writing nodes above a node.
    pub(super) fn above(&self, node: &str) -> BTreeSet<String> {
        self.writers().into_iter().filter(|other| self.below(other).contains(node)).collect()
    }

    /// The longest path of executed nodes, by the time of their calls.
    pub(super) fn longest_path(&self, ran: &Ran) -> Path {
        let mut longest: BTreeMap<&String, Path> = BTreeMap::new();
        // A node has more nodes above it than any of those has, so this order is topological.
        let mut ordered: Vec<(usize, &String)> =
            ran.executed.iter().map(|node| (self.above(node).len(), node)).collect();
        ordered.sort();
        let longer = |one: Path, other: Path| if other.ms > one.ms { other } else { one };
        for (_, node) in ordered {
            let above = self.above(node);
            let before = longest.iter().filter(|(other, _)| above.contains(**other)).map(|(_, path)| *path);
            let before = before.fold(Path::default(), longer);
            let took_ms = ran.call_ms.get(node).copied().unwrap_or(0);
            longest.insert(node, Path { calls: before.calls + 1, ms: before.ms + took_ms });
        }
        longest.into_values().fold(Path::default(), longer)
    }

    /// Writes the memo for a client. The results of one client never serve another one.
    pub(super) async fn write(&self, client: &str) -> Result<Ran, Failure> {
        self.submit(client, ReuseTerms::default(), None).await
    }

    /// Writes the memo of a run from scratch, with its edits, for another client.
    pub(super) async fn scratch(&self, of: &Ran, client: &str) -> Result<Ran, Failure> {
        self.submit(client, ReuseTerms { fresh: Fresh::Everything }, Some(of.run)).await
    }

    async fn submit(&self, client: &str, reuse: ReuseTerms, of: Option<RunId>) -> Result<Ran, Failure> {
        let edits = match of {
            Some(run) => {
                let view = self.os.system().view(run, None).await.map_err(internal)?;
                view.run.edits().cloned().collect()
            }
            None => Vec::new(),
        };
        let submission = Submission {
            client: client.into(),
            workspace: self.workspace.path().to_owned(),
            terms: OpeningTerms { reuse: Some(reuse), edits, ..OpeningTerms::default() },
            ..Submission::plan(Arc::clone(&self.plan))
        };
        let begun = Instant::now();
        let run = self.os.submit(submission).await.map_err(internal)?;
        self.ran(run.id(), begun, &self.plan).await
    }

    /// Runs the plan of a run again, with its edits, over the present sources.
    pub(super) async fn again(&self, of: &Ran) -> Result<Ran, Failure> {
        self.run_again(of, Again::default()).await
    }

    /// Puts a person's artifact in the place of a result.
    pub(super) async fn edit(&self, of: &Ran, node: &str, value: Value) -> Result<Ran, Failure> {
        let edit = NodeEdit {
            node: node.into(),
            value,
            author: "editor".to_owned(),
            seen: None,
            stale: StalePolicy::Keep,
        };
        self.run_again(of, Again { edit: Some(edit), ..Again::default() }).await
    }

    async fn run_again(&self, of: &Ran, again: Again) -> Result<Ran, Failure> {
        let begun = Instant::now();
        let run = self.os.system().run_again(of.run, again).await.map_err(internal)?;
        self.ran(run, begun, &self.plan).await
    }

    /// The prompt of a loop: the memo that there is, the request, the event if it is told, and the current materials.
    pub(super) fn loop_prompt(
        &self,
        prior: &Artifact,
        event: Option<&str>,
        edited: &[(&str, &Artifact)],
    ) -> Result<String, Failure> {
        let mut prompt = format!("Prior memo:\n{}\n", prior.text());
        prompt += "Request: update the memo to the current materials, in the form that it has. Quote statements with their marks.\n";
        prompt += &event.map(|event| format!("Event: {event}\n")).unwrap_or_default();
        prompt += &format!("\n{MATERIALS}\n");
        for name in Memo::sources() {
            prompt += &format!("\n{}", self.source(name)?);
        }
        for (name, artifact) in edited {
            prompt += &format!("\nCurrent {name}:\n{}", artifact.text());
        }
        Ok(prompt)
    }

    /// One call of a loop: the new memo, as the result of the only node of a run.
    pub(super) async fn ask_loop(&self, prompt: &str) -> Result<Ran, Failure> {
        let draft = json!({"id": "loop", "nodes": [{"id": "memo", "kind": "model", "model": "loop", "params": {"messages": [
            {"role": "system", "content": "You keep a policy memo up to date."}, {"role": "user", "content": prompt}]}}]});
        let draft: PlanDraft = serde_json::from_value(draft).map_err(internal)?;
        let plan = Arc::new(self.os.plan(draft).map_err(internal)?);
        let begun = Instant::now();
        let submission =
            Submission { workspace: self.workspace.path().to_owned(), ..Submission::plan(Arc::clone(&plan)) };
        let run = self.os.submit(submission).await.map_err(internal)?;
        self.ran(run.id(), begun, &plan).await
    }

    /// Waits for a run, and reads its results and records.
    async fn ran(&self, id: RunId, begun: Instant, plan: &Plan) -> Result<Ran, Failure> {
        let run = self.os.run(id);
        let settled = run.outcome().await.map_err(internal)?;
        let took_ms = begun.elapsed().as_secs_f64() * 1_000.0;
        if settled.status.outcome() != Some(RunOutcome::Succeeded) {
            let why = settled.reason.unwrap_or_default();
            return Err(internal(format!("run {id} of the experiment is {}: {why}", settled.status)));
        }
        let mut artifacts = Artifacts::new();
        for node in plan.nodes.iter().filter(|node| node.calls_model()) {
            let bytes = run.artifact(node.id.as_str()).await.map_err(internal)?.content.to_vec();
            let value = serde_json::from_slice(&bytes).map_err(internal)?;
            artifacts.insert(node.id.to_string(), Artifact { bytes, value });
        }
        let mut ran = Ran {
            run: id,
            artifacts,
            executed: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            tokens: BTreeMap::new(),
            call_ms: BTreeMap::new(),
            took_ms,
        };
        let mut events = run.events().map_err(internal)?;
        while let Some(record) = events.next().await {
            ran.record(record.map_err(internal)?.event);
        }
        Ok(ran)
    }
}

impl Ran {
    fn record(&mut self, event: Event) {
        match event {
            Event::AttemptIntent(intent) if self.artifacts.contains_key(intent.node.as_str()) => {
                self.executed.insert(intent.node.to_string());
            }
            Event::ModelCalled { node, call, .. } => {
                *self.call_ms.entry(node.to_string()).or_default() += call.took_ms;
                let tokens = self.tokens.entry(node.to_string()).or_default();
                *tokens = tokens.and(Tokens {
                    calls: 1,
                    input_tokens: call.input_tokens,
                    output_tokens: call.output_tokens,
                });
            }
            Event::ReuseDecided(decided) => {
                let ReuseDecision::Reused(result) = &decided.decision else { return };
                if matches!(result.basis, ReuseBasis::CutOff(_)) {
                    self.cut_off.insert(decided.node.to_string());
                }
            }
            _ => {}
        }
    }
}
