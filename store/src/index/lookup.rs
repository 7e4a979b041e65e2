//! Reading the index.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Bound;

use ostler_kernel::event::RecordPlace;
use ostler_kernel::id::{Digest, RunId, Ticks};
use ostler_kernel::port::{AccountRow, RunPlace, RunRow, RunsPage, StreamId, StreamKind};
use uuid::Uuid;

use super::entry::{account_key, age_key, checked, first_of, frames_key, mark_of, place_of, run_key};
use super::tables::AccountKey;
use super::tail_index::FrameAddress;
use super::{
    ACCOUNTS, ALL, FRAMES, HEADS, Index, IndexError, MARK, MARK_KEY, Mark, RECORDS, RUNS, RUNS_BY_AGE,
    index_error, read_table,
};
use crate::format::bytes::Cursor;
use crate::format::codec;
use crate::format::lsn::Lsn;
use crate::format::stream::{StreamHead, stream_from_key, stream_key};

impl Index {
    /// How far the index has caught up; `None` if empty.
    pub(crate) fn mark(&self) -> Result<Option<Mark>, IndexError> {
        self.get(MARK, MARK_KEY)?.map(|bytes| mark_of(&bytes)).transpose()
    }

    pub(crate) fn head(&self, stream: &StreamId) -> Result<Option<StreamHead>, IndexError> {
        self.get(HEADS, &stream_key(stream))?.map(|bytes| head_of(&bytes)).transpose()
    }

    pub(crate) fn heads(&self) -> Result<Vec<(StreamId, StreamHead)>, IndexError> {
        let mut heads = Vec::new();
        self.range(HEADS, ALL, |key, value| {
            heads.extend(stream_from_key(key).zip(head_of(value).ok()));
            Ok(true)
        })?;
        Ok(heads)
    }

    pub(crate) fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, IndexError> {
        let range = ([kind as u8], [kind as u8 + 1]);
        let mut streams = Vec::new();
        self.range(HEADS, (Bound::Included(&range.0), Bound::Excluded(&range.1)), |key, _| {
            streams.push(stream_from_key(key).ok_or_else(|| index_error("an invalid stream key"))?);
            Ok(true)
        })?;
        Ok(streams)
    }

    /// Up to `limit` frames of a stream, from the frame with record `from` to the last frame starting before record `before`.
    pub(crate) fn frames(
        &self,
        stream: &StreamId,
        from: u64,
        before: u64,
        limit: usize,
    ) -> Result<Vec<FrameAddress>, IndexError> {
        let start = self.frames_entry_with(stream, from)?;
        let end = frames_key(stream, before);
        let mut frames: Vec<FrameAddress> = Vec::new();
        self.range(FRAMES, (Bound::Included(&start), Bound::Excluded(&end)), |key, value| {
            let mut first = first_of(key)?;
            let mut lsn = 0;
            let mut cursor = Cursor(value);
            while !cursor.0.is_empty() {
                let step =
                    cursor.u64().zip(cursor.u64()).ok_or_else(|| index_error("a truncated frames entry"))?;
                (first, lsn) = (first.wrapping_add(step.0), u64::wrapping_add(lsn, step.1));
                if first <= from {
                    frames.clear();
                }
                if first >= before || frames.len() == limit {
                    return Ok(false);
                }
                frames.push(FrameAddress { first, lsn: Lsn(lsn) });
            }
            Ok(true)
        })?;
        Ok(frames)
    }

    /// Key of the last frames entry starting at or before record `from`; the key for `from` itself without one.
    fn frames_entry_with(&self, stream: &StreamId, from: u64) -> Result<Vec<u8>, IndexError> {
        let (lowest, highest) = (frames_key(stream, 0), frames_key(stream, from));
        self.with(|database| {
            let Some(table) = read_table(database, FRAMES)? else { return Ok(highest.clone()) };
            let mut range = table.range::<&[u8]>(&lowest[..]..=&highest[..]).map_err(index_error)?;
            match range.next_back() {
                Some(entry) => Ok(entry.map_err(index_error)?.0.value().to_vec()),
                None => Ok(highest.clone()),
            }
        })
    }

