//! The state known to the index when the journal is damaged.

use std::collections::HashMap;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{AccountRow, RunRow, StreamId};

use super::survey::Survey;
use crate::format::segment_files::SegmentFiles;
use crate::format::stream::StreamHead;
use crate::index::Index;
use crate::index::replay::replay;
use crate::index::tables::{self, Tables};

/// Heads and tables, complete despite the damage, as the index caught up before the damage occurred.
pub(super) struct IndexedState {
    pub(super) heads: Vec<(StreamId, StreamHead)>,
    pub(super) runs: HashMap<RunId, RunRow>,
    pub(super) accounts: Vec<AccountRow>,
}

impl IndexedState {
    /// Reads the index and the frames behind the mark. `None` if the damage lies behind the mark, or if the index is unusable.
    pub(super) fn read(files: &SegmentFiles, index: &Index, survey: &Survey) -> Option<IndexedState> {
        let mark = index.mark().ok()??;
        let ends =
            survey.lost_ranges.iter().map(|(_, end)| *end).chain(survey.misplaced_frames.iter().copied());
        if ends.max().is_some_and(|end| end > mark.upto) {
            return None;
        }
        // Fails unless the mark belongs to this journal and everything behind the mark is intact.
        let Tables { mut runs, mut accounts, records: _ } = replay(files, index, None).ok()?.tail.tables;
        for row in index.runs(false).ok()? {
            runs.entry(row.run).or_insert(row);
        }
        for row in index.accounts().ok()? {
            accounts.entry(tables::key_of(&row)).or_insert(row);
        }
        let accounts = accounts.into_values().collect();
        Some(IndexedState { heads: index.heads().ok()?, runs, accounts })
    }

    /// Reads the index alone, for a journal missing its end.
    pub(super) fn of_lost_end(index: &Index, survey: &Survey) -> Option<IndexedState> {
        let mut runs = survey.tables.runs.clone();
        runs.extend(index.runs(false).ok()?.into_iter().map(|row| (row.run, row)));
        Some(IndexedState { heads: index.heads().ok()?, runs, accounts: index.accounts().ok()? })
    }
}
