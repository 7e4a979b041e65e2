//! `text.render`: fills in a template.

use std::sync::{Arc, LazyLock};

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::json;
use ostler_kernel::port::{BoxFuture, CallContext, ParamProblem, Tool, ToolResult, ToolSpec};
use ostler_kernel::template::{self, TemplateError};
use serde_json::{Map, Value, json};

use super::blocking_tool::off_runtime;
use super::tool_spec::{PURE, object, spec, structural};

/// Maximum bytes of a simple template that is rendered on the async thread, which is faster than switching threads.
const AT_ONCE_BYTES_MAX: usize = 4 * 1_024;

/// Approximate maximum bytes of its values as JSON.
const AT_ONCE_VALUES_BYTES_MAX: usize = 64 * 1_024;

#[derive(Debug)]
struct TextRender {
    spec: ToolSpec,
}

/// Renders a template over `values`, with the template language of prompts and reports.
pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(TextRender {
        spec: spec(
            "text.render",
            "Render a template (minijinja) over values.",
            object(
                &["template"],
                json!({
                    "template": {"type": "string"},
                    "values": {"type": "object", "additionalProperties": true},
                }),
            ),
            object(&["text"], json!({"text": {"type": "string"}})),
        ),
    })
}

impl Tool for TextRender {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        PURE
    }

    fn check(&self, params: &Map<String, Value>) -> Vec<ParamProblem> {
        let text = params.get("template").and_then(Value::as_str);
        let error = text.and_then(|text| template::check_template(text).err());
        let wrong = error.map(|error| {
            let TemplateError { what, help, line } = error.into();
            ParamProblem { name: "template".to_owned(), what, help, line }
        });
        wrong.into_iter().collect()
    }

    fn is_quick(&self, params: &Map<String, Value>) -> bool {
        parts(params).is_ok_and(|(template, values)| is_quick(template, values))
    }

    fn call(&self, permit: Permit, _context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let (template, values) = parts(permit.params())?;
            let text = if is_quick(template, values) {
                render(template, values)
            } else {
                off_runtime(move |_| {
                    parts(permit.params()).and_then(|(template, values)| render(template, values))
                })
                .await
            };
            Ok(Value::Object(Map::from_iter([("text".to_owned(), text?.into())])))
        })
    }
}

/// The values of a call without `values`: its template names none.
static NO_VALUES: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

fn parts(params: &Map<String, Value>) -> Result<(&str, &Map<String, Value>), Failure> {
    let template = params.get("template").and_then(Value::as_str);
    let values = params.get("values").map_or(Some(&*NO_VALUES), Value::as_object);
    template.zip(values).ok_or_else(|| {
        structural("parameters: expected a text as template, and a map as values, if there are any")
    })
}

/// True if rendering takes microseconds.
fn is_quick(template: &str, values: &Map<String, Value>) -> bool {
    template.len() <= AT_ONCE_BYTES_MAX
        && !template.as_bytes().windows(2).any(|pair| pair == b"{%") // no loops
        && !template.bytes().any(|byte| b"|(*~+".contains(&byte)) // no filters, no calls, nothing that grows
        && json::measure(values).is_ok_and(|bytes| bytes <= AT_ONCE_VALUES_BYTES_MAX)
}

fn render(template: &str, values: &Map<String, Value>) -> Result<String, Failure> {
    template::render(template, values).map_err(|error| structural(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_names_values_is_quick() {
        for (template, quick) in [
            ("Dear {{ name }}, {{ list[0].a }}", true),
            ("{{ name ~ name }}", false),
            ("{{ name + name }}", false),
            ("{{ name * 9 }}", false),
            ("{{ name | upper }}", false),
            ("{{ range(9) }}", false),
            ("{% if name %}{% endif %}", false),
        ] {
            assert_eq!(is_quick(template, &Map::new()), quick, "{template}");
        }
        let sized = |template: usize, value: usize| {
            is_quick(&"x".repeat(template), &Map::from_iter([("v".to_owned(), "x".repeat(value).into())]))
        };
        let around = r#"{"v":""}"#.len();
        assert!(sized(AT_ONCE_BYTES_MAX, AT_ONCE_VALUES_BYTES_MAX - around));
        assert!(!sized(AT_ONCE_BYTES_MAX + 1, 0));
        assert!(!sized(0, AT_ONCE_VALUES_BYTES_MAX - around + 1));
    }
}
