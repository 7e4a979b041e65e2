//! Output of programs, kept for people, and the trait [`OutputStore`]. No decision of the kernel depends on it.

use std::io;

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, RunId, Ticks};

/// Maximum bytes of the text of an [`OutputChunk`]. A longer line is split.
pub const OUTPUT_CHUNK_BYTES_MAX: usize = 16 << 10;

/// Maximum bytes of the output of a run that a store keeps; appending more is an error.
pub const OUTPUT_RUN_BYTES_MAX: u64 = 64 << 20;

/// Maximum bytes of notes on lost output that a store keeps for a run beyond [`OUTPUT_RUN_BYTES_MAX`].
pub const OUTPUT_RUN_NOTES_BYTES_MAX: u64 = 256 << 10;

/// Origin of output: a stream of a program, or a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Text of a model.
    Model,
}

/// Whole lines that an attempt printed at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputChunk {
    /// Time of the output in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// The node.
    pub node: NodeId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The stream.
    pub stream: OutputStream,
    /// The lines, separated by line feeds. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
    /// Bytes of the attempt's output that were left out before these lines.
    #[serde(default, skip_serializing_if = "crate::json::is_zero")]
    pub left_out: u64,
    /// Reason why the attempt's output from here on is lost; the text is empty then. Later lines of the attempt, if any, tell in
    /// `left_out` how much was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// Keeps the output of runs as chunks in lines of JSON ([`OutputChunk`]), one sequence of bytes a run.
///
/// The calls are short and may block for the time of a write to the page cache. Output is not synced: a power failure may lose
/// its end, or leave a line that cannot be parsed, which readers skip.
pub trait OutputStore: Send + Sync + 'static {
    /// Appends chunks, each a line of JSON with its line feed.
    ///
    /// # Errors
    ///
    /// The run has [`OUTPUT_RUN_BYTES_MAX`] already ([`io::ErrorKind::FileTooLarge`]), the disk is nearly full
    /// ([`io::ErrorKind::StorageFull`]: records and results need the rest), or the store cannot write.
    fn append(&self, run: RunId, chunks: &[u8]) -> io::Result<()>;

    /// Appends a chunk that says that output is lost. The limits that [`OutputStore::append`] keeps do not count: a note is short,
    /// and there is one for an attempt.
    ///
    /// # Errors
    ///
    /// The run has [`OUTPUT_RUN_NOTES_BYTES_MAX`] beyond its output, or the store cannot write.
    fn append_note(&self, run: RunId, note: &[u8]) -> io::Result<()>;

    /// Returns at most `bytes_max` bytes from offset `after`; none at the end, and none for a run without output.
    ///
    /// # Errors
    ///
    /// The store cannot read.
    fn read(&self, run: RunId, after: u64, bytes_max: usize) -> io::Result<Vec<u8>>;
}
