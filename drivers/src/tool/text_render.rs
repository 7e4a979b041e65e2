//! `text.render`: fills a template in.

use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec, WrongParam};
use ostler_kernel::template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking::off_runtime;
use super::declare::{PURE, check_text, object, params, spec, structural};

/// Renders a template over `values`, as reports and prompts are rendered.
#[derive(Debug)]
pub(super) struct TextRender {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    template: String,
    values: Map<String, Value>,
}

impl TextRender {
    pub(super) fn new() -> TextRender {
        TextRender {
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
        }
    }
}

impl Tool for TextRender {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        PURE
    }

    fn check(&self, params: &Map<String, Value>) -> Vec<WrongParam> {
        let mend = "write {{ value }} and {% if … %}, as minijinja has them";
        check_text(params, "template", mend, |text| {
            template::check_template(text).map_err(|error| error.to_string().replacen("template, ", "", 1))
        })
    }

    fn call(&self, permit: Permit, _context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let params: Params = params(permit)?;
            let text = off_runtime(move |_| {
                template::render(&params.template, &params.values)
                    .map_err(|error| structural(error.to_string()))
            });
            Ok(json!({"text": text.await?}))
        })
    }
}
