//! Rolling back to the durable end when the disk is full.

use std::io;

use ostler_kernel::port::JournalError;

use super::admission::disk_full;
use super::sequencer::WriterMessage;
use super::writer::Writer;
use crate::disk::reserve;
use crate::format::segment;

impl Writer {
    /// Undoes every append that is not durable, so that the journal can continue once space returns.
    ///
    /// Under the sequencer's lock, in order: empty the queue; free the reserve's blocks; remove segments without durable frames
    /// and truncate the last one behind the durable end; rebuild the tail index from the durable frames; move on to a new segment;
    /// reject the lost addresses. A crash in between leaves at most a torn tail, which opening truncates. An error in between
    /// leaves the disk unknown, and the caller poisons the journal.
    pub(super) fn roll_back(&mut self, error: &io::Error) -> io::Result<()> {
        let shared = self.shared.clone();
        let files = &shared.files;
        let mut sequencer = shared.sequencer();
        // Frames are sent under the sequencer's lock: the queue holds all undurable frames now.
        while let Ok(message) = self.queue.try_recv() {
            self.closing |= matches!(message, WriterMessage::Close);
        }
        reserve::release(&*files.disk)?;
        self.current = None;
        let durable_end = shared.waiters.durable_end();
        // A segment without durable frames is removed whole: its header may be missing too.
        let first_bad = durable_end.segment() + u32::from(segment::has_frames_before(durable_end));
        for number in files.numbers()?.into_iter().filter(|number| *number >= first_bad) {
            files.remove(number)?;
        }
        self.last_segment = files.numbers()?.last().copied().unwrap_or(0);
        if self.last_segment == durable_end.segment() {
            let file = files.file(durable_end.segment())?;
            file.set_len(durable_end.offset())?;
            file.set_len(shared.options.segment_bytes.max(durable_end.offset()))?;
            file.sync()?;
        }
        files.disk.sync()?;
        let why = error.to_string();
        let lost_end = sequencer.end;
        sequencer.pending.clear();
        sequencer.pending_bytes = 0;
        shared.rebuild_tail(&mut sequencer).map_err(|error| io::Error::other(error.to_string()))?;
        // Continuing in a new segment keeps every address unique.
        let next = lost_end.segment().max(durable_end.segment()) + 1;
        sequencer.end = segment::first_lsn(next);
        sequencer.state = disk_full(&shared.options, why.clone());
        drop(sequencer);
        tracing::warn!(%why, "the disk is full: appends fail until there is room");
        shared.waiters.reject(durable_end, lost_end, JournalError::Full(why));
        shared.watchers.wake_all();
        shared.rollbacks.send_modify(|count| *count += 1);
        shared.queue_room.notify_all();
        Ok(())
    }
}
