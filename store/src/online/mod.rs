//! The online path: opening, appending, reading, and the artifact stores.
//!
//! # Life of an append
//!
//! 1. The caller's thread encodes the batches ([`prepared_append`]), without any lock.
//! 2. The [`sequencer`], under one short lock, checks the expected sequence numbers, assigns the frame's address (LSN), updates
//!    the tail index and sends the frame to the writer thread. The records are readable from here on, and not durable.
//! 3. The [`writer`] drains the queue, writes all frames found as one group, syncs once, and advances the durable end.
//! 4. The [`durability_waiters`] answer every caller waiting for an address below the durable end.
//!
//! Frames reach the disk in address order, and a group is written only after the group before is synced. The first frame of a
//! group carries a flag saying so, which lets recovery tell damage from a torn write.
//!
//! # Failures
//!
//! - **Disk full** while writing: the writer rolls back to the durable end, truncates the files, rebuilds the tail index and
//!   rejects the lost addresses. The journal continues in a new segment, so no address is assigned twice. Until space returns,
//!   only operators' records are accepted; they use the blocks of the reserve.
//! - **Failed sync**, or any other write error: the content of the disk is unknown (the kernel may drop dirty pages after
//!   reporting the error once). The journal is poisoned: all waiting and later appends fail, and only reopening helps.
//! - **Lost lock**: the writer checks the lock before writing and again after syncing. A process that lost the folder poisons
//!   the journal and acknowledges nothing more.
//! - **Panic** of the writer thread: poisoned as well.
//!
//! [`opening`] describes recovery. The online path never imports `maintenance`; opening asks for integrity checks through the
//! trait [`integrity::IntegrityChecks`], and the crate's root connects the two.

mod admission;
mod append_limits;
mod artifacts;
mod durability_waiters;
mod indexer;
pub(crate) mod integrity;
mod journal;
mod memory;
mod opening;
mod output;
mod prepared_append;
mod query;
mod read;
mod rollback;
mod sequencer;
mod shared;
mod tail_repair;
mod watchers;
mod workspace_writes;
mod writer;

pub use append_limits::{EVENTS_PER_APPEND_MAX, STREAMS_PER_APPEND_MAX};
pub use artifacts::{ARTIFACT_BYTES_MAX, FolderArtifacts, MEDIA_BYTES_MAX, MemoryArtifacts};
pub use journal::SegmentJournal;
pub use memory::MemoryJournal;
pub(crate) use opening::open;
pub use opening::{JournalOpened, TornTail};
pub use output::{FolderOutput, MemoryOutput};
pub use workspace_writes::WriteCounts;
