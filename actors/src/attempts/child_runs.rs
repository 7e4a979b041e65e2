//! Access of attempts to the layer that opens runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::event::{Output, Parent};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::{Diagnostic, Plan, PlanDraft};
use ostler_kernel::policy::Label;
use ostler_kernel::port::BoxFuture;
use ostler_kernel::run::RunOutcome;

use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::messages::submission::Submission;

/// Opens and follows runs for attempts; implemented by the layer above the registry.
pub(crate) trait ChildRuns: Send + Sync {
    /// Validates a plan.
    fn validate(&self, plan: PlanDraft) -> BoxFuture<'_, Result<Plan, Vec<Diagnostic>>>;

    /// Opens a run on behalf of an attempt, even if the future is dropped.
    fn open(&self, submission: Submission, parent: Parent) -> BoxFuture<'_, Result<(), String>>;

    /// Follows a run to its end.
    fn follow(&self, run: RunId) -> Result<Box<dyn ChildRun>, RunError>;

    /// Outputs of a closed run, as far as they exist.
    fn outputs(&self, run: RunId) -> BoxFuture<'_, Result<ChildOutputs, RunError>>;

    /// Cancels a run no longer wanted by its parent.
    fn cancel(&self, run: RunId) -> BoxFuture<'_, Result<(), RunError>>;
}

/// What a child run leaves for its parent.
pub(crate) struct ChildOutputs {
    pub(crate) outputs: Vec<(NodeId, Output)>,
    /// Labels of the answer of a goal run.
    pub(crate) labels: Vec<Label>,
}

pub(crate) trait ChildRun: Send {
    /// Waits until the run has closed, or goes on only with a person. An error: a suspension that no resume can lift.
    fn ended(&mut self) -> BoxFuture<'_, Result<ChildEnd, String>>;
}

/// The rest to which a child run has come.
pub(crate) enum ChildEnd {
    /// For good.
    Closed(RunOutcome),
    /// A person suspended it, and may resume it.
    Suspended,
    /// It waits for a person, or for a process.
    Waits,
}

/// The implementation of [`ChildRuns`] while the system runs, and the number of waiting attempts. Each of them keeps an
/// agent live, so half of the places stay for their child runs.
pub(crate) struct ChildRunSlot {
    opener: Mutex<Option<Arc<dyn ChildRuns>>>,
    waiting: AtomicU32,
    waiting_max: u32,
}

impl ChildRunSlot {
    pub(crate) fn new(live_agents: u32) -> ChildRunSlot {
        ChildRunSlot { opener: Mutex::default(), waiting: AtomicU32::new(0), waiting_max: live_agents / 2 }
    }

    /// Sets the implementation at the start of the system, and clears it at the end.
    pub(crate) fn set(&self, opener: Option<Arc<dyn ChildRuns>>) {
        *lock(&self.opener) = opener;
    }

    pub(super) fn get(&self) -> Option<Arc<dyn ChildRuns>> {
        lock(&self.opener).clone()
    }

    /// Counts a waiting attempt until the guard is dropped; the error is the limit that is reached.
    pub(super) fn enter(&self) -> Result<WaitGuard<'_>, u32> {
        let one_more = |waiting: u32| (waiting < self.waiting_max).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)?;
        Ok(WaitGuard(&self.waiting))
    }
}

pub(super) struct WaitGuard<'a>(&'a AtomicU32);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_places_are_left_for_the_runs_that_are_waited_for() {
        assert_eq!(ChildRunSlot::new(1).enter().err(), Some(0));
        let slot = ChildRunSlot::new(5);
        let first = slot.enter().unwrap();
        let _second = slot.enter().unwrap();
        assert_eq!(slot.enter().err(), Some(2));
        drop(first);
        assert!(slot.enter().is_ok());
    }
}
