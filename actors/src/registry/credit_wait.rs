//! Resumes runs that wait for credits, some at a time for as long as there are credits.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::id::{AgentId, ClientId, RunId};

use super::RegistryState;
use super::agent_lifecycle::Input;
use crate::messages::registry::RegistryMessage;

/// Runs of a client that are taken up together, when it has credits again; twice as many each time while they last.
const AT_ONCE_FIRST: usize = 64;

const AT_ONCE_MOST: usize = 4_096;

/// Time between two such times.
const PACE: Duration = Duration::from_millis(100);

impl RegistryState {
    /// Whether anything of a run may start that its client pays for.
    pub(super) fn may_go_on(&self, client: &ClientId, run: RunId) -> bool {
        let book = self.services.ledger.client(client);
        !book.is_parked() && book.may_start(run)
    }

    /// A client may have credits again: takes up some of its runs, unless that was done a moment ago.
    pub(super) fn credits(&mut self, client: ClientId) {
        if self.unpaid.0.get(&client).is_some_and(|waiters| !waiters.is_paced) {
            self.take_up_unpaid(client);
        }
    }

    /// Takes up some runs of a client, the oldest first, if it has credits.
    pub(super) fn take_up_unpaid(&mut self, client: ClientId) {
        let book = self.services.ledger.client(&client);
        let Some(waiters) = self.unpaid.0.get_mut(&client) else { return };
        waiters.at_once = (waiters.at_once * 2).clamp(AT_ONCE_FIRST, AT_ONCE_MOST);
        // What is reserved is not for all of them: the oldest need not be among those that may go on.
        let may_start = waiters.runs.keys().copied().filter(|run| !book.is_parked() && book.may_start(*run));
        let runs: Vec<RunId> = may_start.take(waiters.at_once).collect();
        waiters.is_paced = !runs.is_empty();
        if runs.is_empty() {
            waiters.at_once = 0;
            if waiters.runs.is_empty() {
                self.unpaid.0.remove(&client);
            }
            return;
        }
        let agents: Vec<Option<AgentId>> = runs.iter().map(|run| waiters.runs.remove(run)).collect();
        for (run, agent) in runs.into_iter().zip(agents) {
            agent.map(|agent| self.take(&agent, Input::Wake { run }));
        }
        let services = Arc::clone(&self.services);
        tokio::spawn(async move {
            tokio::time::sleep(PACE).await;
            services.mailboxes.tell_registry(RegistryMessage::TakeUpUnpaid { client });
        });
    }

    /// Takes up all of them: who has credits is to be found out anew.
    pub(super) fn wake_unpaid(&mut self) {
        for (_, waiters) in std::mem::take(&mut self.unpaid.0) {
            for (run, agent) in waiters.runs {
                self.take(&agent, Input::Wake { run });
            }
        }
    }
}
