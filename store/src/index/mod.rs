//! State derived from the journal: the addresses of every stream's frames, the tables of runs and accounts, and their
//! persistent copy, the index.
//!
//! The journal is the only truth. The index is a redb database with the state as of a [`Mark`], an address in the journal;
//! the [`tail_index`] holds the rest in memory. Deleting the index loses nothing: opening rebuilds the index from the segments.
//! Every failure of the database, from a wrong checksum to a panic, is an [`IndexError`], and rebuilding is the answer to all.
//!
//! Crash cases: a commit moves the mark in the same transaction that adds the entries, so the index is as of the old mark or
//! the new one. Only durable frames enter the index. If the last indexed frame is missing, the index therefore belongs to another
//! journal, or the journal has lost durable records; [`replay::check_mark`] detects both by the frame's checksum.

pub(crate) mod catch_up;
mod commit;
mod compare;
mod entry;
mod guarded;
mod lookup;
pub(crate) mod replay;
pub(crate) mod tables;
pub(crate) mod tail_index;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, TableDefinition};

use self::entry::checked;
use self::guarded::guarded;
use crate::format::lsn::Lsn;

pub use compare::IndexDifferences;

const CACHE_BYTES: usize = 16 * 1024 * 1024;

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

const MARK: Table = TableDefinition::new("mark");
const MARK_KEY: &[u8] = b"mark";
/// Stream -> sequence number of the last record, chain hash.
const HEADS: Table = TableDefinition::new("heads");
/// Stream and sequence number of a record -> addresses of frames, from the frame starting with that record on.
const FRAMES: Table = TableDefinition::new("frames");
/// True if the run is closed or parked, and the run -> the run's row.
const RUNS: Table = TableDefinition::new("rows");
/// True if the run is closed or parked, time of opening, and the run -> nothing. Lists runs by age without reading all rows.
const RUNS_BY_AGE: Table = TableDefinition::new("rows_by_age");
const ACCOUNTS: Table = TableDefinition::new("accounts");
/// Key of a recorded result -> run and sequence number of the record.
const RECORDS: Table = TableDefinition::new("records");

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

const ALL: Range<'_> = (Bound::Unbounded, Bound::Unbounded);

/// The index is unusable and must be rebuilt.
#[derive(Debug, Clone, thiserror::Error)]
#[error("index: {what}")]
pub(crate) struct IndexError {
    what: String,
    /// The index is intact, and the journal lacks frames the index was built from.
    pub(crate) ahead: bool,
}

impl IndexError {
    pub(crate) fn foreign() -> IndexError {
        IndexError { what: "built from another journal".into(), ahead: false }
    }

    pub(crate) fn ahead() -> IndexError {
        IndexError { what: "built from another journal, or from more of this journal".into(), ahead: true }
    }
}

fn index_error(error: impl std::fmt::Display) -> IndexError {
    IndexError { what: error.to_string(), ahead: false }
}

/// How far the index has caught up with the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    /// All frames before this address are in the index.
    pub(crate) upto: Lsn,
    /// The last indexed frame and its checksum.
    pub(crate) last: Lsn,
    pub(crate) last_crc: u32,
    /// The last indexed frame with records and its checksum. The last frame is often a seal, and all seals of an epoch at one
    /// address are alike.
    pub(crate) records: Lsn,
    pub(crate) records_crc: u32,
    pub(crate) epoch: u64,
    /// Identity of the journal; 0 while it has no records.
    pub(crate) journal: u64,
}

pub(crate) struct Index {
    path: Option<PathBuf>,
    database: RwLock<Option<Database>>,
    pub(crate) was_unreadable: bool,
    /// Number of times the content was cleared or read again from the file.
    generation: AtomicU64,
    /// The file was reopened after the last failure; the next failure clears the index.
    reopened: AtomicBool,
}

