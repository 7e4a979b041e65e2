//! `text.render`: fills a template in.

use std::sync::Arc;

use ostler_kernel::port::{CallContext, Tool, ToolResult};
use ostler_kernel::template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking::{Blocking, Stop};
use super::declare::{PURE, object, spec, structural};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    template: String,
    values: Map<String, Value>,
}

/// Renders a template over `values`, as reports and prompts are rendered.
pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Blocking::<Params> {
        spec: spec(
            "text.render",
            "Render a template (minijinja) over values.",
            object(
                &["template", "values"],
                json!({
                    "template": {"type": "string"},
                    "values": {"type": "object", "additionalProperties": true},
                }),
            ),
            object(&["text"], json!({"text": {"type": "string"}})),
        ),
        class: |_| PURE,
        work: render,
    })
}

/// Its work is bounded by the fuel of the template, so it need not be stopped.
fn render(params: &Params, _: &CallContext, _: &Stop) -> ToolResult {
    let text = template::render(&params.template, &params.values)
        .map_err(|error| structural(format!("template: {error}")))?;
    Ok(json!({"text": text}))
}
