//! Waiting for a run to settle.

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
    /// A final status, or one that changes only from outside: [`RunStatus::Waiting`] for an answer, in the run or an
    /// earlier one of the agent ([`System::held_up_by`]); [`RunStatus::Suspended`]; or [`RunStatus::Queued`] for a run
    /// that the process does not drive.
    pub status: RunStatus,
    /// Reason of a suspension or quarantine.
    pub reason: Option<String>,
}

impl Settled {
    /// A status without a reason.
    pub const fn new(status: RunStatus) -> Settled {
        Settled { status, reason: None }
    }

    /// A suspension with its reason.
    pub fn suspended(reason: impl Into<String>) -> Settled {
        Settled { status: RunStatus::Suspended, reason: Some(reason.into()) }
    }

    /// True if the run succeeded or concluded early.
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
    /// Waits until a run is over, or until nothing can go on without an answer of a person or from outside. Dropping the future loses nothing.
    pub async fn outcome(&self, run: RunId) -> Result<Settled, RunError> {
        self.awaited(run)?.settled(self).await
    }

    pub(crate) fn awaited(&self, run: RunId) -> Result<Awaited, RunError> {
        Ok(Awaited { run, cursor: self.events(run, Seq(0))?, fold: RunFold::of(run) })
    }

    /// The status of an inactive run from its row, and the position of the record.
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

    /// The present status: from the row of an inactive run, else from its records; `None` while it goes on.
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
        // Loading a run may end it, so a waiting run counts as such once its agent has seen it. Without disk space no
        // agent loads it, and the records decide.
        let waits = self.services.active_runs.waits(run) || self.services.journal.disk.is_full();
        let below = self.services.active_runs.waits_below(run) && self.is_asked_below(run)?;
        Ok(told
            .filter(|(_, run)| waits && (below || self.needs_answer(run)))
            .map(|_| Settled::new(RunStatus::Waiting)))
    }

    /// The status of a run with its last record in `view`.
    pub fn settled_by(&self, view: &RunView) -> Result<Option<Settled>, RunError> {
        self.settled(view.opened.run, Some((view.closed, &view.run)))
    }

    /// True if the runs below still wait by their records: an answer is recorded before their agents note it.
    fn is_asked_below(&self, run: RunId) -> Result<bool, RunError> {
        let asking = self.services.active_runs.asking_below(run);
        for below in &asking {
            let folded = self.services.runs.fold(&self.row(*below)?, None, |_| {})?;
            let waits = folded.parked.is_some() || self.needs_answer(&folded.run);
            if folded.closed.is_some() || !waits {
                return Ok(false);
            }
        }
        Ok(!asking.is_empty())
    }

    /// The driven runs below a run with questions: it waits for them, or a call of it does that goes on meanwhile.
    pub fn asking_below(&self, run: RunId) -> Vec<RunId> {
        match self.services.active_runs.may_wait_below(run) {
            true => self.services.active_runs.asking_below(run),
            false => Vec::new(),
        }
    }

    /// The earlier run of the same agent that waits for a person and so holds this one.
    pub fn held_up_by(&self, run: RunId) -> Option<RunId> {
        self.services.active_runs.held_up_by(run)
    }

    /// True if nothing goes on until a person answers or a value comes from outside. An expired request needs no answer. A process
    /// with a listener for callbacks waits for values itself.
    pub fn needs_answer(&self, run: &Run) -> bool {
        self.services.needs_answer(run)
    }
}

/// A repeatable wait for one run that reads each record once.
pub(crate) struct Awaited {
    run: RunId,
    cursor: EventCursor,
    fold: RunFold,
}

impl Awaited {
    /// Like [`System::outcome`]. Dropping the future loses nothing: what was read is kept.
    pub(crate) async fn settled(&mut self, system: &System) -> Result<Settled, RunError> {
        let run = self.run;
        loop {
            // Subscribed before the state is read, so no change is missed. A run signals its end and each wait for a
            // person, not each step.
            let changes = system.services.active_runs.watch(run);
            let mut halted = system.services.journal.status.watch_halted();
            if let Some(why) = system.services.journal.status.halted() {
                return Err(RunError::Halted(why));
            }
            let Some(mut changes) = changes else {
                let (settled, position) = system.rests_as(run)?;
                system.services.journal.durable(position).await?;
                return Ok(settled);
            };
            if system.services.active_runs.held_up_by(run).is_some() {
                return Ok(Settled::new(RunStatus::Waiting));
            }
            let (quiet, below) =
                (system.services.active_runs.quiet(run), system.services.active_runs.waits_below(run));
            if quiet.is_some() && !below {
                // A run without an open question has not settled, and signals when it does.
                tokio::select! {
                    _ = changes.changed() => {}
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
                _ = changes.changed() => {}
                _ = halted.changed() => {}
            }
        }
    }
}
