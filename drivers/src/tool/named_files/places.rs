//! The places to which the words of a call lead.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use ostler_kernel::port::NamedFile;

use super::content::{is_forbidden, is_missing, not_now, shown, unbound};
use super::search::Search;
use super::way::Way;

/// Names of the program's output, from which nothing is read.
const OUTPUTS: [&str; 6] =
    ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/1", "/proc/self/fd/2"];

/// Names of files and folders that are looked at for one call. Beyond, nothing can be bound to the call.
pub(super) const LOOKS_MAX: usize = 500_000;

impl Search<'_> {
    /// The places that a path may mean, below the root and where steps may write: as it is written, and where the system leads if a
    /// folder on the way is a link.
    pub(super) fn places(&self, here: &Path, path: &str) -> Vec<PathBuf> {
        let home = || path.strip_prefix("~/").and_then(|rest| Some(std::env::home_dir()?.join(rest)));
        let path = home().unwrap_or_else(|| here.join(path));
        let as_written = self.placed(&path);
        let is_winding = as_written.is_none() || path.components().any(|part| part == Component::ParentDir);
        if !is_winding {
            return as_written.into_iter().collect();
        }
        if OUTPUTS.iter().any(|output| path == Path::new(output)) {
            return Vec::new();
        }
        let Some(real) = self.look(&path) else { return Vec::new() };
        let in_folder = || Some(self.look(path.parent()?)?.join(path.file_name()?));
        // A path that leads elsewhere is not the plan's to change.
        let led = [in_folder(), Some(real)].into_iter().flatten().filter_map(|path| self.placed(&path));
        as_written.into_iter().chain(led).collect()
    }

    /// A path from the root without `.` and `..`, or an absolute one where steps may write; `None` elsewhere.
    pub(super) fn placed(&self, path: &Path) -> Option<PathBuf> {
        let path = lexical(&self.root.join(path));
        match path.strip_prefix(self.root) {
            Ok(below) => Some(below.to_owned()),
            Err(_) => self.is_written(&path).then_some(path),
        }
    }

    /// True for an absolute path at or below a folder that steps may write.
    pub(super) fn is_written(&self, path: &Path) -> bool {
        is_within(path, &self.written)
    }

    /// True for a folder. Noted if a step may write there and the system forbids to look.
    pub(super) fn is_folder(&self, path: &Path) -> bool {
        let Some(real) = self.look(path) else { return false };
        let found = real.metadata();
        if let Err(error) = &found {
            self.note_failed(path, &real, error);
        }
        found.is_ok_and(|found| found.is_dir())
    }

    /// Notes a name that cannot be looked at, or the folder that the system forbids to look into, if steps write there: who owns a folder
    /// may open it again.
    pub(super) fn note_failed(&self, path: &Path, real: &Path, error: &io::Error) {
        if is_missing(error) {
            return;
        }
        if !is_forbidden(error) {
            return self.note(path, &not_now(error));
        }
        if self.is_written(real) {
            let closed = path.ancestors().find(|above| self.root.join(above).metadata().is_ok());
            self.note(closed.unwrap_or(path), &not_now(error));
        }
    }

    /// The path without links, also if nothing is there; `None`, and noted, if a program may find another file.
    pub(super) fn look(&self, path: &Path) -> Option<PathBuf> {
        if !self.may_look(1) {
            return None;
        }
        let way = Way::below(self.root, path);
        self.may_look(way.passed.len());
        if let Some(why) = way.lost {
            self.note(path, why);
            return None;
        }
        Some(way.real)
    }

    /// Counts looks at names. False, and noted, once there were too many; false as well once nobody waits for the look.
    pub(super) fn may_look(&self, looks: usize) -> bool {
        if self.cancel.check().is_err() {
            return false;
        }
        let before = self.looks.get();
        self.looks.set(before.saturating_add(looks));
        let (was_enough, is_enough) = (before > LOOKS_MAX, self.looks.get() > LOOKS_MAX);
        if is_enough && !was_enough {
            self.note(Path::new("."), &format!("has more to look at than {LOOKS_MAX} names"));
        }
        !is_enough
    }

    /// All that was bound or noted by name, except what lies behind a name that nothing can be bound to.
    pub(super) fn noted(&self) -> BTreeMap<String, NamedFile> {
        let mut bound = self.bound.take();
        let unbound = bound.iter().filter(|(_, file)| file.unbound.is_some());
        let unbound: BTreeSet<PathBuf> = unbound.map(|(path, _)| PathBuf::from(path)).collect();
        let is_behind = |path: &str| Path::new(path).ancestors().skip(1).any(|above| unbound.contains(above));
        bound.retain(|path, file| file.unbound.is_none() || !is_behind(path));
        bound
    }

    /// Notes a name that nothing can be bound to.
    pub(super) fn note(&self, path: &Path, why: &str) {
        let path = shown(path);
        self.bound.borrow_mut().insert(path.clone(), unbound(path, why));
    }
}

/// True for a path that is one of these folders, or lies below one. There may be thousands.
pub(super) fn is_within(path: &Path, folders: &BTreeSet<PathBuf>) -> bool {
    path.ancestors().any(|above| folders.contains(above))
}

/// An absolute path without `.` and `..`.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(component),
        }
    }
    plain
}
