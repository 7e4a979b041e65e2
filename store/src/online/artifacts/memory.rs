//! Artifacts in memory, for tests and in-process use.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_kernel::id::Digest;
use ostler_kernel::port::{Artifact, ArtifactError, ArtifactStore, BoxFuture};

use super::check;
use crate::data_folder::artifact_files::digest;

/// Artifacts in memory, with the limits of the store on disk.
#[derive(Default)]
pub struct MemoryArtifacts(Mutex<HashMap<Digest, Arc<Artifact>>>);

impl MemoryArtifacts {
    fn held(&self) -> MutexGuard<'_, HashMap<Digest, Arc<Artifact>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ArtifactStore for MemoryArtifacts {
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>> {
        let stored = check(&artifact).map(|()| {
            let digest = digest(&artifact);
            self.held().entry(digest).or_insert_with(|| Arc::new(artifact));
            digest
        });
        Box::pin(ready(stored))
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>> {
        let found = self.held().get(&digest).cloned();
        Box::pin(ready(found.map(Arc::unwrap_or_clone).ok_or(ArtifactError::Missing(digest))))
    }
}
