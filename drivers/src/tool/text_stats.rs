//! `text.stats`: lines, words and bytes.

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking::{Stop, off_runtime};
use super::declare::{READ, object, params, spec};
use super::text::{self, FILES_MAX};
use super::workspace::Workspace;

/// Counts the lines (a last one without a line feed included), words and bytes of text files. Binary files and
/// those that are not UTF-8 are passed over and not counted among `files`.
#[derive(Debug)]
pub(super) struct TextStats {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    files: Vec<String>,
}

impl TextStats {
    pub(super) fn new() -> TextStats {
        let path = json!({"type": "string", "format": "path", "minLength": 1});
        let number = json!({"type": "integer", "minimum": 0});
        TextStats {
            spec: spec(
                "text.stats",
                "Count the files, lines, words and bytes of text files; binary files are passed over.",
                object(&["files"], json!({"files": {"type": "array", "items": path, "maxItems": FILES_MAX}})),
                object(
                    &["files", "lines", "words", "bytes"],
                    json!({"files": number, "lines": number, "words": number, "bytes": number}),
                ),
            ),
        }
    }
}

impl Tool for TextStats {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        READ
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let params = params(permit)?;
            off_runtime(move |stop| stats(&params, &context, stop)).await
        })
    }
}

fn stats(params: &Params, context: &CallContext, stop: &Stop) -> Result<Value, Failure> {
    let workspace = Workspace::open(&context.workspace)?;
    let (mut files, mut lines, mut words, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    for file in &params.files {
        stop.check()?;
        if let Some(text) = text::read(&workspace, &workspace.relative(file)?)? {
            files += 1;
            lines += text.lines().count() as u64;
            words += text.split_whitespace().count() as u64;
            bytes += text.len() as u64;
        }
    }
    Ok(json!({"files": files, "lines": lines, "words": words, "bytes": bytes}))
}
