//! Where programs have run, and which configuration files they could not have written.
//!
//! A program that writes in a workspace can leave an `ostler.toml` there, and the next command would go by it. So before a program
//! starts that writes, its folders are noted in the folder of the user's operator key, which no program sees, together with the
//! configuration files that it cannot change. A configuration file in such a folder counts if no program could ever change it, or if
//! an operator accepted its content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// File of the notes in the user's own folder.
const NOTES: &str = "workspaces.json";

/// Bytes of the notes that are read.
const NOTES_BYTES_MAX: u64 = 16 << 20;

/// Folders, and accepted files, that are noted. Those that are gone make room.
const NOTED_MAX: usize = 10_000;

/// The notes of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspaces {
    folder: PathBuf,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Notes {
    /// Folders where programs wrote, with the configuration files that none of them could change.
    ran: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Digests of contents by file.
    accepted: BTreeMap<PathBuf, String>,
    /// Data folders where programs wrote that none of them could change.
    #[serde(default)]
    data: BTreeSet<PathBuf>,
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
        // What has no UTF-8 name is not noted, so it is distrusted: the notes are JSON.
        let named = |paths: &BTreeSet<PathBuf>| -> BTreeSet<PathBuf> {
            paths.iter().filter(|path| path.to_str().is_some()).cloned().collect()
        };
        let (kept, data) = (&named(kept), &named(data));
        let noted = self.change(|notes| {
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
        });
        match noted {
            Err(error) if is_closed(&error) => {
                tracing::warn!(folder = %self.folder.display(), %error, "configurations that programs leave in workspaces go unnoticed");
                Ok(())
            }
            noted => noted,
        }
    }

    /// Whether a configuration file with this content may be used; if so, this content is accepted from now on.
    ///
    /// # Errors
    ///
    /// The notes cannot be read.
    pub fn trusts(&self, config: &Path, content: &[u8]) -> io::Result<bool> {
        let (file, digest) = (real(config)?, digest(content));
        let notes = self.read()?;
        let is_accepted = notes.accepted.get(&file) == Some(&digest);
        let mut around = notes.ran.iter().filter(|(folder, _)| file.starts_with(folder));
        if !is_accepted && !around.all(|(_, kept)| kept.contains(&file)) {
            return Ok(false);
        }
        // Without a folder no program was noted; without the right to write it is only asked about again.
        if !is_accepted && self.folder.is_dir() {
            let _ = self.change(|notes| drop(notes.accepted.insert(file, digest)));
        }
        Ok(true)
    }

    /// Whether a data folder may be used: programs ran nowhere around it, could never change it, or an operator accepted it.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the notes cannot be read.
    pub fn trusts_folder(&self, data: &Path) -> io::Result<bool> {
        let (folder, notes) = (data.canonicalize()?, self.read()?);
        // A program may have made a link as well, to a data folder that is somebody's.
        let (named, is_link) = (real(data)?, data.is_symlink());
        let is_around = |path: &Path| notes.ran.keys().any(|around| path.starts_with(around));
        let is_known = |path: &Path| notes.data.contains(path) || !is_around(path);
        Ok(is_known(&folder) && (!is_link || is_known(&named)))
    }

    /// Notes a data folder that Ostler has made, or that an operator accepts; programs do not see it. Returns whether programs ran
    /// around it: without, it needs no note.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the notes cannot be read or written.
    pub fn accept_folder(&self, data: &Path) -> io::Result<bool> {
        let accepted = BTreeSet::from([data.canonicalize()?, real(data)?]);
        let notes = self.read()?;
        let around = |path: &&PathBuf| notes.ran.keys().any(|folder| path.starts_with(folder));
        let needed: Vec<PathBuf> = accepted.iter().filter(around).cloned().collect();
        if needed.is_empty() {
            return Ok(false);
        }
        self.change(|notes| notes.data.extend(needed))?;
        Ok(true)
    }

    /// Accepts the content of a configuration file; returns its digest. The operator decides that.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the notes cannot be written.
    pub fn accept(&self, config: &Path, content: &[u8]) -> io::Result<String> {
        let (file, digest) = (real(config)?, digest(content));
        self.change(|notes| {
            // From now on programs that run there cannot change it, so the operator may.
            if let Some(kept) = file.parent().and_then(|folder| notes.ran.get_mut(folder)) {
                kept.insert(file.clone());
            }
            notes.accepted.insert(file, digest.clone());
        })?;
        Ok(digest)
    }

    /// Whether programs may have written this file; also where the notes cannot tell.
    pub(super) fn is_written(&self, file: &Path) -> bool {
        self.read().map_or(true, |notes| notes.ran.keys().any(|folder| file.starts_with(folder)))
    }

    fn read(&self) -> io::Result<Notes> {
        let path = self.folder.join(NOTES);
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

    fn change(&self, change: impl FnOnce(&mut Notes)) -> io::Result<()> {
        self.make_folder()?;
        let lock = File::create(self.folder.join("workspaces.lock"))?;
        lock.lock()?;
        let before = self.read()?;
        let mut notes = before.clone();
        change(&mut notes);
        if notes == before {
            return Ok(());
        }
        let most = |notes: &Notes| notes.ran.len().max(notes.accepted.len()).max(notes.data.len());
        if most(&notes) > NOTED_MAX {
            notes.ran.retain(|folder, _| folder.exists());
            notes.accepted.retain(|file, _| file.exists());
            notes.data.retain(|data| data.exists());
        }
        if most(&notes) > NOTED_MAX {
            let what = format!(
                "{} names {NOTED_MAX} workspaces, and no more fit",
                self.folder.join(NOTES).display()
            );
            return Err(io::Error::new(ErrorKind::QuotaExceeded, what));
        }
        let new = self.folder.join("workspaces.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&notes)?)?;
        file.sync_all()?;
        fs::rename(new, self.folder.join(NOTES))
    }
}

/// Whether the user's folder is closed to this process.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// The file in its real folder. If it is a link, the link counts: a program may have made it.
fn real(config: &Path) -> io::Result<PathBuf> {
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize()?.join(config.file_name().unwrap_or_default()))
}

