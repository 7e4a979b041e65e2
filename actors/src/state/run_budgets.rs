//! Budgets of runs, shared by all attempts of a run. They outlive any actor.

use std::sync::Arc;

use dashmap::DashMap;
use ostler_kernel::id::RunId;
use ostler_kernel::run::{NodeAttempt, RunBudget};

use crate::base::keys::AttemptKey;
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_table::AttemptTable;

/// Budgets of driven runs, and of runs with running attempts.
pub(crate) struct RunBudgets {
    budgets: DashMap<RunId, RunBudget>,
    active_runs: Arc<ActiveRuns>,
}

impl RunBudgets {
    pub(crate) fn new(active_runs: Arc<ActiveRuns>) -> RunBudgets {
        RunBudgets { budgets: DashMap::new(), active_runs }
    }

    /// Restores the budget of a run from its records. Running attempts keep their reservations.
    pub(crate) fn recall(
        &self,
        attempts: &AttemptTable,
        run: RunId,
        budget: u64,
        (spent, opened): (u64, u64),
    ) {
        let runs = |(node, attempt): &NodeAttempt| {
            attempts.knows(&AttemptKey { run, node: node.clone(), attempt: *attempt })
        };
        self.budgets.entry(run).or_insert_with(|| RunBudget::new(budget)).restore(spent, opened, runs);
    }

    /// Queries or changes a run's budget; `None`: the run has none.
    pub(crate) fn with<T>(&self, run: RunId, act: impl FnOnce(&mut RunBudget) -> T) -> Option<T> {
        self.budgets.get_mut(&run).map(|mut run_budget| act(&mut run_budget))
    }

    /// Reserves `most` for an attempt, if the budget allows its start.
    pub(crate) fn may_start(&self, key: &AttemptKey, most: u64) -> bool {
        let of = (key.node.clone(), key.attempt);
        self.with(key.run, |run_budget| {
            run_budget.reserved(&of) > 0 || run_budget.reserve(&of, most).is_some()
        })
        .unwrap_or(true)
    }

    /// What an ended attempt is charged for `cost` credits of time: all of it, unless the run's budget ends before.
    pub(crate) fn chargeable(&self, key: &AttemptKey, cost: u64) -> u64 {
        let of = (key.node.clone(), key.attempt);
        self.with(key.run, |run_budget| run_budget.chargeable(&of, cost)).unwrap_or(cost)
    }

    /// True if the budget is used up.
    pub(crate) fn is_used_up(&self, run: RunId) -> bool {
        self.with(run, |run_budget| run_budget.is_exhausted()).unwrap_or(false)
    }

    /// Frees the reservation of an attempt; `spent` is the recorded cost of the run.
    pub(crate) fn ended(&self, key: &AttemptKey, spent: u64) {
        self.with(key.run, |run_budget| run_budget.settle(&(key.node.clone(), key.attempt), spent));
    }

    /// Drops the budget of an inactive run, unless it was resumed since. Running attempts keep their reservations.
    pub(crate) fn release(&self, run: RunId) {
        self.budgets.remove_if(&run, |_, run_budget| run_budget.is_idle() && !self.active_runs.has(run));
    }

    /// Frees the reservation of an attempt of an inactive run.
    pub(crate) fn abandon(&self, key: &AttemptKey) {
        self.ended(key, 0);
        self.release(key.run);
    }
}
