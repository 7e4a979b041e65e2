//! `fs.edit`: replaces a text within a file.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::{File, Metadata, MetadataExt};
use memchr::memmem;
use ostler_kernel::event::Failure;
use ostler_kernel::gate::CallClass;
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{CallContext, ParamProblem, Tool, ToolResult, WorkspaceUse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::atomic_file::WriteError;
use super::blocking_tool::{BlockingTool, CancelFlag};
use super::fs_write::Target;
use super::tool_spec::{exhausted, object, spec, structural, transient};
use super::workspace::{CHUNK_BYTES, Workspace};
use crate::cage::FileWrites;

/// Maximum bytes of a file, before and after the edit.
pub const EDIT_BYTES_MAX: usize = 16 << 20;
/// Maximum of `count`.
pub const EDIT_COUNT_MAX: usize = 10_000;
/// Maximum line numbers in a result or a failure.
pub const EDIT_LINES_MAX: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    path: String,
    old: String,
    new: String,
    count: Option<usize>,
}

/// Replaces every occurrence of `old`, atomically as `fs.write` does: a temporary file is written, synced and renamed. A file with
/// more than `count` occurrences stays as it is.
///
/// Not idempotent: `new` may contain `old`, or make it occur again together with its surroundings, so a repeated edit may change the
/// file twice. After a crash the attempt is therefore in doubt. An edit that finds `new` in the place of `old` says so.
pub(super) fn tool(writes: &FileWrites) -> Arc<dyn Tool> {
    let writes = writes.clone();
    let description = "Replace the text `old` by `new` in a file of UTF-8 text. Every character counts, spaces and line \
                       ends too. Refused if `old` does not occur, or occurs more often than `count` (1).";
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "fs.edit",
            description,
            object(
                &["path", "old", "new"],
                json!({
                    "path": {"type": "string", "format": "path", "minLength": 1},
                    "old": {"type": "string", "minLength": 1, "maxLength": EDIT_BYTES_MAX},
                    "new": {"type": "string", "maxLength": EDIT_BYTES_MAX},
                    "count": {"type": "integer", "minimum": 1, "maximum": EDIT_COUNT_MAX},
                }),
            ),
            object(
                &["path", "replaced", "lines", "bytes", "digest"],
                json!({
                    "path": {"type": "string"},
                    "replaced": {"type": "integer", "minimum": 1},
                    "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "bytes": {"type": "integer", "minimum": 0},
                    "digest": {"type": "string"},
                }),
            ),
        ),
        class: |_| CallClass { impact: 1, effect: Effect::Write, idem: Idempotency::None },
        workspace_use: WorkspaceUse::WRITES,
        check,
        work: Arc::new(move |params: &Params, context: &CallContext, cancel: &CancelFlag| {
            edit(params, context, cancel, &writes)
        }),
    })
}

fn check(params: &Map<String, Value>) -> Vec<ParamProblem> {
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    if text("old").is_none() || text("old") != text("new") {
        return Vec::new();
    }
    vec![ParamProblem {
        name: "new".into(),
        what: SAME.into(),
        help: "give `new` the text that the file should hold".into(),
        line: None,
    }]
}

const SAME: &str = "`old` and `new` are the same text, so nothing would change";

fn edit(params: &Params, context: &CallContext, cancel: &CancelFlag, writes: &FileWrites) -> ToolResult {
    if params.old.is_empty() {
        return Err(structural("`old` is empty: give the text to replace"));
    }
    if params.old == params.new {
        return Err(structural(SAME));
    }
    let workspace = Workspace::open(&context.workspace)?;
    let path = workspace.relative(&params.path)?;
    workspace.guard_write(&path)?;
    // Before the target is opened, which would make missing folders.
    match workspace.dir().metadata(&path) {
        Ok(found) => workspace.regular(&path, &found)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(structural(format!(
                "{} does not exist: use fs.write with mode create to make it",
                path.display()
            )));
        }
        Err(error) => return Err(workspace.refused(&path, error)),
    }
    writes.note(&context.workspace)?;
    let target = cancel.act(|| Target::of(&workspace, &path, writes))??;
    let refused = |error: io::Error| workspace.refused(&path, error);
    let file = target.open().map_err(refused)?;
    let read = file.metadata().map_err(refused)?;
    let text = read_text(file, &path, &refused, cancel)?;
    let places = places(&text, &params.old, cancel)?;
    if places.total == 0 {
        return Err(absent(params, &path, &text, cancel)?);
    }
    let count = params.count.unwrap_or(1);
    if places.total > count {
        return Err(too_often(&path, &text, &places, count));
    }
    let edited = replaced(&text, params, &places.first, &path)?;
    if !is_same(&target.metadata().map_err(refused)?, &read) {
        return Err(transient(format!("{} changed during the edit; nothing was written", path.display())));
    }
    target.replace(edited.as_bytes(), cancel).map_err(|error| match error {
        WriteError::Io(error) => refused(error),
        WriteError::Cancelled(failure) => failure,
    })?;
    let digest = Digest(*blake3::hash(edited.as_bytes()).as_bytes());
    let lines: Vec<usize> = lines(&text, &places.first).into_iter().take(EDIT_LINES_MAX).collect();
    let bytes = edited.len();
    Ok(json!({"path": path, "replaced": places.total, "lines": lines, "bytes": bytes, "digest": digest}))
}

