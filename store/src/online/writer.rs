//! The writer thread: group commit.
//!
//! The thread takes one frame from the queue, adds every frame already waiting (up to [`GROUP_BYTES_MAX`]), writes the group,
//! syncs once and acknowledges all. While the disk is busy with one group, the next group collects in the queue, so the group
//! size adapts to the disk without a timer.
//!
//! A group spanning two segments is committed in two parts. Each part's first frame carries
//! [`FIRST_OF_WRITE`]: the part before was synced. Crash cases, for a process dying while part *n* is written: all parts before
//! *n* are durable and intact; any subset of part *n*'s sectors may be on disk; nothing of later parts is. Recovery therefore
//! finds at most one torn part, at the end, and no flagged frame behind the first bad byte.

use std::io;
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender};

use super::sequencer::{SequencedFrame, WriterMessage};
use super::shared::Shared;
use crate::disk::{DiskFile, is_full};
use crate::format::frame::{self, FIRST_OF_WRITE, FRAME_HEADER_BYTES};
use crate::format::lsn::Lsn;
use crate::format::segment::{self, SEGMENT_HEADER_BYTES};

const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

const BUFFER_BYTES: usize = 256 * 1024;

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Receiver<WriterMessage>,
    /// Receives the first address of each new segment: everything before may enter the index.
    pub(super) indexer: Sender<Lsn>,
    pub(super) last_segment: u32,
    /// Identity of the journal, for the headers of new segments.
    pub(super) journal: u64,
    pub(super) current: Option<OpenSegment>,
    pub(super) unsealed: bool,
    pub(super) closing: bool,
}

pub(super) struct OpenSegment {
    number: u32,
    file: Arc<dyn DiskFile>,
    prepared: u64,
}

enum WriteError {
    /// The disk is full. Nothing of the group counts; the writer can roll back.
    Full(io::Error),
    /// The content of the disk is unknown.
    Unknown(io::Error),
}

fn classify(error: io::Error) -> WriteError {
    if is_full(&error) { WriteError::Full(error) } else { WriteError::Unknown(error) }
}

impl Writer {
    pub(super) fn run(&mut self) {
        while !self.closing {
            match self.queue.recv() {
                Ok(WriterMessage::Write(frame)) => {
                    let group = self.collect_group(frame);
                    for part in group.chunk_by(|one, other| one.lsn.segment() == other.lsn.segment()) {
                        if !self.commit(part) {
                            break;
                        }
                    }
                }
                Ok(WriterMessage::Close) | Err(_) => self.closing = true,
            }
        }
        if self.unsealed {
            self.seal();
        }
    }

    fn collect_group(&mut self, first: Arc<SequencedFrame>) -> Vec<Arc<SequencedFrame>> {
        let mut bytes = first.bytes.len();
        let mut group = vec![first];
        while bytes < GROUP_BYTES_MAX {
            match self.queue.try_recv() {
                Ok(WriterMessage::Write(frame)) => {
                    bytes += frame.bytes.len();
                    group.push(frame);
                }
                Ok(WriterMessage::Close) => {
                    self.closing = true;
                    break;
                }
                Err(_) => break,
            }
        }
        group
    }

    /// Writes frames of one segment and acknowledges them. `false`: these frames and all later ones are rejected.
    fn commit(&mut self, part: &[Arc<SequencedFrame>]) -> bool {
        if self.shared.is_closed_to_appends() {
            return false;
        }
        match self.write(part) {
            Ok(()) => {
                self.measure(part);
                self.unsealed = true;
                self.shared.advance_durable_end(part[part.len() - 1].end());
                true
            }
            Err(WriteError::Unknown(error)) => {
                self.shared.poison(format!("writing segment {}: {error}", part[0].lsn.segment()));
                false
            }
            Err(WriteError::Full(error)) => {
                if let Err(worse) = self.roll_back(&error) {
                    self.shared.poison(format!("the disk is full, and rolling back failed: {worse}"));
                }
                false
            }
        }
    }

    fn measure(&self, part: &[Arc<SequencedFrame>]) {
        let Some(metrics) = &self.shared.options.metrics else { return };
        metrics.group_size.record(part.len() as f64);
        for since in part.iter().filter_map(|frame| frame.since) {
            metrics.append_seconds.record(since.elapsed());
        }
    }

    fn sync(shared: &Shared, file: &dyn DiskFile) -> io::Result<()> {
        if let Some(metrics) = &shared.options.metrics {
            metrics.fsyncs.increment(1);
        }
        file.sync()
    }

