//! A connected server, for calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::caller::Caller;
use super::definition::Definition;
use super::program::ProgramFiles;

/// Reason for the end of a connection with a call that has no answer.
pub(super) const LOST: &str = "the answer to a call was lost";

/// Reason for the end of a server that may write, and has not answered a call that was given up.
pub(super) const UNANSWERED: &str = "it was ended, because it had not answered a call that was given up";

/// Time for the end of a server, and what it writes to standard error about it, after an answer was lost.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(2);

/// A connection, shared by its calls.
pub(super) struct Up {
    pub(super) caller: Caller,
    /// The tools that the server lists.
    pub(super) listed: Mutex<BTreeMap<String, Definition>>,
    pub(super) program: ProgramFiles,
    pub(super) broken: Notify,
    /// Reason for [`Up::end`].
    pub(super) why: OnceLock<&'static str>,
    /// Reason for the end of the connection; `None` while it is open.
    pub(super) ended: watch::Sender<Option<String>>,
}

impl Up {
    /// Ends the connection after a call without an answer, and returns the reason for its end; `None` if it is not known in time.
    pub(super) async fn lost(&self) -> Option<String> {
        self.end(LOST);
        let mut ended = self.ended.subscribe();
        let known = tokio::time::timeout(LAST_WORDS * 2, ended.wait_for(Option::is_some));
        known.await.ok()?.ok()?.clone().filter(|why| why != LOST)
    }

    pub(super) fn end(&self, why: &'static str) {
        self.why.get_or_init(|| why);
        self.broken.notify_one();
    }

    /// Waits at most `wait_ms` for the answers to calls that were given up, or the end of the server. False if there is neither.
    pub(super) async fn settles_within(&self, wait_ms: u64) -> bool {
        tokio::time::timeout(Duration::from_millis(wait_ms), self.caller.given_up().settled()).await.is_ok()
    }

    /// True once the connection ends.
    pub(super) fn has_ended(&self) -> bool {
        self.why.get().is_some() || self.ended.borrow().is_some()
    }

    /// True if a file of the program was written or replaced since it started: an interpreter may read it again.
    pub(super) async fn is_touched(self: &Arc<Up>) -> bool {
        let up = Arc::clone(self);
        let looked = tokio::task::spawn_blocking(move || up.program.is_touched());
        looked.await.unwrap_or(true)
    }

    /// Present definition of a tool; `None` if the server no longer lists the tool.
    pub(super) fn listed(&self, tool: &str) -> Option<Definition> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }
}
