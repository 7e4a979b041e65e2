//! What the joins of a run know of their sources, kept up with each commit: a commit costs its degree, however
//! wide a join is.

use super::node_status::NodeInstance;
use crate::plan::{Graph, Join, Node, On};
use crate::run::NodeState;

/// What one node knows of its sources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JoinCount {
    /// Edges that do not hold yet.
    pub(super) unmet: u32,
    broken_dep: Option<u32>,
    winner: Option<u32>,
}

impl JoinCount {
    /// The broken source that broke first (all_of).
    pub(super) fn broken_dep(&self) -> Option<usize> {
        self.broken_dep.map(|source| source as usize)
    }

    /// The executed candidate that committed first (any_of).
    pub(super) fn winner(&self) -> Option<usize> {
        self.winner.map(|source| source as usize)
    }

    /// Takes in that `source`, reached over an edge of kind `on`, became terminal.
    pub(super) fn commit(&mut self, join: Option<Join>, on: On, source: usize, state: NodeState) {
        let executed = state == NodeState::Executed;
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

    /// Counts anew, for a version whose edges may have changed.
    pub(super) fn count(at: usize, nodes: &[Node], graph: &Graph, instances: &[NodeInstance]) -> JoinCount {
        let mut ended: Vec<(usize, On)> =
            graph.sources[at].iter().copied().filter(|&(source, _)| !instances[source].is_live()).collect();
        ended.sort_by_key(|&(source, _)| instances[source].commit_number);
        let mut join = JoinCount { unmet: graph.sources[at].len() as u32, ..JoinCount::default() };
        for (source, on) in ended {
            join.commit(nodes[at].join, on, source, instances[source].state());
        }
        join
    }
}
