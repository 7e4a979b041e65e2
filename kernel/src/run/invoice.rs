//! The invoice of a repetition: what an edit, a changed plan or a request executes again at most.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ModelUsage, NodeInstance, NodeState, Run};
use crate::event::{Event, ReuseDecision};
use crate::id::{NodeId, RunId};
use crate::lineage::StalePolicy;
use crate::plan::{Approval, Kind, Node, ParamRef, Plan};
use crate::template::{project, read_part};

/// What each node of a run spent, and which run made the results that nodes were given without an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending {
    spent: BTreeMap<NodeId, Spent>,
    made_in: BTreeMap<NodeId, RunId>,
}

/// Credits and model calls of all attempts of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Credits.
    pub credits: u64,
    /// Calls of models.
    pub models: ModelUsage,
}

impl Spending {
    pub(super) fn record(&mut self, event: &Event) {
        match event {
            Event::AttemptResult(result) | Event::LateResult(result) => {
                let spent = self.spent.entry(result.node.clone()).or_default();
                spent.credits = spent.credits.saturating_add(result.cost);
            }
            Event::ModelCalled { node, call, .. } => {
                self.spent.entry(node.clone()).or_default().models.add(call);
            }
            Event::ReuseDecided(decided) => {
                let run = match &decided.decision {
                    ReuseDecision::Reused(result) => result.from.run,
                    ReuseDecision::Kept { from, .. } => *from,
                    ReuseDecision::Recomputed(_) | ReuseDecision::Edited { .. } => return,
                };
                self.made_in.insert(decided.node.clone(), run);
            }
            _ => {}
        }
    }

    /// What a node spent in this run; `None` without an attempt.
    pub fn of(&self, node: &NodeId) -> Option<Spent> {
        self.spent.get(node).copied()
    }

    /// The earlier run that made the result of a node.
    pub fn made_in(&self, node: &NodeId) -> Option<RunId> {
        self.made_in.get(node).copied()
    }
}

/// A node that a repetition of a run executes, unless its inputs come out as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recomputation {
    /// The node.
    pub node: NodeId,
    /// The cause that lies in the node itself; `None`: its inputs may change.
    pub cause: Option<RecomputationCause>,
    /// The nodes that it depends on among the edited one and those that are executed.
    pub inputs: Vec<NodeId>,
    /// The node acts on the world.
    pub acts: bool,
    /// The node asks a person.
    pub asks: bool,
}

/// The cause of a recomputation that lies in the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecomputationCause {
    /// The plan describes other work.
    Changed,
    /// The node is new in the plan.
    New,
    /// The caller asks for it.
    AskedFor,
    /// A retraction withdrew the result.
    Withdrawn,
    /// An undo took the effect back, so the node acts again.
    Undone,
    /// The node failed, was cancelled, or was not reached: there is no result.
    NoResult,
    /// The run is repeated without a change: what acts, reads or asks does so again.
    Repeats,
}

/// The difference between a run and its repetition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change<'a> {
    /// The plan of the repetition; `None`: that of the run.
    pub plan: Option<&'a Plan>,
    /// The node whose result a person replaces.
    pub edited: Option<&'a NodeId>,
    /// Its result, and the content in the place of that; `None`: every part of it may change.
    pub contents: Option<(&'a Value, &'a Value)>,
    /// The node to execute in any case.
    pub from: Option<&'a NodeId>,
    /// Nodes with a withdrawn result.
    pub withdrawn: Option<&'a BTreeSet<NodeId>>,
}

impl Run {
    /// Nodes whose results a change touches first, and why, in a repetition of this run. Those below them follow. The edited node is
    /// not among them.
    pub fn first_recomputed(&self, change: Change<'_>) -> BTreeMap<NodeId, RecomputationCause> {
        use RecomputationCause::{AskedFor, Changed, New, NoResult, Repeats, Undone, Withdrawn};
        let undone = self.undone();
        let plan = change.plan.unwrap_or(&self.plan);
        let own = |node: &Node| {
            let Some(before) = self.node(&node.id) else { return Some(New) };
            let state = self.instance(&node.id).map(NodeInstance::state);
            if change.from == Some(&node.id) {
                Some(AskedFor)
            } else if change.withdrawn.is_some_and(|withdrawn| withdrawn.contains(&node.id)) {
                Some(Withdrawn)
            } else if undone.contains(&node.id) {
                Some(Undone)
            } else if change.plan.is_some() && !is_same_work(before, node) {
                Some(Changed)
            } else {
                let has_ended = matches!(state, Some(NodeState::Executed | NodeState::Skipped));
                (!has_ended).then_some(NoResult)
            }
        };
        let nodes = plan.nodes.iter().filter(|node| !node.is_undo() && change.edited != Some(&node.id));
        let mut first: BTreeMap<NodeId, RecomputationCause> =
            nodes.clone().filter_map(|node| Some((node.id.clone(), own(node)?))).collect();
        let is_a_change = |cause: &RecomputationCause| !matches!(cause, NoResult | Undone);
        if change.edited.is_none() && !first.values().any(is_a_change) {
            let again = nodes.filter(|node| {
                !matches!(node.kind, Kind::Aggregator | Kind::Collector) && !self.is_reusable(node)
            });
            first.extend(again.map(|node| (node.id.clone(), Repeats)));
        }
        first
    }

