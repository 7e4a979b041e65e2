//! Runs attempts in tasks outside the actors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use ostler_kernel::event::Outcome;
use ostler_kernel::run::FailureCategory;
use ractor::ActorRef;
use tokio::time::Instant;

use crate::attempts::child_runs::ChildRunSlot;
use crate::base::attempt_end::{Ended, ModelCalls, cost_since, failed, panicked};
use crate::base::keys::{AttemptKey, Owner};
use crate::base::paused_time::PausedTime;
use crate::messages::agent::AgentMessage;
use crate::messages::slots::Ticket;
use crate::metrics::Measures;
use crate::scheduler::SchedulerHandle;
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_table::AttemptTable;
use crate::state::call_accounts::CallAccounts;
use crate::state::gatekeeper::Gatekeeper;
use crate::state::live_text::LiveTexts;
use crate::state::run_budgets::RunBudgets;
use crate::storage::journal_client::JournalClient;
use crate::storage::program_output::ProgramOutput;
use crate::storage::results::ResultStore;
use crate::storage::run_reader::RunReader;
use crate::storage::step_logs::StepLogs;

pub(crate) struct Executor {
    pub(crate) journal: Arc<JournalClient>,
    pub(crate) runs: Arc<RunReader>,
    pub(crate) results: Arc<ResultStore>,
    pub(crate) step_logs: Arc<StepLogs>,
    pub(crate) output: Arc<ProgramOutput>,
    pub(crate) live_texts: LiveTexts,
    pub(crate) attempts: Arc<AttemptTable>,
    pub(crate) active_runs: Arc<ActiveRuns>,
    pub(crate) run_budgets: Arc<RunBudgets>,
    pub(crate) call_accounts: Arc<CallAccounts>,
    pub(crate) scheduler: Arc<SchedulerHandle>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) measures: Measures,
    pub(crate) children: ChildRunSlot,
}

impl Executor {
    /// Spawns an attempt. `acts`: a shutdown waits for its end. A body that returns `None` never began, and its slot is
    /// free again. `model_calls`: those of the attempt, asked for at its end.
    pub(crate) fn spawn(
        self: &Arc<Executor>,
        key: AttemptKey,
        held: (Arc<Owner>, Ticket),
        agent: ActorRef<AgentMessage>,
        (acts, waited): (bool, Arc<PausedTime>),
        model_calls: impl FnOnce() -> ModelCalls + Send + 'static,
        attempt: impl Future<Output = Option<Outcome>> + Send + 'static,
    ) {
        let started = Instant::now();
        waited.watch_stops();
        let cancel = self.attempts.start(key.clone(), held, agent, acts, Arc::clone(&waited));
        let executor = Arc::clone(self);
        // Boxed: a task is moved several times.
        let attempt = Box::pin(attempt);
        tokio::spawn(async move {
            let shielded = AssertUnwindSafe(attempt).catch_unwind();
            let outcome = tokio::select! {
                biased;
                ended = shielded => match ended {
                    Ok(Some(outcome)) => outcome,
                    Ok(None) => return executor.withdraw(&key),
                    Err(panic) => panicked(&*panic),
                },
                () = cancel.cancelled() => failed(FailureCategory::Crash, "stopped before it had ended".to_owned()),
            };
            let (duration_ms, _) = cost_since(started + waited.total());
            // Time without disk space, without a slot, or in which the process did not run costs nothing.
            let (_, cost) = cost_since(started + waited.unpaid());
            let cost = executor.run_budgets.chargeable(&key, cost);
            let model_calls = model_calls();
            let ended = Ended { outcome, duration_ms, cost, accounts: None, model_calls };
            // A restarted scheduler settles all entries of the table.
            if executor.attempts.finish(&key, ended) {
                executor.scheduler.settle_ended();
            }
        });
    }

    /// Removes an attempt that never begins.
    fn withdraw(&self, key: &AttemptKey) {
        let Some(slot) = self.attempts.withdraw(key) else { return };
        if let Some(slot) = slot {
            self.scheduler.give_back(slot);
        }
        self.run_budgets.abandon(key);
    }
}