impl Index {
    /// Opens the index at `path`, or an index in memory. A missing or unreadable file is replaced by an empty index.
    pub(crate) fn open(path: Option<&Path>) -> Index {
        let mut index = Index {
            path: path.map(Path::to_owned),
            database: RwLock::default(),
            was_unreadable: false,
            generation: AtomicU64::default(),
            reopened: AtomicBool::default(),
        };
        let opened = guarded(|| match path {
            Some(path) => database_at(path),
            None => database_in_memory(),
        });
        match opened {
            Ok(database) => index.set_database(Some(database)),
            Err(error) => {
                tracing::warn!(%error, "rebuilding the index");
                index.clear();
                index.was_unreadable = true;
            }
        }
        index
    }

    fn set_database(&self, database: Option<Database>) {
        let mut open = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *open, database);
        // Closing writes too.
        let _ = guarded(|| {
            drop(before);
            Ok(())
        });
    }

    /// Removes all entries and the mark. If the file cannot be created, the index lives in memory until the process ends.
    pub(crate) fn clear(&self) {
        // Incremented first, so that a concurrent reader of the empty index notices.
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.set_database(None);
        let fresh = self.path.as_ref().and_then(|path| {
            let _ = std::fs::remove_file(path);
            guarded(|| database_at(path)).inspect_err(|error| tracing::warn!(%error, "no index on disk")).ok()
        });
        self.set_database(fresh.or_else(|| guarded(database_in_memory).ok()));
    }

    /// Recovers from an [`IndexError`]: reopens the file the first time, since a full disk leaves the open database unusable
    /// and the file intact; clears the index if reopening did not help.
    pub(crate) fn reopen_or_clear(&self) {
        let Some(path) = self.path.as_ref().filter(|_| !self.reopened.swap(true, Ordering::SeqCst)) else {
            self.reopened.store(false, Ordering::SeqCst);
            return self.clear();
        };
        // Incremented first, as in `clear`.
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.set_database(None);
        match guarded(|| database_at(path)) {
            Ok(database) => self.set_database(Some(database)),
            Err(_) => self.clear(),
        }
    }

    /// Number of times the content was cleared or read again from the file. A reader combining the index with the tail index
    /// compares the number before and after.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or_else(|| index_error("no database"))?;
        guarded(|| act(database))
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.with(|database| {
            let Some(table) = read_table(database, table)? else { return Ok(None) };
            let value = table.get(key).map_err(index_error)?;
            value.map(|value| checked(key, value.value()).map(<[u8]>::to_vec)).transpose()
        })
    }

    /// Passes the entries of `range` to `each` in order, until `each` returns `false`.
    fn range(
        &self,
        table: Table,
        range: Range<'_>,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, IndexError>,
    ) -> Result<(), IndexError> {
        self.with(|database| {
            let Some(table) = read_table(database, table)? else { return Ok(()) };
            for entry in table.range::<&[u8]>(range).map_err(index_error)? {
                let (key, value) = entry.map_err(index_error)?;
                if !each(key.value(), checked(key.value(), value.value())?)? {
                    break;
                }
            }
            Ok(())
        })
    }
}

type OpenTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

fn read_table(database: &Database, table: Table) -> Result<Option<OpenTable>, IndexError> {
    let read = database.begin_read().map_err(index_error)?;
    match read.open_table(table) {
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        table => table.map(Some).map_err(index_error),
    }
}

/// Opens the database and verifies every page: an entry hidden by a corrupted page would read as absent. The index is small
/// (2 MB for a journal of 240 MB), so the check takes milliseconds.
fn database_at(path: &Path) -> Result<Database, IndexError> {
    // redb follows links and would overwrite the target.
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(index_error("not a regular file"));
    }
    let mut database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(index_error)?;
    if database.check_integrity().map_err(index_error)? {
        Ok(database)
    } else {
        Err(index_error("a corrupted page"))
    }
}

fn database_in_memory() -> Result<Database, IndexError> {
    Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create_with_backend(InMemoryBackend::new())
        .map_err(index_error)
}
