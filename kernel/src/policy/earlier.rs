//! Earlier runs that a goal may use: what was asked and answered, and their results as evidence.
//!
//! The terms of the run hold all of it, so nothing changes when the earlier runs are removed. Results enter as nodes of the kind
//! `earlier`, executed before the opening node; prompts show them as digests, and steps refer to them like to any work.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::provenance::{ResultTerms, is_result_untrusted, labels_behind};
use super::{Goal, GoalTerms, View, text_tokens};
use crate::event::Output;
use crate::id::{Digest, NAME_BYTES_MAX, NodeId, RunId};
use crate::json::Json;
use crate::plan::{Effect, Idempotency, Impact, Kind, Node, NodeDraft};
use crate::run::{NodeState, Run};
use crate::text::beginning;

/// Earlier runs of one goal.
pub const EARLIER_RUNS_MAX: usize = 8;

/// Results of all earlier runs together.
pub const EARLIER_RESULTS_MAX: usize = 16;

/// Bytes of goals and answers of all earlier runs together; the latest runs get them first.
pub const EARLIER_TEXT_BYTES_MAX: usize = 16 << 10;

/// Bytes of the goal, and of the answer, of one earlier run.
const ONE_TEXT_BYTES_MAX: usize = 4 << 10;

/// What a goal is told of an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierRun {
    /// The run.
    pub run: RunId,
    /// The beginning of its goal; of a run of a plan file, its title.
    pub asked: String,
    /// The beginning of its answer; `None` without one.
    pub answered: Option<String>,
    /// Texts of strangers may have steered the answer.
    pub is_tainted: bool,
    /// Labels of the data that the answer may repeat.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Results that its answer rests on, or its outputs.
    pub results: Vec<EarlierResult>,
}

/// A result of an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierResult {
    /// The run that made it.
    pub run: RunId,
    /// Node of the result in that run.
    pub node: NodeId,
    /// The tool that made it; `None` for a template.
    pub tool: Option<String>,
    /// The size of the value in bytes, as canonical JSON.
    pub bytes: u64,
    /// Digest of the artifact.
    pub artifact: Digest,
    /// A small value itself; `None`: it is in the artifact store.
    pub inline: Option<Json>,
    /// The value is tainted.
    pub is_tainted: bool,
    /// Labels of the value.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
}

impl EarlierResult {
    /// The value as an output.
    pub fn output(&self) -> Output {
        let EarlierResult { artifact, bytes, inline, .. } = self;
        Output { artifact: *artifact, bytes: *bytes, inline: inline.clone(), directive: None }
    }
}

/// What a goal is told of `run`. `trusts` says of a tool whether its results are free of texts of strangers; say false for a
/// tool that is not known any more.
pub fn earlier_run(id: RunId, run: &Run, terms: &dyn ResultTerms) -> EarlierRun {
    let taint = Taint { run, terms };
    let (asked, answered, nodes) = match View::of(run, 0) {
        Some(view) => {
            let answer = view.final_answer();
            let nodes: Vec<NodeId> = match &answer {
                Some(answer) => answer.citations.clone(),
                None => view.executed().cloned().collect(),
            };
            (view.goal.terms.goal.as_str(), answer.map(|answer| answer.answer), nodes)
        }
        None => {
            let plan = run.plan();
            (plan.title.as_deref().unwrap_or(&plan.id), None, plan.outputs.clone())
        }
    };
    let results: Vec<EarlierResult> = nodes.iter().filter_map(|node| result(id, run, node, &taint)).collect();
    EarlierRun {
        run: id,
        asked: beginning(asked, ONE_TEXT_BYTES_MAX).to_owned(),
        answered: answered.map(|text| beginning(&text, ONE_TEXT_BYTES_MAX).to_owned()),
        is_tainted: taint.of_run(),
        labels: run.plan().outputs.iter().flat_map(|output| labels_behind(run, output, terms)).collect(),
        results,
    }
}

fn result(id: RunId, run: &Run, node: &NodeId, taint: &Taint<'_>) -> Option<EarlierResult> {
    let (known, instance) = (run.node(node)?, run.instance(node)?);
    if instance.state() != NodeState::Executed {
        return None;
    }
    if let Some(handed_on) = run.goal().and_then(|goal| goal.earlier(node)) {
        return Some(handed_on.clone());
    }
    let Output { artifact, bytes, inline, .. } = instance.result()?.clone();
    let (node, tool, is_tainted) = (node.clone(), known.tool.clone(), taint.of(node));
    let labels = labels_behind(run, &node, taint.terms);
    Some(EarlierResult { run: id, node, tool, bytes, artifact, inline, is_tainted, labels })
}

