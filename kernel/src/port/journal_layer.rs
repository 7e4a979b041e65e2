//! A journal on top of another one.

use super::{
    AccountRow, BoxFuture, Journal, JournalError, Position, Recorded, RunRow, RunsPage, Seq, StreamBatch,
    StreamId, StreamKind,
};
use crate::event::RecordPlace;
use crate::id::{AgentId, ClientId, Digest, RunId};

/// A [`Journal`] that changes or observes some methods of another journal, and forwards the others.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use ostler_kernel::port::{Journal, JournalError, JournalLayer, Position, StreamBatch};
///
/// /// Counts appends.
/// struct Counting {
///     journal: Arc<dyn Journal>,
///     appends: AtomicUsize,
/// }
///
/// impl JournalLayer for Counting {
///     fn below(&self) -> &dyn Journal {
///         &*self.journal
///     }
///
///     fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
///         self.appends.fetch_add(1, Ordering::Relaxed);
///         self.below().append(batches)
///     }
/// }
/// ```
pub trait JournalLayer: Send + Sync + 'static {
    /// The journal below.
    fn below(&self) -> &dyn Journal;

    /// See [`Journal::append`].
    ///
    /// # Errors
    ///
    /// Those of the journal below.
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        self.below().append(batches)
    }

    /// See [`Journal::durable`]. Dropping the future loses nothing.
    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        self.below().durable(position)
    }

    /// See [`Journal::read`].
    ///
    /// # Errors
    ///
    /// Those of the journal below.
    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        self.below().read(stream, after, limit)
    }
}

impl<L: JournalLayer> Journal for L {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        JournalLayer::append(self, batches)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        JournalLayer::durable(self, position)
    }

    fn rollbacks(&self, seen: u64) -> BoxFuture<'_, u64> {
        self.below().rollbacks(seen)
    }

    fn has_room(&self) -> bool {
        self.below().has_room()
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        JournalLayer::read(self, stream, after, limit)
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        self.below().changed(stream, after)
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        self.below().runs(open_only)
    }

    fn runs_page(&self, page: RunsPage) -> Result<Vec<RunRow>, JournalError> {
        self.below().runs_page(page)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        self.below().run(run)
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        self.below().accounts()
    }

    fn account(
        &self,
        client: &ClientId,
        agent: Option<&AgentId>,
    ) -> Result<Option<AccountRow>, JournalError> {
        self.below().account(client, agent)
    }

    fn record(&self, key: Digest) -> Result<Option<RecordPlace>, JournalError> {
        self.below().record(key)
    }

    fn clients(&self) -> Result<Vec<StreamId>, JournalError> {
        self.below().clients()
    }

    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError> {
        self.below().streams(kind)
    }
}
