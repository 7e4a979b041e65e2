//! A file beside another, whose name it takes when it is whole.
//!
//! Each has a name of its own, so two that write to one target do not meet. Whoever writes one holds its lock, and
//! the lock goes with the process: one that can be locked was left by a crash, and the next that writes to the
//! same target removes it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt, Permissions};
use ostler_kernel::event::Failure;
use rustix::fs::OFlags;

use super::blocking::Stop;
use super::workspace::PIECE_BYTES;

/// Calls that write to one file at once.
pub const BESIDE_MAX: usize = 64;

/// The file; removed when dropped, unless it took the other's name.
pub(super) struct Beside<'a> {
    folder: &'a Dir,
    name: PathBuf,
    /// Keeps it locked.
    file: File,
    renamed: bool,
}

/// Why something was not done.
pub(super) enum NotDone {
    Io(io::Error),
    GivenUp(Failure),
}

impl From<io::Error> for NotDone {
    fn from(error: io::Error) -> NotDone {
        NotDone::Io(error)
    }
}

impl From<Failure> for NotDone {
    fn from(failure: Failure) -> NotDone {
        NotDone::GivenUp(failure)
    }
}

impl<'a> Beside<'a> {
    /// Makes a file that is to become `target` in `folder`, and removes those that were left there by a crash.
    pub(super) fn new(folder: &'a Dir, target: &Path) -> io::Result<Beside<'a>> {
        let name = |at: usize| name(target, at);
        for at in 0..BESIDE_MAX {
            if !remove_left(folder, &name(at))? {
                continue;
            }
            let Some(file) = make(folder, &name(at))? else { continue };
            for left in at + 1..BESIDE_MAX {
                if folder.symlink_metadata(name(left)).is_err() {
                    break;
                }
                remove_left(folder, &name(left))?;
            }
            return Ok(Beside { folder, name: name(at), file, renamed: false });
        }
        let what = format!("{BESIDE_MAX} others are writing {}", target.display());
        Err(io::Error::new(ErrorKind::ResourceBusy, what))
    }

    /// Fills it, and makes that durable.
    pub(super) fn fill(&mut self, bytes: &[u8], stop: &Stop) -> Result<(), NotDone> {
        for piece in bytes.chunks(PIECE_BYTES) {
            stop.check()?;
            self.file.write_all(piece)?;
        }
        stop.check()?;
        Ok(self.file.sync_all()?)
    }

    /// Gives it the permissions of what it replaces.
    pub(super) fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.folder.set_permissions(&self.name, permissions)
    }

    /// It takes the name, from whatever had it.
    pub(super) fn replace(mut self, target: &Path) -> io::Result<()> {
        self.folder.rename(&self.name, self.folder, target)?;
        self.renamed = true;
        Ok(())
    }

    /// It takes the name, which nothing may have.
    pub(super) fn create(self, target: &Path) -> io::Result<()> {
        self.folder.hard_link(&self.name, self.folder, target)
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // What stays all the same is removed by the next that writes there.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

/// Short, however long the target's own name is.
fn name(target: &Path, at: usize) -> PathBuf {
    let digest = blake3::hash(target.as_os_str().as_encoded_bytes()).to_hex();
    format!(".ostler-{}-{at}.tmp", &digest[..16]).into()
}

/// Makes the file and locks it; `None` if somebody else was quicker.
fn make(folder: &Dir, name: &Path) -> io::Result<Option<File>> {
    let file = match folder.open_with(name, OpenOptions::new().write(true).create_new(true)) {
        Ok(file) => file.into_std(),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    // Where nothing can be locked, nothing is taken for left behind either.
    let taken = matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock));
    Ok((!taken && is_called(folder, name, &file)).then_some(file))
}

/// Removes the file of this name if it was left by a crash; whether nothing has the name now.
fn remove_left(folder: &Dir, name: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = match folder.open_with(name, &options) {
        Ok(file) => file.into_std(),
        Err(error) => return Ok(error.kind() == ErrorKind::NotFound),
    };
    // It may have taken its target's name between being opened and being locked.
    if file.try_lock().is_err() || !is_called(folder, name, &file) {
        return Ok(false);
    }
    folder.remove_file(name).map(|()| true)
}

/// Whether the name is that of this very file, and no link to it.
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
        let mut all: Vec<Beside> = (0..BESIDE_MAX).map(|_| Beside::new(&dir, target).unwrap()).collect();
        assert_eq!(names(&dir).len(), BESIDE_MAX);
        let refused = Beside::new(&dir, target).err().unwrap();
        assert_eq!(refused.to_string(), "64 others are writing a.txt");
        for (at, beside) in all.iter_mut().enumerate() {
            assert!(beside.fill(at.to_string().as_bytes(), &Stop::default()).is_ok());
        }
        all.drain(..2).for_each(|beside| beside.replace(target).unwrap());
        assert_eq!(dir.read_to_string(target).unwrap(), "1");
        drop(all);
        assert_eq!(names(&dir), ["a.txt"]);
    }

    #[test]
    fn what_a_crash_left_is_removed_by_the_next_and_what_is_written_is_not() {
        let (_temporary, dir) = folder();
        let target = Path::new("a.txt");
        // Two that are gone around one that still writes; and the link that `create` leaves if it dies between
        // taking the name and giving its own up.
        let living = {
            let first = Beside::new(&dir, target).unwrap();
            let living = Beside::new(&dir, target).unwrap();
            drop(first);
            living
        };
        for at in [0, 2] {
            dir.write(name(target, at), "left").unwrap();
        }
        dir.write("b.txt", "kept").unwrap();
        dir.hard_link("b.txt", &dir, name(target, 3)).unwrap();
        let next = Beside::new(&dir, target).unwrap();
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
        let beside = Beside::new(&dir, target).unwrap();
        assert_eq!(beside.name, name(target, 2));
        drop(beside);
        assert_eq!(dir.read_to_string("other").unwrap(), "other");
    }

    #[test]
    fn nothing_is_written_once_the_call_was_given_up() {
        let (_temporary, dir) = folder();
        let mut beside = Beside::new(&dir, Path::new("a.txt")).unwrap();
        let stop = Stop::given_up();
        assert!(matches!(beside.fill(b"x", &stop), Err(NotDone::GivenUp(_))));
        assert_eq!(beside.file.metadata().unwrap().len(), 0);
    }
}
