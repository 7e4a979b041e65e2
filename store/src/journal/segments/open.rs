//! Opening a journal: what is whole is taken, what was torn is cut off and told, what is damaged is refused.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crossbeam::channel;

use super::acks::Acks;
use super::files::Files;
use super::frame::Place;
use super::load::{LoadError, Loaded, load};
use super::order::{Order, Standing};
use super::segment::SEGMENT_HEADER_BYTES;
use super::verify::{Damage, damages_without_end, verify};
use super::writer::Writer;
use super::{Options, ROOM_BYTES, SegmentJournal, Shared, indexer, quarantine, reserve, swap, sweep};
use crate::disk::{Disk, is_full};
use crate::index::Index;
use crate::lock::HeldLock;

/// Segments that the index takes in at once while it is being built: bounds the memory it takes.
const SEGMENTS_PER_COMMIT: usize = 64;

/// What was found and done on opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalOpened {
    /// The epoch that begins.
    pub epoch: u64,
    /// The torn end that was cut off, if there was one.
    pub torn: Option<Torn>,
    /// Whether the index had to be built from the start.
    pub index_rebuilt: bool,
    /// What is lost of its end: it was opened to look, and takes no appends.
    pub lost_end: Option<Damage>,
    /// Whether the folder had records and no format file: that was written anew.
    pub format_missing: bool,
    /// Runs that went, as they were no longer to be kept.
    pub removed: usize,
}

/// The end of a write that power or process did not live to finish. Nothing of it was acknowledged, unless the
/// disk lost what it had promised to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// Number of the segment.
    pub segment: u32,
    /// Where the good part ends.
    pub offset: u64,
    /// Bytes that were dropped.
    pub bytes: u64,
    /// What was wrong with the first of them.
    pub what: String,
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenJournalError {
    /// Records that were once durable are not what they were. Nothing was changed.
    #[error("the journal is damaged: {}", list(.0))]
    Damaged(Vec<Damage>),
    /// The disk said no.
    #[error("opening the journal: {0}")]
    Io(#[from] io::Error),
}

fn list(damages: &[Damage]) -> String {
    damages.iter().map(Damage::to_string).collect::<Vec<_>>().join("; ")
}

impl SegmentJournal {
    /// Opens the journal on a disk of its own, without an index that outlives it: for tests with a faulty disk.
    ///
    /// # Errors
    ///
    /// The journal is damaged or cannot be read; see [`OpenJournalError`].
    pub fn on_disk(
        disk: Arc<dyn Disk>,
        options: Options,
    ) -> Result<(SegmentJournal, JournalOpened), OpenJournalError> {
        open(disk, Index::open(None), options, 0, |_| Ok(None))
    }
}

/// Opens the journal. `lock` is told the epoch that begins, which is above `epoch_seen` and above all in the
/// journal, and gives the lock for the journal to hold.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    index: Index,
    options: Options,
    epoch_seen: u64,
    lock: impl FnOnce(u64) -> io::Result<Option<HeldLock>>,
) -> Result<(SegmentJournal, JournalOpened), OpenJournalError> {
    options.check()?;
    swap::finish(&*disk)?;
    let files = Files::new(disk, options.segment_bytes);
    let (loaded, built) = load_or_rebuild(&files, &index)?;
    if let Some(damage) = built.lost.last().cloned() {
        if !options.looks {
            return Err(OpenJournalError::Damaged(built.lost));
        }
        let epoch = loaded.fold.epoch.max(epoch_seen);
        let held = lock(epoch)?;
        let opened = JournalOpened { epoch, lost_end: Some(damage.clone()), ..JournalOpened::default() };
        let journal = start(files, index, options, loaded, (epoch, Standing::Cut(damage)), held)?;
        return Ok((journal, opened));
    }
    // What was read while the index was built is swept already.
    let covered = if built.anew { None } else { built.mark };
    let left = match covered {
        Some(upto) if !options.looks => sweep::sweep_newest(&files, upto, options.sweep_bytes_max)?
            .map_err(|damage| refuse(&files, LoadError::Damaged(damage)))?,
        _ => Vec::new(),
    };
    let torn = mend(&files, &loaded, options.segment_bytes)?;
    let had_reserve = reserve::is_there(&files);
    let standing =
        match reserve::ensure_with_room(&files, options.reserve_bytes, options.taken_for(ROOM_BYTES)) {
            // There is nothing but the reserve: that is for operators.
            Err(error) if is_full(&error) && had_reserve => options.full(error.to_string()),
            Err(error) if is_full(&error) => {
                tracing::warn!("no room for the reserve");
                Standing::Writing
            }
            ensured => ensured.map(|()| Standing::Writing)?,
        };
    files.disk.sync()?;
    let epoch = loaded.fold.epoch.max(epoch_seen) + 1;
    let held = lock(epoch)?;
    let opened = JournalOpened { epoch, torn, index_rebuilt: built.anew, ..JournalOpened::default() };
    let journal = start(files, index, options, loaded, (epoch, standing), held)?;
    sweep::sweep_beside(&journal.shared, left, covered.unwrap_or_default())?;
    Ok((journal, opened))
}

