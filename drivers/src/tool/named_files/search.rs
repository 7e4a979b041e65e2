//! Finds the files that words of a call may stand for.

use std::cell::{Cell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{NamedPaths, named_paths};
use ostler_kernel::port::NamedFile;

use super::content::{Reader, is_missing, shown};
use super::git::SETTINGS_BYTES_MAX;
use super::patterns::PathPattern;
use super::places::LOOKS_MAX;
use super::way::Way;
use crate::tool::blocking_tool::CancelFlag;
use crate::tool::process::program_folders;
use crate::tool::workspace::{PATH_BYTES_MAX, Workspace};

/// Names that are read from folders for one call. A folder beyond cannot be bound.
pub(super) const LISTED_MAX: usize = 100_000;

/// Folders below each other that words lead to one by one.
const ROUNDS_MAX: usize = 4;

/// Bytes of a first line that the system reads.
const INTERPRETER_BYTES_MAX: usize = 256;

/// What Python runs in the place of a source file beside it, by the end of the name.
const EXTENSIONS: [&str; 4] = [".so", ".pyd", ".pyc", ".pyo"];

/// Files to be read, and the folders that were looked through. Paths count from the root.
pub(super) struct Search<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) root: &'a Path,
    here: PathBuf,
    /// Folders that steps may write, as they are named and without links.
    pub(super) written: BTreeSet<PathBuf>,
    /// Folders without links that the program does not see.
    hidden: Vec<PathBuf>,
    /// Folders in which programs are found, as far as a step may write them.
    on_path: BTreeSet<PathBuf>,
    /// True for a file that is there for a word of the call alone.
    files: BTreeMap<PathBuf, bool>,
    /// Folders that are bound as a whole, and names that cannot be bound.
    pub(super) bound: RefCell<BTreeMap<String, NamedFile>>,
    /// Patterns with too many files for a list.
    pub(super) many: Vec<(PathBuf, Vec<PathBuf>)>,
    listings: BTreeMap<PathBuf, Vec<String>>,
    listed: usize,
    pub(super) looks: Cell<usize>,
    /// Bytes of settings of git that may still be read.
    pub(super) settings_left: usize,
    /// Set once nobody waits for the look any more.
    pub(super) cancel: &'a CancelFlag,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        root: &'a Path,
        here: &Path,
        written: Vec<PathBuf>,
        hidden: Vec<PathBuf>,
        cancel: &'a CancelFlag,
    ) -> Search<'a> {
        let real: Vec<PathBuf> = written.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let mut search = Search {
            workspace,
            root,
            here: PathBuf::new(),
            on_path: BTreeSet::new(),
            written: written.into_iter().chain(real).collect(),
            hidden,
            files: BTreeMap::new(),
            bound: RefCell::default(),
            many: Vec::new(),
            listings: BTreeMap::new(),
            listed: 0,
            looks: Cell::new(0),
            settings_left: SETTINGS_BYTES_MAX,
            cancel,
        };
        search.here = search.placed(here).unwrap_or_default();
        for folder in program_folders() {
            let way = Way::of(&folder);
            if search.is_written(&way.real) {
                match way.lost {
                    Some(why) => search.note(&folder, why),
                    None => search.on_path.extend(search.placed(&way.real)),
                }
            }
        }
        search
    }

    /// Adds the files that words of the call may stand for.
    pub(super) fn add_words(&mut self, named: &NamedPaths) {
        let here = self.here.clone();
        self.add_words_in(&here, named, named.modules(), true);
    }

    /// Adds the files that words may stand for in a folder. `of_call`: the words are those of the call.
    pub(super) fn add_words_in(
        &mut self,
        here: &Path,
        named: &NamedPaths,
        modules: impl Iterator<Item = String>,
        of_call: bool,
    ) {
        let words: Vec<String> = named.folders().filter(|word| word.len() <= PATH_BYTES_MAX).collect();
        let folders = self.reach(BTreeSet::from([here.to_owned()]), &words, of_call);
        let mut matched = BTreeSet::new();
        for pattern in &named.patterns {
            let pattern = PathPattern::of(pattern);
            folders.iter().for_each(|folder| matched.extend(self.expand(folder, &pattern)));
        }
        let matched = self.reach(matched, &words, false);
        // Programs look for such files in the folders above as well.
        let mut searched: BTreeSet<PathBuf> =
            folders.union(&matched).flat_map(|folder| self.with_folders_above(folder)).collect();
        if named.uses_git {
            searched.extend(self.places(here, "~/."));
        }
        let programs = searched.iter().flat_map(|folder| named.programs.iter().map(|name| folder.join(name)));
        self.on_path.extend(programs);
        self.add_programs(&named.paths);
        let names = named.conventional.iter().map(ToString::to_string);
        let names: Vec<String> = names.chain(modules).take(LOOKS_MAX).collect();
        for folder in &searched {
            for name in self.present(folder, &names) {
                self.seek(folder, name, false);
            }
            for word in self.present(folder, &words) {
                self.seek(folder, word, of_call && folder == here);
            }
        }
        if named.uses_git {
            self.add_repositories(&searched, &folders);
        }
    }

    /// The folders to which words lead from some folders, and from there: `cd lib && cd deep`. Files are added.
    fn reach(&mut self, start: BTreeSet<PathBuf>, words: &[String], of_call: bool) -> BTreeSet<PathBuf> {
        let (mut all, mut next) = (start.clone(), start.clone());
        for _ in 0..ROUNDS_MAX {
            let mut deeper = BTreeSet::new();
            for folder in &next {
                for word in self.present(folder, words) {
                    // A word for a folder, or a link on the way, may lead here as well.
                    let as_written =
                        self.placed(&folder.join(word)).filter(|_| of_call && start.contains(folder));
                    for place in self.places(folder, word) {
                        // The system follows a link that leads out of the workspace and perhaps back.
                        if !self.is_folder(&place) {
                            let by_word = as_written.as_ref() == Some(&place);
                            self.add(place, by_word);
                        } else if !all.contains(&place) {
                            deeper.insert(place);
                        }
                    }
                }
            }
            all.extend(deeper.iter().cloned());
            next = deeper;
        }
        all
    }

    /// The names whose first part exists in a folder: the others lead nowhere.
    fn present<'n>(&self, folder: &Path, names: &'n [String]) -> Vec<&'n String> {
        let Some(real) = self.look(folder) else { return Vec::new() };
        let is_there = |name: &&String| {
            let first = name.split('/').next().unwrap_or_default();
            // Python may run another file than the source.
            let is_python = first == name.as_str() && first.ends_with(".py");
            let is_other = is_python || name.starts_with("~/");
            is_other
                || self.may_look(1)
                    && !real.join(first).symlink_metadata().is_err_and(|error| is_missing(&error))
        };
        names.iter().filter(is_there).collect()
    }

    /// The folder, and the folders above that a step may write: above its name, and above the place to which a link leads.
    pub(super) fn with_folders_above(&self, folder: &Path) -> Vec<PathBuf> {
        let real = self.look(folder).and_then(|real| self.placed(&real));
        let mut all = vec![folder.to_owned()];
        for start in std::iter::once(folder).chain(real.as_deref().filter(|real| *real != folder)) {
            let above = start.ancestors().skip(1).filter(|above| self.is_written(&self.root.join(above)));
            all.extend(above.map(Path::to_owned));
        }
        all
    }

    fn seek(&mut self, folder: &Path, name: &str, by_word: bool) {
        if let Some(path) = self.placed(&folder.join(name)) {
            self.add(path, by_word);
        }
    }

    /// Adds the programs of these names, also `git-deploy` for `git deploy`, and the settings of an environment of Python around them.
    pub(super) fn add_programs(&mut self, words: &[String]) {
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('/')).collect();
        let joined = words.windows(2).map(|pair| pair.join("-"));
        let names: Vec<String> = words.iter().map(ToString::to_string).chain(joined).collect();
        for folder in
            self.on_path.clone().into_iter().filter(|folder| self.is_folder(folder)).collect::<Vec<_>>()
        {
            for name in names.iter().map(String::as_str).chain(["pyvenv.cfg", "../pyvenv.cfg"]) {
                self.seek(&folder, name, false);
            }
        }
    }

    /// Adds a file that something else than a word of the call leads to.
    pub(super) fn add_file(&mut self, path: PathBuf) {
        self.add(path, false);
    }

    /// Adds a file if there is one, and what Python runs in its place.
    fn add(&mut self, path: PathBuf, by_word: bool) {
        let source =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".py"));
        if let Some(stem) = source.map(str::to_owned) {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            self.add_compiled(&folder, &stem);
            // A package comes before a module.
            if !stem.starts_with("__") {
                self.add_file(folder.join(&stem).join("__init__.py"));
            }
        }
        let Some(real) = self.look(&path) else { return };
        match real.symlink_metadata() {
            // A link may lead to where nobody may look. By its own path, which may be too long, alone it is no file that is there.
            Err(error) if self.root.join(&path).symlink_metadata().is_err() => {
                self.note_failed(&path, &real, &error);
            }
            _ => self.list_file(path, by_word),
        }
    }

    /// A file that anything besides a word leads to is not there for the word alone.
    fn list_file(&mut self, path: PathBuf, by_word: bool) {
        *self.files.entry(path).or_insert(by_word) &= by_word;
    }

    fn add_compiled(&mut self, folder: &Path, stem: &str) {
        for (folder, ends) in
            [(folder.to_owned(), &EXTENSIONS[..]), (folder.join("__pycache__"), &EXTENSIONS[2..])]
        {
            let is_of = |name: &&String| {
                let rest = name.strip_prefix(stem).filter(|rest| rest.starts_with('.'));
                rest.is_some_and(|rest| ends.iter().any(|end| rest.ends_with(end)))
            };
            let found: Vec<PathBuf> =
                self.list(&folder).iter().filter(is_of).map(|name| folder.join(name)).collect();
            found.into_iter().for_each(|path| self.list_file(path, false));
        }
    }

    /// The names in a folder; none if it cannot be read.
    pub(super) fn list(&mut self, folder: &Path) -> &[String] {
        if !self.listings.contains_key(folder) {
            let names = self.names(folder);
            self.listings.insert(folder.to_owned(), names);
        }
        &self.listings[folder]
    }

    /// Files whose names are no UTF-8 are added: no word can hold them.
    fn names(&mut self, folder: &Path) -> Vec<String> {
        let Some(place) = self.look(folder) else { return Vec::new() };
        let (left, mut names) = (LISTED_MAX - self.listed, Vec::new());
        let entries = match std::fs::read_dir(&place) {
            Ok(entries) => Some(entries),
            Err(error) => {
                self.note_failed(folder, &place, &error);
                None
            }
        };
        let cancel = self.cancel;
        let entries = entries.into_iter().flatten().take_while(|_| cancel.check().is_ok());
        for entry in entries.filter_map(Result::ok).take(left + 1) {
            match entry.file_name().into_string() {
                Ok(name) => names.push(name),
                Err(name) => self.list_file(folder.join(name), false),
            }
        }
        if names.len() > left {
            self.note(folder, &format!("has, with the folders before it, more entries than {LISTED_MAX}"));
            names.truncate(left);
        }
        self.listed += names.len();
        names.sort_unstable();
        names
    }

    /// Reads the files that were found, and those that their first lines name: `#!/usr/bin/env tool`.
    pub(super) fn read(mut self) -> Result<Vec<NamedFile>, Failure> {
        let written = self.written.clone();
        let hidden = std::mem::take(&mut self.hidden);
        let mut reader = Reader::new(self.workspace, self.root, &written, &hidden, self.cancel);
        let (mut read, mut seen): (BTreeMap<String, NamedFile>, BTreeMap<PathBuf, bool>) = Default::default();
        loop {
            let mut new = Vec::new();
            for (path, by_word) in std::mem::take(&mut self.files) {
                match seen.entry(path) {
                    Entry::Vacant(entry) => {
                        new.push(entry.key().clone());
                        entry.insert(by_word);
                    }
                    Entry::Occupied(mut known) => *known.get_mut() &= by_word,
                }
            }
            if new.is_empty() {
                break;
            }
            for path in new {
                self.cancel.check()?;
                let Some((file, start)) = reader.read(&path) else { continue };
                read.insert(file.path.clone(), file);
                if let Some(line) = start.strip_prefix(b"#!") {
                    let line =
                        line[..line.len().min(INTERPRETER_BYTES_MAX)].split(|byte| *byte == b'\n').next();
                    let named = named_paths(&[String::from_utf8_lossy(line.unwrap_or_default())]);
                    let here = self.here.clone();
                    self.add_words_in(&here, &named, std::iter::empty(), false);
                }
            }
        }
        for (path, by_word) in &seen {
            if let Some(file) = read.get_mut(&shown(path)) {
                file.by_word = *by_word;
            }
        }
        for (name, matches) in std::mem::take(&mut self.many) {
            let file = reader.read_together(&name, &matches)?;
            read.insert(file.path.clone(), file);
        }
        read.append(&mut self.noted());
        // What was not looked at any more is missing.
        self.cancel.check()?;
        Ok(read.into_values().collect())
    }
}
