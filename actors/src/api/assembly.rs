//! Assembles the components of a system.

use std::sync::{Arc, Mutex};

use ostler_kernel::evaluation::Domains;
use ostler_kernel::gate::GatePolicy;
use ostler_kernel::port::{AccountRow, ArtifactStore, Journal, Judge, OutputStore, WorkspaceWrites};
use ostler_kernel::run::{Diagnoser, Planner};
use tokio::sync::Semaphore;

use crate::attempts::child_runs::ChildRunSlot;
use crate::attempts::executor::Executor;
use crate::base::limits::{Limits, WAIT_ANSWERS_MAX};
use crate::messages::mailboxes::Mailboxes;
use crate::metrics::Measures;
use crate::run::services::RunServices;
use crate::scheduler::{QueueContext, SchedulerHandle};
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_table::AttemptTable;
use crate::state::call_accounts::CallAccounts;
use crate::state::estimates::Estimates;
use crate::state::evaluation::{Evaluating, Evaluation};
use crate::state::gatekeeper::Gatekeeper;
use crate::state::grants::Grants;
use crate::state::kernel_context::KernelContext;
use crate::state::ledger::Ledger;
use crate::state::live_text::LiveTexts;
use crate::state::market::Market;
use crate::state::profiles::Profiles;
use crate::state::rates::Rates;
use crate::state::retractions::Retractions;
use crate::state::run_budgets::RunBudgets;
use crate::state::toolbox::Toolbox;
use crate::storage::journal_client::JournalClient;
use crate::storage::plans::Plans;
use crate::storage::program_output::ProgramOutput;
use crate::storage::results::ResultStore;
use crate::storage::run_reader::RunReader;
use crate::storage::step_logs::StepLogs;

pub(crate) struct Parts {
    pub(crate) artifacts: Arc<dyn ArtifactStore>,
    pub(crate) output: Arc<dyn OutputStore>,
    pub(crate) writes: Arc<dyn WorkspaceWrites>,
    pub(crate) gate: GatePolicy,
    pub(crate) run_slots: u32,
    pub(crate) limits: Limits,
    pub(crate) measures: Measures,
    pub(crate) evaluation: Evaluating,
    pub(crate) planner: Arc<dyn Planner>,
    pub(crate) diagnoser: Arc<dyn Diagnoser>,
    pub(crate) rates: Rates,
}

impl Parts {
    /// Creates the components, from the lowest layer to the highest.
    pub(crate) fn assemble(
        self,
        journal: Arc<dyn Journal>,
        toolbox: Arc<Toolbox>,
        ledger: Ledger,
        accounts: &[AccountRow],
    ) -> RunServices {
        let Parts {
            artifacts,
            output,
            writes,
            gate,
            run_slots,
            limits,
            measures,
            evaluation,
            planner,
            diagnoser,
            rates,
        } = self;
        let Evaluating { domains, judge, .. } = evaluation;
        let (domains, ledger) = (Arc::new(domains), Arc::new(ledger));
        let mailboxes = Arc::new(Mailboxes::default());
        let journal = Arc::new(JournalClient::new(measures.count(journal)));
        let (status, disk, clock) = (Arc::clone(&journal.status), Arc::clone(&journal.disk), journal.clock);
        let results = ResultStore {
            artifacts,
            bytes_max: limits.result_bytes,
            memory_max: limits.result_memory,
            status,
            disk,
        };
        let results = Arc::new(results);
        let runs = Arc::new(RunReader { journal: Arc::clone(&journal), plans: Plans::default() });
        let output = Arc::new(ProgramOutput::new(output));
        let step_logs = Arc::new(StepLogs::new(Arc::clone(&journal)));
        let active_runs = Arc::new(ActiveRuns::default());
        let attempts =
            AttemptTable::new(Arc::clone(&journal), Arc::clone(&active_runs), Arc::clone(&mailboxes));
        let attempts = Arc::new(attempts);
        let run_budgets = Arc::new(RunBudgets::new(Arc::clone(&active_runs)));
        let calls = CallAccounts::new(Arc::clone(&journal), Arc::clone(&ledger), accounts);
        let call_accounts = Arc::new(calls);
        let gatekeeper =
            Gatekeeper::new(Arc::clone(&toolbox), Arc::clone(&runs), writes, gate, measures.clone(), limits);
        let gatekeeper = Arc::new(gatekeeper);
        let market = Arc::new(Market::new(Arc::clone(&ledger), Arc::clone(&call_accounts)));
        let evaluation = standards(&domains, judge, &market, &ledger);
        let scheduler = Arc::new(SchedulerHandle::new(QueueContext {
            attempts: Arc::clone(&attempts),
            ledger: Arc::clone(&ledger),
            mailboxes: Arc::clone(&mailboxes),
            measures: measures.clone(),
            clock,
            status: Arc::clone(&journal.status),
            jobs_max: limits.queued_jobs,
            rates: Arc::new(rates),
        }));
        let executor = Arc::new(Executor {
            journal: Arc::clone(&journal),
            runs: Arc::clone(&runs),
            results: Arc::clone(&results),
            step_logs: Arc::clone(&step_logs),
            output,
            live_texts: LiveTexts::default(),
            attempts: Arc::clone(&attempts),
            active_runs: Arc::clone(&active_runs),
            run_budgets: Arc::clone(&run_budgets),
            call_accounts: Arc::clone(&call_accounts),
            scheduler: Arc::clone(&scheduler),
            gatekeeper: Arc::clone(&gatekeeper),
            measures: measures.clone(),
            children: ChildRunSlot::new(limits.live_agents),
        });
        RunServices {
            journal,
            runs,
            results,
            step_logs,
            active_runs,
            attempts,
            run_budgets,
            call_accounts,
            estimates: Estimates::new(&toolbox),
            ledger,
            grants: Grants::default(),
            retractions: Retractions::default(),
            market,
            evaluation: Arc::new(evaluation),
            kernel: KernelContext {
                toolbox,
                domains,
                run_slots,
                gatekeeper: Arc::clone(&gatekeeper),
                clock,
                planner,
                diagnoser,
            },
            gatekeeper,
            scheduler,
            executor,
            mailboxes,
            measures,
            limits,
            suspended_writes: Mutex::default(),
            wait_answers: Semaphore::new(WAIT_ANSWERS_MAX),
        }
    }
}

fn standards(
    domains: &Arc<Domains>,
    judge: Option<Arc<dyn Judge>>,
    market: &Arc<Market>,
    ledger: &Arc<Ledger>,
) -> Evaluation {
    let (domains, profiles) = (Arc::clone(domains), Arc::new(Profiles::default()));
    let (market, ledger) = (Arc::clone(market), Arc::clone(ledger));
    Evaluation { domains, judge, profiles, market, ledger }
}
