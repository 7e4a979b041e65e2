//! Opening a journal: recovery after a crash.
//!
//! Recovery replays the frames behind the index's mark into the tail index. The index is never needed: a missing, broken or
//! foreign one is rebuilt from all segments first. The end of the last segment decides between three cases:
//!
//! - **Clean**: the last frame is a seal, or the scan ends in zeros.
//! - **Torn**: bad bytes, and no later frame flagged as the first of a write. The process died during a write. No caller has
//!   been told that those bytes are durable, so they are truncated and reported as [`TornTail`].
//! - **Damaged**: bad bytes anywhere else, including bad bytes in front of a flagged frame. The bytes were durable once. The
//!   journal is refused unchanged; `ostler doctor --repair` quarantines the affected runs.
//!
//! If the last indexed frame is missing, the index may know of records the journal has lost: then the journal is refused too,
//! or opened for inspection only. Scrubbing verifies the checksums of the segments the index covers, which replaying skips:
//! the newest ones before the journal opens, the others in a background thread that poisons the journal on damage.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crossbeam::channel;

use super::admission::{ROOM_BYTES, disk_full};
use super::durability_waiters::DurabilityWaiters;
use super::indexer;
use super::integrity::{IntegrityChecks, SegmentToScrub};
use super::journal::SegmentJournal;
use super::sequencer::{AppendState, Sequencer};
use super::shared::Shared;
use super::tail_repair::repair_tail;
use super::writer::Writer;
use crate::disk::lock::HeldLock;
use crate::disk::{Disk, is_full, reserve};
use crate::format::damage::{Damage, OpenJournalError};
use crate::format::lsn::Lsn;
use crate::format::quarantine_list;
use crate::format::segment;
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;
use crate::index::catch_up::catch_up_in_steps;
use crate::index::replay::{ReplayError, Replayed, replay};
use crate::options::Options;

/// Outcome of opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalOpened {
    /// Epoch started by this opening.
    pub epoch: u64,
    /// The truncated torn tail, if any.
    pub torn: Option<TornTail>,
    /// True if the index was rebuilt from all segments.
    pub index_rebuilt: bool,
    /// The missing end of a journal opened for inspection, which accepts no appends.
    pub lost_end: Option<Damage>,
    /// True if the folder had records and no format file; a new one was written.
    pub format_missing: bool,
    /// Number of expired runs removed.
    pub removed: usize,
}

/// The unfinished last write of a process. No frame in the torn tail was acknowledged, unless the disk lost synced data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Number of the segment.
    pub segment: u32,
    /// End of the valid part.
    pub offset: u64,
    /// Dropped bytes.
    pub bytes: u64,
    /// Description of the first dropped bytes.
    pub what: String,
}

/// Opens the journal.
///
/// `lock` receives the new epoch, above `epoch_seen` and all epochs in the journal, records it, and returns the lock for the
/// journal to hold.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    index: Index,
    options: Options,
    epoch_seen: u64,
    checks: &'static dyn IntegrityChecks,
    lock: impl FnOnce(u64) -> io::Result<Option<HeldLock>>,
) -> Result<(SegmentJournal, JournalOpened), OpenJournalError> {
    options.check()?;
    let files = SegmentFiles::new(disk, options.segment_bytes);
    let (loaded, source) = load_or_rebuild(&files, &index, checks)?;
    if let Some(damage) = source.lost.last().cloned() {
        if !options.inspect {
            return Err(OpenJournalError::Damaged(source.lost));
        }
        let epoch = loaded.tail.epoch.max(epoch_seen);
        let held = lock(epoch)?;
        let opened = JournalOpened { epoch, lost_end: Some(damage.clone()), ..JournalOpened::default() };
        let start = Start { loaded, epoch, state: AppendState::EndLost(damage), lock: held };
        return Ok((start_threads(files, index, options, checks, start)?, opened));
    }
    // Rebuilding the index has read all segments already.
    let covered = if source.rebuilt { None } else { source.mark };
    let unscrubbed = match covered {
        Some(upto) if !options.inspect => scrub_newest(&files, checks, upto, options.scrub_bytes_max)?
            .map_err(|damage| refuse(&files, checks, ReplayError::Damaged(damage)))?,
        _ => Vec::new(),
    };
    let torn = repair_tail(&files, &loaded, options.segment_bytes)?;
    let state = allocate_reserve(&files, &options)?;
    files.disk.sync()?;
    let epoch = loaded.tail.epoch.max(epoch_seen) + 1;
    let held = lock(epoch)?;
    let opened = JournalOpened { epoch, torn, index_rebuilt: source.rebuilt, ..JournalOpened::default() };
    let start = Start { loaded, epoch, state, lock: held };
    let journal = start_threads(files, index, options, checks, start)?;
    scrub_in_background(&journal.shared, unscrubbed, covered.unwrap_or_default())?;
    Ok((journal, opened))
}

