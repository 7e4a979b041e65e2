//! A journal that delays the durability of chosen records.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::event::Event;

use ostler_kernel::port::{BoxFuture, Journal, JournalError, JournalLayer, Position, StreamBatch};
use ostler_store::MemoryJournal;
use tokio::sync::watch;

/// A journal that delays the durability of chosen records and of all later ones.
pub(crate) struct Late {
    journal: MemoryJournal,
    is_late: fn(&Event) -> bool,
    late: Mutex<Vec<Position>>,
    let_go: watch::Sender<usize>,
    /// Number of waits for a chosen record.
    waited_for: AtomicUsize,
}

impl Late {
    pub(crate) fn new(is_late: fn(&Event) -> bool) -> Arc<Late> {
        let (journal, late, let_go) = (MemoryJournal::default(), Mutex::default(), watch::Sender::new(0));
        Arc::new(Late { journal, is_late, late, let_go, waited_for: AtomicUsize::new(0) })
    }

    /// Number of waits for a chosen record so far.
    pub(crate) fn waited_for(&self) -> usize {
        self.waited_for.load(Ordering::SeqCst)
    }

    pub(crate) fn ordered(&self) -> usize {
        self.late.lock().unwrap().len()
    }

    /// Makes the chosen records durable.
    pub(crate) fn go(&self) {
        self.let_go.send_replace(self.ordered());
    }
}

impl JournalLayer for Late {
    fn below(&self) -> &dyn Journal {
        &self.journal
    }

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
}
