//! What becomes of a run.

use ostler_kernel::id::RunId;
use ostler_kernel::port::{RunStanding, Seq};
use ostler_kernel::run::{Fold, Run, RunOutcome};

use crate::error::RunError;
use crate::system::System;

/// What a run has come to, for now or for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is over.
    Closed(RunOutcome),
    /// Nothing goes on until a person answers.
    WaitsForPerson,
    /// It was set aside, and why.
    Parked(String),
    /// This process does not drive it.
    Idle,
}

impl System {
    /// Waits until a run is over, or until nothing can go on without a person. Dropping the future loses nothing.
    pub async fn outcome(&self, run: RunId) -> Result<Settled, RunError> {
        let mut stirs = self.services.stirs.subscribe();
        let mut cursor = self.events(run, Seq(0))?;
        let mut fold = Fold::of(run);
        loop {
            stirs.mark_unchanged();
            if let Some(why) = self.services.halted.borrow().clone() {
                return Err(RunError::Halted(why));
            }
            if !self.services.drives(run) {
                let row = self.row(run)?;
                self.services.journal.durable(row.position).await?;
                return Ok(match row.standing {
                    RunStanding::Closed(outcome) => Settled::Closed(outcome),
                    RunStanding::Parked(reason) => Settled::Parked(reason),
                    RunStanding::Open => Settled::Idle,
                });
            }
            while let Some(record) = cursor.next_known().await {
                fold.record(&record?, &|plan| self.services.plans.read(plan))?;
            }
            let so_far = fold.so_far();
            if let Some(outcome) = so_far.and_then(|folded| folded.closed) {
                return Ok(Settled::Closed(outcome));
            }
            // Silence that is due is about to move something.
            let now = self.services.clock.now();
            let waits = |run: &Run| run.waits_for_person() && !run.silence_is_due(now);
            if so_far.is_some_and(|folded| waits(&folded.run)) {
                return Ok(Settled::WaitsForPerson);
            }
            // A run stirs when it ends and when it comes to wait for a person: nobody is woken by each of its steps.
            let _ = stirs.changed().await;
        }
    }
}
