//! Cache of the grants in force. The records are in the streams of the clients.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_kernel::event::Event;
use ostler_kernel::grant::Grant;
use ostler_kernel::id::{ClientId, Ticks};
use serde_json::{Map, Value};

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
            Event::Granted(grant) => {
                let mut grants = lock(&self.known);
                grants.retain(|_, known| known.until > at);
                grants.insert(grant.id.clone(), (**grant).clone());
                let number = grant.id.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
                self.last.fetch_max(number.unwrap_or(0), Ordering::Relaxed);
            }
            Event::GrantRevoked { grant, .. } => {
                lock(&self.known).remove(grant);
            }
            _ => {}
        }
    }

    /// The id of the next grant. Unique because only the registry calls this function.
    pub(crate) fn next_id(&self) -> String {
        format!("{PREFIX}{}", self.last.load(Ordering::Relaxed) + 1)
    }

    /// The grants in force, the earliest end first.
    pub(crate) fn in_force(&self, now: Ticks) -> Vec<Grant> {
        let mut found: Vec<Grant> =
            lock(&self.known).values().filter(|grant| grant.until > now).cloned().collect();
        found.sort_by(|a, b| (a.until, &a.id).cmp(&(b.until, &b.id)));
        found
    }

    /// A grant that covers a call.
    pub(crate) fn covering(
        &self,
        client: &ClientId,
        tool: &str,
        params: &Map<String, Value>,
        now: Ticks,
    ) -> Option<Grant> {
        lock(&self.known).values().find(|grant| grant.covers(client, tool, params, now)).cloned()
    }
}
