//! Upper bounds on the evaluation steps of a schema, computed before any evaluation.
//!
//! An evaluation cannot be interrupted, and a small schema can be exponentially expensive: forty definitions,
//! each with `allOf` of two references to the next, take 2^40 steps. A step is one subschema applied to one
//! value, with every reference followed.
//!
//! The schema graph has two kinds of edges. *Same-value* edges (`allOf`, `$ref`, `if`, …) apply another
//! subschema to the same value; *within* edges (`properties`, `items`, …) apply a subschema to a member or an
//! item. A cycle of same-value edges never terminates and is rejected as [`SchemaError::Endless`]; without
//! such a cycle the same-value edges form a DAG, and one pass over its nodes in topological order sums the
//! steps of each node.
//!
//! Within edges may be cyclic, because each one descends into the value. The pass is therefore repeated per
//! depth: `steps(d)` of a node uses `steps(d - 1)` for the parts of the value. Keywords such as `properties`
//! apply one of their subschemas to a part (take the maximum), others such as `contains` apply all (take the
//! sum). The result is the cost along one path of a value; multiplied by the number of values in the
//! document, the result bounds the whole evaluation. `unevaluatedProperties` and `unevaluatedItems` evaluate
//! earlier subschemas again and are counted twice.

use serde_json::Value;

use super::excerpt;
use super::schema::SchemaError;
use super::schema_graph::{LIST, MAP, Role, Subschema, schema_graph};
use crate::json::MAX_DEPTH;

/// Most steps of a schema for one value, excluding the parts of the value.
pub const SCHEMA_STEPS_MAX: u64 = 10_000;

/// Most steps of one evaluation.
pub const JUDGEMENT_STEPS_MAX: u64 = 100_000_000;

/// Steps along one path of a value, by the depth of the value. Deeper values cost as much as the last entry.
#[derive(Debug)]
pub(super) struct SchemaCost(Vec<u64>);

impl SchemaCost {
    /// Bounds the steps of a compiled schema.
    ///
    /// # Errors
    ///
    /// The schema takes too many steps, or never terminates.
    pub(super) fn of(schema: &Value) -> Result<SchemaCost, SchemaError> {
        let nodes = schema_graph(schema, CostNode::of)?;
        let order = targets_before_sources(&nodes)?;
        let mut steps = Vec::new();
        let mut within = vec![[0; 2]; nodes.len()];
        for depth in 0..=MAX_DEPTH {
            let here = count(&nodes, &order, &within);
            if depth == 0 && here.iter().flatten().any(|&steps| steps > SCHEMA_STEPS_MAX) {
                return Err(SchemaError::TooManySteps);
            }
            steps.push(here[0][MAP].max(here[0][LIST]));
            if steps.last() > Some(&JUDGEMENT_STEPS_MAX) || here == within {
                break;
            }
            within = here;
        }
        Ok(SchemaCost(steps))
    }

    /// Upper bound on the steps to evaluate `value`.
    pub(super) fn for_value(&self, value: &Value) -> u64 {
        let (values, depth) = extent(value);
        let along_a_path = self.0.get(depth).or(self.0.last()).copied().unwrap_or_default();
        values.saturating_mul(along_a_path)
    }
}

/// Number of values in `value`, including `value`, and its depth.
fn extent(value: &Value) -> (u64, usize) {
    let inner = |values: &mut dyn Iterator<Item = &Value>| {
        values.map(extent).fold((1, 1), |(count, depth), (more, below)| (count + more, depth.max(below + 1)))
    };
    match value {
        Value::Array(list) => inner(&mut list.iter()),
        Value::Object(map) => inner(&mut map.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1, 0),
    }
}

#[derive(Debug, Default)]
struct CostNode {
    /// Subschemas for the same value; `true` if `unevaluated…` evaluates the subschema again.
    same: Vec<(usize, bool)>,
    /// Subschemas for members of a map, and for items of a list.
    within: [Within; 2],
    unevaluated: bool,
    reference: Option<String>,
}

#[derive(Debug, Default)]
struct Within {
    one: Vec<usize>,
    each: Vec<usize>,
}