/// Keeps of the earlier runs, in their order, what one goal is told: the latest runs first, and no result twice.
pub fn bounded(mut runs: Vec<EarlierRun>) -> Vec<EarlierRun> {
    runs.drain(..runs.len().saturating_sub(EARLIER_RUNS_MAX));
    let (mut bytes, mut results, mut seen) = (EARLIER_TEXT_BYTES_MAX, EARLIER_RESULTS_MAX, BTreeSet::new());
    for earlier in runs.iter_mut().rev() {
        let texts = [Some(&mut earlier.asked), earlier.answered.as_mut()];
        for text in texts.into_iter().flatten() {
            text.truncate(beginning(text, bytes).len());
            bytes -= text.len();
        }
        earlier.results.retain(|result| seen.insert((result.run, result.node.clone())));
        earlier.results.truncate(results);
        results -= earlier.results.len();
    }
    runs
}

/// Tokens of what was asked and answered before, in every prompt.
pub fn earlier_tokens(runs: &[EarlierRun]) -> u64 {
    text_tokens(&said(runs))
}

/// What was asked and answered before, a JSON object a line: no text in it can pass for a part of the prompt.
pub(super) fn said(runs: &[EarlierRun]) -> String {
    let line = |earlier: &EarlierRun| {
        let EarlierRun { asked, answered, .. } = earlier;
        json!({"asked": asked, "answered": answered}).to_string() + "\n"
    };
    runs.iter().map(line).collect()
}

/// Ids of the nodes that hold the results of earlier runs, such as `earlier.1.list`.
pub(super) fn nodes(terms: &GoalTerms) -> impl Iterator<Item = (NodeId, &EarlierResult)> {
    let runs = terms.on.iter().enumerate();
    runs.flat_map(|(of, earlier)| earlier.results.iter().enumerate().map(move |at| (of + 1, at))).map(
        |(of, (at, result))| {
            let named = format!("earlier.{of}.{}", result.node);
            // A name that is too long gets a number; digits alone could be the name of another node.
            let id = if named.len() <= NAME_BYTES_MAX { named } else { format!("earlier.{of}..{}", at + 1) };
            (NodeId::from(id.as_str()), result)
        },
    )
}

/// The node of a result of an earlier run.
pub(super) fn node(id: NodeId, result: &EarlierResult) -> NodeDraft {
    let EarlierResult { run, node, tool, .. } = result;
    let mut params = Map::from_iter([
        ("run".to_owned(), Value::from(run.to_string())),
        ("node".to_owned(), Value::from(node.as_str())),
    ]);
    params.extend(tool.as_deref().map(|tool| ("tool".to_owned(), Value::from(tool))));
    NodeDraft {
        kind: Some(Kind::Earlier),
        params: Some(params),
        contract: Some(super::graft::contract(None)),
        effect: Some(Effect::None),
        impact: Impact::new(0),
        idem: Some(Idempotency::Natural),
        patches: Some(0),
        ..NodeDraft::named(id)
    }
}

impl Goal {
    /// The result of an earlier run that a node holds; `None` for any other node.
    pub fn earlier(&self, node: &NodeId) -> Option<&EarlierResult> {
        nodes(&self.terms).find_map(|(id, result)| (id == *node).then_some(result))
    }
}

impl<'a> View<'a> {
    /// True for a node with a result of an earlier run.
    pub(super) fn is_earlier(self, node: &NodeId) -> bool {
        self.run.node(node).is_some_and(|known| known.kind == Kind::Earlier)
    }

    /// Nodes with results of earlier runs.
    pub(super) fn earlier(self) -> impl Iterator<Item = &'a NodeId> {
        self.work().map(|(node, _)| node).filter(|node| node.kind == Kind::Earlier).map(|node| &node.id)
    }

    /// True if an answer of an earlier run, which every prompt shows, is tainted.
    pub(super) fn is_told_tainted(self) -> bool {
        self.goal.terms.on.iter().any(|earlier| earlier.is_tainted)
    }
}

/// Taint in a run that has ended, of a goal or of a plan file.
struct Taint<'a> {
    run: &'a Run,
    terms: &'a dyn ResultTerms,
}

impl Taint<'_> {
    /// True if texts of strangers may have steered any text of the run.
    fn of_run(&self) -> bool {
        let goal = self.run.goal();
        let told = goal.is_some_and(|goal| goal.terms().on.iter().any(|earlier| earlier.is_tainted));
        let showed = goal.is_some_and(|goal| goal.calls().iter().any(|call| call.intent.is_tainted));
        let read = |(node, _): (&Node, _)| self.of(&node.id);
        told || showed || self.run.instances().any(read)
    }

    /// True if a value is tainted.
    fn of(&self, node: &NodeId) -> bool {
        is_result_untrusted(self.run, node, self.terms)
    }
}
