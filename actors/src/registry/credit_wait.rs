//! Resumes runs that wait for credits, in growing batches while credits last.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::id::{AgentId, ClientId, RunId};

use super::RegistryState;
use super::agent_lifecycle::Input;
use crate::messages::registry::RegistryMessage;

/// Runs of a client in the first batch; each next batch is twice as large.
const AT_ONCE_FIRST: usize = 64;

const AT_ONCE_MOST: usize = 4_096;

const PACE: Duration = Duration::from_millis(100);

impl RegistryState {
    /// True if attempts of a run may start on the client's credits.
    pub(super) fn may_go_on(&self, client: &ClientId, run: RunId) -> bool {
        let book = self.services.ledger.client(client);
        !book.is_parked() && book.may_start(run)
    }

    /// Resumes a batch of a client's runs, unless the last batch is recent.
    pub(super) fn credits(&mut self, client: ClientId) {
        if self.unpaid.0.get(&client).is_some_and(|waiters| !waiters.is_paced) {
            self.resume_for_credits(client);
        }
    }

    /// Resumes a batch of a client's runs, oldest first, if it has credits.
    pub(super) fn resume_for_credits(&mut self, client: ClientId) {
        let book = self.services.ledger.client(&client);
        let Some(waiters) = self.unpaid.0.get_mut(&client) else { return };
        waiters.at_once = (waiters.at_once * 2).clamp(AT_ONCE_FIRST, AT_ONCE_MOST);
        // Reserved credits serve only some runs, which need not be the oldest.
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
            services.mailboxes.tell_registry(RegistryMessage::ResumeForCredits { client });
        });
    }

    /// Resumes all of them: whether they have credits must be found out again.
    pub(super) fn wake_for_credits(&mut self) {
        for (_, waiters) in std::mem::take(&mut self.unpaid.0) {
            for (run, agent) in waiters.runs {
                self.take(&agent, Input::Wake { run });
            }
        }
    }
}
