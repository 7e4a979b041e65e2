//! A journal in which some records are durable no earlier than they are let.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::port::{
    AccountRow, BoxFuture, Journal, JournalError, Position, Recorded, RunRow, Seq, StreamBatch, StreamId,
    StreamKind,
};
use ostler_store::MemoryJournal;
use tokio::sync::watch;

/// A journal in which some records are durable no earlier than they are let, nor is what comes after them.
pub(crate) struct Late {
    journal: MemoryJournal,
    is_late: fn(&Event) -> bool,
    /// Where they stand.
    late: Mutex<Vec<Position>>,
    /// How many of them are let.
    let_go: watch::Sender<usize>,
    /// Times that somebody came to wait for any of them.
    waited_for: AtomicUsize,
}

impl Late {
    pub(crate) fn new(is_late: fn(&Event) -> bool) -> Arc<Late> {
        let (journal, late, let_go) = (MemoryJournal::default(), Mutex::default(), watch::Sender::new(0));
        Arc::new(Late { journal, is_late, late, let_go, waited_for: AtomicUsize::new(0) })
    }

    /// Times that somebody came to wait for any of them so far.
    pub(crate) fn waited_for(&self) -> usize {
        self.waited_for.load(Ordering::SeqCst)
    }

    /// Appends of such records so far.
    pub(crate) fn ordered(&self) -> usize {
        self.late.lock().unwrap().len()
    }

    /// Lets those be durable that are ordered.
    pub(crate) fn go(&self) {
        self.let_go.send_replace(self.ordered());
    }
}

impl Journal for Late {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let is_late = batches.iter().flat_map(|batch| &batch.events).any(self.is_late);
        let mut late = self.late.lock().unwrap();
        let position = self.journal.append(batches)?;
        late.extend(is_late.then_some(position));
        Ok(position)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        let before = self.late.lock().unwrap().iter().filter(|late| **late <= position).count();
        let mut let_go = self.let_go.subscribe();
        if *let_go.borrow() < before {
            self.waited_for.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(async move {
            drop(let_go.wait_for(|let_go| *let_go >= before).await);
            self.journal.durable(position).await
        })
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        self.journal.read(stream, after, limit)
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        self.journal.changed(stream, after)
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        self.journal.runs(open_only)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        self.journal.run(run)
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        self.journal.accounts()
    }

    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError> {
        self.journal.streams(kind)
    }

    fn account(
        &self,
        client: &ClientId,
        agent: Option<&AgentId>,
    ) -> Result<Option<AccountRow>, JournalError> {
        self.journal.account(client, agent)
    }
}
