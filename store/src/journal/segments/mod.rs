//! The journal on disk: append-only segments, one writer thread, natural group commit.
//!
//! An append is ordered under a short lock and handed to the writer thread, which drains its queue, writes all that it found,
//! syncs once and answers all. The bytes waiting for it are bounded ([`QUEUE_BYTES_MAX`]): beyond that `append`
//! blocks until the disk has caught up, for at most [`QUEUE_WAIT_MS_MAX`], and is then refused.
//!
//! Invariants:
//!
//! - A place (segment and offset) is given out once, whatever happens to what was there.
//! - A group is written only when everything before it is durable; its first frame says so. Hence a bad frame with
//!   such a frame behind it is damage, and one without may be torn and is cut off.
//! - The index is never needed: it is a fold of the segments before its mark, and memory holds the fold of the
//!   rest. All three ways to that rest (ordering, opening, taking back) end in the same `Fold`. When a segment is full, a copy of that
//!   is what the index takes in once the segment is durable.
//! - After an error nobody understands, nothing is written any more until the journal is opened again.
//! - Who does not hold the folder any more writes nothing and acknowledges nothing.

mod acks;
mod audit;
#[cfg(test)]
mod care_tests;
mod collect;
mod compact;
#[cfg(test)]
mod compact_tests;
mod files;
mod fold;
mod frame;
mod indexer;
mod load;
mod open;
mod order;
mod pipes;
mod quarantine;
mod read;
mod repair;
mod reserve;
mod rewrite;
mod segment;
mod swap;
mod sweep;
mod verify;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;
use metrics::{Counter, Histogram};
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::port::{
    AccountRow, BoxFuture, Journal, JournalError, Position, Recorded, RunRow, Seq, StreamBatch, StreamId,
    StreamKind,
};
use tokio::sync::watch;

pub(crate) use fold::{Fold, FrameAt};
pub(crate) use frame::{Chain, Place, STREAM_BYTES, stream_bytes, stream_from};

pub(crate) use audit::audit_index;
pub use collect::Unwanted;
pub(crate) use collect::collect;
pub(crate) use files::Files;
pub use frame::FRAME_BYTES_MAX;
pub use open::{JournalOpened, OpenJournalError, Torn};
pub(crate) use open::{check_end, open};
pub use quarantine::Quarantined;
pub(crate) use repair::repair;
pub use repair::{ClientLoss, Findings, PipelineLoss};
pub use segment::SEGMENT_BYTES;
pub(crate) use swap::finish as finish_swap;
pub use verify::Damage;

use self::acks::Acks;
use self::order::{Message, NotOrdered, Order, Prepared, Standing};
use self::quarantine::Quarantine;
use self::segment::SEGMENT_HEADER_BYTES;
use super::check_shape;
use super::rows::{self, Reader};
use super::watchers::Watchers;
use crate::index::{Broken, Index};
use crate::lock::HeldLock;

/// Bytes of records that there is to be room for before it is said that there is.
const ROOM_BYTES: usize = 64 * 1024;

/// Most bytes that wait for the writer.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest time that an append waits for room in the queue, in milliseconds.
pub const QUEUE_WAIT_MS_MAX: u64 = 10_000;

/// Bytes of segments whose checksums are looked at before a journal opens.
pub const SWEEP_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How a journal is to be: sizes that tests make small, whose defaults are the ones that are documented and measured; and
/// where it records what it does.
#[derive(Debug, Clone)]
pub struct Options {
    /// Length of a segment, in bytes.
    pub segment_bytes: u64,
    /// Bytes whose blocks are taken ahead of the frames.
    pub prepare_bytes: u64,
    /// Bytes kept for when the disk is full.
    pub reserve_bytes: u64,
    /// Most bytes that wait for the writer.
    pub queue_bytes_max: usize,
    /// Longest wait for room in the queue, in milliseconds.
    pub queue_wait_ms_max: u64,
    /// Whether it is opened only to look. Of segments that the index covers no checksums are looked at then, and a journal whose end is
    /// gone opens all the same, and takes no appends.
    pub looks: bool,
    /// Bytes of segments whose checksums are looked at before the journal opens, the newest first; the others are looked at
    /// beside what goes on.
    pub sweep_bytes_max: u64,
    /// What is removed on opening, once there is as much of it as of everything else.
    pub unwanted: Unwanted,
    /// Where what it does is recorded; `None`: nowhere.
    pub measures: Option<JournalMeasures>,
}

