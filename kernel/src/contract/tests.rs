use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn rule(method: Method, spec: Value) -> Rule {
    Rule { method, p: None, spec: Some(spec.into()) }
}

fn check(method: Method, spec: Value, output: &Value, expected: Expect) {
    let found = match judge(&[rule(method, spec)], output) {
        Ok(judgement) if judgement.holds() => "holds".to_owned(),
        Ok(judgement) => judgement.broken.iter().map(BrokenRule::to_string).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("error: {error}"),
    };
    expected.assert_eq(&found);
}

#[test]
fn a_schema_names_the_place_and_what_was_there() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    check(Method::Schema, schema.clone(), &json!({"n": 1}), expect!["holds"]);
    check(
        Method::Schema,
        schema.clone(),
        &json!({"n": "one"}),
        expect![[
            r#"contract[0]: expected an output valid under its schema (value is not of type "integer"), found "one" at /n"#
        ]],
    );
    check(
        Method::Schema,
        schema,
        &json!({}),
        expect![[
            r#"contract[0]: expected an output valid under its schema ("n" is a required property), found {}"#
        ]],
    );
    check(
        Method::Schema,
        json!({"type": 7}),
        &json!({}),
        expect![[
            r#"error: contract[0]: schema at "/type": 7 is not valid under any of the schemas listed in the 'anyOf' keyword"#
        ]],
    );
    check(Method::Schema, Value::Null, &json!({}), expect!["holds"]);
}

#[test]
fn a_violation_in_branches_is_found_where_the_list_of_all_fits() {
    let texts = json!({"additionalProperties": {"items": {"type": "string"}}});
    let judged = |schema: &Value, items: usize| {
        let output = json!({"k".repeat(50_000): vec![0; items]});
        let broken = judge(&[rule(Method::Schema, schema.clone())], &output).unwrap().broken.remove(0);
        broken.found.ends_with("too large to find the place")
    };
    let branches = json!({"anyOf": [texts]});
    assert_eq!([judged(&branches, 100), judged(&branches, 20_000)], [false, true]);
    assert!(!judged(&texts, 20_000), "the first violation needs no list");
}

#[test]
fn a_judgement_that_would_take_too_long_is_none() {
    let once = json!({"properties": {"x": {"$ref": "#"}}});
    let schema = json!({"allOf": [once, once]});
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
    check(Method::Schema, schema.clone(), &nested(3), expect!["holds"]);
    check(
        Method::Schema,
        schema,
        &nested(30),
        expect![
            "contract[0]: expected an output that its contract judges in 100000000 steps, found one that may take 4160749413 with this rule; give a smaller or flatter one, or simpler patterns and schemas"
        ],
    );
    let slow = "(a{1000}){20}b";
    for (method, spec) in [
        (Method::Schema, json!({"properties": {"text": {"not": {"pattern": slow}}}})),
        (Method::Code, json!({"check": "matches", "path": "text", "value": slow})),
    ] {
        let most = usize::try_from(JUDGEMENT_STEPS_MAX / 1024).unwrap();
        let text = |bytes: usize| json!({"text": "x".repeat(bytes)});
        let rules = [rule(method, spec)];
        let contract = Contract::compile(&rules).unwrap();
        assert!(contract.steps(&text(most - 10)) <= JUDGEMENT_STEPS_MAX);
        assert!(contract.steps(&text(most + 1)) > JUDGEMENT_STEPS_MAX);
        let broken = contract.judge(&text(most + 1)).broken.remove(0).to_string();
        assert!(broken.contains("in 100000000 steps"), "{broken}");
    }
    let letters = rule(Method::Code, json!({"check": "matches", "value": "^[a-z]+$"}));
    let both = Contract::compile(&[letters.clone(), letters]).unwrap();
    let most = usize::try_from(JUDGEMENT_STEPS_MAX / 4).unwrap();
    let broken = both.judge(&json!("x".repeat(most / 2 + 10))).broken;
    assert_eq!(broken.iter().map(|broken| broken.rule).collect::<Vec<_>>(), [1], "the steps of both count");
    let links = (0..40).map(|at| {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        (format!("a{at}"), json!({"allOf": [next, next]}))
    });
    let mut definitions: Map<String, Value> = links.collect();
    definitions.insert("a40".to_owned(), json!({"type": "object"}));
    let fault = check_spec(&rule(Method::Schema, json!({"$defs": definitions, "$ref": "#/$defs/a0"})));
    let SpecError { what, help, .. } = fault.unwrap_err();
    expect!["the schema takes more than 10000 evaluation steps for one value, with every reference followed; use fewer nested references: allOf, anyOf, oneOf and similar keywords multiply the steps"].assert_eq(&format!("{what}; {help}"));
}

#[test]
fn what_was_found_is_shown_in_part() {
    let long = json!({"text": "é".repeat(1_000_000)});
    let judgement = judge(&[rule(Method::Schema, json!({"type": "string"}))], &long).unwrap();
    assert!(judgement.broken[0].to_string().len() < 3 * EXCERPT_BYTES_MAX);
    assert!(judgement.broken[0].found.ends_with('…'));
}

