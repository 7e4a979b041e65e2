//! The layers of this crate: which folder of `src` may use which.

#![allow(clippy::unwrap_used)] // shared test functions

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer with the layers it may use. Files and folders of `src` named otherwise belong to the root, which may use all.
const LAYERS: [(&str, &[&str]); 7] = [
    ("disk", &[]),
    ("format", &["disk"]),
    ("options", &["format"]),
    ("index", &["disk", "format"]),
    ("data_folder", &["disk", "format"]),
    ("online", &["disk", "format", "options", "index", "data_folder"]),
    ("maintenance", &["disk", "format", "options", "index", "data_folder"]),
];

const ROOT: [&str; 3] = ["lib", "store", "tests"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The names following `crate::` in a text.
fn crate_paths(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '{');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// Most consecutive `super::` in a text.
fn supers(code: &str) -> usize {
    (1..).take_while(|count| code.contains(&"super::".repeat(*count))).last().unwrap_or(0)
}

fn violations(layer: &str, depth: usize, code: &str) -> Vec<String> {
    let allowed = LAYERS.iter().find(|(name, _)| *name == layer).unwrap().1;
    let mut found: Vec<String> = crate_paths(code)
        .filter(|name| *name != layer && !allowed.contains(name))
        .map(|name| format!("crate::{name}"))
        .collect();
    let (outer, inner) = code.split_once("\nmod tests {").unwrap_or((code, ""));
    if supers(outer) >= depth || supers(inner) > depth {
        found.push("super:: out of the layer".into());
    }
    found
}

#[test]
fn no_layer_uses_another_against_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut checked = 0;
    for path in sources(&root) {
        let relative = path.strip_prefix(&root).unwrap().with_extension("");
        let mut parts: Vec<_> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        if ROOT.contains(&parts[0]) {
            continue;
        }
        assert!(LAYERS.iter().any(|(name, _)| *name == parts[0]), "{} is in no layer", relative.display());
        assert_eq!(violations(parts[0], parts.len(), &code(&path)), [""; 0], "{}", relative.display());
        checked += 1;
    }
    assert!(checked > 40, "{checked} files");
}

#[test]
fn a_use_against_the_table_is_found() {
    for (layer, code, found) in [
        ("online", "use crate::maintenance::verify;", "crate::maintenance"),
        ("maintenance", "use crate::online;", "crate::online"),
        ("index", "fn x() { crate::online::open() }", "crate::online"),
        ("online", "use crate::{Store, format};", "crate::{Store"),
        ("online", "use super::super::maintenance;", "super:: out of the layer"),
    ] {
        assert_eq!(violations(layer, 2, code), [found], "{code}");
    }
    assert_eq!(violations("online", 2, "use super::writer;\nuse crate::format::lsn::Lsn;"), [""; 0]);
}
