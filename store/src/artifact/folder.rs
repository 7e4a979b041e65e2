//! Artifacts as files.
//!
//! A file holds a line that says what it is, the media type on a line of its own, and the content. It is written
//! under a temporary name, synced, renamed, and its folder synced; so under its own name it is whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::UNIX_EPOCH;

use crossbeam::channel::{self, Receiver, Sender};
use ostler_kernel::id::{Digest, Ticks};
use ostler_kernel::port::{Artifact, ArtifactError, ArtifactStore, BoxFuture};
use tokio::sync::{Semaphore, oneshot};

use super::{check, digest};
use crate::data_folder::{make_folder, sync_folder};
use crate::disk::is_full;
use crate::regular::open_regular;

/// Threads that wait for the file system, so that no task has to.
const THREADS: usize = 2;

/// Calls under way at a time; more wait without holding a thread.
const CALLS_MAX: usize = 64;

/// Content of which it is looked beforehand whether there is room for it, in bytes.
const LARGE_BYTES: u64 = 256 * 1024;

/// Bytes of the disk that it leaves to others.
const LEFT_BYTES: u64 = 1024 * 1024;

/// The first line of every file.
const MAGIC: &[u8] = b"ostler-artifact 1\n";

/// Folder of files whose writing was not finished.
const TEMPORARY: &str = "new";

/// Folder of files that were found damaged.
const DAMAGED: &str = "damaged";

type Job = Box<dyn FnOnce(&Files) + Send>;

/// Artifacts in files `ab/<digest>` of a folder. What was stored is durable when the future is done.
pub struct FolderArtifacts {
    jobs: Sender<Job>,
    calls: Semaphore,
}

pub(crate) struct Files {
    root: PathBuf,
    temporaries: AtomicU64,
    /// The folders whose names are durable, as this process knows, by the first byte of the digests in them.
    named: [AtomicBool; 256],
}

impl FolderArtifacts {
    /// The artifacts at `root`, made if it is not there. What an earlier process did not finish is removed.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or read, or no thread can be started.
    pub fn open(root: &Path) -> io::Result<FolderArtifacts> {
        make_folder(root)?;
        let temporary = root.join(TEMPORARY);
        match fs::remove_dir_all(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => make_folder(&temporary)?,
        }
        let files = Arc::new(Files::at(root));
        let (jobs, queue) = channel::unbounded();
        for number in 0..THREADS {
            let (files, queue): (_, Receiver<Job>) = (files.clone(), queue.clone());
            thread::Builder::new()
                .name(format!("artifacts-{number}"))
                .spawn(move || queue.iter().for_each(|job| job(&files)))?;
        }
        Ok(FolderArtifacts { jobs, calls: Semaphore::new(CALLS_MAX) })
    }

    async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Files) -> Result<T, ArtifactError> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let gone = || ArtifactError::Io("the threads for artifacts are gone".into());
        let _call = self.calls.acquire().await.map_err(|_| gone())?;
        let (sender, receiver) = oneshot::channel();
        // Whoever dropped the future needs no answer.
        let job: Job = Box::new(move |files| drop(sender.send(act(files))));
        self.jobs.send(job).map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}

impl ArtifactStore for FolderArtifacts {
    fn put(&self, artifact: Artifact) -> BoxFuture<'_, Result<Digest, ArtifactError>> {
        Box::pin(async move {
            check(&artifact)?;
            self.call(move |files| files.put(&artifact).map_err(|error| failed(&error))).await
        })
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Artifact, ArtifactError>> {
        Box::pin(self.call(move |files| files.get(digest)))
    }
}

fn failed(error: &io::Error) -> ArtifactError {
    match is_full(error) {
        true => ArtifactError::Full(error.to_string()),
        false => ArtifactError::Io(error.to_string()),
    }
}

impl Files {
    /// The artifacts at `root`, which may be missing.
    pub(crate) fn at(root: &Path) -> Files {
        let named = [const { AtomicBool::new(false) }; 256];
        Files { root: root.to_owned(), temporaries: AtomicU64::new(0), named }
    }

