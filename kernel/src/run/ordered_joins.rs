//! Ordered joins: an any_of node with `dispatch: ordered` tries its candidates one after the other, in the order of its
//! list.
//!
//! A candidate waits while an earlier candidate may still win. [`OrderedJoins`] keeps, per join, an ordered map from list
//! position to every candidate with a chance. A candidate waits if the first entry of the map is before it. After a loss,
//! one range query finds the next candidate: O(log n), however many candidates were lost before. The state is a function of
//! the nodes' statuses: a new plan version counts it anew, and recovery needs no record of it.

use std::collections::BTreeMap;

use super::node_status::{NodeInstance, NodeStatus};
use crate::plan::{Dispatch, Graph, Join, Node};

/// The ordered joins of a run, by index of the join.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OrderedJoins(BTreeMap<usize, Candidates>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Candidates {
    /// Position of each candidate in the list of the join.
    positions: BTreeMap<usize, usize>,
    open: BTreeMap<usize, usize>,
}

impl OrderedJoins {
    pub(super) fn count(nodes: &[Node], graph: &Graph, instances: &[NodeInstance]) -> OrderedJoins {
        let is_ordered = |node: &Node| node.join == Some(Join::AnyOf) && node.dispatch == Dispatch::Ordered;
        let ordered = nodes.iter().enumerate().filter(|(_, node)| is_ordered(node));
        let counted = ordered.map(|(join, _)| {
            let mut candidates = Candidates::default();
            for (place, &(candidate, _)) in graph.sources[join].iter().enumerate() {
                candidates.positions.entry(candidate).or_insert(place);
                candidates.set(candidate, may_win(&instances[candidate].status));
            }
            (join, candidates)
        });
        OrderedJoins(counted.collect())
    }

    pub(super) fn is_ordered(&self, join: usize) -> bool {
        self.0.contains_key(&join)
    }

    /// True if a candidate before this one may still win.
    pub(super) fn waits(&self, join: usize, candidate: usize) -> bool {
        self.0.get(&join).is_some_and(|candidates| candidates.waits(candidate))
    }

    /// Records whether a candidate may win. Returns the next candidate after a lost one: it may be allowed to start now.
    pub(super) fn set(&mut self, join: usize, candidate: usize, may_win: bool) -> Option<usize> {
        self.0.get_mut(&join)?.set(candidate, may_win)
    }
}

impl Candidates {
    fn waits(&self, candidate: usize) -> bool {
        let first = self.open.keys().next();
        first.zip(self.positions.get(&candidate)).is_some_and(|(first, place)| first < place)
    }

    fn set(&mut self, candidate: usize, may_win: bool) -> Option<usize> {
        let &place = self.positions.get(&candidate)?;
        if may_win {
            self.open.insert(place, candidate);
            return None;
        }
        self.open.remove(&place);
        self.open.range(place..).next().map(|(_, &next)| next)
    }
}

/// True if a candidate in this status may still win.
pub(super) fn may_win(status: &NodeStatus) -> bool {
    !status.state().is_terminal() && !matches!(status, NodeStatus::Upstream { .. })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{AttemptResult, Failure, Outcome};
    use crate::id::{NodeId, RunId};
    use crate::plan::{PlanDraft, PolicyDraft, Settings};
    use crate::run::{
        DecisionContext, FailureCategory, NodeState, Run, RunInput, StaticPlanner, TransitionReason,
    };

    /// Number of nodes that propagation looks at while all candidates of an ordered join fail in turn.
    fn looks(candidates: usize) -> usize {
        let ids: Vec<String> = (0..candidates).map(|at| format!("n{at}")).collect();
        let mut nodes: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        nodes.push(json!({"id": "join", "join": "any_of", "dispatch": "ordered", "deps": ids}));
        nodes.iter_mut().for_each(|node| node["contract"] = json!([{"method": "schema"}]));
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let overrides = PolicyDraft { max_nodes: Some(10_000), ..PolicyDraft::default() };
        let settings = Settings::simulation(overrides, None);
        let mut run = Run::new(Arc::new(draft.validate(&settings).unwrap()), 1, 0);
        let planner = &StaticPlanner;
        let mut cx = DecisionContext {
            run_id: RunId::default(),
            now: 0,
            settings: &settings,
            planner,
            diagnoser: &crate::run::RuleDiagnoser,
        };
        run.decide(&mut cx, RunInput::Propagate);
        for id in ids.iter().map(|id| NodeId::from(id.as_str())) {
            assert_eq!(run.ready.len(), 1, "one at a time");
            assert!(!run.start(&mut cx, &id, None).is_empty(), "{id} has its turn");
            let failure = Failure { category: FailureCategory::Structural, message: String::new() };
            let result = AttemptResult::without_cost(id, 1, Outcome::Failed(failure));
            run.decide(&mut cx, RunInput::Result(Box::new(result)));
        }
        let join = run.instance(&"join".into()).unwrap();
        assert_eq!((join.state(), &join.reason), (NodeState::Failed, &Some(TransitionReason::JoinExhausted)));
        run.dirty.looks
    }

    #[test]
    fn candidates_that_are_lost_one_after_the_other_cost_so_many_looks_each() {
        let each = |candidates: usize| looks(candidates).div_ceil(candidates);
        assert!(each(1_000) <= each(10), "{} looks for 1,000 candidates", looks(1_000));
    }

    proptest! {
        #[test]
        fn a_candidate_waits_as_long_as_one_before_it_may_win(changes in prop::collection::vec((0..8usize, any::<bool>()), 0..40)) {
            let mut candidates = Candidates::default();
            let list = [3, 1, 4, 0, 5, 7, 2, 6];
            let mut may_win = [true; 8];
            for (place, candidate) in list.into_iter().enumerate() {
                candidates.positions.insert(candidate, place);
                candidates.set(candidate, true);
            }
            for (changed, may) in changes {
                may_win[changed] = may;
                let next = candidates.set(changed, may);
                let behind = || list.into_iter().skip_while(|&at| at != changed).find(|&at| may_win[at]);
                prop_assert_eq!(next, if may { None } else { behind() });
                for at in list {
                    let before = list.into_iter().take_while(|&before| before != at);
                    prop_assert_eq!(candidates.waits(at), before.into_iter().any(|before| may_win[before]));
                }
            }
        }
    }
}