/// How the index came to be.
struct Built {
    anew: bool,
    /// How far it had got before.
    mark: Option<Place>,
    /// Everything that is wrong with a journal whose end is gone, that last: only what the index covers is loaded then.
    lost: Vec<Damage>,
}

fn load_or_rebuild(files: &Files, index: &Index) -> Result<(Loaded, Built), OpenJournalError> {
    let known = index.mark().ok().flatten();
    let mark = known.map(|mark| mark.upto);
    let empty = mark.is_none();
    match build(files, index) {
        Ok(loaded) => {
            let anew = empty && !files.numbers()?.is_empty();
            Ok((loaded, Built { anew, mark, lost: Vec::new() }))
        }
        Err(LoadError::Index(broken)) => {
            if let Some(known) = known.filter(|_| broken.ahead) {
                let lost = damages_without_end(files, index)?;
                if !lost.is_empty() {
                    return Ok((Loaded::covered_by(known), Built { anew: false, mark, lost }));
                }
            }
            tracing::warn!(%broken, "building the index again");
            index.reset();
            let loaded = build(files, index).map_err(|error| refuse(files, error))?;
            Ok((loaded, Built { anew: true, mark, lost: Vec::new() }))
        }
        Err(error) => Err(refuse(files, error)),
    }
}

/// Refuses a journal that has lost its end, by what the index knows of it.
pub(crate) fn check_end(files: &Files, index: &Index) -> Result<(), OpenJournalError> {
    let damages = damages_without_end(files, index)?;
    if damages.is_empty() { Ok(()) } else { Err(OpenJournalError::Damaged(damages)) }
}

/// Reads the journal, in pieces if the index lacks much of it.
fn build(files: &Files, index: &Index) -> Result<Loaded, LoadError> {
    take_in(files, index, u32::MAX)?;
    load(files, index, None)
}

/// Adds what is missing to the index, in pieces, up to the start of the last segment there is, or of `last`.
pub(crate) fn take_in(files: &Files, index: &Index, last: u32) -> Result<(), LoadError> {
    let known = index.mark()?.map_or(0, |mark| mark.upto.segment());
    let lacks = |number: &u32| *number > known && *number <= last;
    let unknown: Vec<u32> = files.numbers()?.into_iter().filter(lacks).collect();
    for piece in unknown.chunks(SEGMENTS_PER_COMMIT) {
        // Up to the start of its last segment: that one may be torn, or the next piece begins with it.
        let last = piece[piece.len() - 1];
        indexer::catch_up(files, index, Place::new(last, SEGMENT_HEADER_BYTES as u64), None)?;
    }
    Ok(())
}

