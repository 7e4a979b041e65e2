//! The components that the actor of a run uses.

use std::sync::{Arc, Mutex};

use ostler_kernel::event::Parent;
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::JournalError;

use crate::attempts::executor::Executor;
use crate::base::limits::Limits;
use crate::messages::mailboxes::Mailboxes;
use crate::metrics::Measures;
use crate::scheduler::SchedulerHandle;
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_table::AttemptTable;
use crate::state::estimates::Estimates;
use crate::state::evaluation::Evaluation;
use crate::state::gatekeeper::Gatekeeper;
use crate::state::kernel_context::KernelContext;
use crate::state::ledger::Ledger;
use crate::state::market::Market;
use crate::state::run_budgets::RunBudgets;
use crate::storage::journal_client::JournalClient;
use crate::storage::results::ResultStore;
use crate::storage::run_reader::RunReader;
use crate::storage::step_logs::StepLogs;

/// The components that the actor of a run uses; the registry starts the actors with them.
pub(crate) struct RunServices {
    pub(crate) journal: Arc<JournalClient>,
    pub(crate) runs: Arc<RunReader>,
    pub(crate) results: Arc<ResultStore>,
    pub(crate) step_logs: Arc<StepLogs>,
    pub(crate) active_runs: Arc<ActiveRuns>,
    pub(crate) attempts: Arc<AttemptTable>,
    pub(crate) run_budgets: Arc<RunBudgets>,
    pub(crate) estimates: Estimates,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) market: Arc<Market>,
    pub(crate) evaluation: Arc<Evaluation>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) kernel: KernelContext,
    pub(crate) scheduler: Arc<SchedulerHandle>,
    pub(crate) executor: Arc<Executor>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) measures: Measures,
    pub(crate) limits: Limits,
    /// Held while a suspended run is read and written.
    pub(crate) suspended_writes: Mutex<()>,
}

impl RunServices {
    /// Wakes the waiters for a run.
    pub(crate) fn notify_run_changed(&self, run: RunId) {
        self.active_runs.notify_changed(run);
        self.journal.status.notify_changed();
    }

    /// When a run must be over, by the job that it is for.
    pub(crate) fn deadline_for(
        &self,
        run: RunId,
        parent: Option<&Parent>,
    ) -> Result<Option<Ticks>, JournalError> {
        self.market.deadline_for(&**self.journal, run, parent)
    }
}
