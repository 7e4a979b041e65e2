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
//!
//! A keyword that reads a text, such as `pattern`, takes time in proportion to the bytes of the text. The same
//! pass sums the cost per byte along a path; multiplied by the bytes of all texts in the document, the sum
//! bounds the reading.

use serde_json::Value;

use super::evaluation_steps::{Visited, Visits};
use super::excerpt;
use super::keyword_cost::{BYTES_PER_STEP, Extent, own_reading, own_steps};
use super::patterns::PatternSizes;
use super::schema::SchemaError;
use super::schema_graph::{LIST, MAP, Role, Subschema, schema_graph};
use crate::json::MAX_DEPTH;

/// Most steps of a schema for one value, excluding the parts of the value.
pub const SCHEMA_STEPS_MAX: u64 = 10_000;

/// Longest chain of subschemas for one value. The engine descends along such a chain.
pub const SCHEMA_CHAIN_MAX: u64 = 500;

/// Most subschemas that the engine is in at once while it evaluates a value: the longest chain, for each level of the value.
const EVALUATION_DEPTH_MAX: u64 = 4_000;

/// Most subschemas that `unevaluated…` compiles again.
const RECOMPILED_MAX: u64 = 100_000;

/// Most steps of one evaluation.
pub const JUDGEMENT_STEPS_MAX: u64 = 100_000_000;

/// Bytes of a violation that the schema engine collects, without the path of its value.
const VIOLATION_BYTES: u64 = 512;

/// Costs along one path of a value, by the depth of the value. Deeper values cost as much as the last entry.
#[derive(Debug)]
pub(super) struct SchemaCost {
    /// Steps for each value.
    steps: Vec<u64>,
    /// Steps for [`BYTES_PER_STEP`] bytes of text.
    reading: Vec<u64>,
    /// Length of the longest chain of subschemas for one value.
    chain: u64,
    visits: Option<Visits>,
}

impl SchemaCost {
    /// Bounds the steps of a compiled schema.
    ///
    /// # Errors
    ///
    /// The schema takes too many steps, or never terminates.
    pub(super) fn of(schema: &Value, patterns: &PatternSizes) -> Result<SchemaCost, SchemaError> {
        let both =
            |subschema: &Subschema<'_>| (CostNode::of(subschema, patterns), Visited::of(subschema, patterns));
        let (nodes, visited): (Vec<CostNode>, Vec<Option<Visited>>) =
            schema_graph(schema, both)?.into_iter().unzip();
        let order = targets_before_sources(&nodes)?;
        let of_one_value = count(&nodes, &order, &vec![[0; 2]; nodes.len()], |node| node.steps);
        if of_one_value.iter().flatten().any(|&steps| steps > SCHEMA_STEPS_MAX) {
            return Err(SchemaError::TooManySteps);
        }
        let again = nodes.iter().zip(&of_one_value).filter(|(node, _)| node.unevaluated);
        if again.map(|(_, [map, list])| map.max(list)).sum::<u64>() > RECOMPILED_MAX {
            return Err(SchemaError::TooManySteps);
        }
        let chain = longest_chain(&nodes, &order);
        if chain > SCHEMA_CHAIN_MAX {
            return Err(SchemaError::Chain);
        }
        let steps = along_paths(&nodes, &order, |node| node.steps);
        let reading = along_paths(&nodes, &order, |node| node.reading);
        Ok(SchemaCost { steps, reading, chain, visits: Visits::of(visited) })
    }

    /// Steps to evaluate a value, or an upper bound on them: where the bound is more than `most`, they are counted. Endless for a
    /// value with so many levels that the engine has no stack for them.
    pub(super) fn of_value(&self, value: &Value, extent: Extent, most: u64) -> u64 {
        if self.chain.saturating_mul(extent.depth as u64 + 1) > EVALUATION_DEPTH_MAX {
            return u64::MAX;
        }
        let bound = self.for_extent(extent);
        if bound <= most {
            return bound;
        }
        self.visits.as_ref().and_then(|visits| visits.steps(value, most)).unwrap_or(bound)
    }

