//! What becomes of a run.

use ostler_kernel::id::RunId;
use ostler_kernel::port::{Position, RunRowStatus, Seq};
use ostler_kernel::run::{Run, RunFold, RunOutcome};

use crate::api::cursor::EventCursor;
use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;

/// What a run has come to, for now or for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is over.
    Closed(RunOutcome),
    /// Nothing goes on until a person answers: in the run, or in one that its agent has to end first
    /// ([`System::held_up_by`]).
    WaitsForPerson,
    /// It was set aside, and why.
    Parked(String),
    /// Something of it is damaged, and what: it never goes on.
    Quarantined(String),
    /// It is open, and this process does not drive it.
    Resting,
}

impl Settled {
    /// Whether the run is over and gave what it was for, or concluded early.
    pub fn is_success(&self) -> bool {
        matches!(self, Settled::Closed(RunOutcome::Succeeded | RunOutcome::Concluded))
    }
}

impl System {
    /// Waits until a run is over, or until nothing can go on without a person. Dropping the future loses nothing.
    pub async fn outcome(&self, run: RunId) -> Result<Settled, RunError> {
        self.awaited(run)?.settled(self).await
    }

    /// Who waits for a run, and asks more than once.
    pub(crate) fn awaited(&self, run: RunId) -> Result<Awaited, RunError> {
        Ok(Awaited { run, cursor: self.events(run, Seq(0))?, fold: RunFold::of(run) })
    }

    /// What a run has come to that nobody drives, by its line in the table; and where that is recorded.
    fn rests_as(&self, run: RunId) -> Result<(Settled, Position), RunError> {
        let row = self.row(run)?;
        let settled = match row.status {
            RunRowStatus::Closed(outcome) => Settled::Closed(outcome),
            RunRowStatus::Parked(reason) => Settled::Parked(reason),
            RunRowStatus::Open => Settled::Resting,
            RunRowStatus::Quarantined(why) => Settled::Quarantined(why),
        };
        Ok((settled, row.position))
    }

    /// What a run has come to right now: by its line in the table if nobody drives it, else by what its records tell; `None`
    /// while it goes on.
    fn settled(
        &self,
        run: RunId,
        told: Option<(Option<RunOutcome>, &Run)>,
    ) -> Result<Option<Settled>, RunError> {
        if !self.services.driven.has(run) {
            return Ok(Some(self.rests_as(run)?.0));
        }
        if let Some((Some(outcome), _)) = told {
            return Ok(Some(Settled::Closed(outcome)));
        }
        if self.services.driven.held_up_by(run).is_some() {
            return Ok(Some(Settled::WaitsForPerson));
        }
        // Taking a run up may end it, whatever it waited for by then: that its agent has looked at it counts. Where there is no room to
        // end it, what its records say does.
        let waits = self.services.driven.waits(run) || self.services.room.is_full();
        Ok(told.filter(|(_, run)| waits && self.waits_for_person(run)).map(|_| Settled::WaitsForPerson))
    }

    /// What a run has come to, if this view holds its last record; `None` while it goes on.
    pub fn settled_by(&self, view: &RunView) -> Result<Option<Settled>, RunError> {
        self.settled(view.opened.run, Some((view.closed, &view.run)))
    }

    /// The run of the same agent that comes before this one, where that waits for a person: until it is over, this one does not go
    /// on.
    pub fn held_up_by(&self, run: RunId) -> Option<RunId> {
        self.services.driven.held_up_by(run)
    }

    /// Whether nothing goes on in a run until a person answers. Silence that is due moves it without one.
    pub fn waits_for_person(&self, run: &Run) -> bool {
        self.services.waits_for_person(run)
    }
}

/// Somebody who waits for a run: what it reads of that is read once, however often it is asked.
pub(crate) struct Awaited {
    run: RunId,
    cursor: EventCursor,
    fold: RunFold,
}

impl Awaited {
    /// As [`System::outcome`]. Dropping the future loses nothing: what was read is kept.
    pub(crate) async fn settled(&mut self, system: &System) -> Result<Settled, RunError> {
        let run = self.run;
        loop {
            // What changes from here on ends the wait below. A run stirs when it ends and when it comes to wait for a person:
            // nobody is woken by each of its steps, nor by other runs.
            let stirs = system.services.driven.watch(run);
            if let Some(why) = system.services.halted.borrow().clone() {
                return Err(RunError::Halted(why));
            }
            let Some(mut stirs) = stirs else {
                let (settled, position) = system.rests_as(run)?;
                system.services.journal.durable(position).await?;
                return Ok(settled);
            };
            if system.services.driven.held_up_by(run).is_some() {
                return Ok(Settled::WaitsForPerson);
            }
            if system.services.driven.quiet(run).is_some() {
                // It asks nobody anything, so it has not settled; when it does, it stirs.
                let _ = stirs.changed().await;
                continue;
            }
            while let Some(record) = self.cursor.next_known().await {
                self.fold.record(&record?, &|plan| system.services.plans.read(plan))?;
            }
            let so_far = self.fold.so_far();
            let so_far = so_far.map(|folded| (folded.closed, &folded.run));
            if let Some(settled) = system.settled(run, so_far)? {
                return Ok(settled);
            }
            let _ = stirs.changed().await;
        }
    }
}
