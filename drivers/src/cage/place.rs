//! Which folder or file a path leads to.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, ResolveFlags, openat2};
use rustix::fs::{Mode, OFlags, fstat, open};
use serde::{Deserialize, Serialize};

/// A shown folder or file, with its device and inode. bubblewrap finds shown folders by their paths, and another program may put a link
/// there meanwhile, so the helper within compares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// The place that a path leads to.
    pub(super) fn found(path: &Path) -> Result<Place, String> {
        Place::of(path, open(path, OFlags::PATH, Mode::empty()))
    }

    /// The place that a path leads to through no link.
    #[cfg(target_os = "linux")]
    pub(super) fn without_links(path: &Path) -> Result<Place, String> {
        Place::of(path, openat2(CWD, path, OFlags::PATH, Mode::empty(), ResolveFlags::NO_SYMLINKS))
    }

    fn of(path: &Path, opened: rustix::io::Result<OwnedFd>) -> Result<Place, String> {
        let found = opened.and_then(fstat).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Place { path: path.to_owned(), device: found.st_dev, inode: found.st_ino })
    }

    /// True if a path leads into this place.
    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// Checks that the path leads to the same place as outside.
    pub(super) fn check(&self) -> Result<(), String> {
        if Place::found(&self.path)? == *self {
            return Ok(());
        }
        Err(format!(
            "{} is another folder than the one that was to be shown, so no program starts",
            self.path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_folder_in_the_same_place_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (here, other) = (root.join("here"), root.join("other"));
        for name in [&here, &other] {
            std::fs::create_dir(name).unwrap();
        }
        let place = Place::without_links(&here).unwrap();
        assert_eq!(place.check(), Ok(()));
        std::fs::rename(&here, root.join("moved")).unwrap();
        assert!(place.check().is_err(), "it is gone");
        std::os::unix::fs::symlink("other", &here).unwrap();
        assert!(place.check().unwrap_err().contains("another folder"));
        assert!(Place::without_links(&here).is_err());
        std::fs::remove_file(&here).unwrap();
        std::os::unix::fs::symlink("moved", &here).unwrap();
        assert_eq!(place.check(), Ok(()), "the same folder");
    }
}
