//! The one thread that writes: it drains the queue, writes what it found, syncs once, answers all.

use std::io;
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender};
use ostler_kernel::port::JournalError;

use super::frame::{self, FIRST, FRAME_HEADER_BYTES, Place};
use super::order::{Message, Ordered};
use super::segment::{self, SEGMENT_HEADER_BYTES};
use super::{Shared, reserve};
use crate::disk::{DiskFile, is_full};

/// Most bytes that are synced together.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of frames that are brought together before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// What the writer thread keeps.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Receiver<Message>,
    /// Told where a new segment starts: everything before it may go to the index.
    pub(crate) indexer: Sender<Place>,
    /// The last segment there is, 0 if there is none.
    pub(crate) last_segment: u32,
    /// The segment that is being written, and up to where its blocks are taken.
    pub(crate) current: Option<Current>,
    /// Whether anything was written that no seal follows.
    pub(crate) unsealed: bool,
    pub(crate) closing: bool,
}

/// An open segment.
pub(crate) struct Current {
    number: u32,
    file: Arc<dyn DiskFile>,
    prepared: u64,
}

/// Why a write was not done.
enum Trouble {
    /// No room, and nothing of it counts.
    Full(io::Error),
    /// Nobody knows what is on the disk now.
    Broken(io::Error),
}

fn trouble(error: io::Error) -> Trouble {
    if is_full(&error) { Trouble::Full(error) } else { Trouble::Broken(error) }
}

impl Writer {
    /// Writes until told to stop, then seals.
    pub(crate) fn run(&mut self) {
        while !self.closing {
            match self.queue.recv() {
                Ok(Message::Frame(ordered)) => {
                    let group = self.gather(ordered);
                    for part in group.chunk_by(|one, other| one.place.segment() == other.place.segment()) {
                        if !self.commit(part) {
                            break;
                        }
                    }
                }
                Ok(Message::Close) | Err(_) => self.closing = true,
            }
        }
        if self.unsealed {
            self.seal();
        }
    }

    /// `first` and what else is waiting by now.
    fn gather(&mut self, first: Arc<Ordered>) -> Vec<Arc<Ordered>> {
        let mut bytes = first.bytes.len();
        let mut group = vec![first];
        while bytes < GROUP_BYTES_MAX {
            match self.queue.try_recv() {
                Ok(Message::Frame(ordered)) => {
                    bytes += ordered.bytes.len();
                    group.push(ordered);
                }
                Ok(Message::Close) => {
                    self.closing = true;
                    break;
                }
                Err(_) => break,
            }
        }
        group
    }

    /// Writes frames of one segment and answers for them; false if they, and all behind them, are not to be.
    fn commit(&mut self, part: &[Arc<Ordered>]) -> bool {
        if self.shared.takes_no_appends() {
            return false;
        }
        match self.write(part) {
            Ok(()) => {
                self.measure(part);
                self.unsealed = true;
                self.shared.synced(part[part.len() - 1].end());
                true
            }
            Err(Trouble::Broken(error)) => {
                self.shared.poison(format!("writing segment {}: {error}", part[0].place.segment()));
                false
            }
            Err(Trouble::Full(error)) => {
                if let Err(worse) = self.take_back(&error) {
                    self.shared.poison(format!("the disk is full, and cleaning up failed: {worse}"));
                }
                false
            }
        }
    }

    /// Records what is durable now.
    fn measure(&self, part: &[Arc<Ordered>]) {
        let Some(measures) = &self.shared.options.measures else { return };
        measures.group_size.record(part.len() as f64);
        for since in part.iter().filter_map(|ordered| ordered.since) {
            measures.append_seconds.record(since.elapsed());
        }
    }

    /// Waits for the disk.
    fn sync(shared: &Shared, file: &dyn DiskFile) -> io::Result<()> {
        if let Some(measures) = &shared.options.measures {
            measures.fsyncs.increment(1);
        }
        file.sync()
    }

