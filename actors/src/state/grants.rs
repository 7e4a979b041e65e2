//! Cache of the grants in force. The records are in the streams of the clients.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_kernel::event::Event;
use ostler_kernel::grant::{Grant, GrantTerms, GrantedCall};
use ostler_kernel::id::Ticks;
use ostler_kernel::port::NamedFile;

use crate::base::lock::lock;

/// Prefix of a grant's id; a number follows.
const PREFIX: &str = "g";

#[derive(Default)]
pub(crate) struct Grants {
    known: Mutex<BTreeMap<String, Grant>>,
    /// Greatest number of a recorded grant.
    last: AtomicU64,
}

impl Grants {
    /// Empties the cache before the records are read again. The greatest number stays.
    pub(crate) fn forget(&self) {
        lock(&self.known).clear();
    }

    /// Applies a record of a client's stream.
    pub(crate) fn record(&self, event: &Event, at: Ticks) {
        match event {
            Event::Granted(terms) => self.count(terms),
            Event::GrantedIn(grant) => {
                let mut grants = lock(&self.known);
                grants.retain(|_, known| known.terms.until > at);
                grants.insert(grant.terms.id.clone(), (**grant).clone());
                self.count(&grant.terms);
            }
            Event::GrantRevoked { grant, .. } => {
                lock(&self.known).remove(grant);
            }
            _ => {}
        }
    }

    fn count(&self, terms: &GrantTerms) {
        let number = terms.id.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
        self.last.fetch_max(number.unwrap_or(0), Ordering::Relaxed);
    }

    /// The id of the next grant. Unique because only the registry calls this function.
    pub(crate) fn next_id(&self) -> String {
        format!("{PREFIX}{}", self.last.load(Ordering::Relaxed) + 1)
    }

    /// The grants in force, the earliest end first.
    pub(crate) fn in_force(&self, now: Ticks) -> Vec<Grant> {
        let mut found: Vec<Grant> =
            lock(&self.known).values().filter(|grant| grant.terms.until > now).cloned().collect();
        found.sort_by(|a, b| (a.terms.until, &a.terms.id).cmp(&(b.terms.until, &b.terms.id)));
        found
    }

    /// A grant that covers a call.
    pub(crate) fn covering(&self, call: &GrantedCall<'_>, files: &[NamedFile], now: Ticks) -> Option<Grant> {
        lock(&self.known).values().find(|grant| grant.covers(call, files, now)).cloned()
    }
}
