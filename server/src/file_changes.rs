//! Changes of a question, and of the files that it names, since it was last asked.

use ostler_kernel::id::Digest;
use ostler_kernel::port::{NamedFile, line_difference};
use ostler_kernel::run::ShownChange;
use serde_json::Value;

use crate::wire::{ChangeView, FileView};

/// The files of a question; each that was another one before, with what it was. Files that are gone come last.
pub(crate) fn views(now: &[NamedFile], before: &[NamedFile]) -> Vec<FileView> {
    let earlier = |file: &NamedFile| before.iter().find(|earlier| earlier.path == file.path);
    let present = now.iter().map(|file| {
        let changed = earlier(file).filter(|earlier| earlier.digest != file.digest && file.unbound.is_none());
        FileView {
            path: file.path.clone(),
            digest: Some(file.digest.to_string()),
            bytes: file.bytes,
            is_new: !before.is_empty() && earlier(file).is_none(),
            was: changed.map(|earlier| earlier.digest.to_string()),
            difference: changed.and_then(|earlier| file.difference(earlier)),
        }
    });
    let is_gone = |earlier: &&NamedFile| now.iter().all(|file| file.path != earlier.path);
    let gone = before.iter().filter(is_gone).map(|earlier| FileView {
        path: earlier.path.clone(),
        digest: None,
        bytes: 0,
        is_new: false,
        was: Some(Digest::to_string(&earlier.digest)),
        difference: None,
    });
    present.chain(gone).collect()
}

/// A part of a question that was another one before.
pub(crate) fn change(change: ShownChange) -> ChangeView {
    let ShownChange { part, was, now } = change;
    let texts = was.as_ref().and_then(Value::as_str).zip(now.as_ref().and_then(Value::as_str));
    let difference = texts.map(|(was, now)| line_difference(was, now));
    ChangeView { part, was, now, difference }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> NamedFile {
        let digest = ostler_kernel::lineage::hash("test", &[text.as_bytes()]);
        NamedFile {
            path: path.to_owned(),
            digest,
            bytes: text.len() as u64,
            text: Some(text.to_owned()),
            unbound: None,
            by_word: true,
        }
    }

    #[test]
    fn a_changed_file_says_what_it_was_and_a_missing_one_that_it_is_gone() {
        let (before, now) = ([file("a", "1"), file("b", "1")], [file("a", "2"), file("c", "1")]);
        let views = views(&now, &before);
        let told: Vec<_> = views
            .iter()
            .map(|view| (view.path.as_str(), view.was.is_some(), view.digest.is_some(), view.is_new))
            .collect();
        assert_eq!(told, [("a", true, true, false), ("c", false, true, true), ("b", true, false, false)]);
        assert_eq!(views[0].difference.as_deref(), Some(&["-1".to_owned(), "+2".to_owned()][..]));
        assert!(super::views(&now, &[]).iter().all(|view| view.was.is_none() && !view.is_new));
    }
}
