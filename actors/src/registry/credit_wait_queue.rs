//! Runs that wait for credits without an actor. A client with ten credits and a thousand runs does not load all of them
//! for each deposit.

use std::collections::BTreeMap;

use ostler_kernel::id::{AgentId, ClientId, RunId};

#[derive(Default)]
pub(super) struct CreditWaitQueue(pub(super) BTreeMap<ClientId, Waiters>);

#[derive(Default)]
pub(super) struct Waiters {
    pub(super) runs: BTreeMap<RunId, AgentId>,
    pub(super) at_once: usize,
    pub(super) is_paced: bool,
}

impl CreditWaitQueue {
    pub(super) fn push(&mut self, client: ClientId, run: RunId, agent: AgentId) {
        self.0.entry(client).or_default().runs.insert(run, agent);
    }

    pub(super) fn forget(&mut self, client: &ClientId, run: RunId) {
        if let Some(waiters) = self.0.get_mut(client) {
            waiters.runs.remove(&run);
        }
    }
}
