//! What becomes of a run.

use ostler_kernel::id::RunId;
use ostler_kernel::port::{Position, RunRowStatus, Seq};
use ostler_kernel::run::{Run, RunFold, RunOutcome, RunStatus};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::storage::event_cursor::EventCursor;

/// The status in which a run has come to rest, for now or for good.
///
/// Compares with a [`RunStatus`] alone: `run.outcome().await? == RunStatus::Succeeded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// A final status; or [`RunStatus::Waiting`] for a person, in the run or in one that its agent has to end first
    /// ([`System::held_up_by`]); or [`RunStatus::Suspended`]; or [`RunStatus::Queued`], if this process does not execute it.
    pub status: RunStatus,
    /// Why the run is suspended or quarantined.
    pub reason: Option<String>,
}

impl Settled {
    /// A run at rest in a status that needs no reason.
    pub const fn new(status: RunStatus) -> Settled {
        Settled { status, reason: None }
    }

    /// A run that was suspended for this reason.
    pub fn suspended(reason: impl Into<String>) -> Settled {
        Settled { status: RunStatus::Suspended, reason: Some(reason.into()) }
    }

    /// Whether the run succeeded or concluded early.
    pub fn is_success(&self) -> bool {
        matches!(self.status, RunStatus::Succeeded | RunStatus::Concluded)
    }
}

impl From<RunOutcome> for Settled {
    fn from(outcome: RunOutcome) -> Settled {
        Settled::new(outcome.into())
    }
}

impl PartialEq<RunStatus> for Settled {
    fn eq(&self, status: &RunStatus) -> bool {
        self.status == *status
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
            RunRowStatus::Closed(outcome) => outcome.into(),
            RunRowStatus::Parked(reason) => Settled::suspended(reason),
            RunRowStatus::Open => Settled::new(RunStatus::Queued),
            RunRowStatus::Quarantined(why) => Settled { status: RunStatus::Quarantined, reason: Some(why) },
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
        if !self.services.active_runs.has(run) {
            return Ok(Some(self.rests_as(run)?.0));
        }
        if let Some((Some(outcome), _)) = told {
            return Ok(Some(outcome.into()));
        }
        if self.services.active_runs.held_up_by(run).is_some() {
            return Ok(Some(Settled::new(RunStatus::Waiting)));
        }
        // Taking a run up may end it, whatever it waited for by then: that its agent has looked at it counts. Where there is no room to
        // end it, what its records say does.
        let waits = self.services.active_runs.waits(run) || self.services.journal.disk.is_full();
        Ok(told
            .filter(|(_, run)| waits && self.waits_for_person(run))
            .map(|_| Settled::new(RunStatus::Waiting)))
    }

    /// What a run has come to, if this view holds its last record; `None` while it goes on.
    pub fn settled_by(&self, view: &RunView) -> Result<Option<Settled>, RunError> {
        self.settled(view.opened.run, Some((view.closed, &view.run)))
    }

    /// The run of the same agent that comes before this one, where that waits for a person: until it is over, this one does not go
    /// on.
    pub fn held_up_by(&self, run: RunId) -> Option<RunId> {
        self.services.active_runs.held_up_by(run)
    }

    /// Whether nothing goes on in a run until a person answers. Silence that is due moves it without one.
    pub fn waits_for_person(&self, run: &Run) -> bool {
        self.services.kernel.waits_for_person(run)
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
            let stirs = system.services.active_runs.watch(run);
            let mut halted = system.services.journal.status.watch_halted();
            if let Some(why) = system.services.journal.status.halted() {
                return Err(RunError::Halted(why));
            }
            let Some(mut stirs) = stirs else {
                let (settled, position) = system.rests_as(run)?;
                system.services.journal.durable(position).await?;
                return Ok(settled);
            };
            if system.services.active_runs.held_up_by(run).is_some() {
                return Ok(Settled::new(RunStatus::Waiting));
            }
            if system.services.active_runs.quiet(run).is_some() {
                // It asks nobody anything, so it has not settled; when it does, it stirs.
                tokio::select! {
                    _ = stirs.changed() => {}
                    _ = halted.changed() => {}
                }
                continue;
            }
            while let Some(record) = self.cursor.next_known().await {
                self.fold.record(&record?, &|plan| system.services.runs.plans.read(plan))?;
            }
            let so_far = self.fold.so_far();
            let so_far = so_far.map(|folded| (folded.closed, &folded.run));
            if let Some(settled) = system.settled(run, so_far)? {
                return Ok(settled);
            }
            tokio::select! {
                _ = stirs.changed() => {}
                _ = halted.changed() => {}
            }
        }
    }
}
