//! Folders for the temporary files of calls.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ostler_kernel::event::Failure;

use super::removal::remove_folder;
use super::tool_spec::transient;
use crate::cage::{owned_prefix, random_word};

/// Longest wait of a call or a command for the removal of temporary files.
const REMOVAL_WAIT: Duration = Duration::from_secs(2);

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
        let entries = fs::read_dir(parent()).into_iter().flatten().flatten();
        let left = entries.filter(|entry| {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            is_folder && entry.file_name().to_string_lossy().starts_with(&prefix)
        });
        remove(left.map(|entry| entry.path()).collect());
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        remove(vec![self.0.clone()]);
    }
}

/// Removes temporary files. What takes longer than [`REMOVAL_WAIT`] is left to a thread, and if this process ends meanwhile, to the next
/// one that opens the data folder.
fn remove(folders: Vec<PathBuf>) {
    let until = Instant::now() + REMOVAL_WAIT;
    for (at, folder) in folders.iter().enumerate() {
        let removed = remove_folder(folder, Some(until));
        if !matches!(&removed, Err(error) if error.kind() == ErrorKind::TimedOut) {
            report(folder, removed);
            continue;
        }
        let left = folders[at..].to_vec();
        let thread = std::thread::Builder::new().name("removal".to_owned());
        let started = thread.spawn(move || left.iter().for_each(|it| report(it, remove_folder(it, None))));
        return report(folder, started.map(drop));
    }
}

/// Tells of temporary files that are left. They stop neither a call nor a command.
fn report(folder: &Path, removed: io::Result<()>) {
    if let Err(error) = removed
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