    /// Writes and syncs frames that follow each other in one segment, as long as this process holds the folder.
    fn write(&mut self, part: &[Arc<Ordered>]) -> Result<(), Trouble> {
        let (place, end) = (part[0].place, part[part.len() - 1].end().offset());
        self.shared.check_held().map_err(Trouble::Broken)?;
        if self.current.as_ref().is_none_or(|current| current.number != place.segment()) {
            self.enter(place)?;
        }
        let shared = &self.shared;
        let current = self.current.as_mut().expect("entering a segment leaves it open");
        if end > current.prepared {
            // Blocks are taken ahead, so that most syncs have no metadata to write.
            let prepare_to = (end + shared.options.prepare_bytes).min(shared.options.segment_bytes).max(end);
            current.file.write_at(&vec![0; (prepare_to - end) as usize], end).map_err(trouble)?;
            current.prepared = prepare_to;
        }
        let mut from = place.offset();
        let mut buffer = Vec::with_capacity(((end - from) as usize).min(BUFFER_BYTES));
        for ordered in part {
            let start = buffer.len();
            buffer.extend_from_slice(&ordered.bytes);
            let flags = if ordered.place == place { FIRST } else { 0 };
            frame::finish(&mut buffer[start..], ordered.place, flags);
            if buffer.len() >= BUFFER_BYTES || ordered.end().offset() == end {
                if from > place.offset() {
                    shared.check_held().map_err(Trouble::Broken)?;
                }
                current.file.write_at(&buffer, from).map_err(trouble)?;
                from += buffer.len() as u64;
                buffer.clear();
            }
        }
        // A failed sync says nothing about what is on the disk, so it is never just "full".
        Writer::sync(shared, &*current.file).map_err(Trouble::Broken)?;
        // It may have been suspended, and the folder taken over, since it looked.
        shared.check_held().map_err(Trouble::Broken)
    }

    /// Opens the segment of `place`, which is its first frame unless the segment is there already.
    fn enter(&mut self, place: Place) -> Result<(), Trouble> {
        let number = place.segment();
        let files = &self.shared.files;
        self.current = None;
        if number == self.last_segment {
            let file = files.file(number).map_err(trouble)?;
            self.current = Some(Current { number, file, prepared: place.offset() });
            return Ok(());
        }
        // Room of a segment that went is blank, and all its blocks are taken: syncs then have no metadata to write.
        let is_spare = files.take_spare(number).map_err(trouble)?;
        let file = files.disk.open(&segment::name(number), true).map_err(trouble)?;
        let segment_bytes = self.shared.options.segment_bytes;
        file.set_len(segment_bytes).map_err(trouble)?;
        file.write_at(&segment::header(number, self.last_segment), 0).map_err(trouble)?;
        Writer::sync(&self.shared, &*file).map_err(Trouble::Broken)?;
        files.disk.sync().map_err(Trouble::Broken)?;
        let prepared = if is_spare { segment_bytes } else { SEGMENT_HEADER_BYTES as u64 };
        self.current = Some(Current { number, file, prepared });
        self.last_segment = number;
        // The indexer may be gone only when the journal is closing.
        let _ = self.indexer.send(Place::new(number, SEGMENT_HEADER_BYTES as u64));
        Ok(())
    }

