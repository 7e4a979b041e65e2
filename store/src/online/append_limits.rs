//! Limits of one append.

use ostler_kernel::port::{JournalError, StreamBatch};

/// Most streams in one append.
pub const STREAMS_PER_APPEND_MAX: usize = 256;

/// Most events in one append.
pub const EVENTS_PER_APPEND_MAX: usize = 100_000;

/// Checks the number of streams and events, and that the streams are distinct and of one partition.
pub(super) fn check(batches: &[StreamBatch]) -> Result<(), JournalError> {
    let refuse = |why: String| Err(JournalError::Refused(why));
    if batches.len() > STREAMS_PER_APPEND_MAX {
        return refuse(format!(
            "{} streams in one append, STREAMS_PER_APPEND_MAX is {STREAMS_PER_APPEND_MAX}",
            batches.len()
        ));
    }
    let events: usize = batches.iter().map(|batch| batch.events.len()).sum();
    if events > EVENTS_PER_APPEND_MAX {
        return refuse(format!(
            "{events} events in one append, EVENTS_PER_APPEND_MAX is {EVENTS_PER_APPEND_MAX}"
        ));
    }
    for (index, batch) in batches.iter().enumerate() {
        let before = &batches[..index];
        if let Some(other) = before.iter().find(|other| other.stream.partition != batch.stream.partition) {
            return refuse(format!(
                "an append spans partitions {} and {}, expected one",
                other.stream.partition, batch.stream.partition
            ));
        }
        if before.iter().any(|other| other.stream == batch.stream) {
            return refuse(format!("stream {:?} appears twice in one append", batch.stream));
        }
    }
    Ok(())
}
