//! Folders that no program sees: data folders, and the folder of the user's operator key.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ostler_kernel::event::Failure;

use crate::tool::DATA_FOLDER_ENTRIES;
use crate::tool::tool_spec::structural;

/// Levels below a folder where data folders are looked for.
const DEPTH_MAX: usize = 3;

/// Entries of folders that are looked at for data folders, in all.
const ENTRIES_MAX: usize = 4_096;

/// Data folders of others that are hidden from a call.
const FOUND_MAX: usize = 64;

/// The folders that are hidden by name, and which folder each was when this process began.
#[derive(Debug, Clone)]
pub(super) struct Hidden(Vec<(PathBuf, Option<Known>)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Hidden {
    pub(super) fn of(named: impl Iterator<Item = PathBuf>) -> Hidden {
        Hidden(named.map(|path| (path.clone(), known(&path))).collect())
    }

    /// Paths of the hidden folders that exist.
    ///
    /// # Errors
    ///
    /// A folder is no longer the one known at the start. A program may have moved it to a place that programs see.
    pub(super) fn places(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut places = Vec::new();
        for (path, before) in &self.0 {
            let now = known(path);
            if before.is_some() && now != *before {
                return Err(structural(format!(
                    "{} is not the folder that it was when this process began, so programs might see what that holds: put it back, or end \
                     this process and start it again",
                    path.display()
                )));
            }
            places.extend(now.map(|now| now.path));
        }
        Ok(places)
    }

    /// Paths of the hidden folders that will still be hidden when a cage is made: those that were there when this process began. None if
    /// one of them is another one by now.
    pub(super) fn lasting(&self) -> Vec<PathBuf> {
        let is_lasting = |path: &PathBuf| {
            self.0.iter().any(|(_, before)| before.as_ref().is_some_and(|it| it.path == *path))
        };
        self.places().unwrap_or_default().into_iter().filter(is_lasting).collect()
    }
}

fn known(path: &Path) -> Option<Known> {
    let path = path.canonicalize().ok()?;
    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
    Some(Known { path, device: found.dev(), inode: found.ino() })
}

/// Data folders at or below these folders, outer ones first, as far as the limits allow to look.
pub(super) fn data_folders<'a>(roots: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let mut next: VecDeque<(PathBuf, usize)> = roots.map(|root| (root.clone(), 0)).collect();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while let Some((folder, depth)) = next.pop_front() {
        let mut parts = 0;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > ENTRIES_MAX || found.len() >= FOUND_MAX {
                return found;
            }
            let name = entry.file_name();
            parts += usize::from(DATA_FOLDER_ENTRIES.iter().any(|part| name == *part));
            if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                next.push_back((entry.path(), depth + 1));
            }
        }
        if parts == DATA_FOLDER_ENTRIES.len() {
            next.retain(|(inner, _)| !inner.starts_with(&folder));
            found.push(folder);
        }
    }
    found
}

/// The folders between those where a program writes and what is hidden in them. Renaming one would show what is hidden under
/// another name.
pub(super) fn between<'a>(write: &'a [PathBuf], hide: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    let all = write.iter().flat_map(|root| hide.iter().map(move |hidden| (root, hidden)));
    all.filter(|(root, hidden)| hidden.starts_with(root)).flat_map(|(root, hidden)| {
        let above = hidden.ancestors().skip(1);
        above.take_while(move |folder| *folder != root).map(Path::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_moved_or_replaced_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let (inner, later) = (root.join("a/data"), root.join("later"));
        fs::create_dir_all(&inner).unwrap();
        let hidden = Hidden::of([inner.clone(), later.clone()].into_iter());
        assert_eq!(hidden.places(), Ok(vec![inner.clone()]));
        fs::create_dir(&later).unwrap();
        assert_eq!(hidden.places(), Ok(vec![inner.clone(), later]));
        assert_eq!(
            hidden.lasting(),
            std::slice::from_ref(&inner),
            "a step may have made the later one, and may take it away"
        );
        fs::rename(root.join("a"), root.join("b")).unwrap();
        assert!(hidden.places().unwrap_err().message.contains("put it back"));
        std::os::unix::fs::symlink("b", root.join("a")).unwrap();
        assert!(hidden.places().is_err(), "it lies elsewhere");
        assert_eq!(hidden.lasting(), [""; 0].map(PathBuf::from));
        fs::remove_file(root.join("a")).unwrap();
        fs::create_dir_all(&inner).unwrap();
        assert!(hidden.places().is_err(), "it is another one");
    }

    #[test]
    fn data_folders_are_found_within_limits() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().to_owned();
        for folder in ["inner/.ostler", "a/b/data", "a/b/c/too-deep", "almost"] {
            fs::create_dir_all(root.join(folder).join("journal")).unwrap();
            fs::write(root.join(folder).join("lock"), "").unwrap();
            if folder != "almost" {
                fs::write(root.join(folder).join("format"), "").unwrap();
            }
        }
        let mut found = data_folders([root.clone()].iter());
        found.sort();
        assert_eq!(found, [root.join("a/b/data"), root.join("inner/.ostler")]);
        fs::create_dir(root.join("0")).unwrap();
        for at in 0..=ENTRIES_MAX {
            fs::write(root.join("0").join(at.to_string()), "").unwrap();
        }
        assert_eq!(data_folders([root.join("0")].iter()), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_lies_between_is_kept_in_place() {
        let path = |text: &str| PathBuf::from(text);
        let found: Vec<_> = between(&[path("/w"), path("/x")], &[path("/w/a/b/c"), path("/y/z")]).collect();
        assert_eq!(found, [path("/w/a/b"), path("/w/a")]);
    }
}
