//! Idempotency keys: repeated requests with one key open one run. The run has its id before it is opened, so a
//! repetition finds it however far the first request came.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::http::StatusCode;
use ostler_kernel::id::{Digest, RunId};
use tokio::sync::Mutex;

use crate::problem::Problem;

/// Keys that are remembered while the process lives; the oldest are dropped first.
pub const IDEMPOTENCY_KEYS_MAX: usize = 10_000;

/// Longest key in bytes.
const KEY_BYTES_MAX: usize = 255;

#[derive(Debug, Default)]
pub(crate) struct IdempotencyKeys {
    runs: BTreeMap<String, Binding>,
    order: VecDeque<String>,
}

/// Digest of the body of the last request with a key, and the run that its requests open. Locked by the request in
/// progress.
pub(crate) type Binding = Arc<Mutex<(Digest, RunId)>>;

impl IdempotencyKeys {
    /// The binding of a key; a new key is bound to `run`.
    pub(crate) fn bind(&mut self, key: &str, body: Digest, run: RunId) -> Result<Binding, Problem> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let what =
                format!("an idempotency key has 1 to {KEY_BYTES_MAX} bytes, this one has {}", key.len());
            return Err(Problem::bad("idempotency_key", what));
        }
        if let Some(bound) = self.runs.get(key) {
            return Ok(Arc::clone(bound));
        }
        if self.order.len() >= IDEMPOTENCY_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.runs.remove(&oldest);
        }
        self.order.push_back(key.to_owned());
        let bound = Arc::new(Mutex::new((body, run)));
        self.runs.insert(key.to_owned(), Arc::clone(&bound));
        Ok(bound)
    }
}

/// The refusal of a key that opened a run with another body.
pub(crate) fn reused() -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "idempotency_key_reused",
        "this idempotency key came with another request before: use a new one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(last: u8) -> RunId {
        format!("0198f3c2-0000-7000-8000-00000000000{last}").parse().unwrap()
    }

    fn bound(keys: &mut IdempotencyKeys, key: &str, body: Digest, run: RunId) -> (Digest, RunId) {
        *keys.bind(key, body, run).unwrap().try_lock().unwrap()
    }

    #[test]
    fn a_key_has_one_run_and_the_last_body() {
        let (mut keys, body) = (IdempotencyKeys::default(), |byte| Digest([byte; 32]));
        assert_eq!(bound(&mut keys, "k", body(1), run(1)), (body(1), run(1)));
        assert_eq!(bound(&mut keys, "k", body(2), run(2)), (body(1), run(1)));
        *keys.bind("k", body(2), run(2)).unwrap().try_lock().unwrap() = (body(2), run(1));
        assert_eq!(bound(&mut keys, "k", body(3), run(3)), (body(2), run(1)));
        assert!(keys.bind("", body(1), run(1)).is_err());
        assert!(keys.bind(&"k".repeat(KEY_BYTES_MAX), body(1), run(1)).is_ok());
        assert!(keys.bind(&"k".repeat(KEY_BYTES_MAX + 1), body(1), run(1)).is_err());
    }

    #[test]
    fn the_oldest_key_is_forgotten_at_the_limit() {
        let (mut keys, body) = (IdempotencyKeys::default(), Digest([1; 32]));
        for at in 0..=IDEMPOTENCY_KEYS_MAX {
            keys.bind(&at.to_string(), body, run(1)).unwrap();
        }
        assert_eq!(keys.runs.len(), IDEMPOTENCY_KEYS_MAX);
        assert_eq!(bound(&mut keys, "1", body, run(2)), (body, run(1)));
        assert_eq!(bound(&mut keys, "0", body, run(2)), (body, run(2)));
    }
}
