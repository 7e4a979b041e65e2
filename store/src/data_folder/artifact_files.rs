//! Artifact files.
//!
//! A file holds a format line, a line with the media type, and the content. A new file is written under a temporary name, synced
//! and renamed, and the folder is synced; a file under the name of a digest is therefore complete.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use ostler_kernel::id::{Digest, Ticks};
use ostler_kernel::lineage;
use ostler_kernel::port::{Artifact, ArtifactError};

use crate::disk::safe_open::{make_folder, open_regular, sync_folder};
use crate::disk::{free_bytes, is_full};

/// Content size from which free space is checked before writing, in bytes.
const LARGE_BYTES: u64 = 256 * 1024;

const FREE_BYTES_MIN: u64 = 1024 * 1024;

const MAGIC: &[u8] = b"ostler-artifact 1\n";

const TEMPORARY: &str = "new";

const DAMAGED: &str = "damaged";

/// Digest of an artifact, which is the artifact's name.
pub(crate) fn digest(artifact: &Artifact) -> Digest {
    lineage::artifact(&artifact.media, &artifact.content)
}

pub(crate) fn io_error(error: &io::Error) -> ArtifactError {
    match is_full(error) {
        true => ArtifactError::Full(error.to_string()),
        false => ArtifactError::Io(error.to_string()),
    }
}

pub(crate) struct ArtifactFiles {
    root: PathBuf,
    temporaries: AtomicU64,
    /// By the first byte of the digests: this process has synced the folder's name.
    synced_folders: [AtomicBool; 256],
}

impl ArtifactFiles {
    pub(crate) fn at(root: &Path) -> ArtifactFiles {
        let synced_folders = [const { AtomicBool::new(false) }; 256];
        ArtifactFiles { root: root.to_owned(), temporaries: AtomicU64::new(0), synced_folders }
    }

    /// Makes the folder at `root` if missing and removes unfinished files of earlier processes.
    pub(crate) fn open(root: &Path) -> io::Result<ArtifactFiles> {
        make_folder(root)?;
        let temporary = root.join(TEMPORARY);
        match fs::remove_dir_all(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => make_folder(&temporary)?,
        }
        Ok(ArtifactFiles::at(root))
    }

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
                // Files named otherwise are not artifacts.
                digests.extend(file?.file_name().to_str().and_then(|name| name.parse::<Digest>().ok()));
            }
        }
        digests.sort_unstable();
        Ok(digests)
    }

    pub(crate) fn quarantine(&self, digest: Digest) -> io::Result<()> {
        let folder = self.root.join(DAMAGED);
        make_folder(&folder)?;
        let name = digest.to_string();
        fs::rename(self.folder(&digest).join(&name), folder.join(&name))?;
        sync_folder(&folder)?;
        sync_folder(&self.folder(&digest))
    }

    pub(crate) fn quarantined(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let files = match fs::read_dir(self.root.join(DAMAGED)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let mut found = Vec::new();
        for file in files {
            let file = file?;
            // Files named otherwise are not artifacts.
            if file.file_name().to_str().is_some_and(|name| name.parse::<Digest>().is_ok()) {
                found.push((file.path(), file.metadata()?.len()));
            }
        }
        Ok(found)
    }

    /// Size of an artifact's file in bytes, and the time of writing in milliseconds since the Unix epoch.
    pub(crate) fn size_and_time(&self, digest: Digest) -> io::Result<(u64, Ticks)> {
        let found = fs::symlink_metadata(self.folder(&digest).join(digest.to_string()))?;
        let since = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok((found.len(), since.as_millis() as Ticks))
    }

    pub(crate) fn remove(&self, digest: Digest) -> io::Result<()> {
        fs::remove_file(self.folder(&digest).join(digest.to_string()))
    }

    fn folder(&self, digest: &Digest) -> PathBuf {
        self.root.join(format!("{:02x}", digest.0[0]))
    }

    /// Writes an artifact, unless an intact copy exists; durable on return.
    pub(crate) fn put(&self, artifact: &Artifact) -> io::Result<Digest> {
        let digest = digest(artifact);
        let folder = self.folder(&digest);
        let path = folder.join(digest.to_string());
        make_folder(&folder)?;
        // Another call or a process that died may have made the folder without syncing the name.
        let synced = &self.synced_folders[usize::from(digest.0[0])];
        if !synced.load(Ordering::Acquire) {
            sync_folder(&self.root)?;
            synced.store(true, Ordering::Release);
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

    /// Refuses a large artifact that would fill the disk: writing until the disk is full would starve the journal.
    fn check_room(&self, bytes: u64) -> io::Result<()> {
        if bytes < LARGE_BYTES {
            return Ok(());
        }
        let needed = bytes.saturating_add(FREE_BYTES_MIN);
        match free_bytes(&self.root).is_some_and(|free| free < needed) {
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
                opened.map_err(|error| io_error(&error))?.ok_or_else(|| damaged("not a regular file"))?
            }
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| io_error(&error))?;
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("not an artifact file"))?;
        let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("no media type"))?;
        let media =
            std::str::from_utf8(&rest[..line]).map_err(|_| damaged("a media type other than UTF-8"))?;
        let media = media.to_owned();
        bytes.drain(..MAGIC.len() + line + 1);
        let artifact = Artifact { media, content: bytes };
        if self::digest(&artifact) != digest {
            return Err(damaged("digest mismatch"));
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
        let files = ArtifactFiles::at(folder.path());
        let disk = rustix::fs::statvfs(folder.path()).unwrap();
        let more = disk.f_blocks * disk.f_frsize;
        for (bytes, has_room) in [(0, true), (LARGE_BYTES, true), (more, false), (u64::MAX, false)] {
            let kind = files.check_room(bytes).err().map(|error| error.kind());
            assert_eq!(kind, (!has_room).then_some(ErrorKind::StorageFull), "{bytes}");
        }
    }
}