/// Where a journal records what it does.
#[derive(Debug, Clone)]
pub struct JournalMeasures {
    /// Seconds from an append until it was durable.
    pub append_seconds: Histogram,
    /// Records that were appended.
    pub records: Counter,
    /// Times that the disk was waited for.
    pub fsyncs: Counter,
    /// Appends that became durable together.
    pub group_size: Histogram,
}

/// Times that an index is mended for one question: its file is opened again, and if that does not help it is made anew.
const MENDS_MAX: usize = 2;

/// Least length of a segment, in bytes.
const SEGMENT_BYTES_MIN: u64 = 4096;

impl Options {
    /// What the writer takes at once for so many bytes of records: a header, the frame, and blocks ahead.
    fn taken_for(&self, bytes: usize) -> usize {
        SEGMENT_HEADER_BYTES + self.prepare_bytes as usize + 2 * bytes
    }

    /// How a journal stands that has no room but its reserve, which is free for operators now.
    fn full(&self, why: String) -> Standing {
        Standing::Full { why, urgent_bytes: (self.reserve_bytes / 2) as usize }
    }

    fn check(&self) -> std::io::Result<()> {
        let most = u64::from(u32::MAX);
        let fits = |bytes: u64, least: u64| (least..=most).contains(&bytes);
        if fits(self.segment_bytes, SEGMENT_BYTES_MIN)
            && fits(self.prepare_bytes, 0)
            && fits(self.reserve_bytes, 1)
        {
            return Ok(());
        }
        let why =
            format!("sizes of a journal are up to {most} bytes, a segment at least {SEGMENT_BYTES_MIN}");
        Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why))
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: SEGMENT_BYTES,
            prepare_bytes: 256 * 1024,
            reserve_bytes: 1024 * 1024,
            queue_bytes_max: QUEUE_BYTES_MAX,
            queue_wait_ms_max: QUEUE_WAIT_MS_MAX,
            looks: false,
            sweep_bytes_max: SWEEP_BYTES_MAX,
            unwanted: Unwanted::default(),
            measures: None,
        }
    }
}

/// The journal on disk. Dropping it writes what is ordered, seals it and brings the index up to date; that
/// blocks for as long as the disk takes.
pub struct SegmentJournal {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    indexer: Option<(Sender<Place>, JoinHandle<()>)>,
}

/// What the journal, its writer and its indexer share. Locks are taken in this order: order, acks, watchers.
pub(crate) struct Shared {
    order: Mutex<Order>,
    /// Signalled when the queue has room, or never will have.
    room: Condvar,
    acks: Acks,
    watchers: Watchers,
    /// Times that what was ordered was undone.
    undone: watch::Sender<u64>,
    reader: Reader,
    index: Index,
    files: Files,
    options: Options,
    /// Held while the index moves on, and while the fold is made anew from it. Taken after the order, never
    /// before it.
    indexing: Mutex<()>,
    /// Where what is ordered ends.
    ordered: AtomicU64,
    /// Released last, when the writer and the indexer are gone.
    lock: Option<HeldLock>,
    /// Runs that were set aside because something of them is damaged.
    quarantine: Quarantine,
}

