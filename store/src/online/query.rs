//! Queries of the tail index and the index together.

use ostler_kernel::port::JournalError;

use super::shared::{INDEX_RECOVERIES_MAX, Shared};
use crate::index::{Index, IndexError};

pub(super) fn index_failed(error: IndexError) -> JournalError {
    JournalError::Damaged { place: "the index".into(), what: error.to_string() }
}

impl Shared {
    /// Runs `query`, which reads the tail index first and the index second. Must be called without the sequencer's lock.
    ///
    /// An index failure triggers recovery, which moves the lost part to the tail index; then the whole query runs again. The
    /// query also runs again if another thread recovered the index meanwhile: an old tail index and a cleared index together
    /// would miss records.
    pub(super) fn query<T>(
        &self,
        query: impl Fn(&Index) -> Result<T, IndexError>,
    ) -> Result<T, JournalError> {
        let mut recoveries = 0;
        loop {
            let generation = self.index.generation();
            let answer = query(&self.index);
            if self.index.generation() != generation {
                continue; // the recovering thread holds the sequencer until the tail index is complete
            }
            match answer {
                Err(error) if recoveries < INDEX_RECOVERIES_MAX => {
                    tracing::warn!(%error, "recovering the index");
                    self.recover_index(&mut self.sequencer())?;
                    recoveries += 1;
                }
                answer => return answer.map_err(index_failed),
            }
        }
    }
}