fn digest(content: &[u8]) -> String {
    format!("b3:{}", blake3::hash(content).to_hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        _place: tempfile::TempDir,
        root: PathBuf,
        notes: Workspaces,
    }

    fn world() -> World {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("ws/sub")).unwrap();
        World { notes: Workspaces::at(&root.join("user")), root, _place: place }
    }

    #[test]
    fn where_no_program_ran_every_configuration_counts() {
        let World { root, notes, .. } = &world();
        notes.note(&[root.join("other")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
        assert!(notes.trusts(&root.join("ws/ostler.toml"), b"1").unwrap());
        assert!(notes.trusts(&root.join("ws/ostler.toml"), b"2").unwrap(), "edited");
    }

    #[test]
    fn what_programs_could_not_change_counts_also_when_it_is_edited() {
        let World { root, notes, .. } = &world();
        let (ws, file) = (root.join("ws"), root.join("ws/ostler.toml"));
        notes.note(std::slice::from_ref(&ws), &[file.clone()].into(), &BTreeSet::new()).unwrap();
        assert!(notes.trusts(&file, b"1").unwrap() && notes.trusts(&file, b"2").unwrap());
        assert!(!notes.trusts(&root.join("ws/sub/ostler.toml"), b"1").unwrap(), "another");
        // The operator removed it, and a program ran.
        notes.note(std::slice::from_ref(&ws), &BTreeSet::new(), &BTreeSet::new()).unwrap();
        assert!(notes.trusts(&file, b"2").unwrap(), "as it was");
        assert!(!notes.trusts(&file, b"3").unwrap());
        notes.note(&[ws], &[file.clone()].into(), &BTreeSet::new()).unwrap();
        assert!(!notes.trusts(&file, b"3").unwrap(), "a program may have made it before");
    }

    #[test]
    fn what_an_operator_accepts_counts_and_may_be_edited_in_the_workspace() {
        let World { root, notes, .. } = &world();
        let (file, inner) = (root.join("ws/ostler.toml"), root.join("ws/sub/ostler.toml"));
        notes.note(&[root.join("ws")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
        for file in [&file, &inner] {
            assert!(!notes.trusts(file, b"1").unwrap());
            assert!(notes.accept(file, b"1").unwrap().starts_with("b3:"));
            assert!(notes.trusts(file, b"1").unwrap());
        }
        assert!(notes.trusts(&file, b"2").unwrap());
        assert!(!notes.trusts(&inner, b"2").unwrap(), "programs can change it");
    }

    #[test]
    fn a_data_folder_counts_that_no_program_could_make() {
        let World { root, notes, .. } = &world();
        let (ws, data) = (root.join("ws"), root.join("ws/.ostler"));
        fs::create_dir(&data).unwrap();
        assert!(notes.trusts_folder(&data).unwrap(), "no program ran there");
        assert!(!notes.accept_folder(&data).unwrap(), "so nothing is accepted");
        let none = BTreeSet::new();
        notes.note(std::slice::from_ref(&ws), &none, &none).unwrap();
        assert!(!notes.trusts_folder(&data).unwrap(), "a program may have made it");
        assert!(notes.accept_folder(&data).unwrap());
        assert!(notes.trusts_folder(&data).unwrap());
        fs::write(data.join("ostler.toml"), "1").unwrap();
        assert!(
            !notes.trusts(&data.join("ostler.toml"), b"1").unwrap(),
            "its configuration is accepted by itself"
        );
        // A program ran beside it that did not see it.
        notes.note(std::slice::from_ref(&ws), &none, &[data.clone()].into()).unwrap();
        assert!(notes.trusts_folder(&data).unwrap());
        assert!(!notes.trusts_folder(&ws.join("sub")).unwrap(), "another");
        notes.note(&[ws], &none, &none).unwrap();
        assert!(!notes.trusts_folder(&data).unwrap(), "a program could have made it anew");
    }

    #[test]
    fn notes_have_a_limit_and_those_of_folders_that_are_gone_make_room() {
        let World { root, notes, .. } = &world();
        let gone: Vec<PathBuf> = (0..NOTED_MAX).map(|at| root.join(format!("gone{at}"))).collect();
        notes.note(&gone, &BTreeSet::new(), &BTreeSet::new()).unwrap();
        notes.note(&[root.join("ws")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
        assert_eq!(notes.read().unwrap().ran.into_keys().collect::<Vec<_>>(), [root.join("ws")]);
        fs::write(root.join("user").join(NOTES), "{").unwrap();
        let damaged = notes.trusts(&root.join("ws/ostler.toml"), b"1").unwrap_err();
        assert!(damaged.to_string().contains("is damaged"), "{damaged}");
    }
}
