//! Durability behind [`ostler_kernel::port`]: the journal and the artifacts, on disk and in memory.
//!
//! [`Store::open`] opens both on disk, held by one process. [`MemoryJournal`] and [`MemoryArtifacts`] have the same semantics in
//! memory.
//!
//! | folder | content | may use |
//! |---|---|---|
//! | `disk` | files, the lock, the reserve, a faulty disk for tests | |
//! | `format` | bytes on disk: records, frames, segments | `disk` |
//! | `index` | state derived from the journal | `format`, `disk` |
//! | `data_folder` | layout of a data folder, artifact files | `format`, `disk` |
//! | `online` | opening, appending, reading | all of the above |
//! | `maintenance` | verifying, repairing, collecting, compacting | all of the above |
//!
//! `online` and `maintenance` never use each other; the root ([`Store`]) connects the two. `tests/layers.rs` checks the table. This
//! crate decides nothing about runs, has no clock (times come with the batches) and no network.
#![forbid(unsafe_code)]

mod data_folder;
pub mod disk;
mod format;
mod index;
mod maintenance;
mod online;
mod options;
mod store;
#[cfg(test)]
mod tests;

pub use data_folder::OpenError;
pub use format::FORMAT;
pub use format::codec::{CodecError, RECORD_BYTES_MAX, decode, encode};
pub use format::damage::{Damage, OpenJournalError};
pub use format::frame::FRAME_BYTES_MAX;
pub use format::quarantine_list::Quarantined;
pub use format::segment::SEGMENT_BYTES;
pub use index::IndexDifferences;
pub use maintenance::{ClientLoss, Examination, Findings, Garbage, PipelineLoss};
pub use online::{
    ARTIFACT_BYTES_MAX, EVENTS_PER_APPEND_MAX, FolderArtifacts, FolderOutput, JournalOpened, MEDIA_BYTES_MAX,
    MemoryArtifacts, MemoryJournal, MemoryOutput, STREAMS_PER_APPEND_MAX, SegmentJournal, TornTail,
    WriteCounts,
};
pub use options::{
    JournalMetrics, Options, QUEUE_BYTES_MAX, QUEUE_WAIT_MS_MAX, RetentionPolicy, ReusableRuns,
    SCRUB_BYTES_MAX,
};
pub use store::{Opened, Store};
