//! The journal on disk, as an implementation of the port [`Journal`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam::channel::Sender;
use ostler_kernel::event::RecordPlace;
use ostler_kernel::id::{AgentId, ClientId, Digest, RunId};
use ostler_kernel::port::{
    AccountRow, BoxFuture, Journal, JournalError, Position, Recorded, RunRow, RunsPage, Seq, StreamBatch,
    StreamId, StreamKind,
};

use super::admission::ROOM_BYTES;
use super::prepared_append::PreparedAppend;
use super::query::index_failed;
use super::sequencer::{AppendState, SequenceError, WriterMessage};
use super::shared::{INDEX_RECOVERIES_MAX, Shared};
use super::{append_limits, read};
use crate::format::damage::Damage;
use crate::format::lsn::Lsn;
use crate::index::tables;

/// The journal on disk.
///
/// Dropping the journal writes all sequenced frames and a seal, and brings the index up to date; the drop blocks for as long as
/// the disk takes.
pub struct SegmentJournal {
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Option<JoinHandle<()>>,
    pub(super) indexer: Option<(Sender<Lsn>, JoinHandle<()>)>,
}

impl SegmentJournal {
    /// Lists all damage of the durable part. Reads the whole journal without the index.
    ///
    /// # Errors
    ///
    /// A segment cannot be read.
    pub fn verify(&self) -> std::io::Result<Vec<Damage>> {
        self.shared.checks.verify(&self.shared.files, Some(self.shared.waiters.durable_end()))
    }

    /// Epoch of this opening, greater than all earlier ones.
    pub fn epoch(&self) -> u64 {
        self.shared.sequencer().epoch
    }

    fn seq(&self, stream: &StreamId) -> u64 {
        let seq = self.shared.query(|index| {
            let recent = self.shared.sequencer().seq(stream);
            recent.map_or_else(|| Ok(index.head(stream)?.unwrap_or_default().seq), Ok)
        });
        // An unreadable stream counts as unchanged; a reader gets the error.
        seq.unwrap_or(0)
    }
}