fn read_text(
    mut file: File,
    path: &Path,
    refused: &dyn Fn(io::Error) -> Failure,
    cancel: &CancelFlag,
) -> Result<String, Failure> {
    let path = path.display();
    let mut bytes = Vec::new();
    loop {
        cancel.check()?;
        let read = (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut bytes).map_err(refused)?;
        if bytes.len() > EDIT_BYTES_MAX {
            return Err(exhausted(format!("{path} has more than {EDIT_BYTES_MAX} bytes: split it")));
        }
        if read == 0 {
            break;
        }
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        structural(format!("{path} is not UTF-8 text from byte {at}: only text can be edited"))
    })
}

/// Where a text occurs, without overlaps.
struct Places {
    total: usize,
    /// Ascending offsets of the first [`EDIT_COUNT_MAX`].
    first: Vec<usize>,
}

fn places(text: &str, part: &str, cancel: &CancelFlag) -> Result<Places, Failure> {
    let mut places = Places { total: 0, first: Vec::new() };
    for place in memmem::find_iter(text.as_bytes(), part.as_bytes()) {
        if places.total.is_multiple_of(CHUNK_BYTES) {
            cancel.check()?;
        }
        places.total += 1;
        if places.first.len() < EDIT_COUNT_MAX {
            places.first.push(place);
        }
    }
    Ok(places)
}

fn replaced(text: &str, params: &Params, places: &[usize], path: &Path) -> Result<String, Failure> {
    let (old, new) = (params.old.len(), params.new.len());
    let bytes = text.len() - places.len() * old + places.len() * new;
    if bytes > EDIT_BYTES_MAX {
        let path = path.display();
        return Err(exhausted(format!("{path} would have {bytes} bytes, more than {EDIT_BYTES_MAX}")));
    }
    let (mut edited, mut from) = (String::with_capacity(bytes), 0);
    for &place in places {
        edited.push_str(&text[from..place]);
        edited.push_str(&params.new);
        from = place + old;
    }
    edited.push_str(&text[from..]);
    Ok(edited)
}

/// Failure for a file without `old`, which names the likely reason.
fn absent(params: &Params, path: &Path, text: &str, cancel: &CancelFlag) -> Result<Failure, Failure> {
    let path = path.display();
    let count = params.count.unwrap_or(1);
    let made = places(text, &params.new, cancel)?;
    // Every text contains the empty one, which tells nothing.
    if made.total == count && !params.new.is_empty() {
        let (times, on) = (times(count), told_lines(text, &made));
        return Ok(structural(format!(
            "{path} does not contain `old`, and contains `new` {times}, {on}: the edit may be made already; \
             read the file before you go on"
        )));
    }
    let with_carriage_returns = params.old.replace('\n', "\r\n");
    if params.old.contains('\n') && places(text, &with_carriage_returns, cancel)?.total > 0 {
        return Ok(structural(format!(
            "{path} does not contain `old`: its lines end with \\r\\n; write \\r\\n in `old` and `new`"
        )));
    }
    Ok(structural(format!(
        "{path} does not contain `old`: read the file with fs.read and copy the text exactly, spaces too"
    )))
}

fn too_often(path: &Path, text: &str, places: &Places, count: usize) -> Failure {
    let (path, found, on) = (path.display(), times(places.total), told_lines(text, places));
    let wanted = times(count);
    let advice = if places.total <= EDIT_COUNT_MAX {
        format!("give more of the text around the one you mean, or `count: {}`", places.total)
    } else {
        "give more of the text around the one you mean".to_owned()
    };
    structural(format!("{path} contains `old` {found}, expected at most {wanted}, {on}: {advice}"))
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Line numbers of ascending offsets, from 1.
fn lines(text: &str, places: &[usize]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    let mut numbers = Vec::with_capacity(places.len());
    for &place in places {
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[from..place]).count();
        from = place;
        numbers.push(line);
    }
    numbers
}

fn told_lines(text: &str, places: &Places) -> String {
    let mut numbers = lines(text, &places.first);
    numbers.dedup();
    let shown: Vec<String> = numbers.iter().take(EDIT_LINES_MAX).map(usize::to_string).collect();
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    let rest = if shown.len() < numbers.len() { " and more" } else { "" };
    format!("on {word} {}{rest}", shown.join(", "))
}

/// True if both describe one file with the same content, as far as the file system shows.
fn is_same(now: &Metadata, then: &Metadata) -> bool {
    let of = |found: &Metadata| {
        (found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime_nsec())
    };
    of(now) == of(then)
}
