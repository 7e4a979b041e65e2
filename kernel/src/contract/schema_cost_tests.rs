//! Tests of the bounds on schemas.

use serde_json::{Value, json};

use super::keyword_cost::Extent;
use super::patterns::PatternSizes;
use super::schema::SchemaError;
use super::schema::compile;
use super::schema_cost::{JUDGEMENT_STEPS_MAX, SCHEMA_CHAIN_MAX, SCHEMA_STEPS_MAX, SchemaCost};

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
        assert_eq!(compile(&schema).map(drop).unwrap_err(), SchemaError::TooManySteps, "found for {schema}");
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
        (json!({"patternProperties": {large: {}}}), json!({"x".repeat(64): text(64)}), 2 * 2 + 1024 * 128),
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