#[test]
fn code_checks_say_what_they_expected() {
    let output = json!({"status": 3, "text": "héllo", "list": [1, 2], "none": null, "empty": [], "deep": {"a": [0.5]}});
    let check = |spec: Value, expected: Expect| check(Method::Code, spec, &output, expected);
    check(json!({"check": "non_empty", "path": "list"}), expect!["holds"]);
    check(
        json!({"check": "non_empty", "path": "empty"}),
        expect!["contract[0]: expected something that is not empty at empty, found []"],
    );
    check(
        json!({"check": "non_empty", "path": "none"}),
        expect!["contract[0]: expected something that is not empty at none, found null"],
    );
    check(
        json!({"check": "non_empty", "path": "nowhere.else"}),
        expect!["contract[0]: expected something at nowhere.else, found nothing"],
    );
    check(json!({"check": "non_empty"}), expect!["holds"]);
    check(json!({"check": "max_bytes", "path": "text", "value": 6}), expect!["holds"]);
    check(
        json!({"check": "max_bytes", "path": "text", "value": 5}),
        expect![[r#"contract[0]: expected at most 5 bytes at text, found "héllo""#]],
    );
    check(
        json!({"check": "max_bytes", "path": "list", "value": 4}),
        expect!["contract[0]: expected at most 4 bytes at list, found [1,2]"],
    );
    check(json!({"check": "min_items", "path": "list", "value": 2}), expect!["holds"]);
    check(
        json!({"check": "min_items", "path": "list", "value": 3}),
        expect!["contract[0]: expected a list of at least 3 items at list, found [1,2]"],
    );
    check(
        json!({"check": "min_items", "path": "text", "value": 3}),
        expect![[r#"contract[0]: expected a list of at least 3 items at text, found "héllo""#]],
    );
    check(json!({"check": "matches", "path": "text", "value": "^h.llo$"}), expect!["holds"]);
    check(json!({"check": "matches", "path": "list", "value": "^\\[1,2\\]$"}), expect!["holds"]);
    check(
        json!({"check": "matches", "path": "text", "value": "^x"}),
        expect![[r#"contract[0]: expected a match of /^x/ at text, found "héllo""#]],
    );
    check(json!({"check": "equals", "path": "deep", "value": {"a": [5e-1]}}), expect!["holds"]);
    check(json!({"check": "equals", "path": "status", "value": 3.0}), expect!["holds"]);
    check(
        json!({"check": "equals", "path": "status", "value": "3"}),
        expect![[r#"contract[0]: expected "3" at status, found 3"#]],
    );
    check(json!({"check": "status", "value": [0, 3]}), expect!["holds"]);
    check(
        json!({"check": "status", "value": 0}),
        expect!["contract[0]: expected status [0] at status, found 3"],
    );
    check(
        json!({"check": "status", "path": "text", "value": 0}),
        expect![[r#"contract[0]: expected status [0] at text, found "héllo""#]],
    );
}

#[test]
fn a_malformed_spec_is_refused_before_anything_runs() {
    let check = |method, spec: Value, expected: Expect| {
        let fault = check_spec(&rule(method, spec)).expect_err("malformed");
        expected.assert_eq(&format!("{:?} {}; {}", fault.pointer, fault.what, fault.help));
    };
    check(
        Method::Code,
        Value::Null,
        expect![[
            r#""" a code rule needs a `spec`; add a `spec`, such as {check: non_empty, path: matches}"#
        ]],
    );
    check(
        Method::Code,
        json!("non_empty"),
        expect![[
            r#""" the `spec` of a code rule must be a map, found a text; give a `check`, and a `path` and a `value` if the check needs them"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "nonsense"}),
        expect![[
            r#""/check" unknown check "nonsense"; use one of non_empty, max_bytes, min_items, matches, equals, status"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "non_empty", "value": 1}),
        expect![[r#""/value" non_empty takes no `value`; remove `value`"#]],
    );
    check(
        Method::Code,
        json!({"check": "non_empty", "pth": "a"}),
        expect![[r#""/pth" unknown key "pth"; did you mean "path"?"#]],
    );
    check(
        Method::Code,
        json!({"check": "max_bytes"}),
        expect![[
            r#""" max_bytes needs a `value`: a whole number of 0 or more; give it a whole number of 0 or more"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "max_bytes", "value": -1}),
        expect![[
            r#""/value" `value` of max_bytes must be a whole number of 0 or more, found a negative number; give it a whole number of 0 or more"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "min_items", "value": 1.5}),
        expect![[
            r#""/value" `value` of min_items must be a whole number of 0 or more, found a number with a fraction; give it a whole number of 0 or more"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "matches", "value": "("}),
        expect![[
            r#""/value" the pattern is not a regular expression: unclosed group; write a regular expression of the `regex` crate: no look-around"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "matches", "value": "(a{1000}){1000}"}),
        expect![[
            r#""/value" the pattern is not a regular expression: it compiles to more than 1048576 bytes; write a regular expression of the `regex` crate: no look-around"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "matches", "value": "a".repeat(5000)}),
        expect![[
            r#""/value" the pattern has 5000 bytes, at most 4096 are allowed; write a regular expression of the `regex` crate: no look-around"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "equals"}),
        expect![[r#""" equals needs a `value`: what to compare with; give it what to compare with"#]],
    );
    check(
        Method::Code,
        json!({"check": "status", "value": []}),
        expect![[
            r#""/value" `value` of status must be a whole number, or a list of one or more, found a list; give it a whole number, or a list of one or more"#
        ]],
    );
    check(
        Method::Code,
        json!({"check": "status", "value": ["0"]}),
        expect![[
            r#""/value" `value` of status must be a whole number, or a list of one or more, found a list; give it a whole number, or a list of one or more"#
        ]],
    );
    check(
        Method::Test,
        json!({"argv": []}),
        expect![[
            r#""/argv" `argv` must begin with the name of a program; give the program and its arguments: spec: {argv: [make, check]}"#
        ]],
    );
    check(
        Method::Test,
        json!({"argv": "cargo test"}),
        expect![[
            r#""/argv" `argv` must be a list of texts; give the program and its arguments: spec: {argv: [make, check]}"#
        ]],
    );
    check(
        Method::Test,
        json!({"argv": ["cargo"], "cwd": "/"}),
        expect![[r#""/cwd" unknown key "cwd"; remove it; known keys: argv"#]],
    );
    check(
        Method::Test,
        json!({"argv": vec!["x"; TEST_ARGUMENTS_MAX + 1]}),
        expect![[
            r#""/argv" `argv` has 257 elements, at most 256 are allowed; give the program and its arguments: spec: {argv: [make, check]}"#
        ]],
    );
    check(
        Method::Test,
        Value::Null,
        expect![[
            r#""" a test rule needs a `spec`; give the program and its arguments: spec: {argv: [make, check]}"#
        ]],
    );
}

#[test]
fn a_malformed_question_is_refused_before_anything_runs() {
    let check = |method, spec: Value, expected: Expect| {
        let fault = check_spec(&rule(method, spec)).expect_err("malformed");
        expected.assert_eq(&format!("{:?} {}; {}", fault.pointer, fault.what, fault.help));
    };
    let (model, human) = (Method::Model, Method::Human);
    let long = "x".repeat(QUESTION_BYTES_MAX + 1);
    check(
        model,
        Value::Null,
        expect![[
            r#""" a model rule needs a `spec`; give the question: spec: {ask: "Is every statement supported?"}"#
        ]],
    );
    check(
        model,
        json!(7),
        expect![[
            r#""" the `spec` of a model rule must be a text or a map, found a whole number; give the question: spec: {ask: "Is every statement supported?"}"#
        ]],
    );
    check(
        model,
        json!({"model": "m"}),
        expect![[r#""" `ask` is missing; give the question: spec: {ask: "Is every statement supported?"}"#]],
    );
    check(
        model,
        json!({"ask": ["a"]}),
        expect![[
            r#""/ask" `ask` must be a text, found a list; give the question: spec: {ask: "Is every statement supported?"}"#
        ]],
    );
    check(
        model,
        json!({"ask": " "}),
        expect![[
            r#""/ask" the question is empty; give the question: spec: {ask: "Is every statement supported?"}"#
        ]],
    );
    check(
        model,
        json!({"ask": "?", "model": 1}),
        expect![[
            r#""/model" `model` must be the name of a model, found a whole number; name a configured model, or remove `model`"#
        ]],
    );
    check(
        model,
        json!({"ask": "?", "modle": "m"}),
        expect![[r#""/modle" unknown key "modle"; did you mean "model"?"#]],
    );
    check(
        model,
        json!(long),
        expect![[
            r#""" the question has 16385 bytes, at most 16384 are allowed; ask something shorter, or use several rules"#
        ]],
    );
    check(
        human,
        Value::Null,
        expect![[r#""" a human rule needs a `spec`; give the question: spec: {ask: "Is it polite?"}"#]],
    );
    check(
        human,
        json!({"ask": "?", "model": "m"}),
        expect![[r#""/model" unknown key "model"; remove it; known keys: ask"#]],
    );
}

#[test]
fn tests_and_opinions_are_left_to_the_caller() {
    let rules = [
        rule(Method::Human, json!({"ask": "is it good?"})),
        rule(Method::Test, json!({"argv": ["cargo", "test"]})),
        Rule { p: Some(0.9), ..rule(Method::Model, json!({"ask": "is it?", "model": "big"})) },
        rule(Method::Code, json!({"check": "non_empty"})),
    ];
    let judgement = judge(&rules, &json!("")).unwrap();
    assert_eq!(judgement.tests, [Test { rule: 1, argv: vec!["cargo".into(), "test".into()] }]);
    let asked = ModelQuestion { rule: 2, ask: "is it?".into(), model: Some("big".into()) };
    assert_eq!((judgement.people, judgement.models), (vec![0], vec![asked]));
    assert_eq!(judgement.broken.len(), 1);
    assert_eq!(judgement.broken[0].rule, 3);
}