/// Allocates the reserve, and decides whether the journal accepts appends. On a full disk with a reserve of an earlier opening,
/// only operators' records are accepted.
fn allocate_reserve(files: &SegmentFiles, options: &Options) -> io::Result<AppendState> {
    let disk = &*files.disk;
    let had_reserve = reserve::exists(disk);
    match reserve::ensure_with_room(disk, options.reserve_bytes, options.allocation_for(ROOM_BYTES)) {
        Err(error) if is_full(&error) && had_reserve => Ok(disk_full(options, error.to_string())),
        Err(error) if is_full(&error) => {
            tracing::warn!("no room for the reserve");
            Ok(AppendState::Accepting)
        }
        ensured => ensured.map(|()| AppendState::Accepting),
    }
}

struct Source {
    rebuilt: bool,
    mark: Option<Lsn>,
    /// All damage of a journal with a missing end, the missing end last. The replayed state is then the index's.
    lost: Vec<Damage>,
}

fn load_or_rebuild(
    files: &SegmentFiles,
    index: &Index,
    checks: &dyn IntegrityChecks,
) -> Result<(Replayed, Source), OpenJournalError> {
    let known = index.mark().ok().flatten();
    let mark = known.map(|mark| mark.upto);
    match catch_up_and_replay(files, index) {
        Ok(loaded) => {
            let rebuilt = mark.is_none() && !files.numbers()?.is_empty();
            Ok((loaded, Source { rebuilt, mark, lost: Vec::new() }))
        }
        Err(ReplayError::Index(error)) => {
            if let Some(known) = known.filter(|_| error.ahead) {
                let lost = checks.verify_end(files, index)?;
                if !lost.is_empty() {
                    return Ok((Replayed::covered_by(known), Source { rebuilt: false, mark, lost }));
                }
            }
            tracing::warn!(%error, "rebuilding the index");
            index.clear();
            let loaded = catch_up_and_replay(files, index).map_err(|error| refuse(files, checks, error))?;
            Ok((loaded, Source { rebuilt: true, mark, lost: Vec::new() }))
        }
        Err(error) => Err(refuse(files, checks, error)),
    }
}

fn catch_up_and_replay(files: &SegmentFiles, index: &Index) -> Result<Replayed, ReplayError> {
    catch_up_in_steps(files, index, u32::MAX)?;
    replay(files, index, None)
}

/// The refusal of a journal, listing all damage rather than the first.
fn refuse(files: &SegmentFiles, checks: &dyn IntegrityChecks, error: ReplayError) -> OpenJournalError {
    match error {
        ReplayError::Io(error) => error.into(),
        ReplayError::Index(error) => io::Error::other(error.to_string()).into(),
        ReplayError::Damaged(damage) => {
            let all = checks.verify(files, None).unwrap_or_default();
            let known = all.iter().any(|one| (one.segment, one.offset) == (damage.segment, damage.offset));
            OpenJournalError::Damaged(if known { all } else { [vec![damage], all].concat() })
        }
    }
}

