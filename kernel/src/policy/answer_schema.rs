//! JSON Schemas of answers, as providers enforce them: closed, every field required, `null` where nothing is meant.

use serde_json::{Map, Value, json};

use super::{Role, STEPS_MAX};
use crate::port::ToolOffer;

/// Schema of a role's answer; `None` for turns, which have the provider's own form of calls.
/// `may_search`: a planner may ask for tools by words instead.
pub(super) fn schema_of(role: Role, offers: &[ToolOffer], may_search: bool) -> Option<Value> {
    Some(match role {
        Role::Think => return None,
        Role::Planner if may_search => closed([
            ("answer", nullable(json!({"type": "string"}))),
            ("missing", nullable(json!({"type": "string"}))),
            ("search", nullable(json!({"type": "string"}))),
            ("steps", steps(offers)),
        ]),
        Role::Planner => closed([
            ("answer", nullable(json!({"type": "string"}))),
            ("missing", nullable(json!({"type": "string"}))),
            ("steps", steps(offers)),
        ]),
        Role::Reflect | Role::Interject => closed([
            ("decision", json!({"enum": ["continue", "conclude", "replan"]})),
            ("verdict", nullable(json!({"type": "string"}))),
            ("next", nullable(json!({"type": "string"}))),
            ("cancel", ids()),
        ]),
        Role::Observe => closed([
            ("decision", json!({"enum": ["continue", "inject", "cancel", "reflect"]})),
            ("next", nullable(json!({"type": "string"}))),
            ("cancel", ids()),
        ]),
        Role::Micro => closed([
            ("decision", json!({"enum": ["retry", "substitute", "skip"]})),
            ("tool", tool_name(offers)),
            ("params", json!({"type": ["object", "null"]})),
            ("refs", nullable(references())),
        ]),
        Role::Answer => closed([("answer", json!({"type": "string"})), ("citations", ids())]),
    })
}

fn closed<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

fn nullable(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn ids() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn references() -> Value {
    let reference = closed([
        ("param", json!({"type": "string"})),
        ("from", json!({"type": "string"})),
        ("path", json!({"type": "string"})),
        ("template", nullable(json!({"type": "string"}))),
    ]);
    json!({"type": "array", "items": reference})
}

/// The steps of a plan; none without a tool. JSON Schema has neither an `anyOf` nor an `enum` without a branch.
fn steps(offers: &[ToolOffer]) -> Value {
    if offers.is_empty() {
        return json!({"type": "array", "maxItems": 0, "items": closed([])});
    }
    json!({"type": "array", "maxItems": STEPS_MAX, "items": step(offers)})
}

fn tool_name(offers: &[ToolOffer]) -> Value {
    if offers.is_empty() {
        return json!({"type": "null"});
    }
    let tools: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
    nullable(json!({"enum": tools}))
}

/// A step: one branch for each tool.
fn step(offers: &[ToolOffer]) -> Value {
    let branch = |offer: &ToolOffer| {
        closed([
            ("id", json!({"type": "string"})),
            ("tool", json!({"const": offer.name})),
            ("params", literals(&offer.params)),
            ("refs", references()),
            ("after", ids()),
            ("why", nullable(json!({"type": "string"}))),
            ("when", nullable(guards())),
            ("for_each", nullable(list())),
        ])
    };
    json!({"anyOf": offers.iter().map(branch).collect::<Vec<Value>>()})
}

/// Conditions over results of earlier steps.
fn guards() -> Value {
    let plain = [json!({"type": "string"}), json!({"type": "number"}), json!({"type": "boolean"})];
    let many = json!({"type": "array", "items": {"anyOf": plain}});
    let value = json!({"anyOf": [plain[0], plain[1], plain[2], many, {"type": "null"}]});
    let guard = closed([
        ("from", json!({"type": "string"})),
        ("path", json!({"type": "string"})),
        ("op", json!({"enum": ["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "exists"]})),
        ("value", value),
    ]);
    json!({"type": "array", "items": guard})
}

/// A list of an earlier result, over which a step is repeated.
fn list() -> Value {
    closed([
        ("from", json!({"type": "string"})),
        ("path", json!({"type": "string"})),
        ("as", json!({"type": "string"})),
        ("max", json!({"type": "integer", "minimum": 1})),
        ("on_child", nullable(json!({"enum": ["all", "collect"]}))),
    ])
}

/// Literal parameters of a tool: every one may be null, because a reference may fill it. A schema without plain properties
/// is left open.
fn literals(params: &Value) -> Value {
    let Some(properties) = params["properties"].as_object() else { return json!({"type": "object"}) };
    let names: Vec<&String> = properties.keys().collect();
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| (name.clone(), nullable(schema.clone()))).collect();
    json!({"type": "object", "required": names, "additionalProperties": false, "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_branch_for_each_tool_and_every_parameter_may_be_null() {
        let offer = ToolOffer {
            name: "fs.read".to_owned(),
            description: String::new(),
            params: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        };
        let schema = schema_of(Role::Planner, std::slice::from_ref(&offer), false).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let plan = |tool: &str, path: Value| {
            json!({"answer": null, "missing": null, "steps": [
                {"id": "a", "tool": tool, "params": {"path": path}, "refs": [], "after": [], "why": null, "when": null, "for_each": null},
            ]})
        };
        assert!(validator.is_valid(&plan("fs.read", json!("x"))));
        assert!(validator.is_valid(&plan("fs.read", json!(null))));
        assert!(!validator.is_valid(&plan("fs.write", json!("x"))));
        assert!(!validator.is_valid(&json!({"answer": "yes", "steps": []})), "every field is required");
        assert_eq!(schema_of(Role::Think, &[], true), None);
        let searches = json!({"answer": null, "missing": null, "search": "a calendar", "steps": []});
        assert!(!validator.is_valid(&searches), "every tool is listed");
        let schema = schema_of(Role::Planner, &[offer], true).unwrap();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&searches));
    }

    #[test]
    fn without_a_tool_a_plan_has_no_step_and_no_step_is_substituted() {
        let validator = |role| jsonschema::validator_for(&schema_of(role, &[], false).unwrap()).unwrap();
        let plan = |steps: Value| json!({"answer": "42", "missing": null, "steps": steps});
        assert!(validator(Role::Planner).is_valid(&plan(json!([]))));
        assert!(!validator(Role::Planner).is_valid(&plan(json!([{}]))));
        let advice = |tool: Value| json!({"decision": "skip", "tool": tool, "params": null, "refs": null});
        assert!(validator(Role::Micro).is_valid(&advice(json!(null))));
        assert!(!validator(Role::Micro).is_valid(&advice(json!("fs.read"))));
    }
}
