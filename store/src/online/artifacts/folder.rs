//! The artifact store on disk: a few threads perform the file operations of [`ArtifactFiles`].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crossbeam::channel::{self, Receiver, Sender};
use ostler_kernel::id::Digest;
use ostler_kernel::port::{Artifact, ArtifactError, ArtifactStore, BoxFuture};
use tokio::sync::{Semaphore, oneshot};

use super::check;
use crate::data_folder::artifact_files::{ArtifactFiles, io_error};
use crate::disk::lock::LockName;

const THREADS: usize = 2;

/// Most calls under way; further calls wait without a thread.
const CALLS_MAX: usize = 64;

type Job = Box<dyn FnOnce(&ArtifactFiles) + Send>;

/// Artifacts in files `ab/<digest>` of a folder.
///
/// `put` resolves once the artifact is durable. Dropping the future does not cancel the write.
pub struct FolderArtifacts {
    jobs: Sender<Job>,
    calls: Semaphore,
    lock: Option<LockName>,
}

impl FolderArtifacts {
    /// Opens the artifacts at `root`, made if missing. Unfinished files of earlier processes are removed.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or read, or a thread cannot be started.
    pub fn open(root: &Path) -> io::Result<FolderArtifacts> {
        let files = Arc::new(ArtifactFiles::open(root)?);
        let (jobs, queue) = channel::unbounded();
        for number in 0..THREADS {
            let (files, queue): (_, Receiver<Job>) = (files.clone(), queue.clone());
            thread::Builder::new()
                .name(format!("artifacts-{number}"))
                .spawn(move || queue.iter().for_each(|job| job(&files)))?;
        }
        Ok(FolderArtifacts { jobs, calls: Semaphore::new(CALLS_MAX), lock: None })
    }

    /// Refuses to write once the lock is lost.
    pub(crate) fn held_by(self, lock: LockName) -> FolderArtifacts {
        FolderArtifacts { lock: Some(lock), ..self }
    }

    async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&ArtifactFiles) -> Result<T, ArtifactError> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let stopped = || ArtifactError::Io("the artifact threads have stopped".into());
        let _call = self.calls.acquire().await.map_err(|_| stopped())?;
        let (sender, receiver) = oneshot::channel();
        // The caller may have dropped the future.
        let job: Job = Box::new(move |files| drop(sender.send(act(files))));
        self.jobs.send(job).map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }
}

impl ArtifactStore for FolderArtifacts {
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>> {
        Box::pin(async move {
            check(&artifact)?;
            let lock = self.lock.clone();
            let put = move |files: &ArtifactFiles| {
                lock.map_or(Ok(()), |lock| lock.check())?;
                files.put(&artifact)
            };
            self.call(move |files| put(files).map_err(|error| io_error(&error))).await
        })
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>> {
        Box::pin(self.call(move |files| files.get(digest)))
    }
}