/// Scrubs the newest segments before `until`, up to `bytes_max`, and returns the others.
fn scrub_newest(
    files: &SegmentFiles,
    checks: &dyn IntegrityChecks,
    until: Lsn,
    bytes_max: u64,
) -> io::Result<Result<Vec<SegmentToScrub>, Damage>> {
    let numbers = files.numbers_before(until)?;
    let befores = [0].into_iter().chain(numbers.iter().copied());
    let segments = numbers.iter().copied().zip(befores);
    let mut segments: Vec<_> = segments.map(|(number, before)| SegmentToScrub { number, before }).collect();
    let count = usize::try_from(bytes_max / files.segment_bytes).unwrap_or(usize::MAX);
    for segment in segments.split_off(segments.len().saturating_sub(count)) {
        if let Some(damage) = checks.scrub(files, segment, until)? {
            return Ok(Err(damage));
        }
    }
    Ok(Ok(segments))
}

/// Scrubs segments in a thread, newest first. Damage poisons the journal.
fn scrub_in_background(
    shared: &Arc<Shared>,
    mut segments: Vec<SegmentToScrub>,
    until: Lsn,
) -> io::Result<()> {
    if segments.is_empty() {
        return Ok(());
    }
    let shared = Arc::downgrade(shared);
    let scrub_all = move || {
        while let Some(segment) = segments.pop() {
            // A weak reference, so that closing the journal does not wait for the scrub.
            let Some(shared) = shared.upgrade() else { return };
            match shared.checks.scrub(&shared.files, segment, until) {
                Ok(None) => {}
                Ok(Some(damage)) => {
                    return shared
                        .poison(format!("damage: {damage}; repair it with `ostler doctor --repair`"));
                }
                Err(error) => tracing::warn!(%error, segment = segment.number, "cannot scrub a segment"),
            }
        }
    };
    thread::Builder::new().name("journal-scrub".into()).spawn(scrub_all).map(drop)
}

struct Start {
    loaded: Replayed,
    epoch: u64,
    state: AppendState,
    lock: Option<HeldLock>,
}

fn start_threads(
    files: SegmentFiles,
    index: Index,
    options: Options,
    checks: &'static dyn IntegrityChecks,
    start: Start,
) -> io::Result<SegmentJournal> {
    let (to_writer, queue) = channel::unbounded();
    let (to_indexer, marks) = channel::unbounded();
    let Start { loaded, epoch, state, lock } = start;
    // Frames of a process that died without a seal are durable by now. A seal behind them will tell later damage from a torn
    // write.
    let unsealed = !loaded.sealed && loaded.last_write < loaded.end;
    let Replayed { tail, end, last_segment, .. } = loaded;
    let quarantine = quarantine_list::read(&*files.disk)?;
    let journal = segment::journal_or_new(files.journal_before(u32::MAX)?);
    let sequencer = Sequencer {
        tail,
        snapshots: Default::default(),
        epoch,
        end,
        pending: Default::default(),
        pending_bytes: 0,
        state,
        segment_bytes: options.segment_bytes,
        writer: to_writer,
    };
    let shared = Arc::new(Shared {
        sequencer: Mutex::new(sequencer),
        queue_room: Condvar::new(),
        waiters: DurabilityWaiters::new(end),
        watchers: Default::default(),
        rollbacks: Default::default(),
        change_reader: Default::default(),
        index,
        files,
        options,
        checks,
        indexing: Mutex::new(()),
        sequenced_end: AtomicU64::new(end.0),
        lock,
        quarantine,
    });
    let mut writer = Writer {
        shared: shared.clone(),
        queue,
        indexer: to_indexer.clone(),
        last_segment,
        journal,
        current: None,
        unsealed,
        closing: false,
    };
    let writer = thread::Builder::new().name("journal-writer".into()).spawn(move || writer.run())?;
    let indexer = {
        let shared = shared.clone();
        thread::Builder::new().name("journal-indexer".into()).spawn(|| indexer::run(shared, marks))?
    };
    Ok(SegmentJournal { shared, writer: Some(writer), indexer: Some((to_indexer, indexer)) })
}
