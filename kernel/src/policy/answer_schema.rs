//! JSON Schemas of answers, as providers enforce them: closed, every field required, `null` where nothing is meant.

use serde_json::{Map, Value, json};

use super::{Role, STEPS_MAX};
use crate::port::ToolOffer;

/// Schema of a role's answer; `None` for turns, which have the provider's own form of calls.
pub(super) fn schema_of(role: Role, offers: &[ToolOffer]) -> Option<Value> {
    Some(match role {
        Role::Think => return None,
        Role::Planner => closed([
            ("answer", nullable(json!({"type": "string"}))),
            ("missing", nullable(json!({"type": "string"}))),
            ("steps", json!({"type": "array", "maxItems": STEPS_MAX, "items": step(offers)})),
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
        Role::Micro => {
            let tools: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
            closed([
                ("decision", json!({"enum": ["retry", "substitute", "skip"]})),
                ("tool", nullable(json!({"enum": tools}))),
                ("params", json!({"type": ["object", "null"]})),
                ("refs", nullable(references())),
            ])
        }
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
        ])
    };
    json!({"anyOf": offers.iter().map(branch).collect::<Vec<Value>>()})
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
        let schema = schema_of(Role::Planner, &[offer]).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let plan = |tool: &str, path: Value| {
            json!({"answer": null, "missing": null, "steps": [
                {"id": "a", "tool": tool, "params": {"path": path}, "refs": [], "after": [], "why": null},
            ]})
        };
        assert!(validator.is_valid(&plan("fs.read", json!("x"))));
        assert!(validator.is_valid(&plan("fs.read", json!(null))));
        assert!(!validator.is_valid(&plan("fs.write", json!("x"))));
        assert!(!validator.is_valid(&json!({"answer": "yes", "steps": []})), "every field is required");
        assert_eq!(schema_of(Role::Think, &[]), None);
    }
}
