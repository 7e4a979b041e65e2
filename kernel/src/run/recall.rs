//! Results that rest on withdrawn results, across runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{NodeStatus, Run, TransitionReason};
use crate::event::{Event, GateAnswer, HumanRequestKind, RecordPlace, ReuseDecision, Withdrawn};
use crate::id::{NodeId, RunId};
use crate::lineage::Retractions;
use crate::plan::{Approval, Kind, Node};

/// The origin of the results of one run, from its records.
#[derive(Debug)]
pub struct Origins<'a> {
    run: RunId,
    what: &'a Withdrawn,
    fields: Map<String, Value>,
    works: Retractions,
    /// Nodes with a withdrawn result of their own.
    withdrawn: BTreeSet<NodeId>,
    /// The record behind the result of a node.
    bound: BTreeMap<NodeId, RecordPlace>,
    /// The run that made a result which this run keeps.
    kept: BTreeMap<NodeId, RunId>,
    /// The recorded results of this run that are withdrawn.
    records: BTreeSet<RecordPlace>,
}

impl<'a> Origins<'a> {
    /// Starts with no record of the run.
    pub fn of(run: RunId, what: &'a Withdrawn) -> Origins<'a> {
        let (mut works, mut fields, mut withdrawn) = (Retractions::default(), Map::new(), BTreeSet::new());
        match what {
            Withdrawn::Result { run: of, node, .. } if *of == run => {
                withdrawn.insert(node.clone());
            }
            Withdrawn::Result { .. } => {}
            Withdrawn::Executable(document) => {
                if let Value::Object(listed) = document.value() {
                    works.add(&listed).expect("the fields are canonical");
                    fields = listed;
                }
            }
        }
        Origins {
            run,
            what,
            fields,
            works,
            withdrawn,
            bound: BTreeMap::new(),
            kept: BTreeMap::new(),
            records: BTreeSet::new(),
        }
    }

    /// Reads the next record of the run.
    pub fn see(&mut self, seq: u64, event: &Event) {
        match event {
            Event::ResultRecorded(record) => {
                let place = RecordPlace { run: self.run, seq };
                let is_withdrawn = match self.what {
                    Withdrawn::Result { place: of, .. } => *of == Some(place),
                    Withdrawn::Executable(_) => self.works.covers(record.manifest.sigma()),
                };
                if is_withdrawn {
                    self.withdrawn.insert(record.node.clone());
                    self.records.insert(place);
                }
                self.bound.insert(record.node.clone(), place);
            }
            Event::ReuseDecided(decided) => {
                let node = || decided.node.clone();
                match &decided.decision {
                    ReuseDecision::Reused(result) => drop(self.bound.insert(node(), result.from)),
                    ReuseDecision::Kept { from, .. } => drop(self.kept.insert(node(), *from)),
                    ReuseDecision::Edited { .. } | ReuseDecision::Recomputed(_) => {}
                }
            }
            Event::Forked(forked) => {
                for (node, place) in &forked.done {
                    self.bound.extend(place.map(|place| (node.clone(), place)));
                    self.kept.insert(node.clone(), forked.from);
                    if matches!(self.what, Withdrawn::Result { run, node: of, .. } if *run == forked.from && of == node)
                    {
                        self.withdrawn.insert(node.clone());
                    }
                }
            }
            // Calls without a record for reuse, such as effects, are known by the verdict on them.
            Event::GateVerdict(verdict) if verdict.answer == GateAnswer::Allow => {
                let is_meant = |(key, value): (&String, &Value)| match key.as_str() {
                    "tool" => *value == *verdict.tool,
                    "tool_version" => *value == *verdict.version,
                    _ => false,
                };
                if !self.fields.is_empty() && self.fields.iter().all(is_meant) {
                    self.withdrawn.insert(verdict.node.clone());
                }
            }
            _ => {}
        }
    }
}

/// The nodes that rest on withdrawn results. Runs are added in any order, again and again until nothing is new, because a run
/// may have reused a result of a run that comes later.
#[derive(Debug, Default)]
pub struct Recall {
    /// Records with a result that rests on withdrawn ones.
    places: BTreeSet<RecordPlace>,
    /// Withdrawn records.
    records: BTreeSet<RecordPlace>,
    reached: BTreeMap<RunId, BTreeSet<NodeId>>,
}

impl Recall {
    /// Starts with no run.
    pub fn of(what: &Withdrawn) -> Recall {
        let mut recall = Recall::default();
        if let Withdrawn::Result { place, .. } = what {
            // The run of the record may be deleted, while others have its result.
            recall.places.extend(*place);
        }
        recall
    }