/// The refusal, with everything that is wrong rather than the first thing.
fn refuse(files: &Files, error: LoadError) -> OpenJournalError {
    match error {
        LoadError::Io(error) => error.into(),
        LoadError::Index(broken) => io::Error::other(broken.to_string()).into(),
        LoadError::Damaged(damage) => {
            let all = verify(files, None).unwrap_or_default();
            let known = all.iter().any(|one| (one.segment, one.offset) == (damage.segment, damage.offset));
            OpenJournalError::Damaged(if known { all } else { [vec![damage], all].concat() })
        }
    }
}

/// Cuts off what was torn, and makes sure that what was read is durable: the process before this one may have
/// died between writing and syncing, or after a sync that failed and left clean pages that are not on the disk. Even
/// the last seal may be such: what follows it is taken for proof that it was durable.
fn mend(files: &Files, loaded: &Loaded, segment_bytes: u64) -> io::Result<Option<Torn>> {
    if let Some(number) = loaded.stillborn {
        files.remove(number)?;
        files.disk.sync()?;
    }
    if loaded.end.segment() != loaded.last_segment {
        return Ok(None);
    }
    let file = files.file(loaded.end.segment())?;
    if loaded.torn.is_some() {
        file.set_len(loaded.end.offset())?;
        file.set_len(segment_bytes.max(loaded.end.offset()))?;
    }
    // The header goes with the first write of its segment.
    let first = loaded.last_write.offset() == SEGMENT_HEADER_BYTES as u64;
    let from = if first { 0 } else { loaded.last_write.offset() };
    let rewrites = from < loaded.end.offset();
    if rewrites {
        let mut bytes = vec![0; (loaded.end.offset() - from) as usize];
        let read = file.read_at(&mut bytes, from)?;
        file.write_at(&bytes[..read], from)?;
    }
    if loaded.torn.is_some() || rewrites {
        file.sync()?;
    }
    Ok(loaded.torn.map(|(bytes, what)| Torn {
        segment: loaded.end.segment(),
        offset: loaded.end.offset(),
        bytes: bytes as u64,
        what: what.to_owned(),
    }))
}

fn start(
    files: Files,
    index: Index,
    options: Options,
    loaded: Loaded,
    (epoch, standing): (u64, Standing),
    lock: Option<HeldLock>,
) -> io::Result<SegmentJournal> {
    let (to_writer, queue) = channel::unbounded();
    let (to_indexer, places) = channel::unbounded();
    // What a process left that did not live to seal it is durable by now, and a flip in it is to be told from a torn end.
    let unsealed = !loaded.sealed && loaded.last_write < loaded.end;
    let Loaded { fold, end, last_segment, .. } = loaded;
    let quarantine = quarantine::read(&*files.disk)?;
    let order = Order {
        fold,
        full: Default::default(),
        epoch,
        end,
        pending: Default::default(),
        pending_bytes: 0,
        standing,
        segment_bytes: options.segment_bytes,
        writer: to_writer,
    };
    let shared = Arc::new(Shared {
        order: Mutex::new(order),
        room: Condvar::new(),
        acks: Acks::new(end),
        watchers: Default::default(),
        undone: Default::default(),
        reader: Default::default(),
        index,
        files,
        options,
        indexing: Mutex::new(()),
        ordered: AtomicU64::new(end.0),
        lock,
        quarantine,
    });
    let mut writer = Writer {
        shared: shared.clone(),
        queue,
        indexer: to_indexer.clone(),
        last_segment,
        current: None,
        unsealed,
        closing: false,
    };
    let writer = thread::Builder::new().name("journal-writer".into()).spawn(move || writer.run())?;
    let indexer = {
        let shared = shared.clone();
        thread::Builder::new().name("journal-indexer".into()).spawn(|| indexer::run(shared, places))?
    };
    Ok(SegmentJournal { shared, writer: Some(writer), indexer: Some((to_indexer, indexer)) })
}
