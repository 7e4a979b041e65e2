//! Where paths really lie.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::paths::SYSTEM_READ;
use super::workspaces::Workspaces;

/// Links followed on the way to a path, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Finds where paths really lie. A link in a folder where programs write may be one of theirs, so it leads nowhere.
pub(super) struct Resolver {
    written: Vec<PathBuf>,
    notes: Option<Workspaces>,
    links: BTreeMap<PathBuf, PathBuf>,
    /// Paths lead on where nothing is there, as they are named.
    of_names: bool,
}

impl Resolver {
    /// `written`: the folders where programs of these calls write, of any impact. `notes`: where programs of any workspace wrote.
    pub(super) fn new(written: impl Iterator<Item = PathBuf>, notes: Option<Workspaces>) -> Resolver {
        let written = written.filter_map(|folder| folder.canonicalize().ok()).collect();
        Resolver { written, notes, links: BTreeMap::new(), of_names: false }
    }

    /// Finds also where paths lie that are not there yet, and follows every link. For what may be shown, not for what is.
    pub(super) fn of_names() -> Resolver {
        Resolver { of_names: true, ..Resolver::new(std::iter::empty(), None) }
    }

    /// The path without links. `None` if it is not there, or lies behind a link that a program may have made.
    pub(super) fn find(&mut self, path: &Path) -> Option<PathBuf> {
        let mut links = BTreeMap::new();
        let found = self.walk(path, &mut links)?;
        self.links.append(&mut links);
        Some(found)
    }

    /// Whether programs of these calls write at a path that [`find`](Resolver::find) gave.
    pub(super) fn is_written(&self, path: &Path) -> bool {
        self.written.iter().any(|folder| path.starts_with(folder))
    }

    /// Whether a program of any workspace may have made a link.
    fn may_be_made(&self, link: &Path) -> bool {
        // Most links are `/bin` and the like, for which no notes are read.
        let is_system = || SYSTEM_READ.iter().any(|system| link == Path::new(system));
        let is_noted = || self.notes.as_ref().is_some_and(|notes| notes.is_written(link));
        self.is_written(link) || (!is_system() && is_noted())
    }

    /// Links on the way to what was found, with what they say.
    pub(super) fn into_links(self) -> BTreeMap<PathBuf, PathBuf> {
        self.links
    }

    fn walk(&self, path: &Path, links: &mut BTreeMap<PathBuf, PathBuf>) -> Option<PathBuf> {
        let mut rest: VecDeque<OsString> = names(path).collect();
        let mut at = PathBuf::from("/");
        let mut followed = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(name);
            match fs::symlink_metadata(&next) {
                Ok(found) if found.is_symlink() => {}
                Err(_) if !self.of_names => return None,
                Ok(_) | Err(_) => {
                    at = next;
                    continue;
                }
            }
            followed += 1;
            if followed > LINKS_MAX || self.may_be_made(&next) {
                return None;
            }
            let target = fs::read_link(&next).ok()?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in names(&target).rev() {
                rest.push_front(name);
            }
            links.insert(next, target);
        }
        Some(at)
    }
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_on_unless_programs_may_have_made_them() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("ws/sub")).unwrap();
        fs::create_dir_all(root.join("real/bin")).unwrap();
        symlink("real", root.join("home")).unwrap();
        symlink("../real/bin", root.join("ws/bin")).unwrap();
        symlink("ws/bin", root.join("bin")).unwrap();
        symlink("round", root.join("round")).unwrap();
        let mut resolver = Resolver::new([root.join("ws")].into_iter(), None);
        for (path, expected) in [
            ("home/bin", Some("real/bin")),
            ("home/../real/./bin", Some("real/bin")),
            ("ws/sub", Some("ws/sub")),
            ("ws/bin", None),
            ("bin", None),
            ("round", None),
            ("gone", None),
        ] {
            assert_eq!(resolver.find(&root.join(path)), expected.map(|it| root.join(it)), "{path}");
        }
        assert!(resolver.is_written(&root.join("ws/sub")) && !resolver.is_written(&root.join("real")));
        let links: Vec<_> =
            resolver.into_links().into_iter().filter(|(at, _)| at.starts_with(&root)).collect();
        assert_eq!(links, [(root.join("home"), PathBuf::from("real"))]);
    }
}
