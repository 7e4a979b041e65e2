//! The index: where each stream's frames are and how each run stands, up to a mark in the journal.
//!
//! It holds nothing that the journal does not say. Whatever is wrong with it, from a checksum to a panic inside
//! the database, is [`Broken`], and the answer to that is to build it again.

mod compare;
mod entry;

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use ostler_kernel::id::RunId;
use ostler_kernel::port::{AccountRow, RunRow, RunRowStatus, StreamId, StreamKind};
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::bytes::{Cursor, put_u64};
use crate::codec;
use crate::journal::rows::AccountKey;
use crate::journal::segments::{Chain, Fold, FrameAt, Place, stream_bytes, stream_from};
use entry::{account_key, checked, entry_bytes, first_of, frames_key, mark_bytes, mark_of, put, row_key};

pub use compare::IndexDifferences;

/// Memory that the database may use for pages, in bytes.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Frames whose places stand in one entry.
const FRAMES_PER_ENTRY: usize = 1024;

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

const MARK: Table = TableDefinition::new("mark");
const MARK_KEY: &[u8] = b"mark";
/// Stream -> number of its last record, chain.
const HEADS: Table = TableDefinition::new("heads");
/// Stream and number of a record -> places of frames from the one on that starts with it.
const FRAMES: Table = TableDefinition::new("frames");
/// Whether it is closed or parked, and the run -> its line.
const ROWS: Table = TableDefinition::new("rows");

/// Client and agent -> what they were charged.
const ACCOUNTS: Table = TableDefinition::new("accounts");

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// The index cannot be used and must be built again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the index is broken: {what}")]
pub(crate) struct Broken {
    what: String,
    /// Nothing is wrong with it, but the journal does not go with it.
    pub(crate) ahead: bool,
}

impl Broken {
    /// The journal does not have what the index was made of.
    pub(crate) fn ahead() -> Broken {
        Broken { what: "it was made of another journal, or of more of this one".into(), ahead: true }
    }
}

fn broken(error: impl std::fmt::Display) -> Broken {
    Broken { what: error.to_string(), ahead: false }
}

/// How far the index has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    /// Frames before this are in the index.
    pub(crate) upto: Place,
    /// The last of them, and its checksum, by which the journal is recognised.
    pub(crate) last: Place,
    pub(crate) last_crc: u32,
    /// Highest epoch so far.
    pub(crate) epoch: u64,
}

/// The last record of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    pub(crate) chain: Chain,
}

/// The index.
pub(crate) struct Index {
    /// `None`: in memory.
    path: Option<PathBuf>,
    database: RwLock<Option<Database>>,
    /// What was found when it was opened could not be read.
    pub(crate) was_broken: bool,
    /// Times that it was emptied, or read again from its file.
    resets: AtomicU64,
    /// It was opened again since it was made: the next time that it cannot be used it is made anew.
    reopened: AtomicBool,
}

impl Index {
    /// The index at `path`, made if it is not there, made anew if it cannot be read; or one in memory.
    pub(crate) fn open(path: Option<&Path>) -> Index {
        let mut index = Index {
            path: path.map(Path::to_owned),
            database: RwLock::default(),
            was_broken: false,
            resets: AtomicU64::default(),
            reopened: AtomicBool::default(),
        };
        let opened = guarded(|| match path {
            Some(path) => database_at(path),
            None => database_in_memory(),
        });
        match opened {
            Ok(database) => index.put(Some(database)),
            Err(error) => {
                tracing::warn!(%error, "building the index again");
                index.reset();
                index.was_broken = true;
            }
        }
        index
    }