    /// Writes and syncs consecutive frames of one segment, checking the lock before and after.
    fn write(&mut self, part: &[Arc<SequencedFrame>]) -> Result<(), WriteError> {
        let (start, end) = (part[0].lsn, part[part.len() - 1].end().offset());
        self.shared.check_held().map_err(WriteError::Unknown)?;
        if self.current.as_ref().is_none_or(|current| current.number != start.segment()) {
            self.open_segment(start)?;
        }
        let shared = &self.shared;
        let current = self.current.as_mut().expect("opening a segment sets the current one");
        if end > current.prepared {
            // Allocating blocks ahead leaves most syncs without metadata to write.
            let prepare_to = (end + shared.options.prepare_bytes).min(shared.options.segment_bytes).max(end);
            current.file.write_at(&vec![0; (prepare_to - end) as usize], end).map_err(classify)?;
            current.prepared = prepare_to;
        }
        let mut from = start.offset();
        let mut buffer = Vec::with_capacity(((end - from) as usize).min(BUFFER_BYTES));
        for frame in part {
            let at = buffer.len();
            buffer.extend_from_slice(&frame.bytes);
            let flags = if frame.lsn == start { FIRST_OF_WRITE } else { 0 };
            frame::fill_header(&mut buffer[at..], frame.lsn, flags);
            if buffer.len() >= BUFFER_BYTES || frame.end().offset() == end {
                if from > start.offset() {
                    shared.check_held().map_err(WriteError::Unknown)?;
                }
                current.file.write_at(&buffer, from).map_err(classify)?;
                from += buffer.len() as u64;
                buffer.clear();
            }
        }
        // A failed sync leaves the content of the disk unknown, even with the error "no space".
        Writer::sync(shared, &*current.file).map_err(WriteError::Unknown)?;
        // The process may have been suspended, and the folder taken over, since the last check.
        shared.check_held().map_err(WriteError::Unknown)
    }

    /// Opens the last segment, or creates the next one, starting with the frame at `lsn`.
    ///
    /// A new file is synced, and then the folder, before any frame is written: without a durable name the sync of a frame
    /// would prove nothing.
    fn open_segment(&mut self, lsn: Lsn) -> Result<(), WriteError> {
        let number = lsn.segment();
        let files = &self.shared.files;
        self.current = None;
        if number == self.last_segment {
            let file = files.file(number).map_err(classify)?;
            self.current = Some(OpenSegment { number, file, prepared: lsn.offset() });
            return Ok(());
        }
        // A spare's blocks are all allocated, which leaves every sync without metadata to write.
        let is_spare = files.take_spare(number).map_err(classify)?;
        let file = files.disk.open(&segment::name(number), true).map_err(classify)?;
        let segment_bytes = self.shared.options.segment_bytes;
        file.set_len(segment_bytes).map_err(classify)?;
        let header = segment::header(number, self.last_segment, self.journal);
        file.write_at(&header, 0).map_err(classify)?;
        Writer::sync(&self.shared, &*file).map_err(WriteError::Unknown)?;
        files.disk.sync().map_err(WriteError::Unknown)?;
        let prepared = if is_spare { segment_bytes } else { SEGMENT_HEADER_BYTES as u64 };
        self.current = Some(OpenSegment { number, file, prepared });
        self.last_segment = number;
        // The indexer ends only while the journal closes.
        let _ = self.indexer.send(segment::first_lsn(number));
        Ok(())
    }

    /// Writes a seal: bad bytes found in front of the seal later are damage, never a torn write.
    fn seal(&mut self) {
        let lsn = self.shared.waiters.durable_end();
        let bytes = frame::encode_seal(self.shared.sequencer().epoch);
        debug_assert!(bytes.len() >= FRAME_HEADER_BYTES && bytes.len() <= segment::SEAL_BYTES_MAX);
        let seal = Arc::new(SequencedFrame { lsn, bytes, since: None });
        match !self.shared.is_closed_to_appends() {
            true if self.write(std::slice::from_ref(&seal)).is_ok() => {
                self.shared.advance_durable_end(seal.end());
            }
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
    use ostler_kernel::port::{Journal, JournalError, Seq, StreamBatch, StreamId, StreamKind};

    use super::super::integrity::NoChecks;
    use super::super::opening::open;
    use super::*;
    use crate::disk::FaultyDisk;
    use crate::disk::lock::HeldLock;
    use crate::index::Index;
    use crate::options::Options;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_written_while_the_folder_was_taken_over_is_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (lock, _) = HeldLock::take(&path).unwrap();
        let disk = FaultyDisk::new();
        let options =
            Options { segment_bytes: 8192, prepare_bytes: 0, reserve_bytes: 1, ..Options::default() };
        let index = Index::open(None);
        let opened = open(Arc::new(disk.clone()), index, options, 0, &NoChecks, |_| Ok(Some(lock)));
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
