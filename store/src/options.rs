//! Settings of a journal.

use metrics::{Counter, Histogram};
use ostler_kernel::id::Ticks;
use ostler_kernel::port::{RunRow, RunRowStatus};

use crate::format::segment::{SEGMENT_BYTES, SEGMENT_HEADER_BYTES};

/// Most bytes waiting for the writer thread.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest time an append waits for room in the writer's queue, in milliseconds.
pub const QUEUE_WAIT_MS_MAX: u64 = 10_000;

/// Bytes of segments scrubbed before a journal opens.
pub const SCRUB_BYTES_MAX: u64 = 256 * 1024 * 1024;

pub(crate) const SEGMENT_BYTES_MIN: u64 = 4096;

/// Settings of a journal. The defaults are the documented and measured values; tests use small sizes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Length of a segment, in bytes.
    pub segment_bytes: u64,
    /// Bytes allocated ahead of the written frames.
    pub prepare_bytes: u64,
    /// Bytes of the reserve, given up when the disk is full.
    pub reserve_bytes: u64,
    /// Most bytes waiting for the writer.
    pub queue_bytes_max: usize,
    /// Longest wait for room in the queue, in milliseconds.
    pub queue_wait_ms_max: u64,
    /// Opens the journal for inspection: skips scrubbing, and opens a journal with a missing end without accepting appends.
    pub inspect: bool,
    /// Bytes of segments scrubbed before the journal opens, newest first. A background thread scrubs the rest.
    pub scrub_bytes_max: u64,
    /// Runs removed on opening, once at least half of all runs, or a thousand, have expired.
    pub retention: RetentionPolicy,
    /// Metrics; `None` disables them.
    pub metrics: Option<JournalMetrics>,
}

/// Metrics of a journal.
#[derive(Debug, Clone)]
pub struct JournalMetrics {
    /// Seconds from an append to durability.
    pub append_seconds: Histogram,
    /// Appended records.
    pub records: Counter,
    /// File syncs.
    pub fsyncs: Counter,
    /// Appends per group commit.
    pub group_size: Histogram,
}

/// Selects the runs to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionPolicy {
    /// Removes runs closed before this time, in milliseconds since the Unix epoch; `None` removes none.
    pub closed_before_ms: Option<Ticks>,
    /// What becomes of expired runs with a result that reuse may need.
    pub reusable: ReusableRuns,
    /// Removes quarantined runs.
    pub quarantined: bool,
}

/// What becomes of expired runs with a recorded result that is the newest of its work, or of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReusableRuns {
    /// Such runs are removed like others; their work is executed again.
    #[default]
    Removed,
    /// Those closed at this time or later stay, in milliseconds since the Unix epoch.
    KeptSince(Ticks),
    /// Such runs stay, however old.
    Kept,
}

impl RetentionPolicy {
    /// Returns whether the run is to be removed. `is_reusable`: reuse may need one of its results.
    pub(crate) fn has_expired(&self, row: &RunRow, is_reusable: bool) -> bool {
        let before = match self.reusable {
            ReusableRuns::Kept if is_reusable => None,
            ReusableRuns::KeptSince(since) if is_reusable => self.closed_before_ms.map(|at| at.min(since)),
            _ => self.closed_before_ms,
        };
        let over = matches!(row.status, RunRowStatus::Closed(_));
        over && row.closed_ms.zip(before).is_some_and(|(closed, before)| closed < before)
    }

    /// Returns whether the runs with results that reuse may need have to be known.
    pub(crate) fn spares_reusable(&self) -> bool {
        self.reusable != ReusableRuns::Removed
    }
}

impl Options {
    /// Bytes the writer may allocate for `bytes` of records: a segment header, the frame, and the blocks ahead.
    pub(crate) fn allocation_for(&self, bytes: usize) -> usize {
        SEGMENT_HEADER_BYTES + self.prepare_bytes as usize + 2 * bytes
    }

    pub(crate) fn check(&self) -> std::io::Result<()> {
        let most = u64::from(u32::MAX);
        let fits = |bytes: u64, least: u64| (least..=most).contains(&bytes);
        if fits(self.segment_bytes, SEGMENT_BYTES_MIN)
            && fits(self.prepare_bytes, 0)
            && fits(self.reserve_bytes, 1)
        {
            return Ok(());
        }
        let why = format!(
            "journal options: sizes are at most {most} bytes, a segment at least {SEGMENT_BYTES_MIN}, the reserve at least 1"
        );
        Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why))
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: SEGMENT_BYTES,
            prepare_bytes: 256 * 1024,
            reserve_bytes: 1024 * 1024,
            queue_bytes_max: QUEUE_BYTES_MAX,
            queue_wait_ms_max: QUEUE_WAIT_MS_MAX,
            inspect: false,
            scrub_bytes_max: SCRUB_BYTES_MAX,
            retention: RetentionPolicy::default(),
            metrics: None,
        }
    }
}
