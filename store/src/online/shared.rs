//! State shared by the journal's callers, the writer thread and the indexer thread.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ostler_kernel::port::{JournalError, StreamId};
use tokio::sync::watch;

use super::durability_waiters::DurabilityWaiters;
use super::integrity::IntegrityChecks;
use super::sequencer::{AppendState, Sequencer};
use super::watchers::Watchers;
use crate::disk::lock::HeldLock;
use crate::format::frame_body;
use crate::format::lsn::Lsn;
use crate::format::quarantine_list::{Quarantine, Quarantined};
use crate::format::segment_files::SegmentFiles;
use crate::format::stream::run_of;
use crate::index::Index;
use crate::index::replay::{ReplayError, replay};
use crate::index::tables::ChangeReader;
use crate::index::tail_index::TailIndex;
use crate::options::Options;

/// Most attempts to recover the index for one operation: reopening the file, then clearing the index.
pub(super) const INDEX_RECOVERIES_MAX: usize = 2;

/// Shared state. Lock order: sequencer, indexing, waiters, watchers.
pub(super) struct Shared {
    pub(super) sequencer: Mutex<Sequencer>,
    /// Signalled when the queue shrinks, or never will again.
    pub(super) queue_room: Condvar,
    pub(super) waiters: DurabilityWaiters,
    pub(super) watchers: Watchers,
    pub(super) rollbacks: watch::Sender<u64>,
    pub(super) change_reader: ChangeReader,
    pub(super) index: Index,
    pub(super) files: SegmentFiles,
    pub(super) options: Options,
    pub(super) checks: &'static dyn IntegrityChecks,
    /// Held while the indexer moves the mark, and while the tail index is rebuilt behind the mark.
    pub(super) indexing: Mutex<()>,
    pub(super) sequenced_end: AtomicU64,
    /// Released last, after the writer and the indexer have ended.
    pub(super) lock: Option<HeldLock>,
    pub(super) quarantine: Quarantine,
}

impl Shared {
    pub(super) fn sequencer(&self) -> MutexGuard<'_, Sequencer> {
        self.sequencer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn indexing(&self) -> MutexGuard<'_, ()> {
        self.indexing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check_held(&self) -> std::io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), HeldLock::check)
    }

    pub(super) fn quarantined(&self, stream: &StreamId) -> Option<&Quarantined> {
        self.quarantine.get(&run_of(stream)?)
    }

    pub(super) fn is_closed_to_appends(&self) -> bool {
        matches!(self.sequencer().state, AppendState::Poisoned(_) | AppendState::EndLost(_))
    }

    pub(super) fn poison(&self, why: String) {
        self.poison_locked(&mut self.sequencer(), why);
    }

    fn poison_locked(&self, sequencer: &mut Sequencer, why: String) {
        tracing::error!(%why, "the journal accepts no more appends");
        sequencer.state = AppendState::Poisoned(why.clone());
        self.waiters.fail_all(JournalError::Poisoned(why));
        self.queue_room.notify_all();
    }

    pub(super) fn advance_durable_end(&self, end: Lsn) {
        let mut sequencer = self.sequencer();
        while let Some(front) = sequencer.pending.front().filter(|front| front.lsn < end) {
            sequencer.pending_bytes -= front.bytes.len();
            sequencer.pending.pop_front();
        }
        // Before releasing the sequencer: a concurrent rebuild of the tail index finds each frame durable or pending.
        self.waiters.advance_to(end);
        drop(sequencer);
        self.queue_room.notify_all();
    }

    pub(super) fn rebuild_tail(&self, sequencer: &mut Sequencer) -> Result<(), JournalError> {
        let indexing = self.indexing();
        self.rebuild_tail_locked(&indexing, sequencer)
    }

    /// Recovers the index after a failure and rebuilds the tail index, which then covers everything the index has lost.
    /// Poisons the journal if the segments cannot be read.
    pub(super) fn recover_index(&self, sequencer: &mut Sequencer) -> Result<(), JournalError> {
        if let AppendState::EndLost(damage) = &sequencer.state {
            return Err(damage.clone().into());
        }
        let indexing = self.indexing();
        self.index.reopen_or_clear();
        self.rebuild_tail_locked(&indexing, sequencer).inspect_err(|error| {
            // Neither the tail index nor the index is complete now.
            self.poison_locked(sequencer, error.to_string());
        })
    }

    fn rebuild_tail_locked(
        &self,
        _indexing: &MutexGuard<'_, ()>,
        sequencer: &mut Sequencer,
    ) -> Result<(), JournalError> {
        // Dropped even on failure: the snapshots lack everything the index may have lost.
        sequencer.snapshots.clear();
        let until = Some(self.waiters.durable_end());
        let mut replayed = replay(&self.files, &self.index, until);
        for _ in 0..INDEX_RECOVERIES_MAX {
            let Err(ReplayError::Index(error)) = &replayed else { break };
            tracing::warn!(%error, "recovering the index");
            self.index.reopen_or_clear();
            replayed = replay(&self.files, &self.index, until);
        }
        let unreadable =
            |what: String| JournalError::Damaged { place: "the journal read again".into(), what };
        let mut tail = match replayed {
            Ok(replayed) => replayed.tail,
            Err(ReplayError::Damaged(damage)) => return Err(damage.into()),
            Err(error) => return Err(unreadable(format!("{error:?}"))),
        };
        for frame in &sequencer.pending {
            let body = frame_body::parse(frame.body()).expect("sequenced frames are well-formed");
            tail.apply_frame(frame.lsn, 0, &body, &self.index)
                .map_err(|error| unreadable(format!("{error:?}")))?;
        }
        sequencer.tail = tail;
        Ok(())
    }

    /// Keeps the index unchanged by others, and takes the snapshot as of `upto`. While the guard is held, the snapshot is
    /// complete from the index's mark on.
    pub(super) fn lock_for_catch_up(&self, upto: Lsn) -> (MutexGuard<'_, ()>, Option<TailIndex>) {
        let mut sequencer = self.sequencer();
        let indexing = self.indexing();
        (indexing, sequencer.take_snapshot(upto))
    }
}
