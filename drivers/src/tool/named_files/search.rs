//! Finds the files that words of a call may stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{NamedPaths, named_paths};
use ostler_kernel::lineage;
use ostler_kernel::port::NamedFile;

use super::content::{Reader, stamp, stamped};
use super::glob::{fits, is_pattern};
use crate::tool::blocking_tool::CancelFlag;
use crate::tool::process::program_folders;
use crate::tool::workspace::{PATH_BYTES_MAX, Workspace};

/// Files that are looked for in the folders of one call: named ones, those of modules, and those by convention.
pub(super) const SOUGHT_MAX: usize = 50_000;

/// Names that are read from folders for one call. A folder beyond is bound by its times.
const LISTED_MAX: usize = 100_000;

/// Files of one pattern that are bound one by one. The files of a larger pattern are bound together, by their times.
const MATCHES_MAX: usize = 256;

/// Folders above each other that `**` enters.
const DEPTH_MAX: usize = 32;

/// Bytes of a first line that the system reads.
const INTERPRETER_BYTES_MAX: usize = 256;

/// What Python runs in the place of a source file beside it, by the end of the name.
const EXTENSIONS: [&str; 4] = [".so", ".pyd", ".pyc", ".pyo"];

/// Files to be read, and the folders that were looked through. Paths count from the root.
pub(super) struct Search<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) root: &'a Path,
    here: PathBuf,
    /// Folders at and below this one are a step's to write.
    written_below: PathBuf,
    /// Folders in which programs are found, as far as a step may write them.
    on_path: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// Folders that are bound as a whole, and patterns with too many files.
    bound: BTreeMap<String, NamedFile>,
    listings: BTreeMap<PathBuf, Vec<String>>,
    listed: usize,
    sought: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        root: &'a Path,
        here: &Path,
        written_below: &Path,
    ) -> Search<'a> {
        let real = written_below.canonicalize().unwrap_or_else(|_| written_below.to_owned());
        let top = written_below.strip_prefix(root).map(plain).unwrap_or_default();
        let on_path = program_folders().into_iter().filter_map(|folder| {
            let folder = folder.canonicalize().ok()?;
            Some(top.join(folder.strip_prefix(&real).ok()?))
        });
        Search {
            workspace,
            root,
            here: plain(here),
            on_path: on_path.collect(),
            written_below: top,
            files: BTreeSet::new(),
            bound: BTreeMap::new(),
            listings: BTreeMap::new(),
            listed: 0,
            sought: 0,
        }
    }

    /// Adds the files that words of the call may stand for.
    pub(super) fn add_words(&mut self, named: &NamedPaths) {
        let here = self.here.clone();
        self.add_words_in(&here, named, named.modules());
    }

    /// Adds the files that words may stand for in a folder.
    pub(super) fn add_words_in(
        &mut self,
        here: &Path,
        named: &NamedPaths,
        modules: impl Iterator<Item = String>,
    ) {
        let mut folders = BTreeSet::from([here.to_owned()]);
        // A longer word names no file.
        let named_paths = || named.paths.iter().filter(|path| path.len() <= PATH_BYTES_MAX);
        for path in named_paths() {
            for path in self.places(here, path) {
                // The system follows a link that leads out of the workspace and perhaps back.
                if self.is_folder(&path) {
                    folders.insert(path);
                } else {
                    self.add_file(path);
                }
            }
        }
        for pattern in &named.patterns {
            folders.iter().for_each(|folder| self.expand(folder, pattern));
        }
        // Programs look for such files in the folders above as well.
        let searched: BTreeSet<PathBuf> =
            folders.iter().flat_map(|folder| self.with_folders_above(folder)).collect();
        let programs = searched.iter().flat_map(|folder| named.programs.iter().map(|name| folder.join(name)));
        self.on_path.extend(programs);
        self.add_programs(&named.paths);
        let names = named.conventional.iter().map(ToString::to_string);
        let names: Vec<String> =
            names.chain(named_paths().cloned()).chain(modules).take(SOUGHT_MAX).collect();
        for folder in &searched {
            for name in &names {
                self.seek(folder, name);
            }
        }
        if named.uses_git {
            self.add_repositories(&searched);
        }
    }

    /// The folder, and those above it that a step may write.
    pub(super) fn with_folders_above(&self, folder: &Path) -> Vec<PathBuf> {
        let above = folder.ancestors().skip(1).filter(|above| above.starts_with(&self.written_below));
        std::iter::once(folder).chain(above).map(Path::to_owned).collect()
    }

    fn seek(&mut self, folder: &Path, name: &str) {
        self.sought += 1;
        if self.sought <= SOUGHT_MAX
            && let Some(path) = climb(&folder.join(name))
        {
            self.add_file(path);
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
                self.seek(&folder, name);
            }
        }
    }

    /// Adds a file if there is one, and what Python runs in its place.
    pub(super) fn add_file(&mut self, path: PathBuf) {
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
        if self.root.join(&path).symlink_metadata().is_ok() {
            self.files.insert(path);
        }
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
            self.files.extend(found);
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

    /// Names that are no UTF-8 are bound here: no word and no listing of a question can hold them.
    fn names(&mut self, folder: &Path) -> Vec<String> {
        let place = self.root.join(folder);
        let (left, mut names) = (LISTED_MAX - self.listed, Vec::new());
        let entries = std::fs::read_dir(&place).into_iter().flatten().filter_map(Result::ok);
        for entry in entries.take(left + 1) {
            match (entry.file_name().into_string(), entry.metadata()) {
                (Ok(name), _) => names.push(name),
                (Err(name), Ok(meta)) if !meta.is_dir() => {
                    let path = folder.join(name).to_string_lossy().into_owned();
                    self.bound.insert(path.clone(), stamped(path, &meta));
                }
                _ => {}
            }
        }
        if names.len() > left
            && let Ok(meta) = place.metadata()
        {
            let path = format!("{}/", folder.display());
            self.bound.insert(path.clone(), stamped(path, &meta));
            names.truncate(left);
        }
        self.listed += names.len();
        names.sort_unstable();
        names
    }

    /// Adds the files that fit a pattern in a folder.
    fn expand(&mut self, folder: &Path, pattern: &str) {
        let mut parts: Vec<&str> = pattern.split('/').collect();
        let start: Vec<&str> = parts.iter().take_while(|part| !is_pattern(part)).copied().collect();
        parts.drain(..start.len());
        if parts.last() == Some(&"**") {
            parts.push("*");
        }
        let mut places = match start.join("/").as_str() {
            "" if pattern.starts_with('/') => self.places(folder, "/"),
            "" => vec![folder.to_owned()],
            start => self.places(folder, start),
        };
        for part in parts {
            places.retain(|path| self.is_folder(path));
            places = places.iter().take(SOUGHT_MAX).flat_map(|place| self.step(place, part)).collect();
        }
        self.add_matches(&folder.join(pattern), places);
    }

    /// Adds files, one by one or, if there are many, under one name.
    pub(super) fn add_matches(&mut self, name: &Path, mut matches: Vec<PathBuf>) {
        matches.retain(|path| !self.is_folder(path));
        matches.sort_unstable();
        matches.dedup();
        if matches.len() <= MATCHES_MAX {
            return matches.into_iter().for_each(|path| self.add_file(path));
        }
        let (mut bytes, mut stamps) = (0, Vec::new());
        for path in &matches {
            let meta = self.root.join(path).metadata().ok();
            bytes += meta.as_ref().map_or(0, std::fs::Metadata::len);
            let stamp = meta.map_or_else(Vec::new, |meta| stamp(&meta));
            stamps.push([path.as_os_str().as_encoded_bytes(), &[0], &stamp].concat());
        }
        let stamps: Vec<&[u8]> = stamps.iter().map(Vec::as_slice).collect();
        let digest = lineage::hash("aos/file-matches/1", &stamps);
        let path = name.to_string_lossy().into_owned();
        self.bound.insert(path.clone(), NamedFile { path, digest, bytes, text: None });
    }

    /// The paths that one part of a pattern leads to.
    fn step(&mut self, place: &Path, part: &str) -> Vec<PathBuf> {
        match part {
            "" | "." => vec![place.to_owned()],
            ".." => climb(&place.join("..")).into_iter().collect(),
            "**" => self.folders_below(place),
            _ if is_pattern(part) => {
                let names = self.list(place).iter().filter(|name| fits(part, name));
                names.map(|name| place.join(name)).collect()
            }
            _ => vec![place.join(part)],
        }
    }

    fn folders_below(&mut self, place: &Path) -> Vec<PathBuf> {
        let (mut found, mut next) = (vec![place.to_owned()], vec![place.to_owned()]);
        for _ in 0..DEPTH_MAX {
            let mut deeper = Vec::new();
            for place in next {
                let below: Vec<PathBuf> = self.list(&place).iter().map(|name| place.join(name)).collect();
                // A link may lead back.
                let is_folder =
                    |path: &PathBuf| self.root.join(path).symlink_metadata().is_ok_and(|meta| meta.is_dir());
                deeper.extend(below.into_iter().filter(is_folder));
            }
            found.extend(deeper.iter().cloned());
            next = deeper;
        }
        found
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.root.join(path).is_dir()
    }

    /// The places below the root that a path may mean: as it is written, and where the system leads if a folder on the way is a link.
    pub(super) fn places(&self, here: &Path, path: &str) -> Vec<PathBuf> {
        let home = || path.strip_prefix("~/").and_then(|rest| Some(std::env::home_dir()?.join(rest)));
        let path = home().unwrap_or_else(|| self.root.join(here).join(path));
        let written = lexical(&path).strip_prefix(self.root).map(Path::to_owned).ok();
        let is_winding = written.is_none() || path.components().any(|part| part == Component::ParentDir);
        let real = || {
            let folder = path.parent()?.canonicalize().ok()?;
            let below = folder.strip_prefix(self.root.canonicalize().ok()?).ok()?;
            Some(below.join(path.file_name()?))
        };
        let real = if is_winding { real() } else { None };
        // A path that leads out of the workspace is not the plan's to change.
        written.into_iter().chain(real).filter(|path| path.to_str().is_some()).collect()
    }

    /// Reads the files that were found, and those that their first lines name: `#!/usr/bin/env tool`.
    pub(super) fn read(mut self, bytes_max: u64, cancel: &CancelFlag) -> Result<Vec<NamedFile>, Failure> {
        let mut reader = Reader::new(self.workspace, self.root, bytes_max);
        let (mut read, mut seen): (BTreeMap<String, NamedFile>, BTreeSet<PathBuf>) = Default::default();
        loop {
            let new: Vec<PathBuf> = std::mem::take(&mut self.files)
                .into_iter()
                .filter(|path| seen.insert(path.clone()))
                .collect();
            if new.is_empty() {
                break;
            }
            for path in new {
                cancel.check()?;
                let Some((file, start)) = reader.read(&path) else { continue };
                read.insert(file.path.clone(), file);
                if let Some(line) = start.strip_prefix(b"#!") {
                    let line =
                        line[..line.len().min(INTERPRETER_BYTES_MAX)].split(|byte| *byte == b'\n').next();
                    let named = named_paths(&[String::from_utf8_lossy(line.unwrap_or_default())]);
                    let here = self.here.clone();
                    self.add_words_in(&here, &named, std::iter::empty());
                }
            }
        }
        read.append(&mut self.bound);
        Ok(read.into_values().collect())
    }
}

/// The path without `.` and `..`; `None` if it leads above its start.
pub(super) fn climb(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
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

fn plain(path: &Path) -> PathBuf {
    climb(path).unwrap_or_default()
}
