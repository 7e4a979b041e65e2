//! Identities and times of files, and of the links and folders that lead to them: what was put back in its place shows too.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::tool::Way;

/// Stamps of the files of a program, and of the links and folders on the way to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

/// Identity and times. They change with every change of a file or a link, also if the old content is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    /// Zero for a folder.
    bytes: u64,
    changed: (i64, i64),
    is_folder: bool,
}

impl Stamps {
    /// Reads the stamps of files. May block.
    pub(super) fn of(files: impl Iterator<Item = PathBuf>) -> Stamps {
        let mut stamps = BTreeMap::new();
        for file in files {
            for path in Way::of(&file).passed {
                stamps.entry(path).or_insert_with_key(|path| Stamp::of(path));
            }
        }
        Stamps(stamps)
    }

    /// The kind of thing that differs, for a message. A folder that was moved away and back below `within` counts: its times and those
    /// of the folder above it changed. The times of one alone change with its entries.
    pub(super) fn changed(&self, now: &Stamps, within: &Path) -> Option<&'static str> {
        let has_other_times = |path: &Path| {
            let times = |stamps: &Stamps| stamps.0.get(path).cloned().flatten().map(|stamp| stamp.changed);
            times(self) != times(now)
        };
        let was_moved = |path: &Path| {
            let above = path.parent().filter(|above| above.starts_with(within));
            above.is_some_and(|above| has_other_times(path) && has_other_times(above))
        };
        let differ = |(path, before): &(&PathBuf, &Option<Stamp>)| match (before, now.0.get(*path)) {
            (Some(before), Some(Some(now))) => !before.is_same(now) || before.is_folder && was_moved(path),
            (before, now) => now != Some(before),
        };
        let is_new = |(path, _): &(&PathBuf, &Option<Stamp>)| !self.0.contains_key(*path);
        let other = self.0.iter().find(differ).or_else(|| now.0.iter().find(is_new));
        other.map(|(_, stamp)| match stamp {
            Some(Stamp { is_folder: true, .. }) => "a folder with a file of its program",
            _ => "a file of its program",
        })
    }

    /// True if a file or a link is another one now, or a folder was replaced. May block.
    pub(super) fn is_touched(&self) -> bool {
        let is_same = |(path, before): (&PathBuf, &Option<Stamp>)| match (before, Stamp::of(path)) {
            (Some(before), Some(now)) => before.is_same(&now),
            (before, now) => *before == now,
        };
        !self.0.iter().all(is_same)
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let found = path.symlink_metadata().ok()?;
        let is_folder = found.is_dir();
        let bytes = if is_folder { 0 } else { found.len() };
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Stamp { device: found.dev(), inode: found.ino(), bytes, changed, is_folder })
    }

    /// True for the same file without changes, and for the same folder whatever its entries are.
    fn is_same(&self, now: &Stamp) -> bool {
        if self.is_folder { Stamp { changed: self.changed, ..now.clone() } == *self } else { now == self }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_folders_on_the_way_count_and_entries_of_folders_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a/code", "b/code"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("a/code/server.py"), "").unwrap();
        std::fs::hard_link(root.join("a/code/server.py"), root.join("b/code/server.py")).unwrap();
        symlink("a", root.join("now")).unwrap();
        let read = || Stamps::of(std::iter::once(root.join("now/code/server.py")));
        let before = read();
        assert_eq!((before.changed(&read(), &root), before.is_touched()), (None, false));
        let seen = |path: &str| before.0.contains_key(&root.join(path));
        assert!(seen("now") && seen("a/code") && seen("a/code/server.py") && !seen("now/code"));
        // The same file, by another way.
        std::fs::remove_file(root.join("now")).unwrap();
        symlink("b", root.join("now")).unwrap();
        assert!(before.is_touched() && before.changed(&read(), &root).is_some());
        let before = read();
        std::fs::rename(root.join("b/code"), root.join("kept")).unwrap();
        std::fs::create_dir(root.join("b/code")).unwrap();
        assert!(before.is_touched(), "another folder");
        std::fs::remove_dir(root.join("b/code")).unwrap();
        std::fs::rename(root.join("kept"), root.join("b/code")).unwrap();
        assert_eq!(before.changed(&read(), &root), Some("a folder with a file of its program"));
        let before = read();
        std::fs::write(root.join("b/code/data.db"), "").unwrap();
        assert_eq!((before.changed(&read(), &root), before.is_touched()), (None, false));
    }
}
