//! The components of a run's actor.

use std::sync::{Arc, Mutex};

use ostler_kernel::event::Parent;
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::JournalError;
use ostler_kernel::run::Run;
use tokio::sync::Semaphore;

use crate::attempts::executor::Executor;
use crate::base::limits::Limits;
use crate::messages::mailboxes::Mailboxes;
use crate::metrics::Measures;
use crate::scheduler::SchedulerHandle;
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_table::AttemptTable;
use crate::state::call_accounts::CallAccounts;
use crate::state::estimates::Estimates;
use crate::state::evaluation::Evaluation;
use crate::state::gatekeeper::Gatekeeper;
use crate::state::grants::Grants;
use crate::state::kernel_context::KernelContext;
use crate::state::ledger::Ledger;
use crate::state::market::Market;
use crate::state::retractions::Retractions;
use crate::state::run_budgets::RunBudgets;
use crate::storage::journal_client::JournalClient;
use crate::storage::results::ResultStore;
use crate::storage::run_reader::RunReader;
use crate::storage::step_logs::StepLogs;

/// The components of a run's actor; the registry passes them on.
pub(crate) struct RunServices {
    pub(crate) journal: Arc<JournalClient>,
    pub(crate) runs: Arc<RunReader>,
    pub(crate) results: Arc<ResultStore>,
    pub(crate) step_logs: Arc<StepLogs>,
    pub(crate) active_runs: Arc<ActiveRuns>,
    pub(crate) attempts: Arc<AttemptTable>,
    pub(crate) run_budgets: Arc<RunBudgets>,
    pub(crate) call_accounts: Arc<CallAccounts>,
    pub(crate) estimates: Estimates,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) grants: Grants,
    pub(crate) retractions: Retractions,
    pub(crate) market: Arc<Market>,
    pub(crate) evaluation: Arc<Evaluation>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) kernel: KernelContext,
    pub(crate) scheduler: Arc<SchedulerHandle>,
    pub(crate) executor: Arc<Executor>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) measures: Measures,
    pub(crate) limits: Limits,
    /// Held while an inactive run is read and appended to.
    pub(crate) suspended_writes: Mutex<()>,
    /// Permits for answers to waits; [`WAIT_ANSWERS_MAX`](crate::base::limits::WAIT_ANSWERS_MAX) at once.
    pub(crate) wait_answers: Semaphore,
}

impl RunServices {
    pub(crate) fn notify_run_changed(&self, run: RunId) {
        self.active_runs.notify_changed(run);
        self.journal.status.notify_changed();
    }

    /// True if nothing goes on in a run until somebody answers whom this process cannot hear by itself.
    pub(crate) fn needs_answer(&self, run: &Run) -> bool {
        self.kernel.needs_answer(run, self.gatekeeper.callbacks.is_served())
    }

    /// Deadline of the run's market job, or of its parent's.
    pub(crate) fn deadline_for(
        &self,
        run: RunId,
        parent: Option<&Parent>,
    ) -> Result<Option<Ticks>, JournalError> {
        self.market.deadline_for(&**self.journal, run, parent)
    }
}
