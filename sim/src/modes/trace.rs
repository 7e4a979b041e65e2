//! The course of a goal run, in the form of `expect`.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::event::{ChangeCause, NodeTransition, PlanVersion};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Dep, Node, On, Revision};
use ostler_kernel::policy::{Aggregator, Fault, Role, View};
use ostler_kernel::run::{NodeState, Run};
use serde_json::{Map, Value, json};

/// What `expect` tells about a run besides its last state.
#[derive(Debug, Default)]
pub(super) struct Trace {
    events: Vec<(i64, String, String, String, String)>,
    dispatches: u32,
    versions: Vec<Value>,
    known: BTreeSet<NodeId>,
    pub(super) inputs: BTreeMap<String, Map<String, Value>>,
    pub(super) late: Vec<(i64, String)>,
    faults: Vec<Value>,
    /// Outputs of the operator's last delta: a version records only outputs that differ from those before.
    pub(super) operator_outputs: Option<Vec<NodeId>>,
}

impl Trace {
    pub(super) fn new(run: &Run) -> Trace {
        let known = run.plan().nodes.iter().map(|node| node.id.clone()).collect();
        Trace { known, ..Trace::default() }
    }

    pub(super) fn add_transition(&mut self, now: i64, moved: &NodeTransition) {
        let NodeTransition { node, from, to, reason, .. } = moved;
        self.events.push((now, node.to_string(), from.to_string(), to.to_string(), reason.to_string()));
        self.dispatches += u32::from(*to == NodeState::Running);
    }

    pub(super) fn add_step(&mut self, now: i64, from: u32, to: u32, reason: String) {
        self.events.push((now, "*".to_owned(), format!("v{from}"), format!("v{to}"), reason));
    }

    pub(super) fn add_faults(&mut self, now: i64, node: &NodeId, attempt: u32, faults: &[Fault]) {
        let pairs: Vec<[String; 2]> =
            faults.iter().map(|fault| [fault.code.to_string(), fault.named.clone()]).collect();
        self.faults.push(json!([now, node, attempt, pairs]));
    }

    pub(super) fn add_version(&mut self, version: &PlanVersion, run: &Run) {
        let revision: Revision =
            serde_json::from_str(version.revision.as_str()).expect("the run has applied the revision");
        let mut row = json!({"v": version.version});
        if let ChangeCause::Patch(node) = &version.cause {
            row["by"] = format!("micro:{node}").into();
            row["set"] = node.as_str().into();
            row["tool"] = json!(run.node(node).and_then(|node| node.tool.as_ref()));
            self.versions.push(row);
            return;
        }
        row["by"] = match &version.cause {
            ChangeCause::Node(node) | ChangeCause::Patch(node) => node.as_str().into(),
            ChangeCause::Operator => "operator".into(),
            ChangeCause::Interject => "interject".into(),
            ChangeCause::Replan => "replan".into(),
            ChangeCause::Mode(_) => "mode".into(),
            ChangeCause::Expand(node) => format!("expand:{node}").into(),
            ChangeCause::UndoPolicy | ChangeCause::UndoOperator => "undo".into(),
        };
        let added = revision.nodes.iter().filter(|node| self.known.insert(node.id.clone()));
        row["add"] = added.map(|node| (node.id.to_string(), edges(node))).collect::<Map<_, _>>().into();
        if !revision.cancel.is_empty() {
            row["cancel"] = json!(revision.cancel);
        }
        let said = self.operator_outputs.take();
        let outputs = if version.cause == ChangeCause::Operator { said } else { revision.outputs };
        if let Some(mut outputs) = outputs {
            outputs.sort();
            row["outputs"] = json!(outputs);
        }
        self.versions.push(row);
    }

    /// The whole course.
    pub(super) fn course(&self, run: &Run, view: View<'_>) -> Value {
        let last: Map<String, Value> = run
            .instances()
            .map(|(node, instance)| (node.id.to_string(), Value::from(instance.state().as_str())))
            .collect();
        let answer = view.final_answer().map(
            |answer| json!({"source": answer.source, "answer": answer.answer, "citations": answer.citations}),
        );
        let (calls, tokens) = calls(run);
        let mut course = json!({
            "outcome": run.outcome().as_str(),
            "labels": view.labels(),
            "answer": answer,
            "version": run.plan().version,
            "dispatches": self.dispatches,
            "makespan": self.events.last().map_or(0, |event| event.0),
            "final": last,
            "versions": self.versions,
            "calls": calls,
            "tokens": tokens,
            "events": self.events,
        });
        if !self.inputs.is_empty() {
            course["inputs"] = json!(self.inputs);
        }
        if !self.late.is_empty() {
            course["late"] = json!(self.late);
        }
        if !self.faults.is_empty() {
            course["faults"] = json!(self.faults);
        }
        course
    }
}

/// The edges of a node, as in cases: a terminal one has a `?` behind it.
fn edges(node: &Node) -> Value {
    let written = |dep: &Dep| match dep.on {
        On::Success => dep.n.to_string(),
        On::Terminal => format!("{}?", dep.n),
    };
    let mut edges: Vec<String> = node.deps.iter().map(written).collect();
    edges.sort();
    edges.into()
}

fn calls(run: &Run) -> (Value, Value) {
    let Some(goal) = run.goal() else { return (json!([]), json!({"input": 0, "output": 0})) };
    let (mut made, mut rows): (BTreeMap<Role, u32>, Vec<Value>) = (BTreeMap::new(), Vec::new());
    let (mut input, mut output) = (0, 0);
    for call in goal.calls() {
        let intent = &call.intent;
        let ordinal = made.entry(intent.role).or_default();
        *ordinal += 1;
        let role = match (intent.role, goal.terms().aggregator) {
            (Role::Answer, Aggregator::Planner) => "answer:planner",
            (Role::Answer, Aggregator::Executor | Aggregator::Off) => "answer:executor",
            (role, _) => role.as_str(),
        };
        let (node, tokens) = (&intent.node, intent.input_tokens);
        rows.push(json!({"role": role, "node": node, "ordinal": *ordinal, "input_tokens": tokens}));
        input += tokens;
        output += call.output_tokens;
    }
    (rows.into(), json!({"input": input, "output": output}))
}
