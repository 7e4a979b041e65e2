//! An attempt that starts once its intent is appended.

use std::pin::Pin;
use std::sync::Arc;

use ostler_kernel::event::Outcome;

use crate::attempts::attempt_journal::AttemptJournal;
use crate::base::keys::AttemptKey;
use crate::messages::slots::Ticket;

/// An attempt that starts once its intent is appended, or durable if the attempt acts on the world.
pub(super) struct Launch {
    pub(super) key: AttemptKey,
    pub(super) slot: Ticket,
    pub(super) acts: bool,
    pub(super) log: Arc<AttemptJournal>,
    /// Boxed, because the future is moved several times before it is spawned.
    pub(super) body: Pin<Box<dyn Future<Output = Outcome> + Send>>,
}