    /// The digests of all artifacts, ascending.
    pub(crate) fn list(&self) -> io::Result<Vec<Digest>> {
        let mut digests = Vec::new();
        let folders = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(digests),
            folders => folders?,
        };
        for folder in folders {
            let folder = folder?;
            let name = folder.file_name();
            if name == TEMPORARY || name == DAMAGED || !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                // What is not named by a digest is not ours.
                digests.extend(file?.file_name().to_str().and_then(|name| name.parse::<Digest>().ok()));
            }
        }
        digests.sort_unstable();
        Ok(digests)
    }

    /// Moves a damaged artifact to where it is no longer one.
    pub(crate) fn set_aside(&self, digest: Digest) -> io::Result<()> {
        let folder = self.root.join(DAMAGED);
        make_folder(&folder)?;
        let name = digest.to_string();
        fs::rename(self.folder(&digest).join(&name), folder.join(&name))?;
        sync_folder(&folder)?;
        sync_folder(&self.folder(&digest))
    }

    /// Files of the artifacts that were set aside, with their bytes.
    pub(crate) fn set_asides(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let files = match fs::read_dir(self.root.join(DAMAGED)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let mut found = Vec::new();
        for file in files {
            let file = file?;
            // What is not named by a digest is not ours.
            if file.file_name().to_str().is_some_and(|name| name.parse::<Digest>().is_ok()) {
                found.push((file.path(), file.metadata()?.len()));
            }
        }
        Ok(found)
    }

    /// Bytes of an artifact's file, and when it was written, in milliseconds since the Unix epoch.
    pub(crate) fn about(&self, digest: Digest) -> io::Result<(u64, Ticks)> {
        let about = fs::symlink_metadata(self.folder(&digest).join(digest.to_string()))?;
        let since = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok((about.len(), since.as_millis() as Ticks))
    }

    /// Removes an artifact.
    pub(crate) fn remove(&self, digest: Digest) -> io::Result<()> {
        fs::remove_file(self.folder(&digest).join(digest.to_string()))
    }

    fn folder(&self, digest: &Digest) -> PathBuf {
        self.root.join(format!("{:02x}", digest.0[0]))
    }

    fn put(&self, artifact: &Artifact) -> io::Result<Digest> {
        let digest = digest(artifact);
        let folder = self.folder(&digest);
        let path = folder.join(digest.to_string());
        make_folder(&folder)?;
        // What is there may be another call's, or of a process that died: its name need not be durable yet.
        let known = &self.named[usize::from(digest.0[0])];
        if !known.load(Ordering::Acquire) {
            sync_folder(&self.root)?;
            known.store(true, Ordering::Release);
        }
        if self.get(digest).is_err() {
            self.check_room(artifact.content.len() as u64)?;
            let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
            let temporary = self.root.join(TEMPORARY).join(number.to_string());
            let written = write(&temporary, artifact).and_then(|()| fs::rename(&temporary, &path));
            written.inspect_err(|_| drop(fs::remove_file(&temporary)))?;
        }
        sync_folder(&folder)?;
        Ok(digest)
    }

    /// Writing a large one until there is no room left would take that from everybody else, the journal among them.
    fn check_room(&self, bytes: u64) -> io::Result<()> {
        if bytes < LARGE_BYTES {
            return Ok(());
        }
        // Some file systems do not tell; then it is tried.
        let Ok(disk) = rustix::fs::statvfs(&self.root) else { return Ok(()) };
        // Some of what is free is for root alone.
        let free = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
        let is_told = disk.f_blocks > 0;
        match is_told && free.saturating_mul(disk.f_frsize) < bytes.saturating_add(LEFT_BYTES) {
            true => Err(ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    pub(crate) fn get(&self, digest: Digest) -> Result<Artifact, ArtifactError> {
        let damaged = |what: &str| ArtifactError::Damaged { digest, what: what.to_owned() };
        let path = self.folder(&digest).join(digest.to_string());
        let mut file = match open_regular(File::options().read(true), &path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(ArtifactError::Missing(digest)),
            opened => {
                opened.map_err(|error| failed(&error))?.ok_or_else(|| damaged("it is not a regular file"))?
            }
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it does not begin as one does"))?;
        let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("no media type"))?;
        let media = std::str::from_utf8(&rest[..line]).map_err(|_| damaged("its media type is no text"))?;
        let media = media.to_owned();
        bytes.drain(..MAGIC.len() + line + 1);
        let artifact = Artifact { media, content: bytes };
        if self::digest(&artifact) != digest {
            return Err(damaged("its bytes give another digest"));
        }
        Ok(artifact)
    }
}

fn write(path: &Path, artifact: &Artifact) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(&[MAGIC, artifact.media.as_bytes(), b"\n"].concat())?;
    file.write_all(&artifact.content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_refused_before_any_of_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::at(folder.path());
        let disk = rustix::fs::statvfs(folder.path()).unwrap();
        let more = disk.f_blocks * disk.f_frsize;
        for (bytes, has_room) in [(0, true), (LARGE_BYTES, true), (more, false), (u64::MAX, false)] {
            let kind = files.check_room(bytes).err().map(|error| error.kind());
            assert_eq!(kind, (!has_room).then_some(ErrorKind::StorageFull), "{bytes}");
        }
    }
}