    /// The disk is full: makes everything that is not durable undone, so that the journal can go on later.
    fn take_back(&mut self, error: &io::Error) -> io::Result<()> {
        let shared = self.shared.clone();
        let files = &shared.files;
        let mut order = shared.order();
        // Frames are sent under this lock, so what is in the queue now is all that was ordered.
        while let Ok(message) = self.queue.try_recv() {
            self.closing |= matches!(message, Message::Close);
        }
        reserve::release(files)?;
        self.current = None;
        let good = shared.acks.synced();
        // A segment in which nothing is durable goes as a whole: not even its header may be there.
        let first_bad = good.segment() + u32::from(good.offset() > SEGMENT_HEADER_BYTES as u64);
        for number in files.numbers()?.into_iter().filter(|number| *number >= first_bad) {
            files.remove(number)?;
        }
        self.last_segment = files.numbers()?.last().copied().unwrap_or(0);
        if self.last_segment == good.segment() {
            let file = files.file(good.segment())?;
            file.set_len(good.offset())?;
            file.set_len(shared.options.segment_bytes.max(good.offset()))?;
            file.sync()?;
        }
        files.disk.sync()?;
        let why = error.to_string();
        let lost = order.end;
        order.pending.clear();
        order.pending_bytes = 0;
        shared.refold(&mut order).map_err(|error| io::Error::other(error.to_string()))?;
        // A place is never given out twice: the journal goes on in a new segment.
        let next = lost.segment().max(good.segment()) + 1;
        order.end = Place::new(next, SEGMENT_HEADER_BYTES as u64);
        order.standing = shared.options.full(why.clone());
        drop(order);
        tracing::warn!(%why, "the disk is full: nothing is acknowledged until there is room");
        shared.acks.lose(good, lost, JournalError::Full(why));
        shared.watchers.reset();
        shared.undone.send_modify(|times| *times += 1);
        shared.room.notify_all();
        Ok(())
    }

    /// Says, at the end, that nothing was under way: whatever is found wrong before it was once durable.
    fn seal(&mut self) {
        let place = self.shared.acks.synced();
        let bytes = frame::assemble(self.shared.order().epoch, &[], &[]);
        debug_assert!(bytes.len() >= FRAME_HEADER_BYTES && bytes.len() <= segment::SEAL_BYTES_MAX);
        let seal = Arc::new(Ordered { place, bytes, since: None });
        match !self.shared.takes_no_appends() {
            true if self.write(std::slice::from_ref(&seal)).is_ok() => self.shared.synced(seal.end()),
            _ => tracing::warn!("the journal was closed without a seal"),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.poison("the writer panicked".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ostler_kernel::event::Event;
    use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId, StreamKind};

    use super::super::{Options, open};
    use super::*;
    use crate::disk::FaultyDisk;
    use crate::index::Index;
    use crate::lock::HeldLock;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_written_while_the_folder_was_taken_over_is_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (lock, _) = HeldLock::take(&path).unwrap();
        let disk = FaultyDisk::new();
        let options =
            Options { segment_bytes: 8192, prepare_bytes: 0, reserve_bytes: 1, ..Options::default() };
        let opened = open(Arc::new(disk.clone()), Index::open(None), options, 0, |_| Ok(Some(lock)));
        let (journal, _) = opened.unwrap();
        let append = |expected: u64| {
            let stream = StreamId { partition: 0, kind: StreamKind::Run, key: [1; 16] };
            let events = vec![Event::Parked { reason: expected.to_string() }];
            journal.append(vec![StreamBatch { stream, expected: Seq(expected), at_ms: 0, events }]).unwrap()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let wait = |position| {
            runtime
                .block_on(async { tokio::time::timeout(PATIENCE, journal.durable(position)).await })
                .unwrap()
        };
        assert_eq!(wait(append(0)), Ok(()));
        disk.hold_syncs();
        let position = append(1);
        let begun = Instant::now();
        while disk.syncs_waiting() == 0 {
            assert!(begun.elapsed() < PATIENCE, "nothing was synced");
            std::thread::yield_now();
        }
        std::fs::remove_file(&path).unwrap();
        let _taken_over = HeldLock::take(&path).unwrap();
        disk.release_syncs();
        let answer = wait(position);
        assert!(
            matches!(&answer, Err(JournalError::Poisoned(why)) if why.contains("another process may hold")),
            "{answer:?}"
        );
        let syncs = disk.syncs();
        drop(journal);
        assert_eq!(disk.syncs(), syncs, "not even a seal is written");
    }
}
