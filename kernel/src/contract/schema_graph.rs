//! Graph of all subschemas reachable from a schema, with references resolved as the schema engine resolves
//! them.

use std::collections::BTreeMap;

use jsonschema::{Draft, ReferencingError, Registry, RegistryBuilder, uri};
use serde_json::Value;

use super::excerpt;
use super::schema::SchemaError;

/// Base URI of a schema without `$id`.
const BASE: &str = "json-schema:///";

pub(super) const MAP: usize = 0;
pub(super) const LIST: usize = 1;

#[derive(Debug)]
pub(crate) struct Subschema<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) edges: Vec<SchemaEdge<'a>>,
}

/// An edge from a subschema to another, through a keyword.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaEdge<'a> {
    pub(crate) keyword: &'a str,
    /// Name of the subschema under the keyword, if any.
    pub(crate) name: Option<&'a str>,
    pub(super) role: Role,
    pub(crate) to: usize,
}

impl SchemaEdge<'_> {
    /// Returns whether both subschemas apply to the same value.
    pub(crate) fn is_of_same_value(&self) -> bool {
        matches!(self.role, Role::Same { .. })
    }

    pub(super) fn is_reference(&self) -> bool {
        self.keyword.starts_with('$')
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    /// To the same value; `again` if `unevaluated…` evaluates the subschema a second time.
    Same { again: bool },
    /// To a part of the value: one of the subschemas per part.
    OneWithin(usize),
    /// To a part of the value: all of the subschemas per part.
    EachWithin(usize),
    /// To the content of a text; never evaluated.
    InText,
}

fn role(keyword: &str) -> Option<Role> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" => Role::Same { again: true },
        "then" | "else" | "dependentSchemas" | "dependencies" => Role::Same { again: false },
        "properties" | "additionalProperties" => Role::OneWithin(MAP),
        "patternProperties" | "propertyNames" | "unevaluatedProperties" => Role::EachWithin(MAP),
        "items" | "prefixItems" | "additionalItems" => Role::OneWithin(LIST),
        "contains" | "unevaluatedItems" => Role::EachWithin(LIST),
        "contentSchema" => Role::InText,
        _ => return None,
    })
}

fn subschemas<'a>(keyword: &str, value: &'a Value) -> Vec<(Option<&'a str>, &'a Value)> {
    let is_named = ["properties", "patternProperties", "dependentSchemas", "dependencies"].contains(&keyword);
    let listed: Vec<(Option<&str>, &Value)> = match value {
        Value::Array(list) => list.iter().map(|schema| (None, schema)).collect(),
        Value::Object(map) if is_named => {
            map.iter().map(|(name, schema)| (Some(name.as_str()), schema)).collect()
        }
        other => vec![(None, other)],
    };
    listed.into_iter().filter(|(_, schema)| schema.is_object() || schema.is_boolean()).collect()
}

/// Maps every subschema reachable from `schema` with `keep`, the schema itself first. Breadth-first over
/// subschemas and resolved references; a subschema is identified by its address, so cycles terminate.
///
/// # Errors
///
/// A reference cannot be resolved, or a dynamic reference is ambiguous.
pub(crate) fn schema_graph<T>(
    schema: &Value,
    keep: impl Fn(&Subschema<'_>) -> T,
) -> Result<Vec<T>, SchemaError> {
    if dynamic_anchors(schema) > 1 {
        return Err(SchemaError::DynamicAnchors);
    }
    let draft = Draft::default().detect(schema);
    let root = draft.create_resource_ref(schema);
    let base = root.id().unwrap_or(BASE);
    let registry = Registry::new().draft(draft).add(base, root).and_then(RegistryBuilder::prepare);
    let registry = registry.map_err(unresolved)?;
    let resolver = registry.resolver(uri::from_str(base).map_err(unresolved)?);

    let mut known = BTreeMap::from([(std::ptr::from_ref(schema), 0)]);
    let mut found = vec![(schema, resolver.in_subresource(root).map_err(unresolved)?, draft)];
    let mut kept = Vec::new();
    while let Some((schema, resolver, draft)) = found.get(kept.len()).cloned() {
        let mut edges = Vec::new();
        let mut find = |schema, resolver, draft| {
            *known.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
                found.push((schema, resolver, draft));
                found.len() - 1
            })
        };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let target = match (keyword.as_str(), value.as_str()) {
                ("$ref", Some(text)) => Some(resolver.lookup(text).map_err(unresolved)?),
                // Defined in some drafts only; an applicable reference was resolved by the engine during
                // compilation.
                ("$dynamicRef", Some(text)) => resolver.lookup(text).ok(),
                ("$recursiveRef", Some(_)) => resolver.lookup_recursive_ref().ok(),
                _ => None,
            };
            if let Some(target) = target {
                let (target, resolver, draft) = target.into_inner();
                let to = find(target, resolver, draft);
                edges.push(SchemaEdge { keyword, name: None, role: Role::Same { again: false }, to });
            }
            let Some(role) = role(keyword) else { continue };
            for (name, inner) in subschemas(keyword, value) {
                let draft = draft.detect(inner);
                let resource = draft.create_resource_ref(inner);
                let to = find(inner, resolver.in_subresource(resource).map_err(unresolved)?, draft);
                edges.push(SchemaEdge { keyword, name, role, to });
            }
        }
        kept.push(keep(&Subschema { schema, edges }));
    }
    Ok(kept)
}

fn unresolved(error: ReferencingError) -> SchemaError {
    SchemaError::Invalid { place: String::new(), what: excerpt(error) }
}

/// Number of dynamic anchors: possible targets of a dynamic reference.
fn dynamic_anchors(schema: &Value) -> usize {
    match schema {
        Value::Array(list) => list.iter().map(dynamic_anchors).sum(),
        Value::Object(map) => {
            let is_anchor = map.get("$dynamicAnchor").is_some_and(Value::is_string)
                || map.get("$recursiveAnchor") == Some(&Value::Bool(true));
            usize::from(is_anchor) + map.values().map(dynamic_anchors).sum::<usize>()
        }
        _ => 0,
    }
}
