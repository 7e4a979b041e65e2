//! Parameters of a plan before its run: what is wrong with those that are known, in words for their author.

use std::collections::BTreeSet;

use ostler_kernel::gate::{GatedTool, Verdict};
use ostler_kernel::plan::BadParam;
use ostler_kernel::port::ParamProblem;
use serde_json::{Value, json};

use super::{Scripted, call, code, decided, policy, tool};

/// Each fault in one line.
fn told(bad: Vec<BadParam>) -> Vec<String> {
    let line = |bad| match bad {
        BadParam::Unknown { pointer, name, known } => {
            format!("{pointer}: no {name}, but {}", known.join(" "))
        }
        BadParam::Missing { pointer, name, says } => format!("{pointer}: misses {name}, {says}"),
        BadParam::Wrong { pointer, what, help, line } => {
            let line = line.map_or(String::new(), |line| format!(" in line {line}"));
            format!("{pointer}: {what}; {help}{line}")
        }
    };
    bad.into_iter().map(line).collect()
}

fn judged(tool: &GatedTool, params: &Value, referred: &[&str]) -> Vec<String> {
    told(tool.judge(params.as_object().unwrap(), &referred.iter().copied().collect::<BTreeSet<_>>()))
}

#[test]
fn a_wrong_value_is_told_with_what_it_must_be() {
    let see = "see the parameter schema of the tool";
    for (schema, value, expected) in [
        (json!({"type": "string"}), json!(1), "must be a text, found a whole number; write it in quotes"),
        (json!({"type": "string"}), json!(true), "must be a text, found true; write it in quotes"),
        (json!({"type": "string"}), json!([]), "must be a text, found a list; give it a text"),
        (
            json!({"type": "array"}),
            json!("ls -l"),
            "must be a list, found a text; write a list with an item for each word, such as [ls, -l]",
        ),
        (json!({"type": "array"}), json!("ls"), "must be a list, found a text; give it a list"),
        (json!({"type": "integer"}), json!("7"), "must be a whole number, found a text; remove the quotes"),
        (json!({"type": "integer"}), json!("-7"), "must be a whole number, found a text; remove the quotes"),
        (
            json!({"type": "integer"}),
            json!("18446744073709551615"),
            "must be a whole number, found a text; remove the quotes",
        ),
        (
            json!({"type": "integer"}),
            json!("1.5"),
            "must be a whole number, found a text; give it a whole number",
        ),
        (
            json!({"type": "integer"}),
            json!("true"),
            "must be a whole number, found a text; give it a whole number",
        ),
        (json!({"type": "number"}), json!("1.5"), "must be a number, found a text; remove the quotes"),
        (json!({"type": "number"}), json!("true"), "must be a number, found a text; give it a number"),
        (json!({"type": "boolean"}), json!("true"), "must be true or false, found a text; remove the quotes"),
        (
            json!({"type": "boolean"}),
            json!("1"),
            "must be true or false, found a text; give it true or false",
        ),
        (
            json!({"type": "boolean"}),
            json!("maybe"),
            "must be true or false, found a text; give it true or false",
        ),
        (json!({"type": "object"}), json!(-1), "must be a map, found a negative number; give it a map"),
        (json!({"type": "null"}), json!({}), "must be null, found a map; give it null"),
        (
            json!({"type": ["array", "string"]}),
            json!(1.5),
            "must be a text or a list, found a number with a fraction; give it a text or a list",
        ),
        (
            json!({"enum": ["read", "write", 1]}),
            json!("writ"),
            "must be one of read, write, 1; did you mean \"write\"?",
        ),
        (
            json!({"enum": ["read", "write", 1]}),
            json!("nothing"),
            "must be one of read, write, 1; use one of read, write, 1",
        ),
        (
            json!({"enum": ["read", "write", 1]}),
            json!(2),
            "must be one of read, write, 1; use one of read, write, 1",
        ),
        (json!({"const": "a"}), json!(1), "must be a, found a whole number; give it a"),
        (json!({"const": [1]}), json!(1), "must be [1], found a whole number; give it [1]"),
        (json!({"minimum": 2}), json!(1), "must be 2 or more; give it 2 or more"),
        (json!({"maximum": 2}), json!(3), "must be 2 or less; give it 2 or less"),
        (json!({"exclusiveMinimum": 2}), json!(2), "must be more than 2; give it more than 2"),
        (json!({"exclusiveMaximum": 2}), json!(2), "must be less than 2; give it less than 2"),
        (json!({"minLength": 1}), json!(""), "must not be empty; write something"),
        (json!({"minLength": 2}), json!(""), "must have 2 characters or more; give it 2 characters or more"),
        (
            json!({"maxLength": 1}),
            json!("ab"),
            "must have 1 characters or fewer; give it 1 characters or fewer",
        ),
        (json!({"minItems": 1}), json!([]), "must not be empty; give it an item"),
        (json!({"minItems": 2}), json!([]), "must have 2 items or more; give it 2 items or more"),
        (json!({"maxItems": 0}), json!([1]), "must have 0 items or fewer; give it 0 items or fewer"),
        (json!({"pattern": "^a"}), json!("b"), "must match /^a/; give a value that matches"),
    ] {
        let tool = tool("t", json!({"properties": {"x/y": schema}}), |_| 0);
        assert_eq!(
            judged(&tool, &json!({"x/y": value}), &[]),
            [format!("/x~1y: {expected}")],
            "{schema} {value}"
        );
    }
    for schema in
        [json!({"anyOf": [{"type": "null"}, {"const": 1}]}), json!({"oneOf": [{"const": 1}, {"const": 2}]})]
    {
        let tool = tool("t", json!({"properties": {"x": schema}}), |_| 0);
        let expected = [format!("/x: matches none of the allowed forms; {see}")];
        assert_eq!(judged(&tool, &json!({"x": "a"}), &[]), expected, "{schema}");
    }
    let tool = tool("t", json!({"properties": {"x": {"multipleOf": 2}}}), |_| 0);
    let found = judged(&tool, &json!({"x": 3}), &[]);
    let [other] = &found[..] else { panic!("{found:?}") };
    assert!(other.starts_with("/x: ") && other.ends_with(see), "{other}");
}