impl Journal for SegmentJournal {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        append_limits::check(&batches)?;
        if let Some(one) = batches.iter().find_map(|batch| self.shared.quarantined(&batch.stream)) {
            let run = one.row.run;
            return Err(JournalError::Refused(format!("run {run} is quarantined: {}", one.why)));
        }
        let shared = &*self.shared;
        let since = shared.options.metrics.as_ref().map(|_| Instant::now());
        let segment_bytes = shared.options.segment_bytes;
        let mut prepared = PreparedAppend::new(&batches, &shared.change_reader, segment_bytes, since)?;
        let mut sequencer = shared.admit(&prepared)?;
        let mut lsn = sequencer.append(&mut prepared, &shared.index);
        for _ in 0..INDEX_RECOVERIES_MAX {
            let Err(SequenceError::Index(error)) = &lsn else { break };
            tracing::warn!(%error, "recovering the index");
            shared.recover_index(&mut sequencer)?;
            lsn = sequencer.append(&mut prepared, &shared.index);
        }
        let lsn = lsn.map_err(|error| match error {
            SequenceError::Append(error) => error,
            SequenceError::Index(error) => index_failed(error),
        })?;
        shared.sequenced_end.store(sequencer.end.0, Ordering::Release);
        drop(sequencer);
        if let Some(metrics) = &shared.options.metrics {
            metrics.records.increment(prepared.batches.iter().map(|batch| batch.count).sum());
        }
        let batches = prepared.batches.iter();
        shared.watchers.notify(batches.map(|batch| (batch.stream, batch.expected + batch.count)));
        Ok(lsn.position())
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            if position.0 >= self.shared.sequenced_end.load(Ordering::Acquire) {
                return Err(JournalError::Refused(format!("{position:?} was never assigned")));
            }
            let stopped = |_| Err(JournalError::Poisoned("the writer has stopped".into()));
            match self.shared.waiters.wait(Lsn(position.0)) {
                Ok(answer) => answer,
                Err(answer) => answer.await.unwrap_or_else(stopped),
            }
        })
    }

    fn has_room(&self) -> bool {
        let mut sequencer = self.shared.sequencer();
        match sequencer.state {
            AppendState::DiskFull { .. } => self.shared.resume_if_room(&mut sequencer, ROOM_BYTES),
            AppendState::Accepting | AppendState::Poisoned(_) | AppendState::EndLost(_) => true,
        }
    }

    fn rollbacks(&self, seen: u64) -> BoxFuture<'_, u64> {
        let mut rollbacks = self.shared.rollbacks.subscribe();
        Box::pin(async move {
            let count = rollbacks.wait_for(|count| *count > seen).await;
            *count.expect("the journal holds the sender")
        })
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        match self.shared.quarantined(&stream).filter(|one| one.moved > 0 || self.seq(&stream) == 0) {
            Some(one) => Err(one.read_error()),
            None => read::read(&self.shared, stream, after.0, limit),
        }
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.watchers.grows_past(stream, after.0, move || self.seq(&stream)))
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        let mut rows = self.shared.query(|index| {
            let mut rows = self.shared.sequencer().tail.tables.runs.clone();
            // A run closed behind the mark is still open in the index: the tail's row wins.
            for row in index.runs(open_only)? {
                rows.entry(row.run).or_insert(row);
            }
            Ok(rows)
        })?;
        self.shared.quarantine.values().for_each(|one| drop(rows.insert(one.row.run, one.listed())));
        Ok(tables::sorted_runs(rows.into_values(), open_only))
    }

    fn runs_page(&self, page: RunsPage) -> Result<Vec<RunRow>, JournalError> {
        let quarantined = |run: &RunId| self.shared.quarantine.contains_key(run);
        let mut rows = self.shared.query(|index| {
            let recent = self.shared.sequencer().tail.tables.runs.clone();
            let skip = |run| recent.contains_key(&run) || quarantined(&run);
            let mut rows = index.runs_page(page, skip)?;
            rows.extend(recent.into_values().filter(|row| !quarantined(&row.run)));
            Ok(rows)
        })?;
        rows.extend(self.shared.quarantine.values().map(|one| one.listed()));
        Ok(tables::page_of(rows.iter(), page))
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        if let Some(one) = self.shared.quarantine.get(&run) {
            return Ok(Some(one.listed()));
        }
        self.shared.query(|index| {
            let recent = self.shared.sequencer().tail.tables.runs.get(&run).cloned();
            match recent {
                Some(row) => Ok(Some(row)),
                None => index.run(run),
            }
        })
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        let accounts = self.shared.query(|index| {
            let mut accounts = self.shared.sequencer().tail.tables.accounts.clone();
            for row in index.accounts()? {
                accounts.entry(tables::key_of(&row)).or_insert(row);
            }
            Ok(accounts)
        })?;
        Ok(accounts.into_values().collect())
    }

    fn account(
        &self,
        client: &ClientId,
        agent: Option<&AgentId>,
    ) -> Result<Option<AccountRow>, JournalError> {
        let key = (client.clone(), agent.cloned());
        self.shared.query(|index| {
            let recent = self.shared.sequencer().tail.tables.accounts.get(&key).cloned();
            match recent {
                Some(row) => Ok(Some(row)),
                None => index.account(&key),
            }
        })
    }

    fn record(&self, key: Digest) -> Result<Option<RecordPlace>, JournalError> {
        self.shared.query(|index| {
            let recent = self.shared.sequencer().tail.tables.records.get(&key).map(|row| row.place);
            match recent {
                Some(place) => Ok(Some(place)),
                None => index.record(key),
            }
        })
    }

    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError> {
        let mut streams = self.shared.query(|index| {
            let sequencer = self.shared.sequencer();
            let recent = sequencer.tail.streams.iter();
            let recent = recent.filter(|(id, tail)| id.kind == kind && tail.head.seq > 0);
            let mut streams: Vec<StreamId> = recent.map(|(stream, _)| *stream).collect();
            drop(sequencer);
            streams.extend(index.streams(kind)?);
            Ok(streams)
        })?;
        streams.sort_unstable();
        streams.dedup();
        Ok(streams)
    }
}

impl Drop for SegmentJournal {
    fn drop(&mut self) {
        // `&mut self` excludes concurrent appends.
        let _ = self.shared.sequencer().writer.send(WriterMessage::Close);
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was reported already.
            let _ = writer.join();
        }
        if let Some((sender, indexer)) = self.indexer.take() {
            let _ = sender.send(self.shared.waiters.durable_end());
            drop(sender);
            let _ = indexer.join();
        }
    }
}

#[cfg(test)]
mod tests;
