//! The runs that this process drives. The table outlives the restart of any actor, like that of the effects.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{Position, Seq};
use tokio::sync::watch;

use crate::base::lock::lock;

/// The runs that this process drives.
#[derive(Default)]
pub(crate) struct ActiveRuns(Mutex<BTreeMap<RunId, ActiveRun>>);

/// What is known of a run that this process drives.
#[derive(Debug, Default)]
struct ActiveRun {
    /// Somebody asked for it by name.
    by_name: bool,
    /// The record up to which `quiet` holds.
    seq: Seq,
    /// Where that record stands, if by then the run asks nobody anything; `None`: it may.
    quiet: Option<Position>,
    /// Times that its actor ended as of the record `crashed_at`.
    crashes: u32,
    crashed_at: Seq,
    /// Its records were read in this process before.
    loaded: bool,
    /// Whatever ends this process is counted against it.
    counted: bool,
    /// Somebody wants it to come to rest.
    resting: bool,
    /// Nothing goes on in it until a person answers.
    waits: bool,
    /// The run of the same agent that comes before it.
    behind: Option<RunId>,
    /// Who waits for it, if anybody does; told when something may have changed about how it stands.
    waiters: Option<watch::Sender<()>>,
}

impl ActiveRun {
    /// Tells those who wait for it.
    fn notify_changed(&self) {
        if let Some(waiters) = &self.waiters {
            waiters.send_replace(());
        }
    }
}

impl ActiveRuns {
    /// The run is driven from here on, if it is not yet.
    pub(crate) fn add(&self, run: RunId, by_name: bool) {
        lock(&self.0).entry(run).or_default().by_name |= by_name;
    }

    /// Whether somebody asked for the run by name: then it is tried, however often it failed before.
    pub(crate) fn asked_for(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.by_name)
    }

    /// Notes of a run that is driven that it asks nobody anything as of its record `seq`, which stands at `quiet`; or, if that
    /// is `None`, that it may: to be noted before the question is appended.
    pub(crate) fn note_quiet(&self, run: RunId, seq: Seq, quiet: Option<Position>) {
        if let Some(driven) = lock(&self.0).get_mut(&run).filter(|driven| driven.seq <= seq) {
            (driven.seq, driven.quiet) = (seq, quiet);
        }
    }

    /// What is known of the records of runs is to be learned again: some may have been undone.
    pub(crate) fn forget_records(&self) {
        for driven in lock(&self.0).values_mut() {
            (driven.seq, driven.quiet, driven.crashed_at, driven.waits) = (Seq(0), None, Seq(0), false);
        }
    }

    /// The actor that drives the run has ended: how often so far, since the run got on last.
    pub(crate) fn crashed(&self, run: RunId) -> u32 {
        let mut driven = lock(&self.0);
        let Some(driven) = driven.get_mut(&run) else { return 0 };
        if driven.seq > driven.crashed_at {
            (driven.crashed_at, driven.crashes) = (driven.seq, 0);
        }
        driven.crashes += 1;
        driven.crashes
    }

    /// Where the record stands as of which the run is known to ask nobody anything.
    pub(crate) fn quiet(&self, run: RunId) -> Option<Position> {
        lock(&self.0).get(&run)?.quiet
    }

    /// Notes that somebody wants a run to come to rest, or that it goes on.
    pub(crate) fn note_resting(&self, run: RunId, resting: bool) {
        if let Some(driven) = lock(&self.0).get_mut(&run) {
            driven.resting = resting;
        }
    }

    /// Whether somebody wants a run to come to rest that has not yet.
    pub(crate) fn is_resting(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.resting)
    }

    /// Notes that the records of a run are read; whether they were before, in this process.
    pub(crate) fn was_loaded(&self, run: RunId) -> bool {
        lock(&self.0).get_mut(&run).is_some_and(|driven| std::mem::replace(&mut driven.loaded, true))
    }

    /// Notes that whatever ends this process is counted against the run: that is durable.
    pub(crate) fn note_counted(&self, run: RunId) {
        if let Some(driven) = lock(&self.0).get_mut(&run) {
            driven.counted = true;
        }
    }

    /// Whether whatever ends this process is counted against the run.
    pub(crate) fn is_counted(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.counted)
    }

    /// Whether the records of a run were read in this process.
    pub(crate) fn is_loaded(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.loaded)
    }

    /// Notes whether nothing goes on in a run until a person answers: so it is then with those behind it. Tells whether there are
    /// any for whom that is new.
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

    /// Whether its agent has found that nothing goes on in a run until a person answers.
    pub(crate) fn waits(&self, run: RunId) -> bool {
        lock(&self.0).get(&run).is_some_and(|driven| driven.waits)
    }

    /// Notes the runs of an agent, in their order: only the first of them goes on.
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

    /// The run that keeps this one waiting: it comes before it, and waits for a person.
    pub(crate) fn held_up_by(&self, run: RunId) -> Option<RunId> {
        let driven = lock(&self.0);
        let first = driven.get(&run)?.behind?;
        driven.get(&first).filter(|first| first.waits).map(|_| first)
    }

    /// Tells whoever waits for a run that is driven when something may have changed about how it stands, or when it is let
    /// go; `None`: it is not driven.
    pub(crate) fn watch(&self, run: RunId) -> Option<watch::Receiver<()>> {
        let mut driven = lock(&self.0);
        let waiters = &mut driven.get_mut(&run)?.waiters;
        Some(waiters.get_or_insert_with(|| watch::Sender::new(())).subscribe())
    }

    /// Whether this process drives it.
    pub(crate) fn has(&self, run: RunId) -> bool {
        lock(&self.0).contains_key(&run)
    }

    /// All of them, ascending.
    pub(crate) fn all(&self) -> Vec<RunId> {
        lock(&self.0).keys().copied().collect()
    }

    /// The run is driven no longer. Who waits for it hears so, as what it waits with is dropped.
    pub(crate) fn remove(&self, run: RunId) {
        lock(&self.0).remove(&run);
    }

    /// Tells those who wait for this run that something may have changed.
    pub(crate) fn notify_changed(&self, run: RunId) {
        if let Some(driven) = lock(&self.0).get(&run) {
            driven.notify_changed();
        }
    }
}
