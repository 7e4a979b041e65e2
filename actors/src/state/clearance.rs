//! Clearance of calls by an outside authority, with a cache of its approvals.

use std::sync::{Arc, Mutex, OnceLock};

use ostler_kernel::gate::{Asker, ClearanceCache, ClearanceRoute, Cleared, Denial, DenialCode, Judged, Seal};
use ostler_kernel::id::{Digest, Ticks};
use ostler_kernel::port::ClearanceAuthority;
use serde_json::Value;
use tokio::time::Instant;

use crate::base::lock::lock;
use crate::messages::clearance::Answer;

/// The authority and the cache of its approvals. An approval stays in the cache for the time of its route; a restart empties the
/// cache.
pub(crate) struct Clearance {
    authority: OnceLock<Arc<dyn ClearanceAuthority>>,
    cache: Mutex<ClearanceCache>,
    /// Zero of the cache's clock, which counts milliseconds.
    begun: Instant,
}

/// A question to the authority about one call.
#[derive(Debug)]
pub(crate) struct Question {
    request: Value,
    deadline_ms: u64,
    seal: Seal,
    /// Cache key for an approval, and the route with the time in the cache; `None`: approvals of the route are not cached.
    kept: Option<(Digest, ClearanceRoute)>,
}

/// The reason why a call has no permit.
#[derive(Debug)]
pub(crate) enum Stopped {
    Denied(Denial),
    /// The authority must be asked first.
    Asks(Box<Question>),
}

impl From<Denial> for Stopped {
    fn from(denial: Denial) -> Stopped {
        Stopped::Denied(denial)
    }
}

impl Default for Clearance {
    fn default() -> Clearance {
        Clearance { authority: OnceLock::new(), cache: Mutex::default(), begun: Instant::now() }
    }
}

impl Clearance {
    /// Sets the authority. The first authority stays.
    pub(crate) fn set_authority(&self, authority: Arc<dyn ClearanceAuthority>) {
        let _ = self.authority.set(authority);
    }

    /// Asks the authority, and waits at most until the deadline of the route. A system without an authority answers no at once.
    pub(crate) async fn ask(&self, question: Question) -> Answer {
        let Question { request, deadline_ms, seal, kept } = question;
        let said = match self.authority.get() {
            Some(authority) => authority.ask(request, deadline_ms).await,
            None => Err(DenialCode::ClearanceUnreachable),
        };
        if let (Ok(()), Some((key, route))) = (said, kept) {
            lock(&self.cache).store(key, &route, self.now());
        }
        Answer { seal, said }
    }

    /// The clearance of a call on a route: from a cached approval, or from `answer` if the seal of `answer` matches the call and
    /// the policy in force.
    ///
    /// # Errors
    ///
    /// The denial, or the question to ask first.
    pub(crate) fn of(
        &self,
        judged: &Judged<'_>,
        route: &ClearanceRoute,
        asker: Asker<'_>,
        answer: Option<&Answer>,
    ) -> Result<Cleared, Stopped> {
        let (seal, key) = (judged.seal()?, judged.cache_key(asker)?);
        if key.is_some_and(|key| lock(&self.cache).covers(key, self.now())) {
            return Ok(Cleared::new(seal));
        }
        match answer.map(|answer| (answer.seal.check(Some(&seal)), answer.said)) {
            Some((Ok(()), Ok(()))) => return Ok(Cleared::new(seal)),
            Some((Ok(()), Err(code))) => {
                return Err(judged.denial(code, "the clearance authority did not say yes").into());
            }
            Some((Err(DenialCode::SealMismatch), _)) => {
                let what = "parameters or tool changed while the clearance authority was asked";
                return Err(judged.denial(DenialCode::SealMismatch, what).into());
            }
            // The policy changed since the answer: the authority is asked again.
            Some((Err(_), _)) | None => {}
        }
        Err(Stopped::Asks(Box::new(Question {
            request: judged.request(asker).to_json(),
            deadline_ms: route.deadline_ms,
            seal,
            kept: key.map(|key| (key, route.clone())),
        })))
    }

    fn now(&self) -> Ticks {
        Ticks::try_from(self.begun.elapsed().as_millis()).unwrap_or(Ticks::MAX)
    }
}
