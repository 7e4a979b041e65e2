//! The journal in memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::event::{Event, RecordPlace};
use ostler_kernel::id::{AgentId, ClientId, Digest, RunId, Ticks};
use ostler_kernel::port::{
    AccountRow, BoxFuture, Journal, JournalError, Position, Recorded, RunRow, RunsPage, Seq, StreamBatch,
    StreamId, StreamKind,
};

use super::append_limits;
use super::watchers::Watchers;
use crate::index::tables::{self, ChangeReader, Tables};

/// A journal in memory, with the order, conflicts and limits of the journal on disk. Appended records count as durable.
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

/// A fast hasher for stream ids. Their keys are digests and random ids, so mixing the words suffices.
#[derive(Default)]
struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        // Hash tables use the low bits; a product is mixed best in the high bits.
        self.0.rotate_left(26)
    }
}

#[derive(Default)]
struct State {
    streams: HashMap<StreamId, Vec<Batch>, BuildHasherDefault<StreamHasher>>,
    tables: Tables,
    change_reader: ChangeReader,
    last: u64,
}

struct Batch {
    first: u64,
    position: Position,
    at_ms: Ticks,
    events: Events,
}

/// At least one event. Most batches have one, kept without an allocation.
enum Events {
    One(Event),
    More(Box<[Event]>),
}

impl Batch {
    fn events(&self) -> &[Event] {
        match &self.events {
            Events::One(event) => std::slice::from_ref(event),
            Events::More(events) => events,
        }
    }

    fn last(&self) -> u64 {
        self.first + self.events().len() as u64 - 1
    }

    fn records(&self, after: u64) -> impl Iterator<Item = Recorded> {
        let &Batch { first, position, at_ms, .. } = self;
        let numbered = (first..).zip(self.events()).skip((after + 1).saturating_sub(first) as usize);
        numbered.map(move |(seq, event)| Recorded { seq: Seq(seq), position, at_ms, event: event.clone() })
    }
}

impl MemoryJournal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn head(&self, stream: &StreamId) -> Seq {
        Seq(self.streams.get(stream).and_then(|batches| batches.last()).map_or(0, Batch::last))
    }

    fn add(&mut self, batch: StreamBatch) {
        if batch.events.is_empty() {
            return;
        }
        for (run, change) in
            self.change_reader.changes(&batch.stream, batch.expected.0 + 1, &batch.events, batch.at_ms)
        {
            self.tables.apply(run, change, Position(self.last));
        }
        let StreamBatch { stream, expected, at_ms, mut events } = batch;
        let events = match (events.len(), events.pop()) {
            (1, Some(event)) => Events::One(event),
            (_, last) => {
                events.extend(last);
                Events::More(events.into())
            }
        };
        let batch = Batch { first: expected.0 + 1, position: Position(self.last), at_ms, events };
        self.streams.entry(stream).or_default().push(batch);
    }
}

impl Journal for MemoryJournal {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        append_limits::check(&batches)?;
        let mut state = self.state();
        for batch in &batches {
            let (stream, expected, actual) = (batch.stream, batch.expected, state.head(&batch.stream));
            if actual != expected {
                return Err(JournalError::Conflict { stream, expected, actual });
            }
        }
        if batches.iter().any(|batch| !batch.events.is_empty()) {
            state.last += 1;
        }
        // A task that starts waiting from here on reads the new head.
        let watched = if self.watchers.any() { &batches[..] } else { &[] };
        let grown: Vec<_> = watched
            .iter()
            .map(|batch| (batch.stream, batch.expected.0 + batch.events.len() as u64))
            .collect();
        batches.into_iter().for_each(|batch| state.add(batch));
        let position = Position(state.last);
        drop(state);
        self.watchers.notify(grown.into_iter());
        Ok(position)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        let last = self.state().last;
        Box::pin(std::future::ready(if position.0 <= last {
            Ok(())
        } else {
            Err(JournalError::Refused(format!("{position:?} was never assigned")))
        }))
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let state = self.state();
        let Some(batches) = state.streams.get(&stream) else { return Ok(Vec::new()) };
        let from = batches.partition_point(|batch| batch.last() <= after.0);
        Ok(batches[from..].iter().flat_map(|batch| batch.records(after.0)).take(limit).collect())
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        Box::pin(self.watchers.grows_past(stream, after.0, move || self.state().head(&stream).0))
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        Ok(tables::sorted_runs(self.state().tables.runs.values().cloned(), open_only))
    }

    fn runs_page(&self, page: RunsPage) -> Result<Vec<RunRow>, JournalError> {
        Ok(tables::page_of(self.state().tables.runs.values(), page))
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        Ok(self.state().tables.runs.get(&run).cloned())
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        Ok(self.state().tables.accounts.values().cloned().collect())
    }

    fn record(&self, key: Digest) -> Result<Option<RecordPlace>, JournalError> {
        Ok(self.state().tables.records.get(&key).map(|row| row.place))
    }

    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError> {
        let mut streams: Vec<StreamId> =
            self.state().streams.keys().filter(|stream| stream.kind == kind).copied().collect();
        streams.sort_unstable();
        Ok(streams)
    }

    fn account(
        &self,
        client: &ClientId,
        agent: Option<&AgentId>,
    ) -> Result<Option<AccountRow>, JournalError> {
        let key = (client.clone(), agent.cloned());
        Ok(self.state().tables.accounts.get(&key).cloned())
    }
}
