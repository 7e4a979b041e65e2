//! Runs that the process drives. The table owns this fact and outlives the restart of any actor: a restarted registry
//! fills its list of runs per agent from it. That list only orders the runs of one agent.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{Position, Seq};
use tokio::sync::watch;

use crate::base::lock::lock;

#[derive(Default)]
pub(crate) struct ActiveRuns(Mutex<BTreeMap<RunId, ActiveRun>>);

#[derive(Debug, Default)]
struct ActiveRun {
    by_name: bool,
    /// The record up to which `quiet` holds.
    seq: Seq,
    /// Position of that record if the run has no open question by then; `None` if it may have one.
    quiet: Option<Position>,
    /// Actor ends since the record `crashed_at`.
    crashes: u32,
    crashed_at: Seq,
    /// The process has read the records before.
    loaded: bool,
    /// The recovery record is durable: the end of the process counts against the run.
    counted: bool,
    resting: bool,
    /// Nothing goes on until a person answers.
    waits: bool,
    behind: Option<RunId>,
    /// Wakes the callers that wait for the run; `None` without callers.
    waiters: Option<watch::Sender<()>>,
}

impl ActiveRun {
    fn notify_changed(&self) {
        if let Some(waiters) = &self.waiters {
            waiters.send_replace(());
        }
    }
}

impl ActiveRuns {
    /// Adds a run, if it is not driven yet.
    pub(crate) fn add(&self, run: RunId, by_name: bool) {
        lock(&self.0).entry(run).or_default().by_name |= by_name;
    }

    /// True if an operator asked for the run by name, which overrides the limit of crashes.
    pub(crate) fn asked_for(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.by_name)
    }

    /// Sets whether the run may have an open question as of its record `seq`: `None` before a question is appended,
    /// else the position of the record.
    pub(crate) fn note_quiet(&self, run: RunId, seq: Seq, quiet: Option<Position>) {
        if let Some(driven) = lock(&self.0).get_mut(&run).filter(|driven| driven.seq <= seq) {
            (driven.seq, driven.quiet) = (seq, quiet);
        }
    }

    /// Forgets what is known of the records: some may have been rolled back.
    pub(crate) fn forget_records(&self) {
        for driven in lock(&self.0).values_mut() {
            (driven.seq, driven.quiet, driven.crashed_at, driven.waits) = (Seq(0), None, Seq(0), false);
        }
    }

    /// Counts an end of the run's actor, and returns the count since the run's last progress.
    pub(crate) fn crashed(&self, run: RunId) -> u32 {
        let mut driven = lock(&self.0);
        let Some(driven) = driven.get_mut(&run) else { return 0 };
        if driven.seq > driven.crashed_at {
            (driven.crashed_at, driven.crashes) = (driven.seq, 0);
        }
        driven.crashes += 1;
        driven.crashes
    }

    /// Position of the record as of which the run has no open question.
    pub(crate) fn quiet(&self, run: RunId) -> Option<Position> {
        lock(&self.0).get(&run)?.quiet
    }

    pub(crate) fn note_resting(&self, run: RunId, resting: bool) {
        if let Some(driven) = lock(&self.0).get_mut(&run) {
            driven.resting = resting;
        }
    }

    /// True if a suspension is requested and not complete.
    pub(crate) fn is_resting(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.resting)
    }

    /// Marks the records as read by the process; returns whether they were read before.
    pub(crate) fn was_loaded(&self, run: RunId) -> bool {
        lock(&self.0).get_mut(&run).is_some_and(|driven| std::mem::replace(&mut driven.loaded, true))
    }

    /// Notes that the recovery record is durable.
    pub(crate) fn note_counted(&self, run: RunId) {
        if let Some(driven) = lock(&self.0).get_mut(&run) {
            driven.counted = true;
        }
    }

    /// True if the end of the process counts against the run.
    pub(crate) fn is_counted(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.counted)
    }

    /// True if the process has read the records of the run.
    pub(crate) fn is_loaded(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.loaded)
    }

    /// Sets whether the run waits for a person, and wakes callers of the runs behind it. Returns whether there are any.
    pub(crate) fn note_waits(&self, run: RunId, waits: bool) -> bool {
        let mut driven = lock(&self.0);
        let Some(noted) = driven.get_mut(&run) else { return false };
        if std::mem::replace(&mut noted.waits, waits) == waits {
            return false;
        }
        let mut any = false;
        for behind in driven.values().filter(|other| other.behind == Some(run)) {
            behind.notify_changed();
            any = true;
        }
        any
    }

    /// True if the run's agent found that nothing goes on until a person answers.
    pub(crate) fn waits(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.waits)
    }

    /// Sets the order of an agent's runs: only the first goes on.
    pub(crate) fn line_up<'a>(&self, runs: impl Iterator<Item = &'a RunId>) {
        let (mut driven, mut first) = (lock(&self.0), None);
        for run in runs {
            if let Some(driven) = driven.get_mut(run) {
                driven.behind = first;
                driven.notify_changed();
            }
            first = first.or(Some(*run));
        }
    }

    /// The earlier run of the same agent, if it waits for a person.
    pub(crate) fn held_up_by(&self, run: RunId) -> Option<RunId> {
        let driven = lock(&self.0);
        let first = driven.get(&run)?.behind?;
        driven.get(&first).filter(|first| first.waits).map(|_| first)
    }

    /// Signals that the state of the run may have changed; closes when the run is no longer driven. `None`: it is not
    /// driven.
    pub(crate) fn watch(&self, run: RunId) -> Option<watch::Receiver<()>> {
        let mut driven = lock(&self.0);
        let waiters = &mut driven.get_mut(&run)?.waiters;
        Some(waiters.get_or_insert_with(|| watch::Sender::new(())).subscribe())
    }

    pub(crate) fn has(&self, run: RunId) -> bool {
        lock(&self.0).contains_key(&run)
    }

    pub(crate) fn all(&self) -> Vec<RunId> {
        lock(&self.0).keys().copied().collect()
    }

    /// Removes a run; its callers wake because their channel closes.
    pub(crate) fn remove(&self, run: RunId) {
        lock(&self.0).remove(&run);
    }

    pub(crate) fn notify_changed(&self, run: RunId) {
        if let Some(driven) = lock(&self.0).get(&run) {
            driven.notify_changed();
        }
    }
}
