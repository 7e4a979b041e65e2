//! Files that a call names.

use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// Bytes of a text that a question shows, and keeps for a comparison.
pub const NAMED_TEXT_BYTES_MAX: usize = 4 << 10;

/// Lines of one difference.
const DIFFERENCE_LINES_MAX: usize = 40;

/// A file that a call names or executes, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// Path below the workspace; of a file outside, where steps may write too, the absolute path.
    pub path: String,
    /// Digest of the content; that of the place for a link that leads to where no step writes.
    pub digest: Digest,
    /// Size.
    pub bytes: u64,
    /// The content, if it is a text of at most [`NAMED_TEXT_BYTES_MAX`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Reason for which nothing can be bound to the file, such as "is a pipe"; `None` for a file that was looked at. Each look gives
    /// another digest then, so that no approval and no acceptance holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbound: Option<String>,
    /// True if the file is there for a word of the call alone, which is its path: no program reads it by convention, and no other file or
    /// pattern leads to it. Each look tells it anew; it is not recorded.
    #[serde(skip)]
    pub by_word: bool,
}

impl NamedFile {
    /// The [`line_difference`] between an earlier state and this one; `None` if the text of one is not kept.
    pub fn difference(&self, earlier: &NamedFile) -> Option<Vec<String>> {
        Some(line_difference(earlier.text.as_deref()?, self.text.as_deref()?))
    }

    /// The first file for which an approval does not hold any more: it has changed, has come or is gone, or its content is not bound.
    pub fn first_changed<'a>(approved: &'a [NamedFile], now: &'a [NamedFile]) -> Option<&'a NamedFile> {
        let is_same = |file: &NamedFile, other: &NamedFile| {
            file.path == other.path && file.digest == other.digest && file.unbound.is_none()
        };
        let among = |file: &NamedFile, all: &[NamedFile]| all.iter().any(|other| is_same(file, other));
        let changed = now.iter().find(|file| !among(file, approved));
        changed.or_else(|| approved.iter().find(|file| !among(file, now)))
    }
}

/// The lines between the common beginning and the common end of two texts: `-` before those that went, `+` before those that came. At
/// most 40, and then how many more.
///
/// ```
/// assert_eq!(ostler_kernel::port::line_difference("a\nb\n", "a\nc\n"), ["-b", "+c"]);
/// ```
pub fn line_difference(before: &str, now: &str) -> Vec<String> {
    let (before, now): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    let start = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
    let (before, now) = (&before[start..], &now[start..]);
    let end = before.iter().rev().zip(now.iter().rev()).take_while(|(before, now)| before == now).count();
    let went = before[..before.len() - end].iter().map(|line| format!("-{line}"));
    let came = now[..now.len() - end].iter().map(|line| format!("+{line}"));
    let mut lines: Vec<String> = went.chain(came).collect();
    if lines.len() > DIFFERENCE_LINES_MAX {
        let more = lines.len() - DIFFERENCE_LINES_MAX;
        lines.truncate(DIFFERENCE_LINES_MAX);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_holds_while_no_file_changes_comes_or_goes() {
        let file = |path: &str, byte| NamedFile {
            path: path.to_owned(),
            digest: Digest([byte; 32]),
            bytes: 1,
            text: None,
            unbound: None,
            by_word: true,
        };
        let approved = [file("a", 1), file("b", 1)];
        let unbound = NamedFile { unbound: Some("is a pipe".to_owned()), ..file("b", 1) };
        for (now, changed) in [
            (vec![file("b", 1), file("a", 1)], None),
            (vec![file("a", 2), file("b", 1)], Some("a")),
            (vec![file("a", 1)], Some("b")),
            (vec![file("a", 1), file("b", 1), file("c", 1)], Some("c")),
            (vec![file("a", 1), unbound], Some("b")),
        ] {
            let found = NamedFile::first_changed(&approved, &now).map(|file| file.path.as_str());
            assert_eq!(found, changed, "{now:?}");
        }
    }

    #[test]
    fn a_difference_is_the_lines_that_went_and_came() {
        for (before, now, expected) in [
            ("a\nb\nc\n", "a\nx\nc\n", &["-b", "+x"][..]),
            ("a\n", "a\nb\n", &["+b"]),
            ("a\na\n", "a\n", &["-a"]),
            ("", "a", &["+a"]),
            ("a", "a\n", &[]),
        ] {
            assert_eq!(line_difference(before, now), expected, "{before:?} {now:?}");
        }
        let long = "x\n".repeat(DIFFERENCE_LINES_MAX + 3);
        assert_eq!(line_difference("", &long).len(), DIFFERENCE_LINES_MAX + 1);
    }
}
