//! Where steps wrote, and which configuration files and data folders they could not have written.
//!
//! A step can leave an `ostler.toml` in its workspace, or change what a link leads to, and the next command would go by it. So before a
//! program or a file tool writes, its folders are noted in the folder of the user's operator key, which no step sees, together with the
//! configuration files that it cannot change. A configuration counts if no step could ever change any place on the way to it, or if an
//! operator accepted its content.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::notes::Notes;
use super::paths::linked_repository;
use super::resolver::Resolver;
use super::spec::CONFIG_NAME;

/// How a command came to a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It lies in the data folder or in the workspace.
    Found,
    /// The operator named it, which is a decision for the content that it has then.
    Named,
}

/// The notes of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspaces {
    folder: PathBuf,
}

impl Workspaces {
    /// The notes in the folder of the user's own configuration.
    pub fn at(folder: &Path) -> Workspaces {
        Workspaces { folder: folder.to_owned() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the user's folder, if that is possible: what is there can be hidden, and where it is missing a program might make one with
    /// notes of its own.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Notes that a program writes in these folders, and cannot change these files and these data folders. Does nothing where the
    /// user's folder cannot be written at all.
    ///
    /// # Errors
    ///
    /// The notes cannot be read or written, or there are too many.
    pub(super) fn note(
        &self,
        folders: &[PathBuf],
        kept: &BTreeSet<PathBuf>,
        data: &BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        let (kept, data) = (&named(kept), &named(data));
        self.change_if_open(|notes| {
            // Before these folders are noted: this program has written nothing yet.
            let linked = folders.iter().filter_map(|folder| Some((folder.clone(), genuine(notes, folder)?)));
            let linked: Vec<(PathBuf, PathBuf)> = linked.collect();
            notes.linked.extend(linked);
            for folder in folders {
                let first = !notes.ran.contains_key(folder);
                let is_below = |data: &&PathBuf| data.starts_with(folder);
                notes.data.retain(|known| !known.starts_with(folder) || data.contains(known));
                notes.data.extend(data.iter().filter(|_| first).filter(is_below).cloned());
                let before = notes.ran.entry(folder.clone()).or_default();
                let below = kept.iter().filter(|file| file.starts_with(folder));
                match first {
                    true => before.extend(below.cloned()),
                    false => before.retain(|file| kept.contains(file)),
                }
            }
        })
    }

    /// Notes that file tools write in a workspace, and cannot change these configuration files and data folders. Does nothing where
    /// the user's folder cannot be written at all.
    ///
    /// # Errors
    ///
    /// The notes cannot be read or written, or there are too many.
    pub(super) fn note_files(&self, workspace: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
        let kept = &named(kept);
        self.change_if_open(|notes| match notes.files.get_mut(workspace) {
            // File tools remove nothing, and change no data folder.
            Some(before) => before.retain(|place| kept.contains(place) || place.is_dir()),
            None => {
                let below = kept.iter().filter(|place| place.starts_with(workspace));
                notes.files.insert(workspace.to_owned(), below.cloned().collect());
            }
        })
    }

    fn change_if_open(&self, change: impl FnOnce(&mut Notes)) -> io::Result<()> {
        match self.change(change) {
            Err(error) if is_closed(&error) => {
                tracing::warn!(folder = %self.folder.display(), %error, "configurations that steps leave in workspaces go unnoticed");
                Ok(())
            }
            changed => changed,
        }
    }

    /// Whether a configuration file with this content may be used; if so, this content is accepted from now on. The rule: content that
    /// was accepted counts. A file counts with any content if no step could ever change a place on the way to it, and it has no other
    /// name. What has no accepted content yet counts if no step could write there, or if it was named.
    ///
    /// # Errors
    ///
    /// The notes cannot be read.
    pub fn trusts(&self, config: &Path, content: &[u8], origin: Origin) -> io::Result<bool> {
        let (names, digest, places) = (names(config)?, digest(content), places(config)?);
        let notes = self.read()?;
        let has_digest = |name: &PathBuf| notes.accepted.get(name) == Some(&digest);
        let is_known = names.iter().any(|name| notes.accepted.contains_key(name));
        let is_kept = places.iter().all(|place| notes.is_kept(place));
        let is_shared = has_other_names(config);
        let is_trusted = names.iter().any(has_digest)
            || match is_known {
                true => is_kept && !(is_shared && notes.has_steps()),
                false => is_kept || origin == Origin::Named,
            };
        // A plain file is kept by the first program there. Without the right to write it is only asked about again.
        let needs_digest = origin == Origin::Named || is_shared || places.len() > 1;
        if is_trusted && !names.iter().all(has_digest) && (needs_digest || self.folder.is_dir()) {
            let _ = self.change(|notes| {
                notes.accepted.extend(names.into_iter().map(|name| (name, digest.clone())));
            });
        }
        Ok(is_trusted)
    }

    /// Whether a data folder may be used: steps wrote nowhere around it, could never change it, or an operator accepted it.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the notes cannot be read.
    pub fn trusts_folder(&self, data: &Path) -> io::Result<bool> {
        let (folder, notes) = (data.canonicalize()?, self.read()?);
        // A program may have made a link as well, to a data folder that is somebody's.
        let (named, is_link) = (real(data)?, data.is_symlink());
        let is_known = |path: &Path| notes.data.contains(path) || notes.is_kept(path);
        Ok(is_known(&folder) && (!is_link || is_known(&named)))
    }

    /// Notes a data folder that Ostler has made, or that an operator accepts; steps do not see it. Returns whether steps wrote around
    /// it: without, it needs no note.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the notes cannot be read or written.
    pub fn accept_folder(&self, data: &Path) -> io::Result<bool> {
        let accepted = BTreeSet::from([data.canonicalize()?, real(data)?]);
        let notes = self.read()?;
        let needed: Vec<PathBuf> = accepted.into_iter().filter(|path| !notes.is_kept(path)).collect();
        if needed.is_empty() {
            return Ok(false);
        }
        self.change(|notes| notes.data.extend(needed))?;
        Ok(true)
    }

    /// The digest by which the content of a configuration file is accepted: `b3:` and 64 digits.
    pub fn digest(content: &[u8]) -> String {
        digest(content)
    }

    /// Accepts the content of a configuration file; returns its digest. The operator decides that.
    ///
    /// # Errors
    ///
    /// The file cannot be read or has other names, or the notes cannot be written.
    pub fn accept(&self, config: &Path, content: &[u8]) -> io::Result<String> {
        if has_other_names(config) {
            let path = config.display();
            let what = format!(
                "it has other names (hard links), by which steps may change it; make it a file of its own: \
                 cp {path} {path}.new && mv {path}.new {path}"
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let (file, digest) = (real(config)?, digest(content));
        // From now on programs that start there cannot change it, so the operator may. One that runs already can.
        let is_frozen = file.file_name() == Some(CONFIG_NAME.as_ref())
            && file.symlink_metadata()?.is_file()
            && !self.is_entered(&file)?;
        let names = names(config)?;
        self.change(|notes| {
            if let Some(kept) = file.parent().and_then(|folder| notes.ran.get_mut(folder))
                && is_frozen
            {
                kept.insert(file);
            }
            notes.accepted.extend(names.into_iter().map(|name| (name, digest.clone())));
        })?;
        Ok(digest)
    }

    /// The data folders that are known, as far as the notes can be read.
    pub(super) fn known_data(&self) -> Vec<PathBuf> {
        self.read().map(|notes| notes.data.into_iter().collect()).unwrap_or_default()
    }

    /// The folders in which steps wrote, as far as the notes can be read: without them no step starts.
    pub(super) fn folders(&self) -> BTreeSet<PathBuf> {
        self.read()
            .map(|notes| notes.ran.into_keys().chain(notes.files.into_keys()).collect())
            .unwrap_or_default()
    }

    /// Whether steps may have written a file or folder, or a link on the way to it; also where the notes cannot tell.
    pub fn is_written(&self, path: &Path) -> bool {
        let Ok(notes) = self.read() else { return true };
        // Where a folder on the way is missing, the path itself tells.
        let places = places(path).unwrap_or_else(|_| vec![path.to_owned()]);
        places.iter().any(|place| notes.is_around(place))
    }

    /// Repository of a workspace that is a linked git worktree: one that was noted while steps of two workspaces could not have made the
    /// link together, or one to which they still could not; also `None` where the notes cannot tell.
    pub(super) fn repository(&self, workspace: &Path) -> Option<PathBuf> {
        let repository = linked_repository(workspace)?;
        let notes = self.read().ok()?;
        let is_shown = notes.linked.get(workspace) == Some(&repository)
            || !notes.is_link_forgeable(workspace, &repository);
        is_shown.then_some(repository)
    }

    fn read(&self) -> io::Result<Notes> {
        Notes::read(&self.folder)
    }

    fn change(&self, change: impl FnOnce(&mut Notes)) -> io::Result<()> {
        self.make_folder()?;
        Notes::change(&self.folder, change)
    }
}

/// Repository of a linked git worktree that steps of two workspaces could not have linked together.
fn genuine(notes: &Notes, worktree: &Path) -> Option<PathBuf> {
    let found = linked_repository(worktree).filter(|repository| repository.to_str().is_some())?;
    (!notes.is_link_forgeable(worktree, &found)).then_some(found)
}

/// Whether the user's folder is closed to this process.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// What has a UTF-8 name. The rest is not noted, so it is distrusted: the notes are JSON.
fn named(paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    paths.iter().filter(|path| path.to_str().is_some()).cloned().collect()
}

/// The names that an accepted content is kept under: as the file was named, and without links on the way to its folder. A step may
/// replace such a link later.
fn names(config: &Path) -> io::Result<BTreeSet<PathBuf>> {
    Ok(BTreeSet::from([std::path::absolute(config)?, real(config)?]))
}

/// Whether a file has hard links.
fn has_other_names(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.nlink() > 1)
}

/// Every place that decides what a path leads to: the links on the way, and what lies at its end.
pub(super) fn places(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut resolver = Resolver::new(std::iter::empty(), None);
    match resolver.find(&std::path::absolute(path)?) {
        Some(end) => Ok(resolver.into_links().into_keys().chain([end]).collect()),
        None => Ok(vec![real(path)?]),
    }
}

/// The file in its real folder. If it is a link, the link counts: a program may have made it.
pub(super) fn real(config: &Path) -> io::Result<PathBuf> {
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize()?.join(config.file_name().unwrap_or_default()))
}

fn digest(content: &[u8]) -> String {
    format!("b3:{}", blake3::hash(content).to_hex())
}

#[cfg(test)]
mod tests;
