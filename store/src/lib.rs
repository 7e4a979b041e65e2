//! Durability behind [`ostler_kernel::port`]: the journal and the artifacts, on disk and in memory.
//!
//! [`Store::open`] gives both on disk, held by one process. [`MemoryJournal`] and [`MemoryArtifacts`] have the
//! same semantics and end with the process.
//!
//! What this crate deliberately lacks: it decides nothing about runs, it has no calendar (times come with the
//! batches), and nothing of it is read from or sent over a network.
#![forbid(unsafe_code)]

pub mod artifact;
mod bytes;
mod care;
mod codec;
mod data_folder;
pub mod disk;
mod index;
pub mod journal;
mod lock;
mod regular;

pub use artifact::{FolderArtifacts, MemoryArtifacts};
pub use care::{Examination, Garbage};
pub use codec::{CodecError, RECORD_BYTES_MAX, decode, encode};
pub use data_folder::{FORMAT, OpenError, Opened, Store};
pub use index::IndexDifferences;
pub use journal::MemoryJournal;
pub use journal::segments::{
    ClientLoss, Damage, Findings, JournalMeasures, Options, PipelineLoss, Quarantined, SegmentJournal, Torn,
    Unwanted,
};