#[test]
fn only_what_the_missing_parameters_cannot_mend_is_told() {
    let schema = json!({
        "required": ["to", "text"],
        "properties": {
            "to": {"type": "string", "description": "the receiver"}, "text": {}, "n": {"type": "integer", "default": 1},
            "deep": {"type": "object", "required": ["a~b"], "properties": {"a~b": {"description": "deep"}, "c": {}}},
        },
        "dependentRequired": {"text": ["n", "to"]},
        "minProperties": 3,
    });
    let tool = tool("t", schema, |_| 0);
    let missing = |name: &str, says: &str| format!(": misses {name}, {says}");
    for (params, referred, expected) in [
        (json!({"to": "x", "text": 1}), &[][..], vec![]),
        (json!({"to": "x"}), &["text"], vec![]),
        (json!({}), &["text", "to"], vec![]),
        (json!({}), &["text"], vec![missing("to", "the receiver")]),
        (json!({}), &["n"], vec![missing("to", "the receiver"), missing("text", "")]),
        (
            json!({"to": 1}),
            &["text"],
            vec!["/to: must be a text, found a whole number; write it in quotes".to_owned()],
        ),
        (json!({"to": "x", "deep": {"c": 1}}), &["text"], vec!["/deep: misses a~b, deep".to_owned()]),
        (json!({"to": "x", "text": 1, "deep": {}}), &[], vec!["/deep: misses a~b, deep".to_owned()]),
        (
            json!({"to": "x", "text": 1, "deep": {"a~b": 1, "x/y": 1}}),
            &[],
            vec!["/deep/x~1y: no x/y, but a~b c".to_owned()],
        ),
        (json!({"to": "x", "odd": 1}), &["text"], vec!["/odd: no odd, but deep n text to".to_owned()]),
        (json!({"to": "x"}), &["text", "o/d"], vec!["/o~1d: no o/d, but deep n text to".to_owned()]),
    ] {
        let mut found = judged(&tool, &params, referred);
        found.sort();
        let mut expected = expected;
        expected.sort();
        assert_eq!(found, expected, "{params} {referred:?}");
    }
    let schema = json!({"properties": {"a": {}, "z": {}}, "allOf": [{"required": ["z"]}]});
    let tool = super::tool("t", schema, |_| 0);
    assert_eq!(judged(&tool, &json!({}), &[]), [": misses z, "]);
    assert_eq!(
        judged(&tool, &json!({}), &["a"]),
        [""; 0],
        "a part may be mended by what the reference brings"
    );
    assert_eq!(judged(&tool, &json!({"z": 1, "odd": 1}), &[]), ["/odd: no odd, but a z"]);
    let schema = json!({
        "properties": {"a": {}, "b": {}},
        "if": {"properties": {"a": {"const": 1}}},
        "then": {"properties": {"b": {"const": 1}}},
    });
    let tool = super::tool("t", schema, |_| 0);
    assert_eq!(judged(&tool, &json!({"b": 2}), &[]), ["/b: must be 1, found a whole number; give it 1"]);
    assert_eq!(judged(&tool, &json!({"b": 2}), &["a"]), [""; 0], "the condition may not hold");
}