    /// Adds a run; returns whether anything was new. The origins are complete.
    pub fn add(&mut self, run: &Run, origins: &Origins<'_>) -> bool {
        let is_below =
            run.terms().parent.as_ref().is_some_and(|parent| self.has(parent.run, &parent.of.node));
        let is_edited = |at: usize| run.is_edited(&run.plan.nodes[at].id);
        let starts: Vec<usize> = (0..run.instances.len())
            .filter(|&at| {
                let node = &run.plan.nodes[at].id;
                let rests = || {
                    origins.bound.get(node).is_some_and(|place| self.places.contains(place))
                        || origins.kept.get(node).is_some_and(|from| self.has(*from, node))
                };
                !is_edited(at) && (is_below || origins.withdrawn.contains(node) || rests())
            })
            .collect();
        // A person's artifact in the place of a result rests on nothing.
        let mut reached = run.graph.spread(starts.clone(), |at| !is_edited(at));
        starts.into_iter().for_each(|at| reached[at] = true);
        let nodes = (0..reached.len()).filter(|&at| reached[at]).map(|at| run.plan.nodes[at].id.clone());
        let known = self.reached.get(&origins.run).map_or(0, BTreeSet::len);
        let nodes: BTreeSet<NodeId> = nodes.collect();
        let is_new = nodes.len() > known;
        let own =
            origins.bound.iter().filter(|(node, place)| place.run == origins.run && nodes.contains(*node));
        self.places.extend(own.map(|(_, place)| *place));
        self.records.extend(&origins.records);
        if !nodes.is_empty() {
            self.reached.insert(origins.run, nodes);
        }
        is_new
    }

    /// True if the node's result rests on a withdrawn one, or is withdrawn itself.
    pub fn has(&self, run: RunId, node: &NodeId) -> bool {
        self.reached.get(&run).is_some_and(|nodes| nodes.contains(node))
    }

    /// True if the node's own result is withdrawn.
    pub fn is_withdrawn(&self, origins: &Origins<'_>, node: &NodeId) -> bool {
        let is_named = |bound: RecordPlace| matches!(origins.what, Withdrawn::Result { place, .. } if *place == Some(bound));
        let reused =
            || origins.bound(node).is_some_and(|bound| is_named(bound) || self.records.contains(&bound));
        origins.withdrawn.contains(node) || reused()
    }

    /// Number of withdrawn records.
    pub fn records(&self) -> usize {
        self.records.len()
    }
}

impl Origins<'_> {
    /// Nodes with a withdrawn result that this run made or recorded.
    pub fn withdrawn(&self) -> &BTreeSet<NodeId> {
        &self.withdrawn
    }

    /// The run whose result this run keeps as its own: it repeats that run, or is a fork of it.
    pub fn made_in(&self, node: &NodeId) -> Option<RunId> {
        self.kept.get(node).copied()
    }

    /// The record behind the node's result.
    pub fn bound(&self, node: &NodeId) -> Option<RecordPlace> {
        self.bound.get(node).copied()
    }
}