    /// Upper bound on the bytes of all violations by a value of this extent, each with its path.
    pub(super) fn violation_bytes(&self, extent: Extent) -> u64 {
        let steps = self.for_extent(Extent { bytes: 0, ..extent });
        steps.saturating_mul(VIOLATION_BYTES.saturating_add(extent.path))
    }

    /// Upper bound on the steps to evaluate a value of this extent.
    fn for_extent(&self, Extent { values, depth, bytes, .. }: Extent) -> u64 {
        let at = |costs: &[u64]| costs.get(depth).or(costs.last()).copied().unwrap_or_default();
        let reading = bytes.saturating_mul(at(&self.reading)) / BYTES_PER_STEP;
        values.saturating_mul(at(&self.steps)).saturating_add(reading)
    }
}

/// The costs of the root along a path, by the depth of a value, until they stay the same or pass the limit.
fn along_paths(nodes: &[CostNode], order: &[usize], own: impl Fn(&CostNode) -> u64) -> Vec<u64> {
    let mut costs = Vec::new();
    let mut within = vec![[0; 2]; nodes.len()];
    for _ in 0..=MAX_DEPTH {
        let here = count(nodes, order, &within, &own);
        costs.push(here[0][MAP].max(here[0][LIST]));
        if costs.last() > Some(&JUDGEMENT_STEPS_MAX) || here == within {
            break;
        }
        within = here;
    }
    costs
}

