//! Differences of a question from what it showed before: when it was last asked, or in the repeated run.

use ostler_kernel::event::ApprovalVoid;
use ostler_kernel::run::WRITTEN;
use ostler_server::wire::{ApprovalView, FileView};
use serde_json::Value;

use crate::cli::output::approval::{Detail, short_digest, show_all_command};
use crate::cli::output::labels::short_id;
use crate::cli::output::units::plural;

/// The approval that a person gave in the repeated run, and what the question shows otherwise.
pub(super) fn earlier_lines(question: &ApprovalView, detail: Detail, lines: &mut Vec<String>) {
    let is_changed = !question.changes.is_empty() || question.files.iter().any(|file| !is_same(file));
    if let Some(earlier) = &question.earlier {
        let why = match earlier.void {
            Some(ApprovalVoid::Effect) => "it leads to an effect",
            Some(ApprovalVoid::Withdrawn) => "it rests on a result that was withdrawn",
            Some(ApprovalVoid::AskedFor) => "the node was asked for anew",
            Some(ApprovalVoid::Grant) => "a grant had approved it",
            None if is_changed => "it shows something else",
            None => "the policy, the work or the contract has changed",
        };
        let (by, run) = (detail.line(&earlier.by), short_id(&earlier.run));
        lines.push(format!("    approved by {by} in run {run}; asked again, because {why}"));
    }
    if !question.guards.is_empty() {
        let guards = detail.line(&question.guards.join(", "));
        lines.push(format!("    asked in place of {guards}, answered in another run"));
    }
    for change in &question.changes {
        let part = detail.line(&change.part);
        let value = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "absent".to_owned(), |value| detail.line(&value.to_string()))
        };
        match &change.difference {
            Some(difference) => {
                lines.push(format!("    changed: {part}"));
                let shown = difference.iter().take(detail.lines());
                lines.extend(shown.map(|line| format!("    │ {}", detail.line(line))));
            }
            None if change.part == WRITTEN => {
                lines.push(
                    "    other steps have written in the workspace since the question was asked".to_owned(),
                );
            }
            None if change.was.is_none() && change.now.is_none() => {
                lines.push(format!("    changed: {part}"));
            }
            None => {
                lines.push(format!("    changed: {part}, {} before", value(&change.was)));
            }
        }
    }
}

fn is_same(file: &FileView) -> bool {
    file.was.is_none() && !file.is_new
}

/// The files that a call names, with their digests, and what changed in them.
pub(super) fn file_lines(files: &[FileView], detail: Detail, lines: &mut Vec<String>) {
    // As many digits as an answer needs: of fewer, two files that begin alike could be made.
    let short = |digest: &Option<String>| digest.as_deref().map(short_digest).unwrap_or_default();
    let (same, changed): (Vec<&FileView>, Vec<&FileView>) = files.iter().partition(|file| is_same(file));
    for file in same.iter().take(detail.lines()) {
        lines.push(format!("    goes by {} ({})", detail.line(&file.path), short(&file.digest)));
    }
    let more = same.len().saturating_sub(detail.lines());
    if more > 0 {
        lines.push(format!("    goes by {}; {} shows all", plural(more, "more file"), show_all_command()));
    }
    for file in changed {
        let path = detail.line(&file.path);
        let (was, is) = (short(&file.was), short(&file.digest));
        lines.push(match (&file.was, &file.digest) {
            (Some(_), None) => format!("    gone since the question was asked: {path} (was {was})"),
            (Some(_), Some(_)) => {
                format!("    changed since the question was asked: {path} ({was}, now {is})")
            }
            (None, _) => format!("    new since the question was asked: {path} ({is})"),
        });
        let changed = file.difference.iter().flatten().take(detail.lines());
        lines.extend(changed.map(|line| format!("    │ {}", detail.line(line))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_line_with_its_digest_and_what_is_left_out_is_told() {
        let file = |at: usize| FileView {
            path: format!("f{at}\n"),
            digest: Some(format!("b3:{at:064}")),
            bytes: 1,
            is_new: false,
            was: None,
            difference: None,
        };
        let files: Vec<FileView> = (0..6).map(file).collect();
        let shown = |files: &[FileView], detail| {
            let mut lines = Vec::new();
            file_lines(files, detail, &mut lines);
            lines
        };
        let some = shown(&files, Detail::Excerpt(4));
        assert_eq!(some[0], format!("    goes by f0\u{fffd} (b3:{})", "0".repeat(32)));
        assert_eq!(some[4..], ["    goes by 2 more files; ostler approvals --json shows all"]);
        assert_eq!(shown(&files, Detail::Full).len(), 6);
        assert_eq!(shown(&files[..4], Detail::Excerpt(4)).len(), 4);
    }
}
