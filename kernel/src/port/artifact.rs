//! Artifacts: content addressed by digest, and the trait [`ArtifactStore`].

use super::BoxFuture;
use crate::id::Digest;

/// Content with a media type, addressed by the digest of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Media type.
    pub media: String,
    /// Content.
    pub content: Vec<u8>,
}

/// A failed operation of the artifact store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The store has no such artifact.
    #[error("no artifact {0}")]
    Missing(Digest),
    /// The content does not have the digest of the artifact.
    #[error("artifact {digest} is damaged: {what}")]
    Damaged {
        /// The artifact.
        digest: Digest,
        /// Description of the damage.
        what: String,
    },
    /// The disk is full. Reading still works; storing works again as soon as the disk has space.
    #[error("artifact store: the disk is full: {0}")]
    Full(String),
    /// The operating system refused.
    #[error("artifact store: {0}")]
    Io(String),
}

/// Storage of results that are too large for a record.
pub trait ArtifactStore: Send + Sync + 'static {
    /// Stores content and returns its digest; durable when the future resolves. Storing the same content again changes
    /// nothing. A dropped future may have stored the content.
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>>;

    /// Reads content and verifies the digest.
    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>>;
}
