//! When a child is gone for good: a token that the child holds and a signal that others wait on.
//!
//! An actor runtime reports the end of an actor before its state is dropped, and the end of a
//! parent while its children still run. Here the end of a child is the drop of its last [`Token`],
//! which lives beside its state and, for a supervisor, in every child as well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::ChildId;
use crate::exit::{Cause, Exit};
use crate::pool_task::PoolMessage;
use crate::strategy::Place;
use crate::tree::TreeMessage;

/// What is known about the end of one start of a child.
#[derive(Default)]
pub(crate) struct Completion {
    exit: OnceLock<Exit>,
    causes: OnceLock<Vec<Cause>>,
    asked: AtomicBool,
    gone: AtomicBool,
    changed: Notify,
    /// Keeps the supervisor's own token alive while this child lives.
    parent: Mutex<Option<Arc<Token>>>,
}

impl Completion {
    /// Records how the child ended; the first record wins.
    pub(crate) fn record(&self, exit: Exit) {
        // A later cause is a consequence of the first one.
        let _ = self.exit.set(exit);
    }

    /// Records the chain of failures behind the exit, deepest first.
    pub(crate) fn record_causes(&self, causes: Vec<Cause>) {
        let _ = self.causes.set(causes);
    }

    /// How the child ended, if it said so.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.exit.get()
    }

    /// The chain of failures behind the exit, deepest first.
    pub(crate) fn causes(&self) -> &[Cause] {
        self.causes.get().map_or(&[], Vec::as_slice)
    }

    /// Marks that the supervisor wants the child to stop.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Whether the supervisor wants the child to stop.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Whether nothing of the child is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Completes once nothing of the child is left, its state included.
    pub(crate) async fn gone(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_gone() {
                return;
            }
            changed.await;
        }
    }

    /// Lets the supervisor end although this child cannot be killed.
    pub(crate) fn disown(&self) {
        self.parent.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Whom to tell when a child is gone.
pub(crate) enum Report {
    /// Nobody: the child is a root, and those who care wait on the completion.
    Root,
    /// The supervisor that keeps it at `place`.
    Tree { to: UnboundedSender<TreeMessage>, place: Place, birth: u64 },
    /// The pool that keeps it as `id`.
    Pool { to: UnboundedSender<PoolMessage>, id: ChildId, birth: u64 },
}

/// Held by everything that belongs to one start of a child; its drop is the child's end.
pub(crate) struct Token {
    completion: Arc<Completion>,
    report: Report,
}

impl Token {
    /// A token for a child of the supervisor that holds `parent`.
    pub(crate) fn new(report: Report, parent: Option<Arc<Token>>) -> (Arc<Token>, Arc<Completion>) {
        let completion = Arc::new(Completion { parent: Mutex::new(parent), ..Completion::default() });
        (Arc::new(Token { completion: completion.clone(), report }), completion)
    }

    /// What is known about the end of this child.
    pub(crate) fn completion(&self) -> &Arc<Completion> {
        &self.completion
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.completion.gone.store(true, Ordering::Release);
        self.completion.changed.notify_waiters();
        // A supervisor that is gone already does not need to hear.
        match &self.report {
            Report::Root => {}
            Report::Tree { to, place, birth } => {
                let _ = to.send(TreeMessage::Exited { place: *place, birth: *birth });
            }
            Report::Pool { to, id, birth } => {
                let _ = to.send(PoolMessage::Exited { id: id.clone(), birth: *birth });
            }
        }
        self.completion.disown();
    }
}
