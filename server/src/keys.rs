//! A request that is sent twice under one key is one request.

use std::collections::{BTreeMap, VecDeque};

use axum::http::StatusCode;
use ostler_kernel::id::{Digest, RunId};

use crate::problem::Problem;

/// Keys that are remembered, for as long as the process lives; the oldest go first.
pub const IDEMPOTENCY_KEYS_MAX: usize = 10_000;

/// Bytes of a key.
const KEY_BYTES_MAX: usize = 255;

/// The runs that keys have opened.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    runs: BTreeMap<String, (Digest, RunId)>,
    order: VecDeque<String>,
}

impl Keys {
    /// The run that a request of this key and body has opened already.
    pub(crate) fn find(&self, key: &str, body: Digest) -> Result<Option<RunId>, Problem> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let what =
                format!("an idempotency key has 1 to {KEY_BYTES_MAX} bytes, this one has {}", key.len());
            return Err(Problem::bad("idempotency_key", what));
        }
        match self.runs.get(key) {
            None => Ok(None),
            Some((seen, run)) if *seen == body => Ok(Some(*run)),
            Some(_) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "this idempotency key came with another request before: use a new one",
            )),
        }
    }

    pub(crate) fn remember(&mut self, key: String, body: Digest, run: RunId) {
        if self.order.len() >= IDEMPOTENCY_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.runs.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.runs.insert(key, (body, run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        "0198f3c2-0000-7000-8000-000000000001".parse().unwrap()
    }

    #[test]
    fn a_key_gives_the_same_run_for_the_same_body_only() {
        let mut keys = Keys::default();
        assert_eq!(keys.find("k", Digest([1; 32])), Ok(None));
        keys.remember("k".into(), Digest([1; 32]), run());
        assert_eq!(keys.find("k", Digest([1; 32])), Ok(Some(run())));
        assert!(keys.find("k", Digest([2; 32])).is_err());
        assert!(keys.find("", Digest([2; 32])).is_err());
        assert!(keys.find(&"k".repeat(KEY_BYTES_MAX + 1), Digest([2; 32])).is_err());
    }

    #[test]
    fn the_oldest_key_is_forgotten_at_the_limit() {
        let mut keys = Keys::default();
        for at in 0..=IDEMPOTENCY_KEYS_MAX {
            keys.remember(at.to_string(), Digest([1; 32]), run());
        }
        assert_eq!(keys.find("0", Digest([1; 32])), Ok(None));
        assert_eq!(keys.find("1", Digest([1; 32])), Ok(Some(run())));
        assert_eq!(keys.runs.len(), IDEMPOTENCY_KEYS_MAX);
    }
}
