//! Join counters: the open sources of each node, the first broken source, the winner.
//!
//! A terminal node updates the counters of its consumers. So a commit costs the degree of the node, and the readiness of a
//! join over thousands of sources is one comparison with 0.

use super::node_status::NodeInstance;
use crate::plan::{Graph, Join, Node, On};
use crate::run::NodeState;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JoinCount {
    /// Edges without effect yet; for an any_of join, candidates before their end.
    pub(super) unmet: u32,
    broken_dep: Option<u32>,
    winner: Option<u32>,
    /// Success sources, or candidates, that a guard ruled out.
    guarded_out: u32,
}

impl JoinCount {
    /// The first source that can no longer hold (all_of).
    pub(super) fn broken_dep(&self) -> Option<usize> {
        self.broken_dep.map(|source| source as usize)
    }

    pub(super) fn winner(&self) -> Option<usize> {
        self.winner.map(|source| source as usize)
    }

    /// True if guards skip the node: they ruled out a success source of an all_of join, or all `candidates` of an any_of
    /// join.
    pub(super) fn is_guarded_out(&self, join: Option<Join>, candidates: usize) -> bool {
        match join {
            Some(Join::AnyOf) => self.guarded_out > 0 && self.guarded_out as usize == candidates,
            Some(Join::AllOf) | None => self.guarded_out > 0,
        }
    }

    /// Counts the end of `source` in `state`, over an edge of kind `on`. `guarded_out`: a guard of the source or of an
    /// ancestor ruled the source out.
    pub(super) fn commit(
        &mut self,
        join: Option<Join>,
        on: On,
        source: usize,
        state: NodeState,
        guarded_out: bool,
    ) {
        let executed = state == NodeState::Executed;
        self.guarded_out += u32::from(guarded_out && on == On::Success);
        match join {
            Some(Join::AnyOf) => {
                self.unmet -= 1;
                if executed {
                    self.winner = self.winner.or(Some(source as u32));
                }
            }
            Some(Join::AllOf) | None => {
                if executed || on == On::Terminal {
                    self.unmet -= 1;
                } else {
                    self.broken_dep = self.broken_dep.or(Some(source as u32));
                }
            }
        }
    }

    /// Counts the terminal sources of the node at index `at` in the order of their commits. The order decides the winner and
    /// the first broken source, so a new plan version and recovery come to the same result.
    pub(super) fn count(at: usize, nodes: &[Node], graph: &Graph, instances: &[NodeInstance]) -> JoinCount {
        let mut ended: Vec<(usize, On)> =
            graph.sources[at].iter().copied().filter(|&(source, _)| !instances[source].is_live()).collect();
        ended.sort_by_key(|&(source, _)| instances[source].commit_number);
        let mut join = JoinCount { unmet: graph.sources[at].len() as u32, ..JoinCount::default() };
        for (source, on) in ended {
            let instance = &instances[source];
            join.commit(nodes[at].join, on, source, instance.state(), instance.is_guarded_out());
        }
        join
    }
}
