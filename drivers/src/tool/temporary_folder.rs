//! Folders for the temporary files of calls.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ostler_kernel::event::Failure;

use super::removal::remove_folder;
use super::tool_spec::transient;
use crate::cage::{owned_prefix, random_word};

/// A folder for the temporary files of a call. Removed on drop.
#[derive(Debug)]
pub(super) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// A new one for a call of a data folder. The program is told its path, so the name says nothing else that it may not know.
    pub(super) fn make(owner: &str) -> Result<TemporaryFolder, Failure> {
        let path = parent().join(format!("{}{}", owned_prefix(owner), random_word()?));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        let failed =
            |error| transient(format!("cannot make the temporary folder {}: {error}", path.display()));
        made.map_err(failed)?;
        Ok(TemporaryFolder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes what calls of a data folder left behind, whose programs have ended.
    pub(super) fn remove_all_of(owner: &str) {
        let prefix = owned_prefix(owner);
        for entry in fs::read_dir(parent()).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove(&entry.path());
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the temporary files of a call. What cannot be removed stays: it stops neither the call nor a command.
fn remove(folder: &Path) {
    if let Err(error) = remove_folder(folder)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "temporary files of a program are left; remove the folder");
    }
}

/// The folder of all temporary files, without links: a cage opens none.
fn parent() -> PathBuf {
    let folder = std::env::temp_dir();
    folder.canonicalize().unwrap_or(folder)
}
