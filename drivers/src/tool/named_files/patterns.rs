//! The files that patterns of a call stand for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::glob::{Pattern, is_pattern};
use super::search::Search;
use super::way::OF_PROCESS;
use crate::tool::workspace::PATH_BYTES_MAX;

/// Files of one pattern that are bound one by one. The files of a larger pattern are bound together.
const MATCHES_MAX: usize = 256;

/// Folders above each other that `**` enters. One that lies deeper cannot be bound.
const DEPTH_MAX: usize = 32;

/// Characters that are shown of a pattern which is longer than a path.
const SHOWN_CHARS: usize = 60;

/// A path with patterns, taken apart once for all folders.
pub(super) struct PathPattern {
    /// The path, or the beginning of one that is longer than any path.
    shown: String,
    is_long: bool,
    is_absolute: bool,
    /// The parts before the first pattern.
    start: String,
    parts: Vec<Part>,
}

enum Part {
    /// `.`, or nothing.
    Here,
    /// `..`
    Above,
    /// `**`
    Below,
    Pattern(Pattern),
    Name(String),
}

impl PathPattern {
    pub(super) fn of(text: &str) -> PathPattern {
        let mut parts: Vec<&str> = text.split('/').collect();
        let start: Vec<&str> = parts.iter().take_while(|part| !is_pattern(part)).copied().collect();
        parts.drain(..start.len());
        if parts.last() == Some(&"**") {
            parts.push("*");
        }
        let part = |part: &str| match part {
            "" | "." => Part::Here,
            ".." => Part::Above,
            "**" => Part::Below,
            _ if is_pattern(part) => Part::Pattern(Pattern::of(part)),
            _ => Part::Name(part.to_owned()),
        };
        let is_long = text.len() > PATH_BYTES_MAX;
        PathPattern {
            shown: if is_long {
                text.chars().take(SHOWN_CHARS).chain(['…']).collect()
            } else {
                text.to_owned()
            },
            is_long,
            is_absolute: text.starts_with('/'),
            start: start.join("/"),
            parts: parts.into_iter().map(part).collect(),
        }
    }
}

impl Search<'_> {
    /// Adds the files that fit a pattern in a folder. Returns the folders that do; those of `**` are looked through, and not named.
    pub(super) fn expand(&mut self, folder: &Path, pattern: &PathPattern) -> Vec<PathBuf> {
        // No system opens a longer path.
        if !self.may_look(1) || pattern.start.len() > PATH_BYTES_MAX {
            return Vec::new();
        }
        if self.look(&folder.join(&pattern.start)).is_some_and(|real| real == Path::new("/proc")) {
            self.note(Path::new(&pattern.shown), OF_PROCESS);
        }
        let mut places = match pattern.start.as_str() {
            "" if pattern.is_absolute => self.places(folder, "/"),
            "" => vec![folder.to_owned()],
            start => self.places(folder, start),
        };
        for part in &pattern.parts {
            places.retain(|path| self.is_folder(path));
            places = places.iter().flat_map(|place| self.step(place, part)).collect();
        }
        let name = folder.join(&pattern.shown);
        if pattern.is_long && places.len() > MATCHES_MAX {
            self.note(&name, "is a pattern that is longer than any path, and stands for many files");
            return Vec::new();
        }
        let folders = self.add_matches(&name, places);
        let is_recursive = pattern.parts.iter().any(|part| matches!(part, Part::Below));
        if is_recursive { Vec::new() } else { folders }
    }

    /// Adds files, one by one or, if there are many, under one name. Returns the folders among them.
    pub(super) fn add_matches(&mut self, name: &Path, matches: Vec<PathBuf>) -> Vec<PathBuf> {
        let (folders, mut matches): (Vec<_>, Vec<_>) =
            matches.into_iter().partition(|path| self.is_folder(path));
        matches.sort_unstable();
        matches.dedup();
        if matches.len() <= MATCHES_MAX {
            matches.into_iter().for_each(|path| self.add_file(path));
        } else {
            self.many.push((name.to_owned(), matches));
        }
        folders
    }

    /// The paths that one part of a pattern leads to.
    fn step(&mut self, place: &Path, part: &Part) -> Vec<PathBuf> {
        if !self.may_look(1) {
            return Vec::new();
        }
        match part {
            Part::Here => vec![place.to_owned()],
            // As a shell reads it that has entered the folder by its name, and as the system does.
            Part::Above => {
                let above = place.join("..");
                let real = self.look(&above).and_then(|real| self.placed(&real));
                let places: BTreeSet<PathBuf> = self.placed(&above).into_iter().chain(real).collect();
                places.into_iter().collect()
            }
            Part::Below => self.folders_below(place),
            Part::Pattern(pattern) => {
                let names = self.list(place).len();
                if !self.may_look(names) {
                    return Vec::new();
                }
                let cancel = self.cancel;
                let names = self.list(place).iter().take_while(|_| cancel.check().is_ok());
                let fitting = names.filter(|name| pattern.fits(name)).map(|name| place.join(name));
                let mut places: Vec<PathBuf> = fitting.collect();
                // Some shells match the folder and the one above too: `.*`.
                for part in [Part::Here, Part::Above] {
                    let name = if matches!(part, Part::Here) { "." } else { ".." };
                    if pattern.fits(name) {
                        places.extend(self.step(place, &part));
                    }
                }
                places
            }
            Part::Name(name) => vec![place.join(name)],
        }
    }

    fn folders_below(&mut self, place: &Path) -> Vec<PathBuf> {
        let (mut found, mut next) = (vec![place.to_owned()], vec![place.to_owned()]);
        for _ in 0..DEPTH_MAX {
            let mut deeper = Vec::new();
            for place in next {
                let names = self.list(&place).len();
                if !self.may_look(names) {
                    return found;
                }
                let Some(real) = self.look(&place) else { continue };
                // A link may lead back.
                let is_folder =
                    |name: &&String| real.join(name).symlink_metadata().is_ok_and(|meta| meta.is_dir());
                deeper.extend(self.list(&place).iter().filter(is_folder).map(|name| place.join(name)));
            }
            found.extend(deeper.iter().cloned());
            next = deeper;
        }
        if let Some(deep) = next.first() {
            self.note(deep, &format!("lies deeper than {DEPTH_MAX} folders"));
        }
        found
    }
}
