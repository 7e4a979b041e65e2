//! `fs.read`: reads a text file.

use std::sync::Arc;

use ostler_kernel::id::Digest;
use ostler_kernel::port::{CallContext, Tool, ToolResult, WorkspaceUse};
use serde::Deserialize;
use serde_json::json;

use super::blocking_tool::{BlockingTool, CancelFlag};
use super::tool_spec::{READ, object, spec, structural};
use super::workspace::Workspace;

/// Default of `max_bytes`.
pub const READ_BYTES_DEFAULT: u64 = 1 << 20;
/// Maximum of `max_bytes`.
pub const READ_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    path: String,
    max_bytes: Option<u64>,
}

/// Reads a whole UTF-8 file. A longer or non-UTF-8 file is a failure, because a truncated or repaired text could be taken for the
/// file. The digest is BLAKE3 of the bytes, as printed by `b3sum`.
pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "fs.read",
            "Read a file of UTF-8 text. Longer files than max_bytes are a failure.",
            object(
                &["path"],
                json!({
                    "path": {"type": "string", "format": "path", "minLength": 1},
                    "max_bytes": {"type": "integer", "minimum": 1, "maximum": READ_BYTES_MAX},
                }),
            ),
            object(
                &["path", "text", "bytes", "digest"],
                json!({
                    "path": {"type": "string"},
                    "text": {"type": "string"},
                    "bytes": {"type": "integer", "minimum": 0},
                    "digest": {"type": "string"},
                }),
            ),
        ),
        class: |_| READ,
        workspace_use: WorkspaceUse::READS,
        check: |_| Vec::new(),
        work: Arc::new(read),
    })
}

fn read(params: &Params, context: &CallContext, cancel: &CancelFlag) -> ToolResult {
    let workspace = Workspace::open(&context.workspace)?;
    let path = workspace.relative(&params.path)?;
    let limit = params.max_bytes.unwrap_or(READ_BYTES_DEFAULT);
    let bytes =
        workspace.read(&path, limit, &format!("raise max_bytes (at most {READ_BYTES_MAX})"), cancel)?;
    let digest = Digest(*blake3::hash(&bytes).as_bytes());
    let length = bytes.len();
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        structural(format!("{} is not UTF-8 text: byte {at} of {length} does not fit", path.display()))
    })?;
    Ok(json!({"path": path, "text": text, "bytes": length, "digest": digest}))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::tool::walk::{WalkOptions, walk};

    #[test]
    fn a_link_swapped_after_the_check_never_leads_into_a_data_folder() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["plain/sub", ".ostler/journal/sub"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in [
            ".ostler/format",
            ".ostler/lock",
            ".ostler/journal/sub/in.txt",
            "plain/format",
            "plain/sub/in.txt",
        ] {
            fs::write(at(file), "x").unwrap();
        }
        let workspace = Workspace::open(&Arc::from(root.path())).unwrap();
        let cancel = CancelFlag::default();
        let read = |path: &Path| workspace.read(path, 9, "", &cancel);
        let list = |path: &Path| {
            walk(&workspace, path, &WalkOptions { hidden: false, glob: None, files_max: 9 }, &cancel)
        };
        for (leads_to, file, folder) in [
            ("", "link/format", "link"),
            ("/journal", "link/sub/in.txt", "link/sub"),
            ("/journal", "link/sub/in.txt", "link"),
        ] {
            symlink("plain", at("link")).unwrap();
            let (file, folder) = (workspace.relative(file).unwrap(), workspace.relative(folder).unwrap());
            assert!(read(&file).is_ok() && !list(&folder).unwrap().files.is_empty());
            fs::remove_file(at("link")).unwrap();
            symlink(format!(".ostler{leads_to}"), at("link")).unwrap();
            for failure in [read(&file).unwrap_err(), list(&folder).unwrap_err()] {
                assert!(failure.message.contains("looks like a data folder"), "{}", failure.message);
            }
            // The link is swapped even after its target was resolved.
            assert!(workspace.open_real(&folder).is_err());
            fs::remove_file(at("link")).unwrap();
        }
    }
}
