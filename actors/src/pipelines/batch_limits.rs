//! How much a stage does before its work is recorded.

/// Events that a stage deals with before it records what came of them, at most.
pub(crate) const EVENTS_AT_ONCE: usize = 256;

/// Bytes of the events that a stage which is dealt with elsewhere is told at once: with the one that reaches it, no more are told.
pub(crate) const HEARD_BYTES_AT_ONCE: usize = 4 << 20;

/// How long a stage goes on before it records what came of it, if it is not through with what is at hand, in milliseconds:
/// who is behind it starts before it ends.
pub(crate) const AT_ONCE_MS: u64 = 1;

/// Bytes of what a stage publishes before it records it; what it publishes while it deals with one event more, and a state, still fit
/// into one append.
pub(crate) const OUTPUT_BYTES_AT_ONCE: usize = 1 << 20;