    pub(crate) fn run(&self, run: RunId) -> Result<Option<RunRow>, IndexError> {
        for over in [false, true] {
            if let Some(bytes) = self.get(RUNS, &run_key(over, run))? {
                return codec::decode_row(&bytes).map(Some).map_err(index_error);
            }
        }
        Ok(None)
    }

    pub(crate) fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, IndexError> {
        let end: &[u8] = if open_only { &[1] } else { &[2] };
        let mut rows = Vec::new();
        self.range(RUNS, (Bound::Unbounded, Bound::Excluded(end)), |_, value| {
            rows.push(codec::decode_row(value).map_err(index_error)?);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// A page of the rows, newest first, without the runs that `skip` names.
    pub(crate) fn runs_page(
        &self,
        page: RunsPage,
        skip: impl Fn(RunId) -> bool,
    ) -> Result<Vec<RunRow>, IndexError> {
        let lists: &[bool] = if page.open_only { &[false] } else { &[false, true] };
        let mut places = Vec::new();
        for over in lists {
            places.extend(self.newest(*over, page, &skip)?.into_iter().map(|place| (place, *over)));
        }
        places.sort_unstable_by_key(|(place, _)| Reverse(*place));
        places.truncate(page.limit);
        let row = |(place, over): (RunPlace, bool)| {
            let bytes = self.get(RUNS, &run_key(over, place.1))?;
            let bytes = bytes.ok_or_else(|| index_error("a run is listed by age and has no row"))?;
            codec::decode_row(&bytes).map_err(index_error)
        };
        places.into_iter().map(row).collect()
    }

    /// The highest places of one list by age within the page.
    fn newest(
        &self,
        over: bool,
        page: RunsPage,
        skip: impl Fn(RunId) -> bool,
    ) -> Result<Vec<RunPlace>, IndexError> {
        let lowest = age_key(over, (Ticks::MIN, RunId(Uuid::nil())));
        let end = page.before.map_or(vec![u8::from(over) + 1], |before| age_key(over, before).to_vec());
        self.with(|database| {
            let Some(table) = read_table(database, RUNS_BY_AGE)? else { return Ok(Vec::new()) };
            let mut places = Vec::new();
            for entry in table.range::<&[u8]>(&lowest[..]..&end[..]).map_err(index_error)?.rev() {
                if places.len() == page.limit {
                    break;
                }
                let (key, value) = entry.map_err(index_error)?;
                checked(key.value(), value.value())?;
                let place = place_of(key.value())?;
                places.extend((!skip(place.1)).then_some(place));
            }
            Ok(places)
        })
    }

    pub(crate) fn account(&self, key: &AccountKey) -> Result<Option<AccountRow>, IndexError> {
        let bytes = self.get(ACCOUNTS, &account_key(key)?)?;
        bytes.map(|bytes| codec::decode_row(&bytes).map_err(index_error)).transpose()
    }

    /// Place of the record under a key of recorded results.
    pub(crate) fn record(&self, key: Digest) -> Result<Option<RecordPlace>, IndexError> {
        let bytes = self.get(RECORDS, &key.0)?;
        bytes.map(|bytes| codec::decode_row(&bytes).map_err(index_error)).transpose()
    }

    /// The runs with a recorded result that is the newest of its work, or of its node.
    pub(crate) fn recorded_runs(&self) -> Result<HashSet<RunId>, IndexError> {
        let mut runs = HashSet::new();
        self.range(RECORDS, ALL, |_, value| {
            let place: RecordPlace = codec::decode_row(value).map_err(index_error)?;
            runs.insert(place.run);
            Ok(true)
        })?;
        Ok(runs)
    }

    pub(crate) fn accounts(&self) -> Result<Vec<AccountRow>, IndexError> {
        let mut accounts = Vec::new();
        self.range(ACCOUNTS, ALL, |_, value| {
            accounts.push(codec::decode_row(value).map_err(index_error)?);
            Ok(true)
        })?;
        Ok(accounts)
    }
}

fn head_of(bytes: &[u8]) -> Result<StreamHead, IndexError> {
    let mut cursor = Cursor(bytes);
    let head = cursor.u64().zip(cursor.array());
    head.map(|(seq, chain)| StreamHead { seq, chain }).ok_or_else(|| index_error("a truncated head"))
}