impl Shared {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process still holds the folder.
    fn check_held(&self) -> std::io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), HeldLock::check)
    }

    fn quarantined(&self, stream: &StreamId) -> Option<&Quarantined> {
        self.quarantine.get(&rows::run_of(stream)?)
    }

    fn takes_no_appends(&self) -> bool {
        matches!(self.order().standing, Standing::Poisoned(_) | Standing::Cut(_))
    }

    fn poison(&self, why: String) {
        self.poison_order(&mut self.order(), why);
    }

    fn poison_order(&self, order: &mut Order, why: String) {
        tracing::error!(%why, "the journal writes nothing any more");
        order.standing = Standing::Poisoned(why.clone());
        self.acks.fail(JournalError::Poisoned(why));
        self.room.notify_all();
    }

    /// Everything before `end` is durable.
    fn synced(&self, end: Place) {
        let mut order = self.order();
        while let Some(front) = order.pending.front().filter(|front| front.place < end) {
            order.pending_bytes -= front.bytes.len();
            order.pending.pop_front();
        }
        // Before the order is let go of: who reads the journal again then finds each frame among those that are durable or pending.
        self.acks.sync_to(end);
        drop(order);
        self.room.notify_all();
    }

    /// Makes the fold anew from the index, the files and what is pending.
    fn refold(&self, order: &mut Order) -> Result<(), JournalError> {
        let still = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
        self.refold_while(&still, order)
    }

    /// Mends the index, which nobody moves on meanwhile, and makes the fold anew, with all that it holds no more.
    fn rebuild(&self, order: &mut Order) -> Result<(), JournalError> {
        if let Standing::Cut(damage) = &order.standing {
            return Err(damage.clone().into());
        }
        let still = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
        self.index.mend();
        self.refold_while(&still, order).inspect_err(|error| {
            // Neither the fold nor the index knows everything now.
            self.poison_order(order, error.to_string());
        })
    }

    fn refold_while(&self, _still: &MutexGuard<'_, ()>, order: &mut Order) -> Result<(), JournalError> {
        // Whatever comes of it: those that were kept lack what the index may have lost.
        order.full.clear();
        let until = Some(self.acks.synced());
        let mut loaded = load::load(&self.files, &self.index, until);
        for _ in 0..MENDS_MAX {
            let Err(load::LoadError::Index(broken)) = &loaded else { break };
            tracing::warn!(%broken, "mending the index");
            self.index.mend();
            loaded = load::load(&self.files, &self.index, until);
        }
        let unreadable =
            |what: String| JournalError::Damaged { place: "the journal read again".into(), what };
        let mut fold = match loaded {
            Ok(loaded) => loaded.fold,
            Err(load::LoadError::Damaged(damage)) => return Err(damage.into()),
            Err(error) => return Err(unreadable(format!("{error:?}"))),
        };
        for ordered in &order.pending {
            let body = frame::parse(ordered.body()).expect("frames are well-formed when they are ordered");
            fold.frame(ordered.place, 0, &body, &self.index)
                .map_err(|misfit| unreadable(format!("{misfit:?}")))?;
        }
        order.fold = fold;
        Ok(())
    }

    /// Keeps the index as it is for whoever is about to move it on, with the fold of everything before `upto`, if that was kept: it
    /// is complete from where the index ends now.
    fn to_index(&self, upto: Place) -> (MutexGuard<'_, ()>, Option<Fold>) {
        let mut order = self.order();
        let still = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
        (still, order.take_full(upto))
    }

    /// Asks the fold and then the index. If the index fails, it is mended, the fold takes in what it holds no more, and the
    /// whole question is asked again; so do not hold the order's lock. It is asked again as well if somebody else mended
    /// the index meanwhile: what the fold said then is too little with what the index says now.
    fn ask<T>(&self, question: impl Fn(&Index) -> Result<T, Broken>) -> Result<T, JournalError> {
        let mut rebuilt = 0;
        loop {
            let resets = self.index.resets();
            let answer = question(&self.index);
            if self.index.resets() != resets {
                continue; // the fold is locked until it is whole again
            }
            match answer {
                Err(broken) if rebuilt < MENDS_MAX => {
                    tracing::warn!(%broken, "doing without the index");
                    self.rebuild(&mut self.order())?;
                    rebuilt += 1;
                }
                answer => return answer.map_err(no_index),
            }
        }
    }

    /// Waits until an append of `bytes` may be ordered.
    fn admit(&self, prepared: &Prepared) -> Result<MutexGuard<'_, Order>, JournalError> {
        let max = self.options.queue_bytes_max;
        let patience = Duration::from_millis(self.options.queue_wait_ms_max);
        let started = Instant::now();
        let mut order = self.order();
        // A frame larger than the whole queue goes in when nothing else waits.
        while order.pending_bytes > 0
            && order.pending_bytes + prepared.bytes > max
            && order.standing == Standing::Writing
        {
            let Some(left) = patience.checked_sub(started.elapsed()) else {
                return Err(JournalError::Refused(format!(
                    "{} bytes wait for the disk, QUEUE_BYTES_MAX is {max}",
                    order.pending_bytes
                )));
            };
            order = self.room.wait_timeout(order, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match &order.standing {
            Standing::Writing => {}
            Standing::Poisoned(why) => return Err(JournalError::Poisoned(why.clone())),
            Standing::Cut(damage) => return Err(damage.clone().into()),
            Standing::Full { .. } => self.admit_when_full(&mut order, prepared)?,
        }
        Ok(order)
    }

    /// Whether there is room again for `bytes`, looked for on the disk. Not while an operator's record is being written: that needs
    /// what room there is.
    fn finds_room(&self, order: &mut Order, bytes: usize) -> bool {
        let more = self.options.taken_for(bytes);
        let found = order.pending.is_empty()
            && reserve::ensure_with_room(&self.files, self.options.reserve_bytes, more).is_ok();
        if found {
            tracing::debug!("there is room on the disk again");
            order.standing = Standing::Writing;
        }
        found
    }

    /// What an operator wants has room of its own, which nobody else gets a share of; for all else room is looked for.
    fn admit_when_full(&self, order: &mut Order, prepared: &Prepared) -> Result<(), JournalError> {
        let Standing::Full { why, urgent_bytes } = &mut order.standing else { return Ok(()) };
        if prepared.urgent && *urgent_bytes >= prepared.bytes {
            *urgent_bytes -= prepared.bytes;
            return Ok(());
        }
        let full = JournalError::Full(why.clone());
        if self.finds_room(order, prepared.bytes) { Ok(()) } else { Err(full) }
    }
}