#[test]
fn a_reference_may_fill_whatever_an_open_schema_takes() {
    let unknown = "/x: no x, but a";
    for (more, expected) in [
        (json!({}), &[unknown][..]),
        (json!({"additionalProperties": false}), &[unknown]),
        (json!({"additionalProperties": true}), &[]),
        (json!({"additionalProperties": {"type": "string"}}), &[]),
        (json!({"allOf": [{}]}), &[]),
        (json!({"anyOf": [{}]}), &[]),
        (json!({"oneOf": [{}]}), &[]),
        (json!({"$ref": "#/$defs/d", "$defs": {"d": {}}}), &[]),
        (json!({"patternProperties": {"^x": {}}}), &[]),
        (json!({"not": {"required": ["b"]}}), &[unknown]),
    ] {
        let mut schema = json!({"type": "object", "properties": {"a": {}}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let tool = tool("t", schema, |_| 0);
        assert_eq!(judged(&tool, &json!({}), &["x"]), expected, "{more}");
        assert_eq!(judged(&tool, &json!({}), &["a"]), [""; 0], "{more}");
    }
}

/// The default of a parameter that a reference fills is not judged in its place.
#[test]
fn a_default_stands_only_for_what_nobody_fills() {
    let schema = json!({"properties": {"a": {"type": "string", "default": 1}, "b": {}}});
    let tool = tool("t", schema, |_| 0);
    let wrong = ["/a: must be a text, found a whole number; write it in quotes"];
    assert_eq!(judged(&tool, &json!({}), &[]), wrong);
    assert_eq!(judged(&tool, &json!({}), &["b"]), wrong);
    assert_eq!(judged(&tool, &json!({}), &["a"]), [""; 0]);
    assert_eq!(judged(&tool, &json!({"a": 1}), &["a"]), wrong);
    assert_eq!(judged(&tool, &json!({"a": "x"}), &[]), [""; 0]);
}

#[test]
fn a_reserved_name_is_told_once() {
    let reserved = |name: &str| {
        format!("/{name}: reserved parameter name: a call cannot set its own authority; remove it")
    };
    let open = tool("t", json!({"additionalProperties": true}), |_| 0);
    assert_eq!(judged(&open, &json!({"cap": 1, "a": 1}), &[]), [reserved("cap")]);
    assert_eq!(judged(&open, &json!({"a": 1}), &["scope", "b"]), [reserved("scope")]);
    let closed = tool("t", json!({"properties": {"a": {}}}), |_| 0);
    assert_eq!(judged(&closed, &json!({"cap": 1}), &[]), ["/cap: no cap, but a"]);
    assert_eq!(judged(&closed, &json!({"cap": 1}), &["epoch"]).len(), 2);
}

#[test]
fn the_check_of_a_tool_adds_to_that_of_its_schema() {
    let problem = |name: &str| ParamProblem {
        name: name.to_owned(),
        what: "is odd".to_owned(),
        help: "mend it".to_owned(),
        line: Some(2),
    };
    let schema = json!({"properties": {"a": {"type": "string"}, "b": {}, "c/d": {}}});
    let problems = vec![problem("a"), problem("c/d")];
    let tool = Scripted { problems, ..Scripted::new("t", "1", schema, |_| 0) }.gated().unwrap();
    let odd = "/c~1d: is odd; mend it in line 2";
    assert_eq!(judged(&tool, &json!({"a": "x"}), &[]), ["/a: is odd; mend it in line 2", odd]);
    let wrong = "/a: must be a text, found a list; give it a text";
    assert_eq!(judged(&tool, &json!({"a": []}), &[]), [wrong, odd], "a parameter has one fault");
}

#[test]
fn a_fault_of_a_call_names_its_place() {
    let schema = json!({"properties": {
        "n": {"type": "integer"}, "d": {"enum": [2.0]}, "o": {"type": "object", "properties": {"s": {"type": "string"}}},
    }, "maxProperties": 2});
    let tool = tool("fs.write", schema, |_| 0);
    let strict = "an integer is written with a fraction or an exponent, or a number is not listed";
    for (params, expected) in [
        (json!({"n": 1, "d": 2.0}), None),
        (json!({"n": 1.0}), Some(strict)),
        (json!({"d": 2}), Some(strict)),
        (json!({"o": {"s": 1}}), Some(" at /o/s")),
        (json!({"n": 1, "d": 2.0, "o": {}}), Some("")),
    ] {
        let verdict = decided(call(&tool, &params), &policy());
        assert_eq!(code(&verdict) == "OK 0", expected.is_none(), "{params}");
        if let (Verdict::Denied(denial), Some(expected)) = (verdict, expected) {
            assert!(denial.operator.ends_with(expected), "{}", denial.operator);
            assert_eq!(denial.operator.contains(" at "), expected.starts_with(" at "), "{}", denial.operator);
        }
    }
}

#[test]
fn each_default_stands_for_its_own_parameter() {
    let schema = json!({"properties": {"a": {"default": 1}, "b": {"default": 2}, "n": {"type": "integer"}}});
    let tool = tool("fs.write", schema, |_| 0);
    for (params, expected) in [
        (json!({}), json!({"a": 1, "b": 2})),
        (json!({"a": 3}), json!({"a": 3, "b": 2})),
        (json!({"b": null, "n": 1}), json!({"a": 1, "b": null, "n": 1})),
        (json!({"a": 3, "b": 4}), json!({"a": 3, "b": 4})),
    ] {
        let verdict = decided(call(&tool, &params), &policy());
        let Verdict::Allowed { permit, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(Value::Object(permit.into_params()), expected, "{params}");
    }
    assert_eq!(
        code(&decided(call(&tool, &json!({"n": 1.0})), &policy())),
        "PARAM_SCHEMA",
        "no default lists it"
    );
}

#[test]
fn a_tool_says_whether_it_takes_paths_and_what_it_gives() {
    let paths = |schema: Value| tool("t", schema, |_| 0).takes_paths();
    assert!(paths(json!({"properties": {"a": {"format": "path"}}})));
    assert!(!paths(json!({"properties": {"a": {"format": "uri"}}})) && !paths(Value::Null));
    let result = |result: Value| {
        let mut scripted = Scripted::new("t", "1", json!({}), |_| 0);
        scripted.spec.result = result;
        scripted.gated().unwrap().result_schema()
    };
    assert_eq!(result(json!({"type": "null"})).as_deref(), Some(&json!({"type": "null"})));
    assert_eq!(result(Value::Null), None);
}
