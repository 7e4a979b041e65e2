//! Limits of a stage's unrecorded work.

/// Events before a record.
pub(crate) const EVENTS_AT_ONCE: usize = 256;

/// Bytes of events in one answer to another process; the event that reaches the limit is the last.
pub(crate) const HEARD_BYTES_AT_ONCE: usize = 4 << 20;

/// Milliseconds before a record if events are left, so that later stages can start.
pub(crate) const AT_ONCE_MS: u64 = 1;

/// Bytes of publications before a record: the ones of one more event and a state still fit into one append.
pub(crate) const OUTPUT_BYTES_AT_ONCE: usize = 1 << 20;
