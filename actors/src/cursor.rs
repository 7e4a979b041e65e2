//! Following a run: its durable records, in order, from any place.

use std::collections::VecDeque;
use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::port::{Journal, JournalError, Recorded, Seq, StreamId};

use crate::stream::READ_AT_ONCE;

/// A place in the records of a run.
pub struct EventCursor {
    journal: Arc<dyn Journal>,
    stream: StreamId,
    after: Seq,
    read: VecDeque<Recorded>,
    over: bool,
}

impl EventCursor {
    pub(crate) fn new(journal: Arc<dyn Journal>, stream: StreamId, after: Seq) -> EventCursor {
        EventCursor { journal, stream, after, read: VecDeque::new(), over: false }
    }

    /// The next record, as soon as it is durable; `None` after the one that closes the run. Dropping the future
    /// loses nothing: the cursor stays where it is.
    pub async fn next(&mut self) -> Option<Result<Recorded, JournalError>> {
        if self.over {
            return None;
        }
        while self.read.is_empty() {
            if let Err(error) = self.fill().await {
                self.over = true;
                return Some(Err(error));
            }
        }
        let record = self.read.pop_front()?;
        self.after = record.seq;
        self.over = matches!(record.event, Event::RunClosed { .. });
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

    async fn fill(&mut self) -> Result<(), JournalError> {
        let found = self.journal.read(self.stream, self.after, READ_AT_ONCE)?;
        match found.last() {
            None => self.journal.changed(self.stream, self.after).await,
            Some(last) => match self.journal.durable(last.position).await {
                Ok(()) => self.read = found.into(),
                // They were undone, and are read no more.
                Err(JournalError::Full(_)) => {}
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }
}
