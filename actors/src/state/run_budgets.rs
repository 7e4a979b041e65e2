//! What the runs with a budget have of it, in one place for all attempts of a run. It outlives any actor.

use std::sync::Arc;

use dashmap::DashMap;
use ostler_kernel::id::RunId;
use ostler_kernel::run::{NodeAttempt, RunBudget};

use crate::base::keys::AttemptKey;
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_table::AttemptTable;

/// The purses of the runs that are driven and have a budget, and of those whose attempts still run.
pub(crate) struct RunBudgets {
    budgets: DashMap<RunId, RunBudget>,
    active_runs: Arc<ActiveRuns>,
}

impl RunBudgets {
    pub(crate) fn new(active_runs: Arc<ActiveRuns>) -> RunBudgets {
        RunBudgets { budgets: DashMap::new(), active_runs }
    }

    /// A run is driven: what its records say of its budget. Attempts that still run keep what they have.
    pub(crate) fn recall(
        &self,
        effects: &AttemptTable,
        run: RunId,
        budget: u64,
        (spent, opened): (u64, u64),
    ) {
        let runs = |(node, attempt): &NodeAttempt| {
            effects.knows(&AttemptKey { run, node: node.clone(), attempt: *attempt })
        };
        self.budgets.entry(run).or_insert_with(|| RunBudget::new(budget)).restore(spent, opened, runs);
    }

    /// Asks or changes a purse; `None`: the run has no budget.
    pub(crate) fn with<T>(&self, run: RunId, act: impl FnOnce(&mut RunBudget) -> T) -> Option<T> {
        self.budgets.get_mut(&run).map(|mut purse| act(&mut purse))
    }

    /// Whether an attempt may start, by the budget of its run: then something is set aside for it.
    pub(crate) fn may_start(&self, key: &AttemptKey, most: u64) -> bool {
        let of = (key.node.clone(), key.attempt);
        self.with(key.run, |purse| purse.reserved(&of) > 0 || purse.reserve(&of, most).is_some())
            .unwrap_or(true)
    }

    /// Whether nothing more of a run may start, by its budget.
    pub(crate) fn is_used_up(&self, run: RunId) -> bool {
        self.with(run, |purse| purse.is_exhausted()).unwrap_or(false)
    }

    /// An attempt has ended or does not start; by the records of its run all that ended cost `spent`.
    pub(crate) fn ended(&self, key: &AttemptKey, spent: u64) {
        self.with(key.run, |purse| purse.settle(&(key.node.clone(), key.attempt), spent));
    }

    /// The run is not active any more, unless it was resumed since. Attempts that still run keep what they have.
    pub(crate) fn release(&self, run: RunId) {
        self.budgets.remove_if(&run, |_, purse| purse.is_idle() && !self.active_runs.has(run));
    }

    /// An attempt has ended whose run is not active any more.
    pub(crate) fn abandon(&self, key: &AttemptKey) {
        self.ended(key, 0);
        self.release(key.run);
    }
}
