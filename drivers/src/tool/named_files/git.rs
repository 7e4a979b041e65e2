//! What git goes by: the settings and hooks of the repositories that a call reaches, of their submodules and worktrees.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ostler_kernel::gate::{NamedPaths, named_paths};

use super::content::open;
use super::git_settings::{Setting, is_space, settings};
use super::search::Search;

/// Bytes of settings that are read for one call. A file beyond cannot be bound.
pub(super) const SETTINGS_BYTES_MAX: usize = 4 << 20;

/// Repositories of one call.
const REPOSITORIES_MAX: usize = 1_000;

/// Folders above each other in which a repository keeps those of submodules.
const NESTED_MAX: usize = 8;

/// Begins the path of a file that need not be there.
const OPTIONAL: &str = ":(optional)";

/// Settings in a folder: the submodules of a working tree, and what counts for all repositories if the folder is the home folder.
const OF_FOLDERS: [&str; 3] = [".gitmodules", ".gitconfig", ".config/git/config"];

/// Files of a repository that decide what git does, besides its hooks.
const FILES: [&str; 6] = [
    "config",
    "config.worktree",
    "info/attributes",
    "commondir",
    // The rest of an interrupted rebase may run programs.
    "rebase-merge/git-rebase-todo",
    "sequencer/todo",
];

impl Search<'_> {
    /// Adds what git goes by in these folders. Its programs start in the working trees, or in folders that words of the call name.
    pub(super) fn add_repositories(&mut self, folders: &BTreeSet<PathBuf>, named: &BTreeSet<PathBuf>) {
        let mut seen = BTreeSet::new();
        let mut next: Vec<PathBuf> = folders.iter().cloned().collect();
        while let Some(folder) = next.pop().filter(|_| seen.len() <= REPOSITORIES_MAX) {
            if !seen.insert(folder.clone()) {
                continue;
            }
            if seen.len() > REPOSITORIES_MAX {
                self.note(&folder, &format!("has more repositories before it than {REPOSITORIES_MAX}"));
            }
            let trees = named.iter().chain([&folder]).cloned().collect();
            for file in OF_FOLDERS {
                next.extend(self.add_settings(&trees, &folder.join(file)));
            }
            for repository in self.repositories_at(&folder) {
                next.extend(self.add_repository(&trees, &repository));
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
    fn add_repository(&mut self, trees: &BTreeSet<PathBuf>, repository: &Path) -> Vec<PathBuf> {
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
            // Each file is a remote.
            for remotes in ["branches", "remotes"] {
                self.add_hooks(&repository.join(remotes));
            }
            for file in ["config", "config.worktree"] {
                named.extend(self.add_settings(trees, &repository.join(file)));
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
                return self.note(&place, "lies behind more repositories of submodules than are read");
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
    fn add_settings(&mut self, trees: &BTreeSet<PathBuf>, file: &Path) -> Vec<PathBuf> {
        let settings = self.settings_of(file);
        let mut trees = trees.clone();
        for setting in settings.iter().filter(|it| it.section == "core" && it.key == "worktree") {
            let repository = file.parent().unwrap_or(Path::new(""));
            trees.extend(self.places(repository, &setting.value));
        }
        let is_hooks = |it: &Setting| it.section == "core" && it.key == "hookspath";
        let values: BTreeSet<(bool, &str)> = settings.iter().map(|it| (is_hooks(it), &*it.value)).collect();
        let mut folders = Vec::new();
        for (is_hooks, value) in values {
            for place in trees.iter().flat_map(|tree| self.places(tree, value)).collect::<Vec<_>>() {
                if !self.is_folder(&place) {
                    continue;
                }
                if is_hooks {
                    self.add_hooks(&place);
                    // husky keeps the hooks beside a folder that starts them.
                    if let Some(beside) = place.parent().filter(|_| place.ends_with("_")) {
                        self.add_hooks(beside);
                    }
                }
                folders.push(place);
            }
        }
        self.add_values(&trees, &settings);
        folders
    }

    /// Adds the programs and files that settings name.
    fn add_values(&mut self, trees: &BTreeSet<PathBuf>, settings: &[Setting]) {
        // A word alone is a branch or a name rather than a file; in a command it may be a file.
        let is_command = |value: &str| value.starts_with('!') || value.contains(is_space);
        let (commands, words): (Vec<&str>, Vec<&str>) =
            settings.iter().map(|it| it.value.as_str()).partition(|value| is_command(value));
        let subsections = settings.iter().map(|it| it.subsection.as_str());
        let words = named_paths(&words.into_iter().chain(subsections).collect::<Vec<_>>()).paths;
        let commands = named_paths(&commands).paths;
        for words in [&words, &commands] {
            self.add_programs(words);
        }
        // Branches are no files of a working tree. What programs of the settings read in turn is not followed.
        let is_path = |path: &String| path.contains(['/', '.']) && !path.starts_with("refs/");
        let paths = words.into_iter().filter(is_path).chain(commands).collect();
        let named = NamedPaths { paths, ..NamedPaths::default() };
        trees.iter().for_each(|tree| self.add_words_in(tree, &named, std::iter::empty(), false));
    }

    /// The settings of a file, and of all that it includes. Git includes files within files too, at most ten deep.
    fn settings_of(&mut self, file: &Path) -> Vec<Setting> {
        let (mut all, mut seen, mut next) = (Vec::new(), BTreeSet::new(), vec![file.to_owned()]);
        while let Some(file) = next.pop() {
            let Some(text) = self.text(&file).filter(|_| seen.insert(file.clone())) else { continue };
            let mut settings = settings(&text);
            for setting in &mut settings {
                let is_place = setting.is_include() || setting.key == "hookspath";
                if is_place && setting.value.contains(char::REPLACEMENT_CHARACTER) {
                    self.note(&file, "names a path that is no UTF-8");
                }
                if let Some(value) = setting.value.strip_prefix(OPTIONAL) {
                    setting.value = value.to_owned();
                }
                if setting.is_include() {
                    // The path counts from the file.
                    let included = self.places(file.parent().unwrap_or(Path::new("")), &setting.value);
                    included.iter().for_each(|included| self.add_file(included.clone()));
                    next.extend(included);
                }
            }
            all.extend(settings);
        }
        all
    }

    /// The text of a file; `None`, and noted, if it cannot be read to its end.
    fn text(&mut self, file: &Path) -> Option<String> {
        let real = self.look(file)?;
        // A pipe is noted with the files.
        match real.symlink_metadata() {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return None,
            Err(error) => {
                self.note_failed(file, &real, &error);
                return None;
            }
        }
        let read = |file: File| {
            let mut bytes = Vec::new();
            file.take(self.settings_left as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
        };
        match open(&real).and_then(read) {
            Ok(bytes) if bytes.len() <= self.settings_left => {
                self.settings_left -= bytes.len();
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            Ok(_) => {
                self.note(
                    file,
                    &format!("is too long: of settings of git {SETTINGS_BYTES_MAX} bytes are read"),
                );
                None
            }
            Err(error) => {
                self.note_failed(file, &real, &error);
                None
            }
        }
    }
}
