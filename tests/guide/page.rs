//! A Markdown page, and its fenced blocks.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// Root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// Text after the fence.
    pub(crate) language: String,
    /// First line of the content, from 1.
    pub(crate) line: usize,
    /// Byte range of the content.
    pub(crate) place: Range<usize>,
    /// Comment on the line before, without `<!--` and `-->`.
    pub(crate) note: String,
}

impl Page {
    /// Reads a page; the path is relative to the workspace.
    pub(crate) fn read(path: &str) -> Page {
        let path = root().join(path);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let blocks = blocks(&text).unwrap_or_else(|what| panic!("{}: {what}", path.display()));
        Page { path, text, blocks }
    }

    pub(crate) fn content(&self, block: &Block) -> &str {
        &self.text[block.place.clone()]
    }

    /// Location of a block.
    pub(crate) fn place(&self, block: &Block) -> String {
        let path = self.path.strip_prefix(root()).unwrap_or(&self.path);
        format!("{}:{}", path.display(), block.line)
    }
}

fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let (mut at, mut before) = (0, "");
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let next = at + line.len();
        match (line.trim_end().strip_prefix("```"), open.take()) {
            (Some(""), Some(block)) => found.push(Block { place: block.place.start..at, ..block }),
            (Some(""), None) => {
                return Err(format!("line {}: a block that does not say what it is", number + 1));
            }
            (Some(_), Some(block)) => return Err(format!("line {}: a block that does not end", block.line)),
            (Some(language), None) => {
                let note = before.trim().strip_prefix("<!--").and_then(|note| note.strip_suffix("-->"));
                let note = note.unwrap_or_default().trim().to_owned();
                open =
                    Some(Block { language: language.to_owned(), line: number + 2, place: next..next, note });
            }
            (None, block) => open = block,
        }
        (at, before) = (next, line);
    }
    match open {
        Some(block) => Err(format!("line {}: a block that does not end", block.line)),
        None => Ok(found),
    }
}

/// A command of a `console` block, and its expected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The command without prompts; several lines if continued with `> `.
    pub(crate) command: String,
    /// Expected output.
    pub(crate) prints: Vec<String>,
}

/// Parses a `console` block.
pub(crate) fn steps(content: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for line in content.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), prints: Vec::new() });
            continue;
        }
        let Some(step) = steps.last_mut() else {
            return Err(format!("it prints before anything is typed: {line}"));
        };
        match line.strip_prefix("> ") {
            Some(more) if step.prints.is_empty() => {
                step.command.push('\n');
                step.command.push_str(more);
            }
            _ => step.prints.push(line.to_owned()),
        }
    }
    if steps.is_empty() { Err("nothing is typed in it".to_owned()) } else { Ok(steps) }
}

/// The block with actual output.
pub(crate) fn rewritten(steps: &[Step], printed: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (step, printed) in steps.iter().zip(printed) {
        for (at, line) in step.command.lines().enumerate() {
            text.push_str(if at == 0 { "$ " } else { "> " });
            text.push_str(line);
            text.push('\n');
        }
        for line in printed {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[test]
fn a_block_knows_its_place_and_its_note() {
    let text = "a\n<!-- figures vary -->\n```console\n$ a\nb\n```\nc\n```yaml\nx: 1\n```\n";
    let found = blocks(text).unwrap();
    let told: Vec<_> =
        found.iter().map(|b| (&b.language[..], b.line, &b.note[..], &text[b.place.clone()])).collect();
    assert_eq!(told, [("console", 4, "figures vary", "$ a\nb\n"), ("yaml", 9, "", "x: 1\n")]);
    for broken in ["```\na\n```\n", "```yaml\n", "```yaml\n```yaml\n"] {
        assert!(blocks(broken).is_err(), "{broken}");
    }
}

#[test]
fn steps_are_what_is_typed_and_what_is_printed() {
    let text = "$ cat <<E\n> a\n> E\na\n$ true\n";
    let found = steps(text).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], Step { command: "cat <<E\na\nE".into(), prints: vec!["a".into()] });
    assert_eq!(rewritten(&found, &[vec!["a".into()], vec![]]), text);
    assert!(steps("a\n").is_err());
    assert!(steps("").is_err());
}
