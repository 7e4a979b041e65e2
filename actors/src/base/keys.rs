//! Keys that several layers share: of an attempt, of a share of the run queue, of the agent that owns a job.

use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};

/// Between the names of a pipeline and a stage in the name of the stage's actor: no name of an agent or client contains it.
pub(crate) const BETWEEN: char = '/';

/// One try of a node of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AttemptKey {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    pub(crate) attempt: u32,
}

/// Whose share a job uses up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FairShareKey {
    pub(crate) client: ClientId,
    /// `None`: the lane that all agents without a name of their own share.
    pub(crate) agent: Option<AgentId>,
}

/// An agent, as the scheduler needs to know it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) agent: AgentId,
    pub(crate) lane: FairShareKey,
    /// Of the agent among those of its client.
    pub(crate) weight: u32,
}
