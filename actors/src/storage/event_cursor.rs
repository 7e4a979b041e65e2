//! Follows the durable records of a run.

use std::collections::VecDeque;
use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::port::{JournalError, Recorded, RunRowStatus, Seq, StreamId, StreamKind};

use tokio::sync::watch;

use crate::storage::journal_client::JournalClient;
use crate::storage::run_reader::READ_AT_ONCE;

/// A position in the records of a run, or in the events of a pipeline.
pub struct EventCursor {
    journal: Arc<JournalClient>,
    stream: StreamId,
    after: Seq,
    read: VecDeque<Recorded>,
    over: bool,
    /// Becomes `true` when nothing more comes; of a run, its closing record says that.
    closed: Option<watch::Receiver<bool>>,
}

impl EventCursor {
    pub(crate) fn new(journal: Arc<JournalClient>, stream: StreamId, after: Seq) -> EventCursor {
        EventCursor { journal, stream, after, read: VecDeque::new(), over: false, closed: None }
    }

    /// A cursor that ends when `closed` becomes `true`.
    pub(crate) fn until(
        closed: watch::Receiver<bool>,
        journal: Arc<JournalClient>,
        stream: StreamId,
        after: Seq,
    ) -> EventCursor {
        EventCursor { closed: Some(closed), ..EventCursor::new(journal, stream, after) }
    }

    /// Returns the next record as soon as it is durable; `None` after the closing record, or when the system has ended
    /// and no record is left.
    ///
    /// Dropping the future loses nothing: the cursor stays where it is.
    pub async fn next(&mut self) -> Option<Result<Recorded, JournalError>> {
        if self.over {
            return None;
        }
        while self.read.is_empty() {
            match self.fill().await {
                Ok(true) => {}
                Ok(false) => {
                    self.over = true;
                    return None;
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        let record = self.read.pop_front()?;
        self.after = record.seq;
        // An undo appends records after the closing record of a run.
        let is_last = |cursor: &EventCursor| {
            let next = cursor.journal.read(cursor.stream, cursor.after, 1);
            cursor.read.is_empty() && next.is_ok_and(|next| next.is_empty())
        };
        self.over = matches!(record.event, Event::RunClosed { .. }) && is_last(self);
        Some(Ok(record))
    }

    /// The next record that is durable already; `None` if there is none yet.
    pub async fn next_known(&mut self) -> Option<Result<Recorded, JournalError>> {
        while self.read.is_empty() && !self.over {
            match self.journal.read(self.stream, self.after, 1) {
                Ok(found) if found.is_empty() => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            if let Err(error) = self.fill().await {
                return Some(Err(error));
            }
        }
        self.next().await
    }

    /// Reads more records or waits for some; `false` if none will come.
    async fn fill(&mut self) -> Result<bool, JournalError> {
        let journal = &self.journal;
        let mut halted = self.journal.status.watch_halted();
        // Asked before the read, which then includes the last record.
        let is_last = halted.borrow_and_update().is_some() || self.is_closed()?;
        let found = journal.read(self.stream, self.after, READ_AT_ONCE)?;
        match found.last() {
            None if is_last => return Ok(false),
            None => {
                let mut closed = self.closed.clone();
                let is_closed = async {
                    if let Some(closed) = &mut closed
                        && closed.wait_for(|closed| *closed).await.is_ok()
                    {
                        return;
                    }
                    std::future::pending().await
                };
                tokio::select! {
                    () = journal.changed(self.stream, self.after) => {}
                    _ = halted.changed() => {}
                    () = is_closed => {}
                }
            }
            Some(last) => match journal.durable(last.position).await {
                Ok(()) => self.read = found.into(),
                // A full disk rolled the records back.
                Err(JournalError::Full(_)) => {}
                Err(error) => return Err(error),
            },
        }
        Ok(true)
    }

    /// True if the cursor follows a closed run or a removed pipeline.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn is_closed(&self) -> Result<bool, JournalError> {
        if self.stream.kind != StreamKind::Run {
            return Ok(self.closed.as_ref().is_some_and(|closed| *closed.borrow()));
        }
        let row = self.journal.run(RunId(uuid::Uuid::from_bytes(self.stream.key)))?;
        Ok(row.is_some_and(|row| matches!(row.status, RunRowStatus::Closed(_))))
    }
}
