//! The journal as the actors use it: appends with the time of the system's clock, and the reaction to failures.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_kernel::event::Event;
use ostler_kernel::id::Ticks;
use ostler_kernel::port::{Journal, JournalError, Position, Seq, StreamBatch, StreamId};

use crate::base::clock::Clock;
use crate::base::error::RunError;
use crate::base::system_status::SystemStatus;
use crate::messages::agent::PendingReply;
use crate::storage::disk_space::DiskSpace;

/// Appends to the journal; reads go to the journal itself, through `Deref`.
pub(crate) struct JournalClient {
    journal: Arc<dyn Journal>,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<SystemStatus>,
    pub(crate) disk: Arc<DiskSpace>,
    /// Position of the first record the process appended; `u64::MAX` before the first.
    first: AtomicU64,
    last: AtomicU64,
}

impl Deref for JournalClient {
    type Target = dyn Journal;

    fn deref(&self) -> &(dyn Journal + 'static) {
        &*self.journal
    }
}

impl JournalClient {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> JournalClient {
        JournalClient {
            journal,
            clock: Clock::new(),
            status: Arc::default(),
            disk: Arc::default(),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
        }
    }

    /// The journal itself, for a component that appends to streams of its own.
    pub(crate) fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    /// Appends events to a stream with the last record `expected`. A full disk suspends the system until space is
    /// available.
    pub(crate) fn append_events(
        &self,
        stream: StreamId,
        expected: Seq,
        events: Vec<Event>,
    ) -> Result<Position, JournalError> {
        self.append_batch(StreamBatch { stream, expected, at_ms: self.now(), events })
    }

    pub(crate) fn append_batch(&self, batch: StreamBatch) -> Result<Position, JournalError> {
        let appended = self.journal.append(vec![batch]);
        match &appended {
            Ok(position) => {
                // Of two concurrent appends the later position may arrive here first.
                self.first.fetch_min(position.0, Ordering::SeqCst);
                self.last.fetch_max(position.0, Ordering::SeqCst);
            }
            Err(JournalError::Full(why)) => self.disk.is_missing(why),
            Err(_) => {}
        }
        appended
    }

    /// True if the process appended the record at `position`.
    pub(crate) fn is_ours(&self, position: Position) -> bool {
        position.0 >= self.first.load(Ordering::SeqCst)
    }

    /// Position of the last record the client appended. Pipelines append theirs without it.
    pub(crate) fn last_appended(&self) -> Position {
        Position(self.last.load(Ordering::SeqCst))
    }

    /// Handles a failure to make appended records durable. A full disk has rolled them back, and their readers read
    /// again; any other failure halts the system.
    pub(crate) fn not_durable(&self, error: &JournalError) {
        if !matches!(error, JournalError::Full(_)) {
            self.status.halt(&error.to_string());
        }
    }

    /// Sends the replies once the records up to `position` are durable; a reply becomes the error if they are not.
    pub(crate) fn reply_when_durable(
        self: &Arc<JournalClient>,
        position: Position,
        replies: Vec<PendingReply>,
    ) {
        if replies.is_empty() {
            return;
        }
        let client = Arc::clone(self);
        tokio::spawn(async move {
            let durable = client.durable(position).await.map_err(RunError::from);
            for (reply, answer) in replies {
                let _ = reply.send(durable.clone().and(answer));
            }
        });
    }
}