    /// What a repetition of this run executes at most, in the order of the plan. A result that comes out equal spares the nodes
    /// below it; an artifact of a person that stays whatever happens spares them too.
    pub fn recomputed(&self, change: Change<'_>) -> Vec<Recomputation> {
        let plan = change.plan.unwrap_or(&self.plan);
        let (nodes, graph) = (&plan.nodes, plan.graph());
        let first = self.first_recomputed(change);
        let stays =
            |at: usize| self.edit_of(&nodes[at].id).is_some_and(|edited| edited.stale == StalePolicy::Keep);
        let edited = change.edited.and_then(|edited| graph.position(edited));
        let is_free = |at: usize| edited != Some(at) && !stays(at);
        let of_edit = edited.iter().flat_map(|&at| graph.consumers[at].iter().map(|(consumer, _)| *consumer));
        let of_edit = of_edit.filter(|&at| change.reaches(&nodes[at]));
        let own = (0..nodes.len()).filter(|&at| first.contains_key(&nodes[at].id));
        let starts: Vec<usize> = of_edit.chain(own).filter(|&at| is_free(at)).collect();
        let mut executed = graph.spread(starts.clone(), is_free);
        starts.into_iter().for_each(|at| executed[at] = true);
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&at| executed[at]).collect();
        order.sort_by_key(|&at| (graph.level[at], at));
        let line = |at: usize| {
            let node = &nodes[at];
            let sources = graph.sources[at].iter().map(|(source, _)| *source);
            let changed = sources.filter(|&source| executed[source] || edited == Some(source));
            Recomputation {
                node: node.id.clone(),
                cause: first.get(&node.id).copied(),
                inputs: changed.map(|at| nodes[at].id.clone()).collect(),
                acts: node.acts(),
                asks: node.kind == Kind::HumanApproval
                    || node.approval == Approval::Before
                    || node.asks_after(),
            }
        };
        order.into_iter().map(line).collect()
    }
}

impl Change<'_> {
    /// True unless a consumer of the edited node reads only parts of the result that the new content leaves as they are (0051).
    fn reaches(&self, consumer: &Node) -> bool {
        let (Some(edited), Some((before, now))) = (self.edited, self.contents) else { return true };
        let only_reads = matches!(consumer.kind, Kind::Tool | Kind::Model)
            && !consumer.acts()
            && consumer.approval == Approval::None
            && consumer.when.is_empty()
            && consumer.for_each.is_none()
            && consumer.param_refs.values().all(|reference| reference.from.as_str() != ParamRef::WINNER);
        if !only_reads || consumer.reads.contains(edited) {
            return true;
        }
        let refs = consumer.param_refs.values().filter(|reference| reference.from == *edited);
        let mut parts = refs.map(|reference| reference.path.as_deref().unwrap_or_default());
        if parts.any(|path| project(before, path) != project(now, path)) {
            return true;
        }
        let read = |result: &Value| {
            let fate = json!({"state": NodeState::Executed.as_str(), "result": result});
            let values = Map::from_iter([(edited.to_string(), fate)]);
            Some(read_part(consumer.params.get("prompt")?.as_str()?, &values))
        };
        consumer.kind == Kind::Model && (read(before).is_none() || read(before) != read(now))
    }
}

