//! Keys that several layers share: attempts, shares of the run queue, owners of jobs.

use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};

/// Separator of pipeline and stage in the name of a stage's actor; names of agents and clients never contain it.
pub(crate) const BETWEEN: char = '/';

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AttemptKey {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    pub(crate) attempt: u32,
}

/// The share of the run queue that a job uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FairShareKey {
    pub(crate) client: ClientId,
    /// `None` for the share of all agents without a name.
    pub(crate) agent: Option<AgentId>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) agent: AgentId,
    pub(crate) lane: FairShareKey,
    pub(crate) weight: u32,
}