    fn put(&self, database: Option<Database>) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = database;
    }

    /// Empties the index. If there cannot be one on disk, it is in memory for as long as this process lives.
    pub(crate) fn reset(&self) {
        // Before anything goes: who reads then and finds too little sees that it was emptied meanwhile.
        self.resets.fetch_add(1, Ordering::SeqCst);
        self.put(None);
        let fresh = self.path.as_ref().and_then(|path| {
            let _ = std::fs::remove_file(path);
            guarded(|| database_at(path)).inspect_err(|error| tracing::warn!(%error, "no index on disk")).ok()
        });
        self.put(fresh.or_else(|| guarded(database_in_memory).ok()));
    }

    /// Does what may help an index that cannot be used: its file is opened again, as what is in there may be whole, and a disk that was full
    /// leaves the database of no use. If that was done already, it is emptied.
    pub(crate) fn mend(&self) {
        let Some(path) = self.path.as_ref().filter(|_| !self.reopened.swap(true, Ordering::SeqCst)) else {
            self.reopened.store(false, Ordering::SeqCst);
            return self.reset();
        };
        // Before anything goes: who reads then and finds too little sees that it was read again meanwhile.
        self.resets.fetch_add(1, Ordering::SeqCst);
        self.put(None);
        match guarded(|| database_at(path)) {
            Ok(database) => self.put(Some(database)),
            Err(_) => self.reset(),
        }
    }

    /// Times that it was emptied, or read again from its file.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load(Ordering::SeqCst)
    }

    fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T, Broken>) -> Result<T, Broken> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or_else(|| broken("there is none"))?;
        guarded(|| act(database))
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Broken> {
        self.with(|database| {
            let read = database.begin_read().map_err(broken)?;
            let table = match read.open_table(table) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
                table => table.map_err(broken)?,
            };
            let value = table.get(key).map_err(broken)?;
            value.map(|value| checked(key, value.value()).map(<[u8]>::to_vec)).transpose()
        })
    }

    /// Shows entries of `range` in order for as long as `each` wants another.
    fn range(
        &self,
        table: Table,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, Broken>,
    ) -> Result<(), Broken> {
        self.with(|database| {
            let read = database.begin_read().map_err(broken)?;
            let table = match read.open_table(table) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
                table => table.map_err(broken)?,
            };
            for entry in table.range::<&[u8]>(range).map_err(broken)? {
                let (key, value) = entry.map_err(broken)?;
                if !each(key.value(), checked(key.value(), value.value())?)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// How far the index has got; `None` if it is empty or of another format.
    pub(crate) fn mark(&self) -> Result<Option<Mark>, Broken> {
        self.get(MARK, MARK_KEY)?.map(|bytes| mark_of(&bytes)).transpose()
    }

    /// The last record of a stream, as of the mark.
    pub(crate) fn head(&self, stream: &StreamId) -> Result<Option<Head>, Broken> {
        let Some(bytes) = self.get(HEADS, &stream_bytes(stream))? else { return Ok(None) };
        let mut cursor = Cursor(&bytes);
        let head = cursor.u64().zip(cursor.array());
        head.map(|(seq, chain)| Some(Head { seq, chain })).ok_or_else(|| broken("half a head"))
    }

    /// Up to `limit` frames of a stream, from the one that holds record `from` on, before record `before`.
    pub(crate) fn frames(
        &self,
        stream: &StreamId,
        from: u64,
        before: u64,
        limit: usize,
    ) -> Result<Vec<FrameAt>, Broken> {
        let key = |seq: u64| frames_key(stream, seq);
        // The entry to begin with is the last one that starts at or before `from`.
        let mut start = key(from);
        self.with(|database| {
            let read = database.begin_read().map_err(broken)?;
            let table = match read.open_table(FRAMES) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
                table => table.map_err(broken)?,
            };
            let (lowest, highest) = (key(0), key(from));
            let mut range = table.range::<&[u8]>(&lowest[..]..=&highest[..]).map_err(broken)?;
            if let Some(entry) = range.next_back() {
                start = entry.map_err(broken)?.0.value().to_vec();
            }
            Ok(())
        })?;
        let end = key(before);
        let mut frames: Vec<FrameAt> = Vec::new();
        self.range(FRAMES, (Bound::Included(&start), Bound::Excluded(&end)), |key, value| {
            let mut first = first_of(key)?;
            let mut place = 0;
            let mut cursor = Cursor(value);
            while !cursor.0.is_empty() {
                let step = cursor.u64().zip(cursor.u64()).ok_or_else(|| broken("half an entry of frames"))?;
                (first, place) = (first.wrapping_add(step.0), u64::wrapping_add(place, step.1));
                if first <= from {
                    frames.clear();
                }
                if first >= before || frames.len() == limit {
                    return Ok(false);
                }
                frames.push(FrameAt { first, place: Place(place) });
            }
            Ok(true)
        })?;
        Ok(frames)
    }

    /// The line of a run.
    pub(crate) fn row(&self, run: RunId) -> Result<Option<RunRow>, Broken> {
        for over in [false, true] {
            if let Some(bytes) = self.get(ROWS, &row_key(over, run))? {
                return codec::decode_row(&bytes).map(Some).map_err(broken);
            }
        }
        Ok(None)
    }

    /// All lines, or those of open runs.
    pub(crate) fn rows(&self, open_only: bool) -> Result<Vec<RunRow>, Broken> {
        let end: &[u8] = if open_only { &[1] } else { &[2] };
        let mut rows = Vec::new();
        self.range(ROWS, (Bound::Unbounded, Bound::Excluded(end)), |_, value| {
            rows.push(codec::decode_row(value).map_err(broken)?);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// What a client was charged for one of its agents.
    pub(crate) fn account(&self, key: &AccountKey) -> Result<Option<AccountRow>, Broken> {
        let bytes = self.get(ACCOUNTS, &account_key(key)?)?;
        bytes.map(|bytes| codec::decode_row(&bytes).map_err(broken)).transpose()
    }

    /// What all clients were charged.
    pub(crate) fn accounts(&self) -> Result<Vec<AccountRow>, Broken> {
        let mut accounts = Vec::new();
        self.range(ACCOUNTS, ALL, |_, value| {
            accounts.push(codec::decode_row(value).map_err(broken)?);
            Ok(true)
        })?;
        Ok(accounts)
    }

    /// The last record of every stream.
    pub(crate) fn heads(&self) -> Result<Vec<(StreamId, Head)>, Broken> {
        let mut heads = Vec::new();
        self.range(HEADS, ALL, |key, value| {
            let mut cursor = Cursor(value);
            let head = cursor.u64().zip(cursor.array()).map(|(seq, chain)| Head { seq, chain });
            heads.extend(stream_from(key).zip(head));
            Ok(true)
        })?;
        Ok(heads)
    }

    /// The streams of a kind.
    pub(crate) fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, Broken> {
        let range = ([kind as u8], [kind as u8 + 1]);
        let mut streams = Vec::new();
        self.range(HEADS, (Bound::Included(&range.0), Bound::Excluded(&range.1)), |key, _| {
            streams.push(stream_from(key).ok_or_else(|| broken("not a stream"))?);
            Ok(true)
        })?;
        Ok(streams)
    }

    /// Adds what a fold that began at the mark `from` found, and moves the mark.
    pub(crate) fn commit(&self, fold: &Fold, from: Option<Mark>, mark: Mark) -> Result<(), Broken> {
        self.with(|database| {
            let mut write = database.begin_write().map_err(broken)?;
            write.set_quick_repair(true);
            {
                // In the same transaction: what is emptied between the two would hold what lies behind the mark alone.
                let mut marks = write.open_table(MARK).map_err(broken)?;
                let found = marks.get(MARK_KEY).map_err(broken)?;
                let found = found.map(|value| mark_of(checked(MARK_KEY, value.value())?)).transpose()?;
                if found != from {
                    return Err(broken("it was built again in the meantime"));
                }
                let mut heads = write.open_table(HEADS).map_err(broken)?;
                let mut frames = write.open_table(FRAMES).map_err(broken)?;
                for (stream, tail) in fold.streams.iter().filter(|(_, tail)| !tail.frames.is_empty()) {
                    let mut head = Vec::with_capacity(26);
                    put_u64(&mut head, tail.head.seq);
                    head.extend_from_slice(&tail.head.chain);
                    put(&mut heads, &stream_bytes(stream), &head)?;
                    for entry in tail.frames.chunks(FRAMES_PER_ENTRY) {
                        put(&mut frames, &frames_key(stream, entry[0].first), &entry_bytes(entry))?;
                    }
                }
                let mut rows = write.open_table(ROWS).map_err(broken)?;
                for row in fold.lines.rows.values() {
                    let over = row.status != RunRowStatus::Open;
                    rows.remove(&row_key(!over, row.run)[..]).map_err(broken)?;
                    put(&mut rows, &row_key(over, row.run), &codec::encode_row(row).map_err(broken)?)?;
                }
                let mut accounts = write.open_table(ACCOUNTS).map_err(broken)?;
                for (key, row) in &fold.lines.accounts {
                    put(&mut accounts, &account_key(key)?, &codec::encode_row(row).map_err(broken)?)?;
                }
                put(&mut marks, MARK_KEY, &mark_bytes(mark))?;
            }
            write.commit().map_err(broken)
        })
    }
}

/// The database may panic on a file that was tampered with; that is no reason to stop.
fn guarded<T>(act: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(broken("the database panicked")))
}

/// Opens the database and checks every page of it: an entry that a wrong page hides would read as "never was".
/// The index is small (2 MB for a journal of 240), so this takes milliseconds.
fn database_at(path: &Path) -> Result<Database, Broken> {
    // A link would be followed, and what it leads to written over.
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(broken("it is not a regular file"));
    }
    let mut database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(broken)?;
    if database.check_integrity().map_err(broken)? { Ok(database) } else { Err(broken("a page is wrong")) }
}

fn database_in_memory() -> Result<Database, Broken> {
    Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create_with_backend(InMemoryBackend::new())
        .map_err(broken)
}
