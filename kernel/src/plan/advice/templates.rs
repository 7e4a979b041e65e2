//! W07: template paths that neither the results of dependencies nor literal values can have.

use serde_json::Value;

use super::super::pointer::Origin;
use super::super::suggest::Suggestions;
use super::super::unreachable_path::ResultSchemas;
use super::super::{Kind, Node, Plan, RENDER_TOOL, Settings};
use super::{Advice, AdviceCode};
use crate::id::NodeId;
use crate::template::{RenderError, check_paths, render};

const NAMES_TOLD_MAX: usize = 12;

/// Templates rendered per plan to find out whether a missing value is used.
const RENDERS_MAX: usize = 100;

pub(super) struct TemplateChecker<'a> {
    suggestions: Suggestions,
    results: ResultSchemas<'a>,
    renders: usize,
}

impl<'a> TemplateChecker<'a> {
    pub(super) fn new(settings: &'a Settings<'a>) -> TemplateChecker<'a> {
        TemplateChecker { suggestions: Suggestions::new(), results: ResultSchemas::new(settings), renders: 0 }
    }

    /// Returns advice for the first unreachable path in the template of the node at `at`.
    pub(super) fn check(&mut self, plan: &Plan, at: usize, origin: &Origin) -> Option<Advice> {
        let node = &plan.nodes[at];
        let param = node.template_param().unwrap_or("template");
        let template = literal(node, param)?.as_str()?;
        let (line, path, help) = match (node.kind, node.tool.as_deref()) {
            (Kind::Aggregator | Kind::Model, _) => {
                let otherwise = "remove the last step: the value has no named parts";
                self.first_unreachable(template, otherwise, &|path| {
                    missing_in_dependency(plan, &self.results, path)
                })?
            }
            (Kind::Tool, Some(RENDER_TOOL)) => {
                let none = Value::Object(serde_json::Map::new());
                let is_referred = node.param_refs.contains_key("values");
                let values = literal(node, "values").or((!is_referred).then_some(&none));
                let values = values.filter(|values| values.is_object())?;
                let missing_in_values = |path: &str| missing_in_values(values, path);
                let missing =
                    self.first_unreachable(template, "add it to params.values", &missing_in_values)?;
                self.renders += 1;
                // A missing value in a branch never taken is no problem.
                let is_filled = || values.as_object().is_some_and(|values| render(template, values).is_ok());
                if self.renders <= RENDERS_MAX && is_filled() {
                    return None;
                }
                missing
            }
            _ => return None,
        };
        Some(Advice {
            code: AdviceCode::W07,
            node: node.id.to_string(),
            pointer: origin.node(at).key("params").key(param).as_str().to_owned(),
            detail: format!("params.{param}, line {line}: {path} never exists"),
            help,
        })
    }

    /// First unreachable path of a template: line, path and help. `otherwise` is the help without known
    /// names.
    fn first_unreachable(
        &self,
        template: &str,
        otherwise: &str,
        missing: &dyn Fn(&str) -> Option<MissingStep>,
    ) -> Option<(usize, String, String)> {
        let Err(RenderError::Undefined { line, name: path }) =
            check_paths(template, &|path| missing(path).is_none())
        else {
            return None;
        };
        let there = |missing: &MissingStep| {
            let told = &missing.known[..missing.known.len().min(NAMES_TOLD_MAX)];
            let otherwise = match told {
                [] => otherwise.to_owned(),
                told => format!("known names: {}", told.join(", ")),
            };
            self.suggestions.help(&missing.step, missing.known.iter().map(String::as_str), &otherwise)
        };
        let help = missing(&path).as_ref().map_or_else(|| otherwise.to_owned(), there);
        Some((line, path, help))
    }
}

/// A parameter known before the run.
fn literal<'n>(node: &'n Node, name: &str) -> Option<&'n Value> {
    node.params.get(name).filter(|_| !node.param_refs.contains_key(name))
}

/// An unreachable step of a path, and the known names in its place.
struct MissingStep {
    step: String,
    known: Vec<String>,
}

/// Checks a path in an aggregator's template: each dependency has a `state`, and a `result` or an `error`.
fn missing_in_dependency(plan: &Plan, results: &ResultSchemas<'_>, path: &str) -> Option<MissingStep> {
    let mut steps = path.split('.');
    let source = plan.node(&NodeId::from(steps.next()?))?;
    let step = steps.next()?;
    let rest: Vec<&str> = steps.collect();
    match step {
        "state" | "error" => {
            rest.first().map(|step| MissingStep { step: (*step).to_owned(), known: Vec::new() })
        }
        // The result of a fallback has a contract of its own.
        "result" if source.fallback.is_some() => None,
        "result" => {
            let end = results.unreachable_path(source, rest.iter().copied())?;
            Some(MissingStep { step: end.segment, known: end.known })
        }
        _ => {
            let known = ["state", "result", "error"].map(str::to_owned).into();
            Some(MissingStep { step: step.to_owned(), known })
        }
    }
}

