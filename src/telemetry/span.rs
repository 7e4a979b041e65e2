//! Spans before they are encoded.

use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::lineage;

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Texts(Vec<String>),
    Count(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) place: Place,
    pub(super) parent: Option<SpanKey>,
    pub(super) link: Option<Place>,
    pub(super) name: String,
    /// The work happens in another system.
    pub(super) is_client: bool,
    /// Milliseconds since the Unix epoch.
    pub(super) start: Ticks,
    pub(super) end: Ticks,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// Kind of the failure; `None`: none.
    pub(super) error: Option<String>,
}

pub(super) type SpanKey = [u8; 8];

/// A span and its trace. Both follow from names, so that every process that works at a run gives the same ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trace: [u8; 16],
    pub(super) span: SpanKey,
}

impl Place {
    /// The span of a run; the id of the run is the id of its trace.
    pub(super) fn of_run(run: RunId) -> Place {
        Place::named(run, &[])
    }

    /// The span of an attempt of a run.
    pub(super) fn of_attempt(run: RunId, node: &str, attempt: u32) -> Place {
        Place::named(run, &[b"attempt", node.as_bytes(), &attempt.to_be_bytes()])
    }

    /// A span of a run with a name of several parts.
    pub(super) fn named(run: RunId, parts: &[&[u8]]) -> Place {
        let trace = *run.0.as_bytes();
        let digest = lineage::hash("aos/span/1", &[&[&trace[..]], parts].concat());
        let mut span = SpanKey::default();
        span.copy_from_slice(&digest.0[..8]);
        Place { trace, span }
    }
}
