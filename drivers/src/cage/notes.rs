//! The notes of a user about where steps wrote, in a file beside the operator key.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::workspaces::is_closed;
use crate::tool::is_guarded;

/// File of the notes in the user's own folder.
pub(super) const NOTES: &str = "workspaces.json";

/// Bytes of the notes that are read.
const NOTES_BYTES_MAX: u64 = 16 << 20;

/// Folders, and accepted files, that are noted. Those that are gone make room.
pub(super) const NOTED_MAX: usize = 10_000;

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notes {
    /// Folders where programs wrote, with the configuration files that none of them could change.
    pub ran: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Folders where file tools wrote, with the configuration files and data folders that none of them could change.
    #[serde(default)]
    pub files: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Digests of contents by file.
    pub accepted: BTreeMap<PathBuf, String>,
    /// Data folders where programs wrote that none of them could change.
    #[serde(default)]
    pub data: BTreeSet<PathBuf>,
    /// Repositories of linked git worktrees, by worktree, as far as steps of two workspaces could not have made the link together.
    #[serde(default)]
    pub linked: BTreeMap<PathBuf, PathBuf>,
}

impl Notes {
    /// Reads the notes in a user's folder.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged.
    pub(super) fn read(folder: &Path) -> io::Result<Notes> {
        let path = folder.join(NOTES);
        let mut text = String::new();
        match File::open(&path) {
            Ok(file) => file.take(NOTES_BYTES_MAX).read_to_string(&mut text)?,
            // A program in a cage does not see them, and what it goes by concerns nobody else.
            Err(error) if error.kind() == ErrorKind::NotFound || is_closed(&error) => {
                return Ok(Notes::default());
            }
            Err(error) => return Err(error),
        };
        serde_json::from_str(&text).map_err(|error| {
            let what = format!(
                "{} is damaged ({error}); look at the configurations of your workspaces, and remove it",
                path.display()
            );
            io::Error::new(ErrorKind::InvalidData, what)
        })
    }

    /// Changes the notes in a user's folder, which exists.
    ///
    /// # Errors
    ///
    /// The notes cannot be read or written, or there are too many.
    pub(super) fn change(folder: &Path, change: impl FnOnce(&mut Notes)) -> io::Result<()> {
        let lock = File::create(folder.join("workspaces.lock"))?;
        lock.lock()?;
        let before = Notes::read(folder)?;
        let mut notes = before.clone();
        change(&mut notes);
        if notes == before {
            return Ok(());
        }
        if notes.most() > NOTED_MAX {
            notes.ran.retain(|folder, _| folder.exists());
            notes.files.retain(|folder, _| folder.exists());
            notes.accepted.retain(|file, _| file.exists());
            notes.data.retain(|data| data.exists());
            notes.linked.retain(|worktree, _| worktree.exists());
        }
        if notes.most() > NOTED_MAX {
            let what =
                format!("{} names {NOTED_MAX} workspaces, and no more fit", folder.join(NOTES).display());
            return Err(io::Error::new(ErrorKind::QuotaExceeded, what));
        }
        let new = folder.join("workspaces.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&notes)?)?;
        file.sync_all()?;
        fs::rename(new, folder.join(NOTES))
    }

    fn most(&self) -> usize {
        let folders = self.ran.len().max(self.files.len());
        folders.max(self.accepted.len()).max(self.data.len()).max(self.linked.len())
    }

    /// Whether steps wrote anywhere.
    pub(super) fn has_steps(&self) -> bool {
        !self.ran.is_empty() || !self.files.is_empty()
    }

    /// Whether steps wrote in a folder around this place.
    pub(super) fn is_around(&self, place: &Path) -> bool {
        self.ran.keys().chain(self.files.keys()).any(|folder| place.starts_with(folder))
    }

    /// Whether steps of two workspaces may have linked a worktree to a repository: each of them wrote one end of the link, and sees the
    /// other workspace no more than before. A step that could write both could have copied the repository as well.
    pub(super) fn is_link_forgeable(&self, worktree: &Path, repository: &Path) -> bool {
        let is_apart = |end: &Path, other: &Path| self.writers(end).any(|folder| !other.starts_with(folder));
        is_apart(&worktree.join(".git"), repository) && is_apart(&repository.join("worktrees"), worktree)
    }

    /// Folders around a place in which steps wrote that could change it.
    fn writers<'a>(&'a self, place: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let of_tools = self.files.keys().filter(|folder| !is_guarded_in(folder, place));
        self.ran.keys().chain(of_tools).filter(|folder| place.starts_with(folder))
    }

    /// Whether no step could change what lies at this place itself. A link there may lead to what a step changed.
    pub(super) fn is_kept(&self, place: &Path) -> bool {
        let mut of_programs = self.ran.iter().filter(|(folder, _)| place.starts_with(folder));
        let mut of_tools = self.files.iter().filter(|(folder, _)| place.starts_with(folder));
        of_programs.all(|(_, kept)| kept.contains(place))
            && of_tools.all(|(folder, kept)| kept.contains(place) || is_guarded_in(folder, place))
    }
}

/// Whether file tools in a folder leave a place alone.
fn is_guarded_in(folder: &Path, place: &Path) -> bool {
    place.strip_prefix(folder).is_ok_and(|below| below.iter().any(is_guarded))
}
