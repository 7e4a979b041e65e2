//! Runs whose client has no credits to spend. They need no actor for that; when there are credits again they are taken up some at a time, as long
//! as there are: who has ten credits and a thousand runs does not read all of them for each.

use std::collections::BTreeMap;

use ostler_kernel::id::{AgentId, ClientId, RunId};

/// Runs that wait for credits, by client.
#[derive(Default)]
pub(super) struct CreditWaitQueue(pub(super) BTreeMap<ClientId, Waiters>);

#[derive(Default)]
pub(super) struct Waiters {
    /// Older runs first.
    pub(super) runs: BTreeMap<RunId, AgentId>,
    /// How many are taken up together next.
    pub(super) at_once: usize,
    /// Some were taken up a moment ago; those after them wait a little.
    pub(super) is_paced: bool,
}

impl CreditWaitQueue {
    pub(super) fn push(&mut self, client: ClientId, run: RunId, agent: AgentId) {
        self.0.entry(client).or_default().runs.insert(run, agent);
    }

    /// The run is over, or somebody else sees to it.
    pub(super) fn forget(&mut self, client: &ClientId, run: RunId) {
        if let Some(waiters) = self.0.get_mut(client) {
            waiters.runs.remove(&run);
        }
    }
}
