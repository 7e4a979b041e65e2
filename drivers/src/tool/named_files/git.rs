//! What git goes by: the settings and hooks of the repositories that a call reaches, of their submodules and worktrees.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ostler_kernel::gate::{NamedPaths, named_paths};

use super::content::{is_forbidden, is_missing, not_now, open};
use super::search::Search;

/// Bytes of a settings file whose words are looked at.
const SETTINGS_BYTES_MAX: u64 = 64 << 10;

/// Repositories of one call.
const REPOSITORIES_MAX: usize = 1_000;

/// Folders above each other in which a repository keeps those of submodules.
const NESTED_MAX: usize = 8;

/// Files of a repository that decide what git does, besides its hooks.
const FILES: [&str; 4] = ["config", "config.worktree", "info/attributes", "commondir"];

impl Search<'_> {
    /// Adds what git goes by in these folders.
    pub(super) fn add_repositories(&mut self, folders: &BTreeSet<PathBuf>) {
        let mut seen = BTreeSet::new();
        let mut next: Vec<PathBuf> = folders.iter().cloned().collect();
        while let Some(folder) = next.pop() {
            if seen.len() >= REPOSITORIES_MAX || !seen.insert(folder.clone()) {
                continue;
            }
            // The submodules of a working tree.
            next.extend(self.add_settings(&folder, &folder.join(".gitmodules")));
            for repository in self.repositories_at(&folder) {
                next.extend(self.add_repository(&folder, &repository));
            }
        }
    }

    /// The repositories of a working tree, or the folder itself if it is one.
    fn repositories_at(&mut self, folder: &Path) -> Vec<PathBuf> {
        let dot = folder.join(".git");
        if self.is_folder(&dot) {
            return vec![dot];
        }
        // A file in this place leads to the repository.
        self.add_file(dot.clone());
        let leads = self.text(&dot);
        let led = leads.as_deref().and_then(|text| text.strip_prefix("gitdir:")).map(str::trim);
        let led = led.map(|path| self.places(folder, path)).unwrap_or_default();
        let is_bare = self.is_folder(&folder.join("objects")) && self.is_folder(&folder.join("refs"));
        led.into_iter().chain(is_bare.then(|| folder.to_owned())).collect()
    }

    /// Adds a repository with those within it. Returns the folders that its settings name.
    fn add_repository(&mut self, tree: &Path, repository: &Path) -> Vec<PathBuf> {
        let mut named = Vec::new();
        let mut repositories = vec![repository.to_owned()];
        // A worktree has its settings from another repository.
        if let Some(common) = self.text(&repository.join("commondir")) {
            repositories.extend(self.places(repository, common.trim()));
        }
        for top in repositories.clone() {
            self.nested(&top.join("modules"), NESTED_MAX, &mut repositories);
        }
        for repository in repositories {
            for file in FILES {
                self.add_file(repository.join(file));
            }
            self.add_hooks(&repository.join("hooks"));
            for file in ["config", "config.worktree"] {
                named.extend(self.add_settings(tree, &repository.join(file)));
            }
        }
        named
    }

    /// Finds the repositories of submodules, whose names may have several parts.
    fn nested(&mut self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        let below: Vec<PathBuf> = self.list(folder).iter().map(|name| folder.join(name)).collect();
        for place in below.into_iter().filter(|place| self.is_folder(place)).collect::<Vec<_>>() {
            let is_repository = self.list(&place).iter().any(|name| name == "config" || name == "HEAD");
            if found.len() >= REPOSITORIES_MAX || depth == 0 {
                return;
            }
            if is_repository {
                found.push(place.clone());
                self.nested(&place.join("modules"), depth - 1, found);
            } else {
                self.nested(&place, depth - 1, found);
            }
        }
    }

    fn add_hooks(&mut self, folder: &Path) {
        let hooks = self.list(folder).iter().filter(|name| !name.ends_with(".sample"));
        let hooks = hooks.map(|name| folder.join(name)).collect();
        self.add_matches(&folder.join("*"), hooks);
    }

    /// Adds the files that settings name: included settings, programs, a folder of hooks. Returns the folders.
    fn add_settings(&mut self, tree: &Path, file: &Path) -> Vec<PathBuf> {
        let Some(text) = self.text(file) else { return Vec::new() };
        let mut folders = Vec::new();
        for line in text.lines() {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            // Included settings are named from the file.
            if key == "path"
                && let Some(folder) = file.parent()
            {
                self.places(folder, value).into_iter().for_each(|included| self.add_file(included));
            }
            for place in
                self.places(tree, value).into_iter().filter(|place| self.is_folder(place)).collect::<Vec<_>>()
            {
                if key == "hookspath" {
                    self.add_hooks(&place);
                    // husky keeps the hooks beside a folder that starts them.
                    if let Some(beside) = place.parent().filter(|_| place.ends_with("_")) {
                        self.add_hooks(beside);
                    }
                }
                folders.push(place);
            }
        }
        let all = named_paths(&text.lines().collect::<Vec<_>>());
        self.add_programs(&all.paths);
        // Branches are no files of a working tree. What programs of the settings read in turn is not followed.
        let is_path = |path: &&String| path.contains(['/', '.']) && !path.starts_with("refs/");
        let paths = all.paths.iter().filter(is_path).cloned().collect();
        self.add_words_in(tree, &NamedPaths { paths, ..NamedPaths::default() }, std::iter::empty());
        folders
    }

    fn text(&self, file: &Path) -> Option<String> {
        let real = self.look(file)?;
        let is_short =
            real.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= SETTINGS_BYTES_MAX);
        let read = |file: File| {
            let mut text = String::new();
            file.take(SETTINGS_BYTES_MAX).read_to_string(&mut text).map(|_| text)
        };
        if !is_short {
            return None;
        }
        match open(&real).and_then(read) {
            Ok(text) => Some(text),
            Err(error) if is_missing(&error) || is_forbidden(&error) => None,
            Err(error) if error.kind() == ErrorKind::InvalidData => None,
            Err(error) => {
                self.note(file, &not_now(&error));
                None
            }
        }
    }
}