impl Run {
    /// True if a person's approval of the node is asked for, given or still to come, and no attempt has started since.
    pub fn has_open_approval(&self, node: &Node) -> bool {
        use HumanRequestKind as Ask;
        let Some(instance) = self.instance(&node.id) else { return false };
        let is_asked = matches!(
            instance.status,
            NodeStatus::WaitingHuman { ask: Ask::Before | Ask::After | Ask::Node, .. }
        );
        let is_guarded = self.position(&node.id).is_some_and(|at| self.lacks_own_yes(at));
        let will_be_asked = node.kind == Kind::HumanApproval
            || node.approval != Approval::None
            || node.asks_after()
            || is_guarded;
        instance.is_live()
            && !matches!(instance.status, NodeStatus::Running { .. })
            && (is_asked || instance.approved || instance.is_held_by_gate() || will_be_asked)
    }

    /// True if the node ended with a person's artifact.
    pub fn is_edited(&self, node: &NodeId) -> bool {
        self.instance(node).is_some_and(|instance| instance.reason == Some(TransitionReason::Edited))
    }

    /// True if an attempt of the node may have changed the world.
    pub fn has_acted(&self, node: &Node) -> bool {
        node.acts() && self.instance(&node.id).is_some_and(|instance| instance.was_sent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::event::{Output, ReuseBasis, ReuseDecided, ReusedResult};
    use crate::id::Digest;
    use crate::plan::{PlanDraft, PolicyDraft, Settings};

    fn id(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    /// The run of a chain `a -> b -> c` beside `d`.
    fn chain() -> Run {
        let nodes = json!([{"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "c", "deps": ["b"]}, {"id": "d"}]);
        let mut nodes: Vec<Value> = nodes.as_array().unwrap().clone();
        nodes.iter_mut().for_each(|node| node["contract"] = json!([{"method": "schema"}]));
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let plan = draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap();
        Run::new(Arc::new(plan), 1, 0)
    }

    fn reused(node: &str, run: RunId, seq: u64) -> Event {
        let output = Output { artifact: Digest([1; 32]), bytes: 2, inline: None, directive: None };
        let (from, sampled) = (RecordPlace { run, seq }, false);
        let result = ReusedResult { basis: ReuseBasis::Same, from, output, sampled };
        let decision = ReuseDecision::Reused(result);
        Event::ReuseDecided(Box::new(ReuseDecided { node: node.into(), reuse: None, decision }))
    }

    #[test]
    fn what_keeps_the_result_rests_on_it() {
        let what = Withdrawn::Result { run: id(1), node: "b".into(), place: None };
        let mut recall = Recall::of(&what);
        let (first, mut second) = (Origins::of(id(1), &what), Origins::of(id(2), &what));
        let decision = ReuseDecision::Kept { output: None, from: id(1) };
        let decided = ReuseDecided { node: "b".into(), reuse: None, decision };
        second.see(3, &Event::ReuseDecided(Box::new(decided)));
        assert!(!recall.add(&chain(), &second) && recall.add(&chain(), &first));
        assert!(recall.add(&chain(), &second));
        assert_eq!([1, 2].map(|run| reached(&recall, id(run))), ["bc", "bc"]);
    }

    fn reached(recall: &Recall, run: RunId) -> String {
        ["a", "b", "c", "d"].into_iter().filter(|node| recall.has(run, &(*node).into())).collect()
    }

    #[test]
    fn what_reused_the_result_rests_on_it_and_what_made_equal_bytes_does_not() {
        let what = Withdrawn::Result {
            run: id(1),
            node: "b".into(),
            place: Some(RecordPlace { run: id(1), seq: 7 }),
        };
        let mut recall = Recall::of(&what);
        let (first, mut second, third) =
            (Origins::of(id(1), &what), Origins::of(id(2), &what), Origins::of(id(3), &what));
        second.see(3, &reused("b", id(1), 7));
        // The later run comes first: another pass finds nothing new.
        assert!(recall.add(&chain(), &second) && recall.add(&chain(), &first));
        assert!(!recall.add(&chain(), &third));
        assert!(!recall.add(&chain(), &second) && !recall.add(&chain(), &first));
        assert_eq!([1, 2, 3].map(|run| reached(&recall, id(run))), ["bc", "bc", ""]);
        assert!(recall.is_withdrawn(&second, &"b".into()) && !recall.is_withdrawn(&second, &"c".into()));
    }
}
