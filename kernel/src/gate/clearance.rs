//! Clearance: the answer of an outside authority to one call. Anything but a plain yes is a no.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::code::DenialCode;
use super::rules::ClearanceRoute;
use super::seal::Seal;
use crate::id::{Digest, Ticks};
use crate::json::{depth, parse_value};
use crate::lineage;

/// Largest answer in bytes.
pub const CLEARANCE_BYTES_MAX: usize = 4_096;

/// Deepest nesting of an answer; its object has depth 1.
pub const CLEARANCE_DEPTH_MAX: usize = 32;

/// Longest time for which a yes counts again, in milliseconds.
pub const CLEARANCE_CACHE_MS_MAX: u64 = 60_000;

/// Most cached answers. The oldest leave first.
pub const CLEARANCE_CACHE_MAX: usize = 4_096;

/// The end of a request for clearance, as the connection saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// No answer will come.
    Unreachable,
    /// The answer was not there, whole, before the deadline.
    Late,
    /// An answer.
    Answer {
        /// HTTP status.
        status: u16,
        /// Body, at least its first [`CLEARANCE_BYTES_MAX`] + 1 bytes.
        body: &'a [u8],
    },
}

impl Reply<'_> {
    /// `Ok` only for status 200 with a strict JSON object whose `allow` is true; other keys are ignored.
    ///
    /// # Errors
    ///
    /// The code of the denial.
    pub fn judge(self) -> Result<(), DenialCode> {
        let body = match self {
            Reply::Unreachable => return Err(DenialCode::ClearanceUnreachable),
            Reply::Late => return Err(DenialCode::ClearanceTimeout),
            Reply::Answer { status: 300..=399, .. } => return Err(DenialCode::ClearanceRedirect),
            Reply::Answer { status: 200, body } => body,
            Reply::Answer { .. } => return Err(DenialCode::ClearanceMalformed),
        };
        match allow(body) {
            Some(true) => Ok(()),
            Some(false) => Err(DenialCode::ClearanceDenied),
            None => Err(DenialCode::ClearanceMalformed),
        }
    }
}

fn allow(body: &[u8]) -> Option<bool> {
    if body.len() > CLEARANCE_BYTES_MAX {
        return None;
    }
    let answer = parse_value(std::str::from_utf8(body).ok()?).ok()?;
    if depth(&answer) > CLEARANCE_DEPTH_MAX || has_nul(&answer) {
        return None;
    }
    answer.as_object()?.get("allow")?.as_bool()
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, inner)| name.contains('\0') || has_nul(inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Who asks for clearance.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The client or tenant.
    pub tenant: &'a str,
    /// The user.
    pub user: &'a str,
}

/// A request for clearance.
#[derive(Debug, Clone, Copy)]
pub struct ClearanceRequest<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Parameters, defaults included.
    pub params: &'a Map<String, Value>,
    /// Who asks.
    pub asker: Asker<'a>,
    /// The sensitive parameters for which the call is held; `None`: it is not.
    pub tainted: Option<&'a [String]>,
}

impl ClearanceRequest<'_> {
    /// The body of the request.
    pub fn to_json(&self) -> Value {
        let mut request = json!({
            "tool": self.tool,
            "params": self.params,
            "user": self.asker.user,
            "tenant": self.asker.tenant,
        });
        if let Some(tainted) = self.tainted {
            request["tainted"] = json!(tainted);
        }
        request
    }
}

/// Cached answers: only yes, only for the same call, only for a minute, and never for impact 2. Empty after a restart.
#[derive(Debug, Clone, Default)]
pub struct ClearanceCache {
    /// Ends of validity by key, and keys by end.
    until: BTreeMap<Digest, Ticks>,
}

