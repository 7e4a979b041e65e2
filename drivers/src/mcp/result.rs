//! The result of a tool as a JSON value.

use ostler_kernel::event::Failure;
use ostler_kernel::port::ToolResult;
use ostler_kernel::run::FailureCategory;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use crate::tool::tool_spec::{failure, structural};

/// Longest text of a server in a failure, in bytes.
pub const MCP_FAILURE_BYTES: usize = 2 << 10;

/// Schema of results: the joined texts, the other blocks, and the structured content.
pub(super) fn result_schema() -> Value {
    json!({
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": {"type": "string"},
            "content": {"type": "array", "items": {"type": "object"}},
            "structured": {},
        },
    })
}

/// Converts an answer to a result. An error of the tool, and structured content that breaks the tool's own schema, are failures.
pub(super) fn value(
    server: &str,
    answer: CallToolResult,
    breaks_schema: impl FnOnce(&Value) -> Option<String>,
) -> ToolResult {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for block in answer.content {
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            other => others.push(json!(other)),
        }
    }
    let text = texts.join("\n");
    if answer.is_error == Some(true) {
        return Err(structural(format!("server {server}: {}", clipped(&text))));
    }
    let mut result = Map::from_iter([("text".to_owned(), Value::String(text))]);
    if !others.is_empty() {
        result.insert("content".to_owned(), Value::Array(others));
    }
    let structured = answer.structured_content;
    if let Some(fault) = breaks_schema(structured.as_ref().unwrap_or(&Value::Null)) {
        return Err(lie(server, &fault));
    }
    if let Some(structured) = structured {
        result.insert("structured".to_owned(), structured);
    }
    Ok(Value::Object(result))
}

fn lie(server: &str, fault: &str) -> Failure {
    let message = format!("server {server}: the result breaks the tool's own output schema: {fault}");
    failure(FailureCategory::InvalidOutput, message)
}

/// The first [`MCP_FAILURE_BYTES`] bytes of a server's text, on one line.
pub(super) fn clipped(text: &str) -> String {
    let mut clipped = String::new();
    for c in text.trim().chars() {
        if clipped.len() + c.len_utf8() > MCP_FAILURE_BYTES {
            clipped.push('…');
            break;
        }
        clipped.push(if c.is_control() { ' ' } else { c });
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(answer: Value) -> CallToolResult {
        serde_json::from_value(answer).unwrap()
    }

    #[test]
    fn texts_are_joined_and_other_blocks_kept() {
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        let given =
            answer(json!({"content": [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}],
            "structuredContent": {"n": 1}}));
        let result = value("s", given, |_| None).unwrap();
        assert_eq!(result, json!({"text": "a\nb", "content": [image], "structured": {"n": 1}}));
    }

    #[test]
    fn an_error_and_a_broken_schema_are_failures() {
        let given = json!({"content": [{"type": "text", "text": "no such\nbranch"}], "isError": true});
        let failed = value("git", answer(given), |_| None).unwrap_err();
        assert_eq!(failed, structural("server git: no such branch"));
        let given = answer(json!({"content": [], "structuredContent": 7}));
        let failed = value("git", given, |_| Some("no object".into())).unwrap_err();
        assert_eq!(failed.category, FailureCategory::InvalidOutput);
        assert_eq!(clipped(&"é".repeat(MCP_FAILURE_BYTES)).len(), MCP_FAILURE_BYTES + '…'.len_utf8());
    }
}
