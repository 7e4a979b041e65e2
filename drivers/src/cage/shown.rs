//! Folders that programs of calls see and steps may write, besides their own workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler_kernel::port::CageRung;

use super::paths;
use super::resolver::Resolver;
use super::rungs::reached;
use super::spec::Cages;
use super::workspaces::Workspaces;

impl Cages {
    /// Folders that steps may write by programs and by MCP servers, besides the workspace.
    pub(crate) fn written(&self) -> impl Iterator<Item = PathBuf> {
        self.write.iter().chain(&self.config.written).cloned()
    }

    /// Folders in which steps of any run wrote, as far as programs of calls may see something there. Blocks as [`Cages::cage`] does.
    pub(crate) fn written_by_others(&self, workspace: &Path) -> Vec<PathBuf> {
        let known = self.config.workspaces.iter().flat_map(Workspaces::folders);
        let mut shown = self.shown();
        match reached(&self.config).rung {
            CageRung::None => shown.push(PathBuf::from("/")),
            _ => shown.extend(self.repository(workspace)),
        }
        let is_seen =
            |folder: &PathBuf| shown.iter().any(|it| it.starts_with(folder) || folder.starts_with(it));
        known.filter(is_seen).collect()
    }

    /// Files and folders besides the workspace that programs of calls may read; all without a cage. They may come to be later: each cage
    /// looks for them anew. A workspace may lie below a folder of the system, such as `/opt`.
    pub(crate) fn shown(&self) -> Vec<PathBuf> {
        match self.are_certain() {
            true => self.users(&mut Resolver::of_names()).into_iter().chain(Cages::system()).collect(),
            false => vec![PathBuf::from("/")],
        }
    }

    /// True if no program of a call runs without a cage. Blocks as [`Cages::cage`] does.
    pub(crate) fn are_certain(&self) -> bool {
        // Programs of impact 2 run without a cage where none can be had, whatever the minimum.
        self.enabled && self.config.minimum > CageRung::None && reached(&self.config).rung > CageRung::None
    }

    /// Folders of the system that programs are shown.
    pub(super) fn system() -> Vec<PathBuf> {
        let (search_path, home) = surroundings();
        paths::system_read(&search_path, home.as_deref())
    }

    /// Folders of the user that programs are shown.
    pub(super) fn users(&self, resolver: &mut Resolver) -> Vec<PathBuf> {
        let (search_path, home) = surroundings();
        let mut users = paths::of_user(&search_path, home.as_deref(), resolver);
        users.extend(self.config.read.iter().filter_map(|path| resolver.find(path)));
        users
    }

    /// The repository of a workspace that is a linked git worktree, which programs are shown. Without notes nothing tells who made the
    /// link.
    pub(crate) fn repository(&self, workspace: &Path) -> Option<PathBuf> {
        match &self.config.workspaces {
            Some(notes) => notes.repository(workspace),
            None => paths::linked_repository(workspace),
        }
    }

    /// Folders without links that no program of a call sees, whatever a step does until the cage of the call is made. Folders that are
    /// hidden because they look like data folders are not among them: a step makes and moves such. Blocks as [`Cages::cage`] does.
    pub(crate) fn unseen(&self) -> Vec<PathBuf> {
        if !self.enabled || reached(&self.config).rung == CageRung::None {
            return Vec::new();
        }
        self.hidden.lasting()
    }
}

/// The search path and the home folder of this process.
fn surroundings() -> (OsString, Option<PathBuf>) {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    (std::env::var_os("PATH").unwrap_or_default(), home)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::config::SandboxConfig;
    use super::*;

    #[test]
    fn folders_of_other_runs_count_if_programs_see_something_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["projects/a", "projects/b", "around/shown", "elsewhere", "notes"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("projects", root.join("link")).unwrap();
        let notes = Workspaces::at(&root.join("notes"));
        for name in ["projects/b", "around", "elsewhere"] {
            notes.note_files(&root.join(name), &BTreeSet::new()).unwrap();
        }
        let read = [root.join("link"), root.join("around/shown")].to_vec();
        let config = SandboxConfig { read, workspaces: Some(notes), ..SandboxConfig::default() };
        let counted = |config: &SandboxConfig, enabled: bool| {
            let found = Cages::new(config, &[], enabled, None).written_by_others(&root.join("projects/a"));
            let names =
                found.iter().map(|found| found.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            counted(&config, false),
            ["around", "elsewhere", "projects/b"],
            "all is seen without a cage"
        );
        if reached(&config).rung > CageRung::None {
            assert_eq!(counted(&config, true), ["around", "projects/b"]);
            let closed = SandboxConfig { read: Vec::new(), ..config };
            assert_eq!(counted(&closed, true), [""; 0]);
        }
    }

    #[test]
    fn what_comes_to_be_later_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("projects/a")).unwrap();
        std::os::unix::fs::symlink("projects", root.join("link")).unwrap();
        std::os::unix::fs::symlink("projects/c/d", root.join("dangling")).unwrap();
        let read =
            ["projects/a", "link/b", "dangling/e/..", "new/../other"].map(|name| root.join(name)).to_vec();
        let minimum = CageRung::Landlock;
        let config = SandboxConfig { read, minimum, ..SandboxConfig::default() };
        let cages = Cages::new(&config, &[], true, None);
        let shown = |all: Vec<PathBuf>| {
            let below = all.iter().filter_map(|path| path.strip_prefix(&root).ok());
            below.map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(cages.users(&mut Resolver::of_names())),
            ["projects/a", "projects/b", "projects/c/d", "other"]
        );
        assert_eq!(shown(cages.users(&mut Resolver::new(std::iter::empty(), None))), ["projects/a"]);
    }
}