impl CostNode {
    fn of(subschema: &Subschema<'_>) -> CostNode {
        let mut node = CostNode::default();
        for lead in &subschema.edges {
            node.unevaluated |= lead.keyword.starts_with("unevaluated");
            match lead.role {
                Role::Same { again } => node.same.push((lead.to, again)),
                Role::OneWithin(kind) => node.within[kind].one.push(lead.to),
                Role::EachWithin(kind) => node.within[kind].each.push(lead.to),
                Role::InText => {}
            }
            if lead.is_reference() {
                node.reference = subschema.schema[lead.keyword].as_str().map(excerpt);
            }
        }
        node
    }
}

/// Orders the nodes topologically over same-value edges, targets before sources; an error for a cycle.
fn targets_before_sources(nodes: &[CostNode]) -> Result<Vec<usize>, SchemaError> {
    let mut open: Vec<usize> = nodes.iter().map(|node| node.same.len()).collect();
    let mut sources = vec![Vec::new(); nodes.len()];
    for (source, node) in nodes.iter().enumerate() {
        node.same.iter().for_each(|&(target, _)| sources[target].push(source));
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&at| open[at] == 0).collect();
    let mut next = 0;
    while let Some(&target) = order.get(next) {
        next += 1;
        for &source in &sources[target] {
            open[source] -= 1;
            if open[source] == 0 {
                order.push(source);
            }
        }
    }
    let Some(mut at) = open.iter().position(|&open| open > 0) else { return Ok(order) };
    // Every remaining node has a remaining successor, so the walk enters a cycle and passes a reference.
    let mut reference = None;
    for _ in 0..2 * nodes.len() {
        let CostNode { same, reference: here, .. } = &nodes[at];
        let ahead = same.iter().find(|(target, _)| open[*target] > 0);
        reference = here.as_ref().or(reference);
        at = ahead.map_or(at, |&(target, _)| target);
    }
    Err(SchemaError::Endless { reference: reference.cloned().unwrap_or_default() })
}

