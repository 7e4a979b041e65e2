//! `text.search`: finds matching lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_kernel::contract::regex_error;
use ostler_kernel::event::Failure;
use ostler_kernel::port::{CallContext, ParamProblem, Tool, ToolResult, WorkspaceUse};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking_tool::{BlockingTool, CancelFlag};
use super::text::{self, FILES_MAX};
use super::tool_spec::{READ, check_text, exhausted, object, spec, structural};
use super::walk::{WalkOptions, Walked, walk};
use super::workspace::Workspace;

/// Default of `max`.
pub const SEARCH_MATCHES_DEFAULT: usize = 1_000;
/// Maximum of `max`.
pub const SEARCH_MATCHES_MAX: usize = 100_000;
/// Bytes returned per line; a longer line ends in `…`.
pub const SEARCH_LINE_BYTES: usize = 1 << 10;
/// Maximum bytes of a searched line.
pub const SEARCH_LINE_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of all returned lines.
pub const SEARCH_TEXT_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of a compiled pattern.
pub const SEARCH_REGEX_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    pattern: String,
    files: Option<Vec<String>>,
    path: Option<String>,
    max: Option<usize>,
}

/// Searches the lines of text files with a regular expression (syntax of the `regex` crate: linear time, no look-around). Searches
/// `files`, or the files that `fs.list` finds beneath `path`, by default the workspace. Skips binary and non-UTF-8 files, and
/// what looks like a data folder, which `data_folders` names. More matches than `max` are a failure.
pub(super) fn tool() -> Arc<dyn Tool> {
    let path = json!({"type": "string", "format": "path", "minLength": 1});
    let line = object(
        &["path", "line", "text"],
        json!({
            "path": {"type": "string"},
            "line": {"type": "integer", "minimum": 1},
            "text": {"type": "string"},
        }),
    );
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "text.search",
            "Find the lines that match a regular expression, in the given files or beneath a folder; without either, in the whole workspace.",
            object(
                &["pattern"],
                json!({
                    "pattern": {"type": "string", "maxLength": 4_096},
                    "files": {"type": "array", "items": path, "maxItems": FILES_MAX},
                    "path": path,
                    "max": {"type": "integer", "minimum": 1, "maximum": SEARCH_MATCHES_MAX},
                }),
            ),
            object(
                &["matches", "count"],
                json!({
                    "matches": {"type": "array", "items": line},
                    "count": {"type": "integer", "minimum": 0},
                    "data_folders": {"type": "array", "items": {"type": "string"}},
                }),
            ),
        ),
        class: |_| READ,
        workspace_use: WorkspaceUse::READS,
        check,
        work: Arc::new(search),
    })
}

fn check(params: &Map<String, Value>) -> Vec<ParamProblem> {
    let help = "write a regular expression of the `regex` crate: no look-around, no back-references";
    check_text(params, "pattern", help, |text| compile(text).map(drop))
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let built = regex::RegexBuilder::new(pattern).size_limit(SEARCH_REGEX_BYTES_MAX).build();
    built.map_err(|error| format!("no regular expression: {}", regex_error(&error)))
}

fn search(params: &Params, context: &CallContext, cancel: &CancelFlag) -> ToolResult {
    let pattern = compile(&params.pattern)
        .map_err(|what| structural(format!("pattern {:?}: {what}", params.pattern)))?;
    let workspace = Workspace::open(&context.workspace)?;
    let mut matches = Matches { max: params.max.unwrap_or(SEARCH_MATCHES_DEFAULT), ..Matches::default() };
    let (files, data_folders) = files(params, &workspace, cancel)?;
    for path in files {
        cancel.check()?;
        if let Some(text) = text::read(&workspace, &path, cancel)? {
            matches.add(&pattern, &path, &text, cancel)?;
        }
    }
    let mut told = json!({"count": matches.found.len(), "matches": matches.found});
    if !data_folders.is_empty() {
        told["data_folders"] = data_folders.into();
    }
    Ok(told)
}

/// The files to search, and folders that look like data folders, which are not searched.
fn files(
    params: &Params,
    workspace: &Workspace,
    cancel: &CancelFlag,
) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
    let path = match (&params.files, &params.path) {
        (Some(_), Some(_)) => return Err(structural("give either files or path, not both")),
        (Some(files), None) => {
            let relative = |file: &String| cancel.check().and_then(|()| workspace.relative(file));
            return Ok((files.iter().map(relative).collect::<Result<_, _>>()?, Vec::new()));
        }
        (None, path) => workspace.relative(path.as_deref().unwrap_or("."))?,
    };
    let metadata = workspace.dir().metadata(&path).map_err(|error| workspace.refused(&path, error))?;
    if !metadata.is_dir() {
        return Ok((vec![path], Vec::new()));
    }
    let options = WalkOptions { hidden: false, glob: None, files_max: FILES_MAX };
    let Walked { files, data_folders } = walk(workspace, &path, &options, cancel)?;
    Ok((files.into_iter().map(|file| file.path.into()).collect(), data_folders))
}

#[derive(Debug, Default)]
struct Matches {
    max: usize,
    found: Vec<Value>,
    bytes: usize,
}

impl Matches {
    fn add(&mut self, pattern: &Regex, path: &Path, text: &str, cancel: &CancelFlag) -> Result<(), Failure> {
        for (at, line) in text.lines().enumerate() {
            cancel.check()?;
            // Matching a line cannot be interrupted, so its length is bounded.
            if line.len() > SEARCH_LINE_BYTES_MAX {
                return Err(exhausted(format!(
                    "line {} of {} has more than {SEARCH_LINE_BYTES_MAX} bytes: leave the file out",
                    at + 1,
                    path.display()
                )));
            }
            if !pattern.is_match(line) {
                continue;
            }
            if self.found.len() == self.max {
                let max = self.max;
                return Err(exhausted(format!(
                    "more than {max} lines match: raise max (at most {SEARCH_MATCHES_MAX}), or search for less"
                )));
            }
            let shown = shorten(line);
            self.bytes += shown.len();
            if self.bytes > SEARCH_TEXT_BYTES_MAX {
                return Err(exhausted(format!(
                    "the matching lines have more than {SEARCH_TEXT_BYTES_MAX} bytes: search for less"
                )));
            }
            self.found.push(json!({"path": path, "line": at + 1, "text": shown}));
        }
        Ok(())
    }
}

fn shorten(line: &str) -> String {
    if line.len() <= SEARCH_LINE_BYTES {
        return line.to_owned();
    }
    let mut end = SEARCH_LINE_BYTES;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &line[..end])
}