fn no_index(broken: Broken) -> JournalError {
    JournalError::Damaged { place: "the index".into(), what: broken.to_string() }
}

impl SegmentJournal {
    /// Lists everything that is wrong with what is durable. Reads the whole journal and trusts no index.
    ///
    /// # Errors
    ///
    /// A segment that cannot be read at all.
    pub fn verify(&self) -> std::io::Result<Vec<Damage>> {
        verify::verify(&self.shared.files, Some(self.shared.acks.synced()))
    }

    /// Epoch of this opening: greater than that of every one before.
    pub fn epoch(&self) -> u64 {
        self.shared.order().epoch
    }

    fn seq(&self, stream: &StreamId) -> u64 {
        let seq = self.shared.ask(|index| {
            let known = self.shared.order().seq(stream);
            known.map_or_else(|| Ok(index.head(stream)?.unwrap_or_default().seq), Ok)
        });
        // A stream that cannot be looked at has not changed; whoever reads it learns why.
        seq.unwrap_or(0)
    }
}

impl Journal for SegmentJournal {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        check_shape(&batches)?;
        if let Some(one) = batches.iter().find_map(|batch| self.shared.quarantined(&batch.stream)) {
            let run = one.row.run;
            return Err(JournalError::Refused(format!("run {run} is quarantined: {}", one.why)));
        }
        let shared = &*self.shared;
        let since = shared.options.measures.as_ref().map(|_| Instant::now());
        let mut prepared = Prepared::new(&batches, &shared.reader, shared.options.segment_bytes, since)?;
        let mut order = shared.admit(&prepared)?;
        let mut place = order.append(&mut prepared, &shared.index);
        for _ in 0..MENDS_MAX {
            let Err(NotOrdered::Index(broken)) = &place else { break };
            tracing::warn!(%broken, "doing without the index");
            shared.rebuild(&mut order)?;
            place = order.append(&mut prepared, &shared.index);
        }
        let place = place.map_err(|error| match error {
            NotOrdered::Error(error) => error,
            NotOrdered::Index(broken) => no_index(broken),
        })?;
        shared.ordered.store(order.end.0, Ordering::Release);
        drop(order);
        if let Some(measures) = &shared.options.measures {
            measures.records.increment(prepared.drafts.iter().map(|draft| draft.count).sum());
        }
        let drafts = prepared.drafts.iter();
        shared.watchers.grown(drafts.map(|draft| (draft.stream, draft.expected + draft.count)));
        Ok(place.position())
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            if position.0 >= self.shared.ordered.load(Ordering::Acquire) {
                return Err(JournalError::Refused(format!("{position:?} was never ordered")));
            }
            let gone = |_| Err(JournalError::Poisoned("the writer is gone".into()));
            match self.shared.acks.wait(Place(position.0)) {
                Ok(answer) => answer,
                Err(answer) => answer.await.unwrap_or_else(gone),
            }
        })
    }

    fn has_room(&self) -> bool {
        let mut order = self.shared.order();
        match order.standing {
            Standing::Full { .. } => self.shared.finds_room(&mut order, ROOM_BYTES),
            Standing::Writing | Standing::Poisoned(_) | Standing::Cut(_) => true,
        }
    }

    fn rollbacks(&self, seen: u64) -> BoxFuture<'_, u64> {
        let mut undone = self.shared.undone.subscribe();
        Box::pin(async move {
            let times = undone.wait_for(|times| *times > seen).await;
            *times.expect("who is asked is there")
        })
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        match self.shared.quarantined(&stream).filter(|one| one.moved > 0 || self.seq(&stream) == 0) {
            Some(one) => Err(one.damaged()),
            None => read::read(&self.shared, stream, after.0, limit),
        }
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.watchers.grows_past(stream, after.0, move || self.seq(&stream)))
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        let mut rows = self.shared.ask(|index| {
            let mut rows = self.shared.order().fold.lines.rows.clone();
            // A run that was closed since the mark is still open in the index: ours wins.
            for row in index.rows(open_only)? {
                rows.entry(row.run).or_insert(row);
            }
            Ok(rows)
        })?;
        self.shared.quarantine.values().for_each(|one| drop(rows.insert(one.row.run, one.listed())));
        Ok(rows::listed(rows.into_values(), open_only))
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        if let Some(one) = self.shared.quarantine.get(&run) {
            return Ok(Some(one.listed()));
        }
        self.shared.ask(|index| {
            // What was appended since the mark of the index counts over what stands in it.
            let recent = self.shared.order().fold.lines.rows.get(&run).cloned();
            match recent {
                Some(row) => Ok(Some(row)),
                None => index.row(run),
            }
        })
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        let accounts = self.shared.ask(|index| {
            let mut accounts = self.shared.order().fold.lines.accounts.clone();
            for row in index.accounts()? {
                accounts.entry(rows::key_of(&row)).or_insert(row);
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
        self.shared.ask(|index| {
            let recent = self.shared.order().fold.lines.accounts.get(&key).cloned();
            match recent {
                Some(row) => Ok(Some(row)),
                None => index.account(&key),
            }
        })
    }

    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError> {
        let mut streams = self.shared.ask(|index| {
            let order = self.shared.order();
            let recent = order.fold.streams.iter();
            let recent = recent.filter(|(id, tail)| id.kind == kind && tail.head.seq > 0);
            let mut streams: Vec<StreamId> = recent.map(|(stream, _)| *stream).collect();
            drop(order);
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
        // Nobody can append any more: that would take a reference to the journal.
        let _ = self.shared.order().writer.send(Message::Close);
        if let Some(writer) = self.writer.take() {
            // A panic in the writer was reported where it happened.
            let _ = writer.join();
        }
        if let Some((sender, indexer)) = self.indexer.take() {
            let _ = sender.send(self.shared.acks.synced());
            drop(sender);
            let _ = indexer.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ostler_kernel::event::Event;

    use super::*;
    use crate::disk::FaultyDisk;

    /// A journal whose index, at `path`, alone knows of a stream.
    fn indexed(stream: StreamId, path: &std::path::Path) -> SegmentJournal {
        let open = |disk: FaultyDisk| {
            let index = Index::open(Some(path));
            open(Arc::new(disk), index, Options::default(), 0, |_| Ok(None)).unwrap().0
        };
        let disk = FaultyDisk::new();
        let journal = open(disk.clone());
        let events = vec![Event::ClientSet { client: "acme".into(), weight: 5, contracted: true }];
        journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 1, events }]).unwrap();
        drop(journal);
        open(disk)
    }

    #[test]
    fn an_index_that_fails_is_opened_again_first_and_made_anew_only_then() {
        let stream = StreamId::client(&"acme".into());
        let folder = tempfile::tempdir().unwrap();
        let journal = indexed(stream, &folder.path().join("index.redb"));
        let shared = &journal.shared;
        for knows_of_it in [true, false, false, false] {
            shared.rebuild(&mut shared.order()).expect("the journal is whole");
            assert_eq!((shared.index.mark().unwrap().is_some(), journal.seq(&stream)), (knows_of_it, 1));
        }
    }

    #[test]
    fn a_question_during_which_the_index_is_emptied_is_asked_again() {
        let stream = StreamId::client(&"acme".into());
        let folder = tempfile::tempdir().unwrap();
        let journal = indexed(stream, &folder.path().join("index.redb"));
        let shared = &journal.shared;
        assert_eq!(shared.order().seq(&stream), None, "the fold does not know it");
        let asked = Cell::new(0);
        let seq = shared.ask(|index| {
            let recent = shared.order().seq(&stream);
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                shared.rebuild(&mut shared.order()).expect("the journal is whole");
            }
            recent.map_or_else(|| Ok(index.head(&stream)?.unwrap_or_default().seq), Ok)
        });
        assert_eq!((seq.unwrap(), asked.get()), (1, 2));
    }

    /// A journal of small segments, and what fills them up to the beginning of one.
    fn small(disk: &FaultyDisk) -> (SegmentJournal, impl Fn(&mut Order, u32) + use<>) {
        let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::default() };
        let journal = open(Arc::new(disk.clone()), Index::open(None), options, 0, |_| Ok(None)).unwrap().0;
        let shared = journal.shared.clone();
        let fill = move |order: &mut Order, upto: u32| {
            while order.end.segment() < upto {
                let batch = parked(order.seq(&STREAM).unwrap_or(0));
                let prepared = order::Prepared::new(&[batch], &shared.reader, SEGMENT_BYTES_MIN, None);
                assert!(order.append(&mut prepared.unwrap(), &shared.index).is_ok());
            }
        };
        (journal, fill)
    }

    const STREAM: StreamId = StreamId { partition: 0, kind: StreamKind::Client, key: [1; 16] };

    fn parked(after: u64) -> StreamBatch {
        let events = vec![Event::Parked { reason: "x".repeat(1_000) }];
        StreamBatch { stream: STREAM, expected: Seq(after), at_ms: 1, events }
    }

    fn begins(segment: u32) -> Place {
        Place::new(segment, segment::SEGMENT_HEADER_BYTES as u64)
    }

    fn kept(order: &Order) -> Vec<Place> {
        order.full.iter().map(|(place, _)| *place).collect()
    }

    #[test]
    fn of_two_full_segments_at_most_the_index_is_told_what_memory_knows_until_the_fold_is_made_anew() {
        let (journal, fill) = small(&FaultyDisk::new());
        // Held all the while, so that the index takes none of it in.
        let mut order = journal.shared.order();
        fill(&mut order, 4);
        assert_eq!(kept(&order), [begins(2), begins(3)], "and not that of a third");
        let told = order.take_full(begins(2)).unwrap().streams[&STREAM].head.seq;
        assert_eq!(Some(told), order.seq(&STREAM).map(|seq| seq / 3), "three segments are full");
        assert!(
            order.take_full(begins(4)).is_none() && kept(&order).is_empty(),
            "what is older is of no use"
        );
        fill(&mut order, 5);
        assert_eq!(kept(&order), [begins(5)]);
        journal.shared.rebuild(&mut order).expect("the journal is whole");
        assert!(kept(&order).is_empty());
    }

    #[test]
    fn a_fold_that_cannot_be_made_anew_leaves_the_index_nothing_to_take_in() {
        let disk = FaultyDisk::new();
        let (journal, fill) = small(&disk);
        let first = journal.append(vec![parked(0)]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(journal.durable(first)).unwrap();
        let mut order = journal.shared.order();
        fill(&mut order, 2);
        assert_eq!(kept(&order), [begins(2)]);
        disk.flip(&segment::name(1), segment::SEGMENT_HEADER_BYTES + 100, 1);
        journal.shared.rebuild(&mut order).expect_err("a byte of it is wrong");
        assert!(kept(&order).is_empty(), "the index is empty, and that begins behind what it had");
    }
}