#[derive(Debug, Default)]
struct CostNode {
    /// Own steps for a value, without those of other subschemas.
    steps: u64,
    /// Own steps for [`BYTES_PER_STEP`] bytes of text.
    reading: u64,
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
    fn of(subschema: &Subschema<'_>, patterns: &PatternSizes) -> CostNode {
        let mut node = CostNode { steps: 1, ..CostNode::default() };
        for (keyword, value) in subschema.schema.as_object().into_iter().flatten() {
            node.steps = node.steps.saturating_add(own_steps(keyword, value));
            node.reading = node.reading.saturating_add(own_reading(keyword, value, patterns));
        }
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

/// Number of subschemas on the longest chain for one value.
fn longest_chain(nodes: &[CostNode], order: &[usize]) -> u64 {
    let mut chains = vec![1_u64; nodes.len()];
    for &at in order {
        let longest = nodes[at].same.iter().map(|&(target, _)| chains[target]).max();
        chains[at] += longest.unwrap_or_default();
    }
    chains.into_iter().max().unwrap_or_default()
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

/// Costs of every node for a map and for a list, from its own cost and the costs of the parts.
fn count(
    nodes: &[CostNode],
    order: &[usize],
    within: &[[u64; 2]],
    own: impl Fn(&CostNode) -> u64,
) -> Vec<[u64; 2]> {
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
            let mut all = each.fold(own(&nodes[at]).saturating_add(one), u64::saturating_add);
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

    fn cost(schema: &Value) -> SchemaCost {
        SchemaCost::of(schema, &PatternSizes::of_schema(schema)).unwrap()
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
    fn chains_and_what_is_compiled_again_are_bounded_before_the_engine_compiles() {
        let refers = |next: Value| next;
        let most = usize::try_from(SCHEMA_CHAIN_MAX).unwrap();
        // The root and the last definition belong to the chain.
        let chained = |links: usize| {
            let mut schema = chain(links, refers);
            schema["unevaluatedProperties"] = json!(false);
            compile(&schema).map(drop)
        };
        assert_eq!([chained(most - 2), chained(most - 1)], [Ok(()), Err(SchemaError::Chain)]);
        let threefold = chain(30, |next| json!({"allOf": [next], "anyOf": [next], "oneOf": [next]}));
        assert_eq!(compile(&threefold).map(drop), Err(SchemaError::TooManySteps));
        let nodes = |count: usize| -> Value {
            let each =
                |at: usize| (format!("p{at}"), json!({"$ref": "#/$defs/a0", "unevaluatedProperties": false}));
            let mut schema = chain(100, refers);
            schema["properties"] = (0..count).map(each).collect();
            schema
        };
        assert_eq!(compile(&nodes(100)).map(drop), Ok(()));
        assert_eq!(compile(&nodes(1_000)).map(drop), Err(SchemaError::TooManySteps));
    }

    #[test]
    fn a_value_with_too_many_levels_for_a_chain_takes_too_many_steps() {
        let mut schema = chain(98, |next| next);
        schema["$defs"]["a98"] = json!({"items": {"$ref": "#/$defs/a0"}});
        let lists = |depth: usize| (0..depth).fold(json!([]), |inner, _| json!([inner]));
        let steps = |value: Value| cost(&schema).of_value(&value, Extent::of(&value), JUDGEMENT_STEPS_MAX);
        assert!(steps(lists(38)) <= JUDGEMENT_STEPS_MAX);
        assert_eq!(steps(lists(39)), u64::MAX);
    }

    #[test]
    fn steps_are_bounded_for_one_value_and_for_all() {
        let parts = |count: u64| json!({"allOf": vec![true; usize::try_from(count).unwrap() - 1]});
        assert_eq!(compile(&parts(SCHEMA_STEPS_MAX)).map(drop), Ok(()));
        assert_eq!(compile(&parts(SCHEMA_STEPS_MAX + 1)).map(drop), Err(SchemaError::TooManySteps));
        let most = cost(&json!({"items": parts(SCHEMA_STEPS_MAX - 1)}));
        let list = |items: usize| most.for_extent(Extent::of(&json!(vec![1; items - 1])));
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
            let taken = cost(&schema);
            let values = [json!(1), nested(1), nested(10), nested(100)];
            let found = values.map(|value| taken.for_extent(Extent::of(&value)));
            assert_eq!(found, steps, "{schema}");
        }
    }

    #[test]
    fn reading_a_text_takes_steps_for_its_bytes() {
        let text = |bytes: usize| json!("x".repeat(bytes));
        let large = "(a{1000}){20}";
        for (schema, value, steps) in [
            (json!({"type": "string"}), text(64_000), 1),
            (json!({"maxLength": 9}), text(64_000), 1 + 1_000),
            (json!({"minLength": 9, "uniqueItems": true}), text(64_000), 1 + 8 + 9_000),
            (json!({"format": "regex"}), text(64_000), 1 + 64_000),
            (json!({"pattern": "^[a-z]+$"}), text(64_000), 1 + 4 * 64_000),
            (json!({"pattern": large}), text(64_000), 1 + 1024 * 64_000),
            (json!({"not": {"pattern": large}}), text(1_000), 2 + 1024 * 1_000),
            (json!({"allOf": vec![json!({"pattern": large}); 9]}), text(1_000), 10 + 9 * 1024 * 1_000),
            (json!({"items": {"pattern": large}}), json!([text(500), text(500)]), 3 * 2 + 1024 * 1_000),
            (
                json!({"patternProperties": {large: {}}}),
                json!({"x".repeat(64): text(64)}),
                2 * 2 + 1024 * 128,
            ),
            (json!({"propertyNames": {"pattern": large}}), json!({"x".repeat(64): 1}), 2 * 2 + 1024 * 64),
            (json!({"$ref": "#/examples/0", "examples": [{"pattern": "a"}]}), text(1_000), 2 + 1024 * 1_000),
            (json!({"enum": vec![1; 800]}), json!([1]), 2 * 101),
            (json!({"enum": [vec![1; 800], "a"]}), json!([1]), 2 * (1 + 801)),
            (json!({"const": {"a": "b".repeat(64)}}), json!({}), 1 + 3),
            (json!({"required": vec!["a"; 80]}), json!({}), 81),
            (json!({"dependentRequired": {"a": ["b", "c"], "b": []}}), json!({}), 1 + 2 + 2),
        ] {
            assert_eq!(cost(&schema).for_extent(Extent::of(&value)), steps, "{schema}");
        }
    }

    #[test]
    fn the_schema_of_schemas_can_be_referred_to() {
        assert!(compile(&json!({"$ref": "https://json-schema.org/draft/2020-12/schema"})).is_ok());
    }
}
