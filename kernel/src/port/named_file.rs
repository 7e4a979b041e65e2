//! Files that a call names.

use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// Bytes of a text that a question shows, and keeps for a comparison.
pub const NAMED_TEXT_BYTES_MAX: usize = 4 << 10;

/// A file of the workspace that a call names or executes, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// Path below the workspace.
    pub path: String,
    /// Digest of the content; of a very large file, of its size and times.
    pub digest: Digest,
    /// Size.
    pub bytes: u64,
    /// The content, if it is a text of at most [`NAMED_TEXT_BYTES_MAX`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
