//! Marks of the folders in which programs write at this moment, for other processes of the user.
//!
//! The cage of a program shows what was there when it was made. A data folder that another process makes meanwhile where the program
//! writes is not hidden from it.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::workspaces::Workspaces;

/// Folder of the locks in the user's own folder.
const FOLDER: &str = "running";

/// Most files of locks. Two folders may share one, and a mark then counts for both.
const LOCKS: u32 = 4_096;

/// A mark of folders; lasts as long as the value, and as the process around the program that holds it too.
#[derive(Debug)]
pub(crate) struct Presence(Vec<(PathBuf, File)>);

impl Presence {
    /// The files that are locked.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.0.iter().map(|(path, _)| path.clone()).collect()
    }
}

/// Holds marks that another process has.
///
/// # Errors
///
/// A lock cannot be opened.
pub(super) fn hold(marks: &[PathBuf]) -> io::Result<Vec<File>> {
    let held = marks.iter().map(|path| {
        let file = File::open(path)?;
        file.lock_shared()?;
        Ok(file)
    });
    held.collect()
}

impl Workspaces {
    /// Marks folders, before the cage of a program that writes there is decided.
    ///
    /// # Errors
    ///
    /// A lock cannot be made.
    pub(super) fn enter(&self, folders: &[PathBuf]) -> io::Result<Presence> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.folder().join(FOLDER))?;
        let entered = folders.iter().map(|folder| {
            let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            let path = self.lock_of(&real);
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock_shared()?;
            Ok((path, file))
        });
        entered.collect::<io::Result<_>>().map(Presence)
    }

    /// True if a program of any process writes around a folder at this moment. A folder made before this call is seen by the cage of
    /// every program that starts after it.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or a lock cannot be read.
    pub fn is_entered(&self, folder: &Path) -> io::Result<bool> {
        for around in folder.canonicalize()?.ancestors().skip(1) {
            let lock = match File::open(self.lock_of(around)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    fn lock_of(&self, folder: &Path) -> PathBuf {
        let digest = blake3::hash(folder.as_os_str().as_bytes());
        let [a, b, c, d, ..] = *digest.as_bytes();
        self.folder().join(FOLDER).join(format!("{:03x}", u32::from_le_bytes([a, b, c, d]) % LOCKS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_entered_while_a_program_writes_around_it() {
        let place = tempfile::tempdir().unwrap();
        let (ws, notes) = (place.path().join("ws"), Workspaces::at(&place.path().join("user")));
        fs::create_dir_all(ws.join("data")).unwrap();
        let is_entered = || notes.is_entered(&ws.join("data")).unwrap();
        assert!(!is_entered(), "nothing ever ran");
        let first = notes.enter(std::slice::from_ref(&ws)).unwrap();
        let second = notes.enter(&[ws.clone(), ws.join("data")]).unwrap();
        assert!(is_entered());
        drop(first);
        assert!(is_entered(), "another program still runs");
        let held = hold(&second.files()).unwrap();
        drop(second);
        assert!(is_entered(), "what sits around the program holds the mark");
        drop(held);
        assert!(!is_entered());
        let _within = notes.enter(&[ws.join("data")]).unwrap();
        assert!(!is_entered(), "it does not write around the folder");
        assert!(notes.is_entered(&ws.join("gone")).is_err());
    }
}