/// First step of a path that the literal values lack.
fn missing_in_values(values: &Value, path: &str) -> Option<MissingStep> {
    let mut value = values;
    for step in path.split('.') {
        let Some(inner) = value.get(step) else {
            let named = value.as_object();
            let known = named.into_iter().flat_map(|named| named.keys()).cloned().collect();
            return Some(MissingStep { step: step.to_owned(), known });
        };
        value = inner;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::super::super::{ToolDefaults, Tools};
    use super::super::tests::{check, check_with};

    /// `told` is the line and the unreachable path.
    #[track_caller]
    fn check_template(told: Option<&str>, node: &str, nodes: Value) {
        let expected = told.map(|told| format!("W07 {node}: params.template, {told} never exists"));
        check(&expected.as_deref().into_iter().collect::<Vec<_>>(), nodes);
    }

    #[test]
    fn what_a_template_takes_of_a_result_that_never_has_it_is_named() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "count": {"type": "integer"}, "files": {"type": "array"}, "any": {}, "open": {"type": "object"}}});
        for (template, told) in [
            ("{{ a }} {{ a.state }} {{ a.result }} {{ a.result.count }}", None),
            ("{{ a.result.files[0].x }} {{ a.result.files.0.x }} {{ a.result['x'] }}", None),
            ("{{ a.result.any.x }} {{ a.result.open.x }}", None),
            ("x\n{{ a.result.cuont }}", Some("line 2: a.result.cuont")),
            ("{{ a.result.count.x }}", Some("line 1: a.result.count.x")),
            ("{{ a.result.files.first }}", Some("line 1: a.result.files.first")),
            ("{{ a.reslt }}", Some("line 1: a.reslt")),
            ("{{ a.state.x }}", Some("line 1: a.state.x")),
            ("\n\n{% for x in a.result.file %}{{ x.y }}{% endfor %}", Some("line 3: a.result.file")),
            ("{% if a.state == 'failed' %}{{ a.result.why }}{% endif %}", Some("line 1: a.result.why")),
            // A template that asks for existence handles the missing value.
            ("{{ a.result.cuont | default(0) }}", None),
            ("{% if a.result.cuont is defined %}{{ a.result.cuont }}{% endif %}", None),
            // The loop rebinds the name.
            ("{% for a in a.result.files %}{{ a.x }}{% endfor %}", None),
            ("{% if a.state %}{% set a = a.result %}{% endif %}{{ a.cuont }}", None),
            ("{# {{ a.reslt }} #}{% raw %}{{ a.reslt }}{% endraw %}{{ 'a.reslt' }}", None),
        ] {
            let contract = json!([{"method": "schema", "spec": schema}]);
            let report =
                json!({"id": "g", "kind": "aggregator", "deps": ["a"], "params": {"template": template}});
            check_template(told, "g", json!([{"id": "a", "contract": contract}, report]));
        }
    }

    /// A tool whose results have a `text` and nothing else.
    struct Writer;

    impl Tools for Writer {
        fn defaults(&self, tool: &str, _: &Map<String, Value>) -> Option<ToolDefaults> {
            let closed = json!({"type": "object", "additionalProperties": false, "properties": {"text": {"type": "string"}}});
            let schema = if tool == "write" { closed } else { json!({"type": "object"}) };
            Some(ToolDefaults { result_schema: Some(schema.into()), ..ToolDefaults::default() })
        }

        fn names(&self) -> Vec<String> {
            vec!["write".to_owned(), "other".to_owned()]
        }
    }

    #[test]
    fn what_the_tool_of_a_dependency_never_gives_is_named_whatever_its_contract() {
        let report = json!({"id": "g", "kind": "aggregator", "deps": ["a"], "params": {"template": "{{ a.result.txt }}"}});
        for (tool, told) in
            [("write", &["W07 g: params.template, line 1: a.result.txt never exists"][..]), ("other", &[])]
        {
            check_with(Some(&Writer), told, json!([{"id": "a", "tool": tool}, report]));
        }
    }

    #[test]
    fn nothing_is_said_of_results_that_may_have_it() {
        let report = json!({"id": "g", "kind": "aggregator", "deps": ["a"], "params": {"template": "{{ a.result.x }}"}});
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"y": {}}}),
            json!({"additionalProperties": false, "patternProperties": {"^x$": {}}}),
            json!({"$ref": "#/$defs/a", "additionalProperties": false, "$defs": {"a": {"type": "object"}}}),
            json!({"type": ["object", "null"]}),
            json!(true),
        ] {
            let contract = json!([{"method": "schema", "spec": schema}]);
            check(&[], json!([{"id": "a", "contract": contract}, report]));
        }
    }

    #[test]
    fn what_a_template_takes_of_values_that_do_not_have_it_is_named() {
        let render = |template: &str| {
            let params =
                json!({"template": template, "values": {"who": {"name": "x", "no": null}, "list": [1]}});
            json!([{"id": "r", "tool": "text.render", "params": params}])
        };
        for (template, told) in [
            (
                "{{ who.name }} {{ who }} {{ list[0] }} {% for n in range(3) %}{{ n }}{{ loop.index }}{% endfor %}",
                None,
            ),
            ("{{ whom }}", Some("line 1: whom")),
            ("{{ who.name }}\n{{ who.nmae }}", Some("line 2: who.nmae")),
            ("{{ who.no.x }}", Some("line 1: who.no.x")),
            ("{{ list.x }}", Some("line 1: list.x")),
            ("{{ whom | default('you') }}", None),
            ("{% if who.no %}{{ whom }}{% else %}{{ who.name }}{% endif %}", None),
            ("{{ who.name or whom }}", None),
            ("{% if who %}{{ whom }}{% endif %}", Some("line 1: whom")),
            ("no tag", None),
        ] {
            check_template(told, "r", render(template));
        }
        let without_values =
            |template: &str| json!([{"id": "r", "tool": "text.render", "params": {"template": template}}]);
        check_template(None, "r", without_values("no tag"));
        check_template(Some("line 1: who"), "r", without_values("{{ who }}"));
        // Values from references may have the path, and another tool's `template` need not be a template.
        let params = json!({"template": "{{ x }}"});
        let values = json!({"values": {"from": "a", "path": "v"}});
        check(
            &[],
            json!([{"id": "a"}, {"id": "r", "tool": "text.render", "params": params, "param_refs": values}]),
        );
        check(&[], json!([{"id": "r", "tool": "t", "params": {"template": "{{ x }}", "values": {}}}]));
    }
}
