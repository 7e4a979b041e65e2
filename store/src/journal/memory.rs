//! The journal of stores that end with their process, and of tests.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::id::RunId;
use ostler_kernel::port::{
    AccountRow, BoxFuture, Journal, JournalError, Position, Recorded, RunRow, Seq, StreamBatch, StreamId,
    StreamKind,
};

use super::watchers::Watchers;
use super::{check_shape, rows};

/// A journal in memory: the order, conflicts and limits of the one on disk, without its codec. Everything that
/// is ordered is durable, as far as anything in memory is.
///
/// # Examples
///
/// ```
/// use ostler_kernel::port::{Journal, StreamBatch, StreamId, Seq};
/// use ostler_kernel::{event::Event, id::ClientId};
///
/// let journal = ostler_store::MemoryJournal::default();
/// let client = ClientId::from("acme");
/// let event = Event::ClientSet { client: client.clone(), weight: 1, contracted: false };
/// let stream = StreamId::client(&client);
/// journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 0, events: vec![event] }])?;
/// assert_eq!(journal.read(stream, Seq(0), 10)?.len(), 1);
/// # Ok::<(), ostler_kernel::port::JournalError>(())
/// ```
#[derive(Default)]
pub struct MemoryJournal {
    state: Mutex<State>,
    watchers: Watchers,
}

#[derive(Default)]
struct State {
    streams: HashMap<StreamId, Vec<Recorded>>,
    lines: rows::Lines,
    reader: rows::Reader,
    ordered: u64,
}

impl MemoryJournal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn head(&self, stream: &StreamId) -> Seq {
        Seq(self.streams.get(stream).map_or(0, |records| records.len() as u64))
    }

    fn add(&mut self, batch: StreamBatch) {
        if batch.events.is_empty() {
            return;
        }
        if let Some(run) = rows::run_of(&batch.stream) {
            for change in batch.events.iter().filter_map(|event| self.reader.change(event, batch.at_ms)) {
                self.lines.apply(run, change, Position(self.ordered));
            }
        }
        let records = self.streams.entry(batch.stream).or_default();
        let position = Position(self.ordered);
        records.extend(batch.events.into_iter().zip(batch.expected.0 + 1..).map(|(event, seq)| Recorded {
            seq: Seq(seq),
            position,
            at_ms: batch.at_ms,
            event,
        }));
    }
}

impl Journal for MemoryJournal {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        check_shape(&batches)?;
        let mut state = self.state();
        for batch in &batches {
            let (stream, expected, actual) = (batch.stream, batch.expected, state.head(&batch.stream));
            if actual != expected {
                return Err(JournalError::Conflict { stream, expected, actual });
            }
        }
        if batches.iter().any(|batch| !batch.events.is_empty()) {
            state.ordered += 1;
        }
        let grown: Vec<_> = batches
            .iter()
            .map(|batch| (batch.stream, batch.expected.0 + batch.events.len() as u64))
            .collect();
        batches.into_iter().for_each(|batch| state.add(batch));
        let position = Position(state.ordered);
        drop(state);
        self.watchers.grown(grown.into_iter());
        Ok(position)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        let ordered = self.state().ordered;
        Box::pin(std::future::ready(if position.0 <= ordered {
            Ok(())
        } else {
            Err(JournalError::Refused(format!("{position:?} was never ordered")))
        }))
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let state = self.state();
        let Some(records) = state.streams.get(&stream) else { return Ok(Vec::new()) };
        let from = usize::try_from(after.0).unwrap_or(usize::MAX).min(records.len());
        Ok(records[from..].iter().take(limit).cloned().collect())
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        Box::pin(self.watchers.grows_past(stream, after.0, move || self.state().head(&stream).0))
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        Ok(rows::listed(self.state().lines.rows.values().cloned(), open_only))
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        Ok(self.state().lines.rows.get(&run).cloned())
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        Ok(self.state().lines.accounts.values().cloned().collect())
    }

    fn clients(&self) -> Result<Vec<StreamId>, JournalError> {
        let mut clients: Vec<StreamId> =
            self.state().streams.keys().filter(|stream| stream.kind == StreamKind::Client).copied().collect();
        clients.sort_unstable();
        Ok(clients)
    }
}
