//! Schemas of parameters: where they say that a value is a path or a URL, and what they leave undeclared.

use serde_json::{Value, json};

use super::{Scripted, call, code, decided, policy, tool};

#[test]
fn a_path_or_a_url_is_judged_wherever_the_schema_says_so() {
    let path = json!({"type": "string", "format": "path"});
    let uri = json!({"type": "string", "format": "uri"});
    let with = |name: &str, schema: &Value| json!({"type": "object", "properties": {name: schema}});
    let (at_path, at_uri) = (with("at", &path), with("at", &uri));
    let kinds = json!([
        {"type": "object", "required": ["count"], "properties": {"kind": {"const": "n"}, "count": {"type": "integer"}}},
        {"type": "object", "required": ["at"], "properties": {"kind": {"const": "p"}, "at": path}},
    ]);
    let escape = [(json!({"at": "a"}), "OK 0"), (json!({"at": "/etc/shadow"}), "PATH_ESCAPE")];
    let (listed, other) = ("https://hooks.example.com/x", "http://169.254.169.254/");
    let egress = [(json!({"at": listed}), "OK 0"), (json!({"at": other}), "EGRESS_FORBIDDEN")];
    for (schema, calls) in [
        (json!({"oneOf": kinds}), &escape),
        (json!({"anyOf": kinds}), &escape),
        (json!({"type": "object", "oneOf": [at_uri, {"required": ["x"]}]}), &egress),
        (json!({"allOf": [{"type": "object"}, at_path]}), &escape),
        (json!({"allOf": [{"anyOf": [{"oneOf": [at_uri]}]}]}), &egress),
        (json!({"not": {"properties": {"at": {"not": path}}, "required": ["at"]}}), &escape),
        (json!({"if": at_path, "then": true, "else": false}), &escape),
        (json!({"if": true, "then": at_path}), &escape),
        (json!({"if": false, "else": at_uri}), &egress),
        (json!({"dependentSchemas": {"at": at_path}}), &escape),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"at": at_path}}),
            &escape,
        ),
        (json!({"$ref": "#/$defs/all", "$defs": {"all": at_path}}), &escape),
        (json!({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": at_path}}), &escape),
        (json!({"$ref": "#all", "$defs": {"x": {"$anchor": "all", "properties": {"at": path}}}}), &escape),
        (json!({"$ref": "urn:all", "$defs": {"x": {"$id": "urn:all", "properties": {"at": uri}}}}), &egress),
        (
            json!({"$dynamicRef": "#all", "$defs": {"x": {"$dynamicAnchor": "all", "properties": {"at": path}}}}),
            &escape,
        ),
        (json!({"properties": {"at": {"$ref": "#/%24defs/p"}}, "$defs": {"p": path}}), &escape),
        (
            json!({"properties": {"at": {"$ref": "#p"}}, "$defs": {"p": {"$anchor": "p", "format": "path"}}}),
            &escape,
        ),
        (
            json!({"properties": {"at": {"$ref": "#p"}}, "$defs": {"p": {"$anchor": "p", "$ref": "#/$defs/q"}, "q": uri}}),
            &egress,
        ),
        (with("at", &json!({"anyOf": [{"type": "null"}, {"if": {"minLength": 1}, "then": path}]})), &escape),
        (
            json!({"properties": {"at": {"contentSchema": {"$ref": "#/$defs/p"}}}, "$defs": {"p": path}}),
            &escape,
        ),
        (json!({"type": "object", "additionalProperties": path}), &escape),
        (json!({"properties": {"at": path}, "patternProperties": {"^b": {}}}), &escape),
        (json!({"patternProperties": {"^b": {}}, "additionalProperties": path}), &escape),
        (json!({"properties": {"at": {"$ref": "#"}}, "format": "path"}), &escape),
        (json!({"properties": {"at": {"x-each": path}}}), &escape),
        (json!({"type": "object", "additionalProperties": uri}), &egress),
        (json!({"type": "object", "properties": {"x": {}}, "unevaluatedProperties": uri}), &egress),
        (json!({"type": "object", "patternProperties": {"^a": path, "^b": {}}}), &escape),
        (json!({"type": "object", "properties": {"at": {}}, "patternProperties": {"t$": uri}}), &egress),
        (
            json!({"oneOf": [{"properties": {"at": {}}, "required": ["x"]}, {"additionalProperties": uri}]}),
            &egress,
        ),
    ] {
        let tool = tool("fs.write", schema.clone(), |_| 0);
        for (params, expected) in calls {
            assert_eq!(code(&decided(call(&tool, params), &policy())), *expected, "{params} of {schema}");
        }
    }
}

#[test]
fn what_no_path_is_said_of_is_not_judged_as_one() {
    let path = json!({"type": "string", "format": "path"});
    let text = json!({"at": "/etc/shadow"});
    for schema in [
        json!({"properties": {"at": {}}, "additionalProperties": path}),
        json!({"properties": {"at": {}}, "unevaluatedProperties": path}),
        json!({"type": "object", "patternProperties": {"^b": path, "^a": {}}, "additionalProperties": path}),
        json!({"anyOf": [{"properties": {"at": {}}}, {"properties": {"other": path}}]}),
        json!({"properties": {"at": {}}, "$defs": {"p": path}}),
        json!({"properties": {"at": {}, "deep": {"properties": {"at": path}}}}),
        json!({"patternProperties": {"^b": path}, "additionalProperties": true}),
        json!({"properties": {"at": {}}, "patternProperties": {"^b": {}}, "additionalProperties": path}),
        json!({"properties": {"at": {}}, "propertyNames": {"maxLength": 3}}),
    ] {
        let tool = tool("fs.write", schema.clone(), |_| 0);
        assert_eq!(code(&decided(call(&tool, &text), &policy())), "OK 0", "{schema}");
    }
}

#[test]
fn a_tool_whose_names_of_parameters_are_paths_is_refused() {
    for schema in [
        json!({"type": "object", "propertyNames": {"format": "path"}}),
        json!({"type": "object", "propertyNames": {"$ref": "#/$defs/p"}, "$defs": {"p": {"anyOf": [{"format": "path"}]}}}),
        json!({"allOf": [{"propertyNames": {"format": "path"}}]}),
    ] {
        let found = Scripted::new("fs.write", "1", schema, |_| 0).gated().unwrap_err().to_string();
        let expected = "`propertyNames` with `format: path`: parameter names are not checked; pass them as values, \
                        such as {properties: {names: {type: array, items: {type: string, format: path}}}}";
        assert_eq!(found, expected);
    }
}

/// Undeclared parameters are denied, however the schema is composed.
#[test]
fn what_a_schema_does_not_name_is_refused_also_where_it_is_put_together() {
    let named = json!({"a": {"type": "integer"}});
    let b = json!({"properties": {"b": {}}, "additionalProperties": true});
    for (more, params, expected) in [
        (json!({"anyOf": [{}]}), json!({"a": 1}), "OK 0"),
        (json!({"anyOf": [{}]}), json!({"a": 1, "b": 1}), "PARAM_SCHEMA"),
        (json!({"allOf": [{"properties": {"b": {}}}]}), json!({"a": 1, "b": 1}), "OK 0"),
        (json!({"allOf": [{"properties": {"b": {}}}]}), json!({"a": 1, "c": 1}), "PARAM_SCHEMA"),
        (json!({"not": {"required": ["c"]}}), json!({"b": 1}), "PARAM_SCHEMA"),
        (json!({"patternProperties": {"^x": {}}}), json!({"xy": 1}), "OK 0"),
        (json!({"patternProperties": {"^x": {}}}), json!({"y": 1}), "PARAM_SCHEMA"),
        (json!({"$ref": "#/$defs/b", "$defs": {"b": b}}), json!({"a": 1, "b": 1}), "OK 0"),
        (json!({"anyOf": [{}], "additionalProperties": true}), json!({"b": 1}), "OK 0"),
        (json!({"anyOf": [{}], "unevaluatedProperties": true}), json!({"b": 1}), "OK 0"),
    ] {
        let mut schema = json!({"type": "object", "properties": named});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let tool = tool("fs.write", schema.clone(), |_| 0);
        assert_eq!(code(&decided(call(&tool, &params), &policy())), expected, "{schema} {params}");
    }
}

#[test]
fn a_schema_that_is_nothing_but_parts_is_closed() {
    let a = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}});
    let c = json!({"properties": {"c": {}}});
    let open = json!({"properties": {"c": {}}, "additionalProperties": true});
    let draft = |number: u8| format!("http://json-schema.org/draft-0{number}/schema#");
    let old = draft(7);
    for (schema, taken, refused) in [
        (json!({"allOf": [a, c]}), json!({"a": {"b": 1}, "c": 1}), json!({"a": {}, "x": 1})),
        (json!({"allOf": [a, c]}), json!({"a": {"b": 1}}), json!({"a": {"x": 1}})),
        (json!({"allOf": [{"allOf": [a]}, {"anyOf": [c, true]}]}), json!({"a": {}, "c": 1}), json!({"x": 1})),
        (json!({"anyOf": [{"allOf": [a]}, c]}), json!({"c": 1}), json!({"x": 1})),
        (json!({"if": a, "then": c, "else": false}), json!({"a": {}, "c": 1}), json!({"x": 1})),
        (json!({"if": {"required": ["c"]}, "then": c, "else": a}), json!({"a": {}}), json!({"a": {"x": 1}})),
        (json!({"dependentSchemas": {"a": a, "c": c}}), json!({"a": {}, "c": 1}), json!({"x": 1})),
        (json!({"dependentSchemas": {"a": a}}), json!({"a": {"b": 1}}), json!({"a": {"x": 1}})),
        (json!({"patternProperties": {"^c": a}}), json!({"c": {"a": {}}}), json!({"c": {"x": 1}})),
        (json!({"patternProperties": {"^c": {}}}), json!({"c": 1}), json!({"x": 1})),
        (json!({"properties": {"o": {"type": "object"}}}), json!({"o": {}}), json!({"o": {"x": 1}})),
        (json!({"properties": {"o": {"type": ["object"]}}}), json!({"o": {}}), json!({"o": {"x": 1}})),
        (
            json!({"properties": {"o": {"type": ["null", "object"]}}}),
            json!({"o": null}),
            json!({"o": {"x": 1}}),
        ),
        (
            json!({"properties": {"l": {"prefixItems": [{"allOf": [a]}]}}}),
            json!({"l": [{"a": {}}]}),
            json!({"l": [{"x": 1}]}),
        ),
        (json!({"$schema": old, "allOf": [a, c]}), json!({"a": {"b": 1}, "c": 1}), json!({"x": 1})),
        (json!({"$schema": draft(4), "allOf": [a, c]}), json!({"a": {"b": 1}, "c": 1}), json!({"x": 1})),
        (json!({"$schema": draft(6), "allOf": [a, c]}), json!({"a": {"b": 1}, "c": 1}), json!({"x": 1})),
        (
            json!({"$schema": old, "properties": {"n": {"$ref": "#/definitions/n", "minimum": 5}}, "definitions": {"n": {"type": "integer"}}}),
            json!({"n": 1}), // an older draft ignores what is beside a reference
            json!({"n": "x"}),
        ),
        (
            json!({"$schema": old, "properties": {"l": {"items": [{}], "additionalItems": a}}}),
            json!({"l": [1, {"a": {}}]}),
            json!({"l": [1, {"x": 1}]}),
        ),
        (json!({"properties": {"o": {"required": ["a"]}}}), json!({"o": 1}), json!({"o": {"a": 1}})),
        (json!({"additionalProperties": a}), json!({"o": {"a": {}}}), json!({"o": {"x": 1}})),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": a}}), json!({"a": {"b": 1}}), json!({"a": {"x": 1}})),
        (
            json!({"$ref": "#/definitions/a", "definitions": {"a": a}}),
            json!({"a": {"b": 1}}),
            json!({"a": {"x": 1}}),
        ),
        (json!({"allOf": [{"anyOf": [a]}]}), json!({"a": {"b": 1}}), json!({"a": {"x": 1}})),
        (json!({"allOf": [{"oneOf": [a]}]}), json!({"a": {"b": 1}}), json!({"a": {"x": 1}})),
        (json!({"allOf": [{"anyOf": [c]}]}), json!({"c": 1}), json!({"x": 1})),
        (json!({"if": {"required": ["a"]}, "then": a}), json!({"a": {"b": 1}}), json!({"a": {"x": 1}})),
        (json!({"dependentSchemas": {"a": c, "b": {}}}), json!({}), json!({"x": 1})),
        (json!({"$schema": old, "allOf": [a, {"anyOf": [c]}]}), json!({"c": 1}), json!({"x": 1})),
        (
            json!({"$schema": old, "type": "object", "properties": {"a": {}}, "allOf": [c]}),
            json!({"a": 1, "c": 1}),
            json!({"x": 1}),
        ),
        (
            json!({"$schema": old, "properties": {"l": {"items": [a]}}}),
            json!({"l": [{"a": {}}]}),
            json!({"l": [{"x": 1}]}),
        ),
    ] {
        let tool = tool("fs.write", schema.clone(), |_| 0);
        assert_eq!(code(&decided(call(&tool, &taken), &policy())), "OK 0", "{schema} {taken}");
        assert_eq!(code(&decided(call(&tool, &refused), &policy())), "PARAM_SCHEMA", "{schema} {refused}");
    }
    for schema in [
        json!({"allOf": [a, open]}),
        json!({"allOf": [a], "additionalProperties": true}),
        json!({"$schema": old, "allOf": [a, open]}),
        json!({"allOf": [{}]}),
        json!({"allOf": [true]}),
        json!({"allOf": [{"not": {"required": ["c"]}}]}),
        json!({}),
    ] {
        let tool = tool("fs.write", schema.clone(), |_| 0);
        assert_eq!(code(&decided(call(&tool, &json!({"x": 1})), &policy())), "OK 0", "{schema}");
    }
}