/// Steps of every node for a map and for a list, from the steps of the parts.
fn count(nodes: &[CostNode], order: &[usize], within: &[[u64; 2]]) -> Vec<[u64; 2]> {
    let within = |at: usize| within[at][MAP].max(within[at][LIST]);
    let mut steps = vec![[0; 2]; nodes.len()];
    // Steps to find the evaluated members and items: applicable subschemas are evaluated again.
    let mut again = vec![[0_u64; 2]; nodes.len()];
    for &at in order {
        let CostNode { same, within: inner, unevaluated, .. } = &nodes[at];
        for kind in [MAP, LIST] {
            let Within { one, each } = &inner[kind];
            let one = one.iter().map(|&at| within(at)).max().unwrap_or_default();
            let each = each.iter().map(|&at| within(at));
            let mut all = each.fold(1_u64.saturating_add(one), u64::saturating_add);
            for &(target, is_again) in same {
                all = all.saturating_add(steps[target][kind]);
                let twice = if is_again { steps[target][kind] } else { 0 };
                again[at][kind] = again[at][kind].saturating_add(again[target][kind]).saturating_add(twice);
            }
            if *unevaluated {
                all = all.saturating_add(again[at][kind]);
                again[at][kind] = all;
            }
            steps[at][kind] = all;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::schema::compile;

    /// Definitions `a0` to the last, each built from a reference to the next.
    fn chain(links: usize, link: impl Fn(Value) -> Value) -> Value {
        let mut definitions = serde_json::Map::new();
        for at in 0..links {
            definitions.insert(format!("a{at}"), link(json!({"$ref": format!("#/$defs/a{}", at + 1)})));
        }
        definitions.insert(format!("a{links}"), json!({"type": "object"}));
        json!({"$defs": definitions, "$ref": "#/$defs/a0"})
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({"x": inner}))
    }

    #[test]
    fn references_that_multiply_steps_are_refused() {
        let twice = |keyword: &'static str| chain(40, move |next| json!({keyword: [next.clone(), next]}));
        for schema in [
            twice("allOf"),
            twice("anyOf"),
            twice("oneOf"),
            chain(40, |next| json!({"not": next, "if": next, "then": next})),
            chain(40, |next| json!({"$ref": next["$ref"], "dependentSchemas": {"x": next}})),
            chain(40, |next| json!({"allOf": [next], "unevaluatedProperties": false})),
            json!({"items": twice("allOf")["$defs"].clone()["a0"], "$defs": twice("allOf")["$defs"]}),
            {
                let mut inner = twice("allOf");
                inner["$id"] = json!("urn:inner");
                json!({"$defs": {"a0": {}}, "allOf": [inner, {"$ref": "#/$defs/a0"}]})
            },
        ] {
            assert_eq!(
                compile(&schema).map(drop).unwrap_err(),
                SchemaError::TooManySteps,
                "found for {schema}"
            );
        }
    }

    #[test]
    fn steps_are_bounded_for_one_value_and_for_all() {
        let parts = |count: u64| json!({"allOf": vec![true; usize::try_from(count).unwrap() - 1]});
        assert_eq!(compile(&parts(SCHEMA_STEPS_MAX)).map(drop), Ok(()));
        assert_eq!(compile(&parts(SCHEMA_STEPS_MAX + 1)).map(drop), Err(SchemaError::TooManySteps));
        let most = SchemaCost::of(&json!({"items": parts(SCHEMA_STEPS_MAX - 1)})).unwrap();
        let list = |items: usize| most.for_value(&json!(vec![1; items - 1]));
        assert_eq!([list(10_000), list(10_001)], [JUDGEMENT_STEPS_MAX, JUDGEMENT_STEPS_MAX + 10_000]);
    }

    #[test]
    fn what_leads_back_to_itself_within_the_same_value_is_refused() {
        for (schema, reference) in [
            (json!({"$ref": "#"}), "#"),
            (json!({"allOf": [{"$ref": "#"}]}), "#"),
            (
                json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
                "#/$defs/a",
            ),
            (
                json!({"$defs": {"a": {"$ref": "#/%24defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
                "#/%24defs/b",
            ),
            (
                json!({"$defs": {"a": {"not": {"$dynamicRef": "#x"}, "$dynamicAnchor": "x"}}, "$ref": "#/$defs/a"}),
                "#x",
            ),
            (json!({"anyOf": [{"type": "string"}, {"if": {"$ref": "#"}}]}), "#"),
            (json!({"items": {"$anchor": "x", "oneOf": [{"$ref": "#x"}]}}), "#x"),
        ] {
            let expected = SchemaError::Endless { reference: reference.to_owned() };
            assert_eq!(compile(&schema).map(drop).unwrap_err(), expected, "{schema}");
        }
    }

    #[test]
    fn where_a_dynamic_reference_leads_to_is_known() {
        let anchored = json!({"type": "object", "$dynamicAnchor": "x"});
        assert!(compile(&json!({"$defs": {"a": anchored}, "items": {"$dynamicRef": "#x"}})).is_ok());
        let two = json!({"$defs": {"a": anchored, "b": {"$id": "urn:b", "$dynamicAnchor": "x"}}});
        assert_eq!(compile(&two).map(drop).unwrap_err(), SchemaError::DynamicAnchors);
    }

    #[test]
    fn a_schema_takes_as_many_steps_as_the_value_asks_for() {
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "children": {"items": {"$ref": "#"}}}});
        let any = json!({"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]});
        let twice =
            json!({"allOf": [{"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}]});
        for (schema, steps) in [
            (json!(true), [1, 2, 11, 101]),
            (json!({"properties": {"a": {}, "b": {"type": "string"}}}), [1, 4, 22, 202]),
            (tree, [1, 10, 253, 20_503]),
            (any, [4, 28, 649, 51_409]),
            (twice, [3, 54, 180_169, 13_555_990_023]),
        ] {
            let taken = SchemaCost::of(&schema).unwrap();
            let values = [json!(1), nested(1), nested(10), nested(100)];
            let found = values.map(|value| taken.for_value(&value));
            assert_eq!(found, steps, "{schema}");
        }
    }

    #[test]
    fn the_schema_of_schemas_can_be_referred_to() {
        assert!(compile(&json!({"$ref": "https://json-schema.org/draft/2020-12/schema"})).is_ok());
    }
}
