//! Writing the index.

use ostler_kernel::port::RunRowStatus;
use redb::{Database, ReadableTable, WriteTransaction};

use super::entry::{
    account_key, age_key, checked, entry_bytes, frames_key, mark_bytes, mark_of, put, run_key,
};
use super::tail_index::TailIndex;
use super::{
    ACCOUNTS, FRAMES, HEADS, Index, IndexError, MARK, MARK_KEY, Mark, RECORDS, RUNS, RUNS_BY_AGE, index_error,
};
use crate::format::bytes::put_u64;
use crate::format::codec;
use crate::format::stream::stream_key;

const FRAMES_PER_ENTRY: usize = 1024;

impl Index {
    /// Adds a tail index starting at the mark `from` and moves the mark, in one transaction.
    ///
    /// # Errors
    ///
    /// The mark is no longer `from`: the index was cleared meanwhile, and the tail alone would be incomplete. The comparison
    /// and the write share a transaction, so a concurrent clear cannot fall in between.
    pub(crate) fn commit(&self, tail: &TailIndex, from: Option<Mark>, mark: Mark) -> Result<(), IndexError> {
        self.with(|database| commit(database, tail, from, mark))
    }
}

fn commit(database: &Database, tail: &TailIndex, from: Option<Mark>, mark: Mark) -> Result<(), IndexError> {
    let mut write = database.begin_write().map_err(index_error)?;
    write.set_quick_repair(true);
    {
        let mut marks = write.open_table(MARK).map_err(index_error)?;
        let found = marks.get(MARK_KEY).map_err(index_error)?;
        let found = found.map(|value| mark_of(checked(MARK_KEY, value.value())?)).transpose()?;
        if found != from {
            return Err(index_error("rebuilt in the meantime"));
        }
        put_streams(&write, tail)?;
        put_tables(&write, tail)?;
        put(&mut marks, MARK_KEY, &mark_bytes(mark))?;
    }
    write.commit().map_err(index_error)
}

fn put_streams(write: &WriteTransaction, tail: &TailIndex) -> Result<(), IndexError> {
    let mut heads = write.open_table(HEADS).map_err(index_error)?;
    let mut frames = write.open_table(FRAMES).map_err(index_error)?;
    for (stream, tail) in tail.streams.iter().filter(|(_, tail)| !tail.frames.is_empty()) {
        let mut head = Vec::with_capacity(26);
        put_u64(&mut head, tail.head.seq);
        head.extend_from_slice(&tail.head.chain);
        put(&mut heads, &stream_key(stream), &head)?;
        for entry in tail.frames.chunks(FRAMES_PER_ENTRY) {
            put(&mut frames, &frames_key(stream, entry[0].first), &entry_bytes(entry))?;
        }
    }
    Ok(())
}

fn put_tables(write: &WriteTransaction, tail: &TailIndex) -> Result<(), IndexError> {
    let mut runs = write.open_table(RUNS).map_err(index_error)?;
    let mut by_age = write.open_table(RUNS_BY_AGE).map_err(index_error)?;
    for row in tail.tables.runs.values() {
        let over = row.status != RunRowStatus::Open;
        let moved = runs.remove(&run_key(!over, row.run)[..]).map_err(index_error)?.is_some();
        if moved {
            by_age.remove(&age_key(!over, row.place())[..]).map_err(index_error)?;
        }
        put(&mut by_age, &age_key(over, row.place()), &[])?;
        put(&mut runs, &run_key(over, row.run), &codec::encode_row(row).map_err(index_error)?)?;
    }
    let mut accounts = write.open_table(ACCOUNTS).map_err(index_error)?;
    for (key, row) in &tail.tables.accounts {
        put(&mut accounts, &account_key(key)?, &codec::encode_row(row).map_err(index_error)?)?;
    }
    let mut records = write.open_table(RECORDS).map_err(index_error)?;
    for (key, row) in &tail.tables.records {
        put(&mut records, &key.0, &codec::encode_row(&row.place).map_err(index_error)?)?;
    }
    Ok(())
}
