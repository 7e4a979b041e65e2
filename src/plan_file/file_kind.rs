//! File kinds by their keys, to report a file given to the wrong command as one finding.

use std::path::Path;

use super::data::Located;
use crate::finding::{Finding, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Plan,
    Job,
    Pipeline,
}

impl FileKind {
    /// Unmistakable kind of a file expected to be `self`, and the offset of the key that proves the kind;
    /// `None` if the kind matches or is unclear.
    pub(super) fn other(self, root: &Located) -> Option<(FileKind, usize)> {
        let key = |key: &str| root.get(key).map(|entry| entry.key_at);
        let of_job = key("plan").or_else(|| key("budget"));
        let plainly = match (key("nodes"), key("stages"), of_job) {
            (Some(at), None, None) => Some((FileKind::Plan, at)),
            (None, Some(at), None) => Some((FileKind::Pipeline, at)),
            (None, None, Some(at)) if key("title").is_some() => Some((FileKind::Job, at)),
            _ => None,
        };
        plainly.filter(|&(kind, _)| kind != self)
    }

    pub(super) fn wrong_kind(self, source: &Source, code: &str, at: usize) -> Finding {
        let (word, command, done) = match self {
            FileKind::Plan => ("plan", "run", "runs"),
            FileKind::Job => ("job", "market post", "posts"),
            FileKind::Pipeline => ("pipeline", "pipeline create", "makes"),
        };
        let name = source.name();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
        let is_file = Path::new(name).extension().is_some() && name.chars().all(is_plain);
        let file = if is_file { name } else { "FILE" };
        source.finding(
            code,
            Some(at),
            format!("this is a {word}"),
            format!("`ostler {command} {file}` {done} it"),
        )
    }
}
