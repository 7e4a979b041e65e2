//! Admission: back-pressure on a full queue, and the rules for a full disk.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_kernel::port::JournalError;

use super::prepared_append::PreparedAppend;
use super::sequencer::{AppendState, Sequencer};
use super::shared::Shared;
use crate::disk::reserve;
use crate::options::Options;

/// Free bytes for records required before the disk counts as having room.
pub(super) const ROOM_BYTES: usize = 64 * 1024;

/// The state of a journal on a full disk. Half of the reserve's blocks are for operators' records.
pub(super) fn disk_full(options: &Options, why: String) -> AppendState {
    AppendState::DiskFull { why, urgent_bytes: (options.reserve_bytes / 2) as usize }
}

impl Shared {
    /// Waits for room in the queue and returns the locked sequencer, ready to append.
    ///
    /// # Errors
    ///
    /// [`JournalError::Refused`] after [`Options::queue_wait_ms_max`] without room; otherwise the reason why the journal accepts
    /// no appends.
    pub(super) fn admit(&self, prepared: &PreparedAppend) -> Result<MutexGuard<'_, Sequencer>, JournalError> {
        let max = self.options.queue_bytes_max;
        let patience = Duration::from_millis(self.options.queue_wait_ms_max);
        let started = Instant::now();
        let mut sequencer = self.sequencer();
        // A frame larger than the queue is admitted to an empty queue.
        while sequencer.pending_bytes > 0
            && sequencer.pending_bytes + prepared.bytes > max
            && sequencer.state == AppendState::Accepting
        {
            let Some(left) = patience.checked_sub(started.elapsed()) else {
                return Err(JournalError::Refused(format!(
                    "{} bytes wait for the disk, QUEUE_BYTES_MAX is {max}",
                    sequencer.pending_bytes
                )));
            };
            sequencer =
                self.queue_room.wait_timeout(sequencer, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match &sequencer.state {
            AppendState::Accepting => {}
            AppendState::Poisoned(why) => return Err(JournalError::Poisoned(why.clone())),
            AppendState::EndLost(damage) => return Err(damage.clone().into()),
            AppendState::DiskFull { .. } => self.admit_on_full_disk(&mut sequencer, prepared)?,
        }
        Ok(sequencer)
    }

    /// Accepts appends again if the disk has room for the reserve and `bytes` of records. Does nothing while an operator's
    /// record is pending: that record needs the free blocks.
    pub(super) fn resume_if_room(&self, sequencer: &mut Sequencer, bytes: usize) -> bool {
        let more = self.options.allocation_for(bytes);
        let found = sequencer.pending.is_empty()
            && reserve::ensure_with_room(&*self.files.disk, self.options.reserve_bytes, more).is_ok();
        if found {
            tracing::debug!("the disk has room again");
            sequencer.state = AppendState::Accepting;
        }
        found
    }

    /// Admits an operator's record within the operators' share of the reserve; any other append only if the disk has room.
    fn admit_on_full_disk(
        &self,
        sequencer: &mut Sequencer,
        prepared: &PreparedAppend,
    ) -> Result<(), JournalError> {
        let AppendState::DiskFull { why, urgent_bytes } = &mut sequencer.state else { return Ok(()) };
        if prepared.urgent && *urgent_bytes >= prepared.bytes {
            *urgent_bytes -= prepared.bytes;
            return Ok(());
        }
        let full = JournalError::Full(why.clone());
        if self.resume_if_room(sequencer, prepared.bytes) { Ok(()) } else { Err(full) }
    }
}