/// True if two descriptions of a node ask for the same work: they differ at most in how often and how long it is tried, and in who
/// approves it.
fn is_same_work(before: &Node, now: &Node) -> bool {
    let work = |node: &Node| {
        let mut node = node.clone();
        (node.dispatch, node.timeout, node.heartbeat_timeout) = Default::default();
        (node.retries, node.patches, node.human_timeout, node.deadline) = Default::default();
        (node.approval, node.fallback, node.undo) = (Approval::None, None, None);
        node
    };
    work(before) == work(now)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{ArtifactEdited, Output, ReuseTerms};
    use crate::id::Digest;
    use crate::plan::{PlanDraft, PolicyDraft, Settings};
    use crate::run::NodeStatus;

    fn plan(change: impl Fn(&mut Value)) -> Plan {
        let mut nodes = json!([
            {"id": "a", "params": {"text": "x"}}, {"id": "z", "deps": ["a"]}, {"id": "beside"},
            {"id": "ask", "kind": "human_approval", "human_timeout": 1, "deps": ["z"]},
            {"id": "last", "deps": ["ask", "beside"]}
        ]);
        for node in nodes.as_array_mut().unwrap() {
            node["contract"] = json!([{"method": "schema"}]);
        }
        change(&mut nodes);
        validated(nodes)
    }

    fn validated(nodes: Value) -> Plan {
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap()
    }

    fn run() -> Run {
        executed(&plan(|_| {}))
    }

    /// A run in which everything was executed.
    fn executed(plan: &Plan) -> Run {
        let mut run = Run::new(Arc::new(plan.clone()), 1, 0);
        run.reuse = Some(ReuseTerms::default());
        for instance in &mut run.instances {
            instance.status = NodeStatus::Executed;
        }
        run
    }

    /// The nodes that are executed, each with its cause, the inputs that may change, and `?` if it asks.
    fn check(run: &Run, change: Change<'_>, expected: &str) {
        let named = |nodes: &[NodeId]| nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join("+");
        let line = |line: &Recomputation| {
            let cause = line.cause.map(|cause| format!(" {cause:?}")).unwrap_or_default();
            format!("{}{}<{}{cause}", line.node, if line.asks { "?" } else { "" }, named(&line.inputs))
        };
        assert_eq!(run.recomputed(change).iter().map(line).collect::<Vec<_>>().join(", "), expected);
    }

    const BELOW_A: &str = "z<a, ask?<z, last<ask";

    #[test]
    fn an_edit_executes_everything_below_the_node_in_order_and_nothing_else() {
        let edit = |node: &str, expected: &str| {
            let node = NodeId::from(node);
            check(&run(), Change { edited: Some(&node), ..Change::default() }, expected);
        };
        edit("a", BELOW_A);
        edit("last", "");
    }

    #[test]
    fn an_edit_executes_only_what_reads_a_part_that_differs() {
        let mut nodes = json!([
            {"id": "a"},
            {"id": "part", "param_refs": {"x": {"from": "a", "path": "same"}}},
            {"id": "other", "param_refs": {"x": {"from": "a", "path": "new.0"}}},
            {"id": "whole", "param_refs": {"x": {"from": "a", "path": "new"}}},
            {"id": "after", "deps": ["a"]},
            {"id": "acts", "deps": ["a"], "effect": "write", "impact": 1, "idem": "none"},
            {"id": "below", "deps": ["other", "part"]},
            {"id": "asks", "kind": "model", "deps": ["a"], "params": {"prompt": "{{ a.result.same }}"}},
            {"id": "told", "kind": "model", "deps": ["a"], "params": {"prompt": "{{ a.result.new }}"}}
        ]);
        for node in nodes.as_array_mut().unwrap() {
            node["contract"] = json!([{"method": "schema"}]);
        }
        let run = executed(&validated(nodes));
        let (before, now) = (json!({"same": 1, "new": [2]}), json!({"same": 1, "new": [3]}));
        let change =
            Change { edited: Some(&"a".into()), contents: Some((&before, &now)), ..Change::default() };
        check(&run, change, "acts<a, other<a, told<a, whole<a, below<other");
        let change = Change { contents: Some((&before, &before)), ..change };
        check(&run, change, "acts<a");
    }

    #[test]
    fn an_artifact_of_a_person_that_stays_spares_what_is_below() {
        for (stale, expected) in [(StalePolicy::Keep, ""), (StalePolicy::Recompute, BELOW_A)] {
            let mut run = run();
            let output = Output { artifact: Digest([1; 32]), bytes: 2, inline: None, directive: None };
            let (node, author) = (NodeId::from("z"), "ann".to_owned());
            let edited = ArtifactEdited { node, output, author, base: None, stale };
            run.apply(&Event::ArtifactEdited(Box::new(edited)), 0).unwrap();
            check(&run, Change { edited: Some(&"a".into()), ..Change::default() }, expected);
        }
    }

    #[test]
    fn a_changed_plan_executes_what_describes_other_work_and_what_is_below() {
        let with = |change: fn(&mut Value), expected: &str| {
            let plan = plan(change);
            check(&run(), Change { plan: Some(&plan), ..Change::default() }, expected);
        };
        with(|nodes| nodes[0]["params"]["text"] = json!("y"), "a< Changed, z<a, ask?<z, last<ask");
        with(
            |nodes| {
                nodes.as_array_mut().unwrap().push(json!({"id": "more", "contract": [{"method": "schema"}]}))
            },
            "more< New",
        );
        // Another time limit is no other work; so the run is repeated as it is.
        with(|nodes| nodes[0]["timeout"] = json!(7), "ask?< Repeats, last<ask");
    }

    #[test]
    fn what_has_no_result_or_a_withdrawn_one_is_executed() {
        let mut run = run();
        let at = run.position(&"beside".into()).unwrap();
        run.instances[at].status = NodeStatus::Failed;
        let (from, withdrawn) = ("ask".into(), BTreeSet::from(["z".into()]));
        let change = Change { from: Some(&from), ..Change::default() };
        check(&run, change, "beside< NoResult, ask?< AskedFor, last<ask+beside");
        let change = Change { withdrawn: Some(&withdrawn), ..Change::default() };
        check(&run, change, "beside< NoResult, z< Withdrawn, ask?<z, last<ask+beside");
    }
}
