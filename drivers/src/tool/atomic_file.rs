//! Atomic file writes: a temporary file next to the target, renamed or linked to the target's name once complete.
//!
//! Each temporary file has a name of its own, so concurrent writers of one target do not collide. Its writer holds a file lock,
//! which the operating system releases when the process dies. A temporary file without a lock was therefore left by a crash,
//! and the next writer of the same target removes it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt, Permissions};
use ostler_kernel::event::Failure;
use rustix::fs::OFlags;

use super::blocking_tool::CancelFlag;
use super::workspace::CHUNK_BYTES;

/// Maximum concurrent writers of one target.
pub const ATOMIC_FILES_MAX: usize = 64;

/// The temporary file. Removed on drop unless it was renamed.
pub(super) struct AtomicFile<'a> {
    folder: &'a Dir,
    name: PathBuf,
    /// Holds the lock.
    file: File,
    renamed: bool,
}

pub(super) enum WriteError {
    Io(io::Error),
    Cancelled(Failure),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> WriteError {
        WriteError::Cancelled(failure)
    }
}

impl<'a> AtomicFile<'a> {
    /// Creates the temporary file for `target` in `folder`, and removes leftovers of crashed writers.
    pub(super) fn new(folder: &'a Dir, target: &Path) -> io::Result<AtomicFile<'a>> {
        let name = |at: usize| name(target, at);
        for at in 0..ATOMIC_FILES_MAX {
            if !remove_left(folder, &name(at))? {
                continue;
            }
            let Some(file) = make(folder, &name(at))? else { continue };
            for left in at + 1..ATOMIC_FILES_MAX {
                if folder.symlink_metadata(name(left)).is_err() {
                    break;
                }
                remove_left(folder, &name(left))?;
            }
            return Ok(AtomicFile { folder, name: name(at), file, renamed: false });
        }
        let what = format!("{ATOMIC_FILES_MAX} others are writing {}", target.display());
        Err(io::Error::new(ErrorKind::ResourceBusy, what))
    }

    pub(super) fn fill(&mut self, bytes: &[u8], cancel: &CancelFlag) -> Result<(), WriteError> {
        for piece in bytes.chunks(CHUNK_BYTES) {
            cancel.check()?;
            self.file.write_all(piece)?;
        }
        cancel.check()?;
        Ok(self.file.sync_all()?)
    }

    pub(super) fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.folder.set_permissions(&self.name, permissions)
    }

    /// Renames the file to the target, replacing any file there.
    pub(super) fn replace(mut self, target: &Path) -> io::Result<()> {
        self.folder.rename(&self.name, self.folder, target)?;
        self.renamed = true;
        Ok(())
    }

    /// Links the file to the target's name. Fails if the name is taken.
    pub(super) fn create(self, target: &Path) -> io::Result<()> {
        self.folder.hard_link(&self.name, self.folder, target)
    }
}

impl Drop for AtomicFile<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // The next writer removes a leftover.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

fn name(target: &Path, at: usize) -> PathBuf {
    let digest = blake3::hash(target.as_os_str().as_encoded_bytes()).to_hex();
    format!(".ostler-{}-{at}.tmp", &digest[..16]).into()
}

/// Creates and locks the file; `None` if another writer came first.
fn make(folder: &Dir, name: &Path) -> io::Result<Option<File>> {
    let file = match folder.open_with(name, OpenOptions::new().write(true).create_new(true)) {
        Ok(file) => file.into_std(),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    // On file systems without locks no file is ever considered a leftover.
    let taken = matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock));
    Ok((!taken && is_called(folder, name, &file)).then_some(file))
}

/// Removes the file if a crashed writer left it. True if the name is free afterwards.
fn remove_left(folder: &Dir, name: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = match folder.open_with(name, &options) {
        Ok(file) => file.into_std(),
        Err(error) => return Ok(error.kind() == ErrorKind::NotFound),
    };
    // Between open and lock, its writer may have renamed the file to the target.
    if file.try_lock().is_err() || !is_called(folder, name, &file) {
        return Ok(false);
    }
    folder.remove_file(name).map(|()| true)
}

/// True if the name refers to this file itself, not through a symbolic link.
fn is_called(folder: &Dir, name: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(named), Ok(open)) = (folder.symlink_metadata(name), file.metadata()) else { return false };
    open.is_file() && (MetadataExt::dev(&named), MetadataExt::ino(&named)) == (open.dev(), open.ino())
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn folder() -> (tempfile::TempDir, Dir) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temporary.path(), ambient_authority()).unwrap();
        (temporary, dir)
    }

    fn names(dir: &Dir) -> Vec<String> {
        let entries = dir.entries().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn each_has_its_own_name_and_none_stays() {
        let (_temporary, dir) = folder();
        let target = Path::new("a.txt");
        let mut all: Vec<AtomicFile> =
            (0..ATOMIC_FILES_MAX).map(|_| AtomicFile::new(&dir, target).unwrap()).collect();
        assert_eq!(names(&dir).len(), ATOMIC_FILES_MAX);
        let refused = AtomicFile::new(&dir, target).err().unwrap();
        assert_eq!(refused.to_string(), "64 others are writing a.txt");
        for (at, file) in all.iter_mut().enumerate() {
            assert!(file.fill(at.to_string().as_bytes(), &CancelFlag::default()).is_ok());
        }
        all.drain(..2).for_each(|file| file.replace(target).unwrap());
        assert_eq!(dir.read_to_string(target).unwrap(), "1");
        drop(all);
        assert_eq!(names(&dir), ["a.txt"]);
    }

    #[test]
    fn what_a_crash_left_is_removed_by_the_next_and_what_is_written_is_not() {
        let (_temporary, dir) = folder();
        let target = Path::new("a.txt");
        // Two leftovers around a live writer, and the link that `create` leaves if the process dies between linking and unlinking.
        let living = {
            let first = AtomicFile::new(&dir, target).unwrap();
            let living = AtomicFile::new(&dir, target).unwrap();
            drop(first);
            living
        };
        for at in [0, 2] {
            dir.write(name(target, at), "left").unwrap();
        }
        dir.write("b.txt", "kept").unwrap();
        dir.hard_link("b.txt", &dir, name(target, 3)).unwrap();
        let next = AtomicFile::new(&dir, target).unwrap();
        assert_eq!((&next.name, &living.name), (&name(target, 0), &name(target, 1)));
        assert_eq!(names(&dir).len(), 3, "{:?}", names(&dir));
        next.create(target).unwrap();
        living.replace(target).unwrap();
        assert_eq!(names(&dir), ["a.txt", "b.txt"]);
        assert_eq!(dir.read_to_string("b.txt").unwrap(), "kept");
    }

    #[test]
    fn what_is_not_a_file_of_ours_is_left_alone() {
        let (_temporary, dir) = folder();
        let target = Path::new("a.txt");
        dir.write("other", "other").unwrap();
        dir.symlink("other", name(target, 0)).unwrap();
        dir.create_dir(name(target, 1)).unwrap();
        let file = AtomicFile::new(&dir, target).unwrap();
        assert_eq!(file.name, name(target, 2));
        drop(file);
        assert_eq!(dir.read_to_string("other").unwrap(), "other");
    }

    #[test]
    fn nothing_is_written_once_the_call_was_given_up() {
        let (_temporary, dir) = folder();
        let mut file = AtomicFile::new(&dir, Path::new("a.txt")).unwrap();
        let cancel = CancelFlag::cancelled();
        assert!(matches!(file.fill(b"x", &cancel), Err(WriteError::Cancelled(_))));
        assert_eq!(file.file.metadata().unwrap().len(), 0);
    }
}
