//! `text.stats`: counts lines, words and bytes.

use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{CallContext, Tool, ToolResult, WorkspaceUse};
use serde::Deserialize;
use serde_json::json;

use super::blocking_tool::{BlockingTool, CancelFlag};
use super::text::{self, FILES_MAX};
use super::tool_spec::{READ, object, spec};
use super::workspace::{CHUNK_BYTES, Workspace};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    files: Vec<String>,
}

/// Counts the lines, words and bytes of text files. A last line without line feed counts. Skips binary and non-UTF-8 files,
/// which do not count among `files` either.
pub(super) fn tool() -> Arc<dyn Tool> {
    let path = json!({"type": "string", "format": "path", "minLength": 1});
    let number = json!({"type": "integer", "minimum": 0});
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "text.stats",
            "Count the files, lines, words and bytes of text files; binary files are passed over.",
            object(&["files"], json!({"files": {"type": "array", "items": path, "maxItems": FILES_MAX}})),
            object(
                &["files", "lines", "words", "bytes"],
                json!({"files": number, "lines": number, "words": number, "bytes": number}),
            ),
        ),
        class: |_| READ,
        workspace_use: WorkspaceUse::READS,
        check: |_| Vec::new(),
        work: Arc::new(stats),
    })
}

fn stats(params: &Params, context: &CallContext, cancel: &CancelFlag) -> ToolResult {
    let workspace = Workspace::open(&context.workspace)?;
    let (mut files, mut all) = (0_u64, Counts::default());
    for file in &params.files {
        cancel.check()?;
        if let Some(text) = text::read(&workspace, &workspace.relative(file)?, cancel)? {
            files += 1;
            all.add(&text, cancel)?;
        }
    }
    Ok(json!({"files": files, "lines": all.lines, "words": all.words, "bytes": all.bytes}))
}

#[derive(Debug, Default)]
struct Counts {
    lines: u64,
    words: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, text: &str, cancel: &CancelFlag) -> Result<(), Failure> {
        self.bytes += text.len() as u64;
        self.lines += u64::from(!text.is_empty() && !text.ends_with('\n'));
        let mut in_word = false;
        for (at, c) in text.chars().enumerate() {
            if at % CHUNK_BYTES == 0 {
                cancel.check()?;
            }
            self.lines += u64::from(c == '\n');
            let space = c.is_whitespace();
            self.words += u64::from(!space && !in_word);
            in_word = !space;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_lines_and_words() {
        for text in ["", "a", "a\n", "\n\n", " a  b\tc\r\nd", "é\u{3000}ü\n x", "\u{85}a"] {
            let mut counts = Counts::default();
            counts.add(text, &CancelFlag::default()).unwrap();
            let words = text.split_whitespace().count() as u64;
            assert_eq!((counts.lines, counts.words), (text.lines().count() as u64, words), "{text:?}");
        }
    }
}
