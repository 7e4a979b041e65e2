//! `fs.list`: lists the files of a folder.

use std::sync::Arc;

use ostler_kernel::port::{CallContext, ParamProblem, Tool, ToolResult, WorkspaceUse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking_tool::{BlockingTool, CancelFlag};
use super::tool_spec::{READ, check_text, object, spec};
use super::walk::{WalkOptions, Walked, glob, walk};
use super::workspace::Workspace;

/// Default of `max`.
pub const LIST_FILES_DEFAULT: usize = 10_000;
/// Maximum of `max`.
pub const LIST_FILES_MAX: usize = 100_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    path: String,
    glob: Option<String>,
    max: Option<usize>,
    #[serde(default)]
    hidden: bool,
}

/// Lists the regular files beneath a folder of the workspace, sorted by the bytes of their paths. Omits ignored files, hidden
/// files unless requested, links, `.git` and what looks like a data folder, which `data_folders` names. More files than `max` are a failure, because a truncated list could be
/// taken for the whole.
pub(super) fn tool() -> Arc<dyn Tool> {
    let description = "List the files beneath a folder, sorted. Respects .gitignore; the glob is matched \
                       against paths from the folder on (`**/*.rs` for all depths).";
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "fs.list",
            description,
            object(
                &["path"],
                json!({
                    "path": {"type": "string", "format": "path", "minLength": 1},
                    "glob": {"type": "string", "minLength": 1, "maxLength": 1_000},
                    "max": {"type": "integer", "minimum": 1, "maximum": LIST_FILES_MAX},
                    "hidden": {"type": "boolean"},
                }),
            ),
            object(
                &["files", "count", "bytes"],
                json!({
                    "files": {"type": "array", "items": {"type": "string"}},
                    "count": {"type": "integer", "minimum": 0},
                    "bytes": {"type": "integer", "minimum": 0},
                    "data_folders": {"type": "array", "items": {"type": "string"}},
                }),
            ),
        ),
        class: |_| READ,
        workspace_use: WorkspaceUse::READS,
        check,
        work: Arc::new(list),
    })
}

fn check(params: &Map<String, Value>) -> Vec<ParamProblem> {
    let help = "write a glob, such as **/*.rs: * stays within a folder, ** crosses them";
    check_text(params, "glob", help, |text| match glob(text) {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.message),
    })
}

fn list(params: &Params, context: &CallContext, cancel: &CancelFlag) -> ToolResult {
    let workspace = Workspace::open(&context.workspace)?;
    let options = WalkOptions {
        hidden: params.hidden,
        glob: params.glob.as_deref().map(glob).transpose()?,
        files_max: params.max.unwrap_or(LIST_FILES_DEFAULT),
    };
    let Walked { files, data_folders } =
        walk(&workspace, &workspace.relative(&params.path)?, &options, cancel)?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let files: Vec<String> = files.into_iter().map(|file| file.path).collect();
    let mut listed = json!({"count": files.len(), "files": files, "bytes": bytes});
    if !data_folders.is_empty() {
        listed["data_folders"] = data_folders.into();
    }
    Ok(listed)
}