impl ClearanceCache {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.until.clear();
    }

    /// The key of a call.
    pub fn key(asker: Asker<'_>, tool: &str, seal: &Seal, route: &ClearanceRoute) -> Digest {
        let held = seal.held.map_or("", DenialCode::as_str);
        let route_terms = [
            route.deadline_ms.to_le_bytes(),
            route.cache_ttl_ms.to_le_bytes(),
            u64::from(route.only_tainted).to_le_bytes(),
        ];
        lineage::hash(
            "ostler.clearance.1",
            &[
                asker.tenant.as_bytes(),
                asker.user.as_bytes(),
                tool.as_bytes(),
                seal.tool.as_bytes(),
                &seal.params.0,
                route.tool.as_bytes(),
                &route_terms.concat(),
                &seal.epoch.to_le_bytes(),
                held.as_bytes(),
            ],
        )
    }

    /// True if a yes counts at time `now`, in milliseconds.
    pub fn covers(&self, key: Digest, now: Ticks) -> bool {
        self.until.get(&key).is_some_and(|until| now < *until)
    }

    /// Keeps a yes for the time that the route says.
    pub fn store(&mut self, key: Digest, route: &ClearanceRoute, now: Ticks) {
        let ttl = route.cache_ttl_ms.min(CLEARANCE_CACHE_MS_MAX);
        if ttl == 0 {
            return;
        }
        if self.until.len() >= CLEARANCE_CACHE_MAX {
            self.until.retain(|_, until| now < *until);
        }
        if self.until.len() >= CLEARANCE_CACHE_MAX
            && let Some(first) = self.until.iter().min_by_key(|(_, until)| **until).map(|(key, _)| *key)
        {
            self.until.remove(&first);
        }
        self.until.insert(key, now.saturating_add_unsigned(ttl));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_has_room_for_so_many_and_drops_the_oldest() {
        let route =
            ClearanceRoute { tool: "t".into(), deadline_ms: 1, cache_ttl_ms: 60_000, only_tainted: false };
        let key = |at: usize| lineage::hash("t", &[&at.to_le_bytes()]);
        let mut cache = ClearanceCache::default();
        (0..=CLEARANCE_CACHE_MAX).for_each(|at| cache.store(key(at), &route, at as Ticks));
        assert_eq!(cache.until.len(), CLEARANCE_CACHE_MAX);
        let covered = |at: usize| cache.covers(key(at), CLEARANCE_CACHE_MAX as Ticks);
        assert!(!covered(0) && covered(1) && covered(CLEARANCE_CACHE_MAX));
        let expired = 60_000 + CLEARANCE_CACHE_MAX as Ticks;
        cache.store(key(9_999), &route, expired);
        assert_eq!(cache.until.len(), 1, "what has expired leaves first");
        cache.clear();
        assert!(!cache.covers(key(9_999), expired));
    }

    #[test]
    fn a_yes_counts_for_the_time_of_its_route_and_at_most_a_minute() {
        for (cache_ttl_ms, last) in [
            (0, None),
            (1, Some(0)),
            (60_000, Some(59_999)),
            (60_001, Some(59_999)),
            (u64::MAX, Some(59_999)),
        ] {
            let route =
                ClearanceRoute { tool: "t".into(), deadline_ms: 1, cache_ttl_ms, only_tainted: false };
            let (key, mut cache) = (Digest([1; 32]), ClearanceCache::default());
            cache.store(key, &route, 7);
            assert_eq!(cache.until.len(), usize::from(last.is_some()), "{cache_ttl_ms}");
            assert_eq!(cache.covers(key, 7), last.is_some(), "{cache_ttl_ms}");
            let last = last.map_or(7, |last| 7 + last);
            assert_eq!(cache.covers(key, last), cache_ttl_ms > 0, "{cache_ttl_ms}");
            assert!(!cache.covers(key, last + 1) && !cache.covers(Digest([2; 32]), 7), "{cache_ttl_ms}");
        }
    }

    #[test]
    fn an_answer_has_so_many_bytes_and_levels() {
        let judged = |body: &str| Reply::Answer { status: 200, body: body.as_bytes() }.judge();
        let long = |bytes: usize| {
            let frame = r#"{"allow":true,"why":""}"#.len();
            format!(r#"{{"allow":true,"why":"{}"}}"#, "x".repeat(bytes - frame))
        };
        let deep = |levels: usize| {
            format!(r#"{{"allow":true,"why":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1))
        };
        for (body, expected) in [
            (long(CLEARANCE_BYTES_MAX), Ok(())),
            (long(CLEARANCE_BYTES_MAX + 1), Err(DenialCode::ClearanceMalformed)),
            (long(CLEARANCE_BYTES_MAX + 2), Err(DenialCode::ClearanceMalformed)),
            (deep(CLEARANCE_DEPTH_MAX), Ok(())),
            (deep(CLEARANCE_DEPTH_MAX + 1), Err(DenialCode::ClearanceMalformed)),
            (deep(CLEARANCE_DEPTH_MAX + 2), Err(DenialCode::ClearanceMalformed)),
        ] {
            assert_eq!(judged(&body), expected, "{} bytes: {body:.60}", body.len());
        }
    }

    #[test]
    fn only_a_plain_yes_is_one() {
        let answer = |status, body: &str| Reply::Answer { status, body: body.as_bytes() }.judge();
        assert_eq!(answer(200, r#"{"allow": true, "why": [1]}"#), Ok(()));
        assert_eq!(answer(200, r#"{"allow": false}"#), Err(DenialCode::ClearanceDenied));
        for status in [199, 201, 204, 299, 400, 500] {
            let judged = answer(status, r#"{"allow": true}"#);
            assert_eq!(judged, Err(DenialCode::ClearanceMalformed), "{status}");
        }
        for status in [300, 302, 399] {
            assert_eq!(answer(status, r#"{"allow": true}"#), Err(DenialCode::ClearanceRedirect), "{status}");
        }
        for body in [
            "",
            "true",
            "[true]",
            "{}",
            r#"{"allow": 1}"#,
            r#"{"allow": "true"}"#,
            r#"{"allow": null}"#,
            r#"{"allow": true, "allow": true}"#,
            r#"{"allow": true} {}"#,
            r#"{"allow": true, "x": "a\u0000b"}"#,
            r#"{"allow": true, "x": [{"y": "\u0000"}]}"#,
            r#"{"allow": true, "x\u0000": 1}"#,
        ] {
            assert_eq!(answer(200, body), Err(DenialCode::ClearanceMalformed), "{body}");
        }
        assert_eq!(answer(200, r#"{"allow": true} "#), Ok(()));
        assert_eq!(Reply::Late.judge(), Err(DenialCode::ClearanceTimeout));
        assert_eq!(Reply::Unreachable.judge(), Err(DenialCode::ClearanceUnreachable));
    }
}
