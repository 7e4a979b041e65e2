//! Output of programs.

use ostler_kernel::id::RunId;
use ostler_kernel::port::OutputChunk;
use serde::{Deserialize, Serialize};

/// Lines that a program printed at once: a line of `logs --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRow {
    /// `output`.
    #[serde(rename = "type")]
    pub row_type: String,
    /// Place behind the lines, to go on from with `after`.
    pub seq: u64,
    /// The run as a UUID.
    pub run: String,
    /// Node, attempt, stream, time and text.
    #[serde(flatten)]
    pub chunk: OutputChunk,
}

impl OutputRow {
    pub(crate) fn new(run: RunId, seq: u64, chunk: OutputChunk) -> OutputRow {
        OutputRow { row_type: "output".to_owned(), seq, run: run.to_string(), chunk }
    }
}
