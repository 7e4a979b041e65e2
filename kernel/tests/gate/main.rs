//! Verdicts of the gate through its public API. The conformance cases run in the crate of simulations.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may panic, say that it skips, and look for the shared cases"
)]

mod domain;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::contract::SchemaError;
use ostler_kernel::gate::{
    Call, CallClass, CallLimits, Egress, GatePolicy, GatedTool, Permit, Preview, Provenance, REFUSAL, Scope,
    Spent, Verdict, decide, preflight, preview,
};
use ostler_kernel::id::Digest;
use ostler_kernel::json::{canonical, parse_value};
use ostler_kernel::lineage;
use ostler_kernel::plan::{BadParam, Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

type Classify = Box<dyn Fn(&Map<String, Value>) -> u8 + Send + Sync>;

/// A tool that only declares a class.
struct Scripted {
    spec: ToolSpec,
    impact: Classify,
}

impl Tool for Scripted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        let impact = (self.impact)(params);
        let effect = if impact == 0 { Effect::Read } else { Effect::Write };
        CallClass { impact, effect, idem: Idempotency::Natural }
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move { Ok(Value::Object(permit.into_params())) })
    }
}

fn tool(
    name: &str,
    params: Value,
    impact: impl Fn(&Map<String, Value>) -> u8 + Send + Sync + 'static,
) -> GatedTool {
    gated(name, params, impact).unwrap()
}

fn gated(
    name: &str,
    params: Value,
    impact: impl Fn(&Map<String, Value>) -> u8 + Send + Sync + 'static,
) -> Result<GatedTool, SchemaError> {
    let spec = ToolSpec {
        name: name.into(),
        version: "1".into(),
        description: String::new(),
        params,
        result: json!({}),
    };
    GatedTool::new(Arc::new(Scripted { spec, impact: Box::new(impact) }))
}

fn write_tool() -> GatedTool {
    let params = json!({
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "format": "path"},
            "more": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            "mode": {"enum": ["read", "write", "wipe"], "default": "write"},
            "callback": {"anyOf": [{"type": "null"}, {"type": "string", "format": "uri"}, {"type": "array"}]},
            "options": {"type": "object", "properties": {"deep": {"type": "boolean", "default": true}}}
        },
        "$defs": {"place": {"type": "string", "format": "path"}}
    });
    tool("fs.write", params, |params| match params["mode"].as_str() {
        Some("read") => 0,
        Some("write") => 1,
        Some("wipe") => 2,
        _ => panic!("defaults are filled in before the tool is asked"),
    })
}

fn policy() -> GatePolicy {
    let scope = |cap| Scope { tools: BTreeMap::from([("fs.write".to_owned(), cap)]) };
    GatePolicy {
        scopes: BTreeMap::from([
            ("all".to_owned(), scope(None)),
            ("capped".to_owned(), scope(Some(1))),
            ("none".to_owned(), Scope::default()),
        ]),
        ceiling: 2,
        egress: Egress::new(["hooks.example.com:443"]).unwrap(),
        ..GatePolicy::default()
    }
}

fn call<'a>(tool: &'a GatedTool, params: &Value) -> Call<'a> {
    Call {
        tool: Some(tool),
        name: "fs.write",
        params: params.as_object().unwrap().clone().into(),
        floor: 0,
        intent: 2,
        scope: "all".into(),
        workspace: Some("/srv"),
        provenance: Provenance::PLAN,
        spent: Spent::NOTHING,
    }
}

/// The verdict, after checking that the preview agrees.
fn decided(call: Call<'_>, policy: &GatePolicy) -> Verdict {
    let previewed = preview(call.clone(), policy);
    let verdict = decide(call, Digest([7; 32]), policy);
    match (&verdict, previewed) {
        (Verdict::Allowed { permit, impact }, Ok(Preview { params, class, .. })) => {
            assert_eq!((permit.params(), permit.class(), *impact), (&*params, class, class.impact));
        }
        (Verdict::Denied(denial), Err(previewed)) => assert_eq!(*denial, previewed),
        (verdict, previewed) => panic!("{verdict:?}, but previewed as {previewed:?}"),
    }
    verdict
}

fn code(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allowed { impact, .. } => format!("OK {impact}"),
        Verdict::Denied(denial) => denial.code.to_string(),
    }
}

#[test]
fn parameters_are_judged_with_their_defaults() {
    let tool = write_tool();
    for (params, expected) in [
        (json!({"path": "a"}), "OK 1"),
        (json!({"path": "a", "mode": "read"}), "OK 0"),
        (json!({"path": "a", "mode": "wipe", "more": ["b", "/srv/c"]}), "OK 2"),
        (json!({"path": "a", "mode": null}), "PARAM_SCHEMA"),
        (json!({}), "PARAM_SCHEMA"),
        (json!({"path": 1}), "PARAM_SCHEMA"),
        (json!({"path": "a", "unknown": 1}), "PARAM_SCHEMA"),
        (json!({"path": "a", "options": {"deep": false}}), "OK 1"),
        (json!({"path": "a", "options": {"wide": false}}), "PARAM_SCHEMA"),
        (json!({"path": "../a"}), "PATH_ESCAPE"),
        (json!({"path": "a", "more": ["b", "%2e%2e/c"]}), "PATH_ESCAPE"),
        (json!({"path": "a", "more": []}), "OK 1"),
        (json!({"path": "a", "callback": "https://hooks.example.com/x"}), "OK 1"),
        (json!({"path": "a", "callback": "https://evil.example.com/x"}), "EGRESS_FORBIDDEN"),
        (json!({"path": "a", "callback": ["https://hooks.example.com/", ["http://x"]]}), "EGRESS_FORBIDDEN"),
        (json!({"path": "a", "callback": null}), "EGRESS_FORBIDDEN"),
        (json!({"path": "..", "callback": "http://x"}), "PATH_ESCAPE"),
    ] {
        assert_eq!(code(&decided(call(&tool, &params), &policy())), expected, "{params}");
    }
}

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
        let found = gated("fs.write", schema, |_| 0).unwrap_err().to_string();
        let expected = "`propertyNames` with `format: path`: parameter names are not checked; pass them as values, \
                        such as {properties: {names: {type: array, items: {type: string, format: path}}}}";
        assert_eq!(found, expected);
    }
}

#[test]
fn the_smallest_limit_is_named_and_on_ties_the_first() {
    let tool = write_tool();
    for (mode, floor, intent, scope, ceiling, expected) in [
        ("wipe", 0, 2, "all", 2, "OK 2"),
        ("wipe", 0, 1, "all", 2, "IMPACT_OVER_INTENT"),
        ("wipe", 0, 2, "capped", 2, "IMPACT_OVER_SCOPE_CAP"),
        ("wipe", 0, 2, "all", 1, "IMPACT_OVER_TENANT_CEILING"),
        ("wipe", 0, 1, "capped", 1, "IMPACT_OVER_INTENT"),
        ("wipe", 0, 2, "capped", 1, "IMPACT_OVER_SCOPE_CAP"),
        ("wipe", 0, 2, "capped", 0, "IMPACT_OVER_TENANT_CEILING"),
        ("wipe", 0, 1, "capped", 0, "IMPACT_OVER_TENANT_CEILING"),
        ("read", 0, 0, "capped", 0, "OK 0"),
        ("read", 1, 0, "all", 2, "IMPACT_OVER_INTENT"),
        ("read", 1, 1, "all", 2, "OK 1"),
        ("write", 0, 0, "none", 0, "OUT_OF_SCOPE"),
        ("write", 0, 0, "nowhere", 0, "SCOPE_UNRESOLVED"),
    ] {
        let params = json!({"path": "a", "mode": mode});
        let call = Call { floor, intent, scope: scope.into(), ..call(&tool, &params) };
        let verdict = decided(call, &GatePolicy { ceiling, ..policy() });
        assert_eq!(code(&verdict), expected, "{mode} {floor} {intent} {scope} {ceiling}");
    }
}

#[test]
fn a_refusal_never_shows_that_a_tool_exists() {
    let tool = write_tool();
    let wrong = json!({"nonsense": 1});
    let ungranted = decided(Call { scope: "none".into(), ..call(&tool, &wrong) }, &policy());
    let unknown = decided(Call { tool: None, name: "no.such", ..call(&tool, &wrong) }, &policy());
    let unregistered = decided(Call { tool: None, ..call(&tool, &wrong) }, &policy());
    let other = decided(Call { name: "no.such", ..call(&tool, &wrong) }, &policy());
    for verdict in [ungranted, unknown, unregistered, other] {
        let Verdict::Denied(denial) = verdict else { panic!("{verdict:?}") };
        assert_eq!((denial.code.as_str(), denial.for_model()), ("OUT_OF_SCOPE", REFUSAL));
    }
    let Verdict::Denied(granted) = decided(call(&tool, &wrong), &policy()) else { panic!() };
    assert_ne!(granted.for_model(), REFUSAL);
}

#[test]
fn a_tool_that_cannot_say_what_it_does_does_the_worst() {
    for impact in [|_: &Map<String, Value>| -> u8 { panic!("no idea") }, |_: &Map<String, Value>| 3] {
        let tool = tool("fs.write", json!({"type": "object"}), impact);
        assert_eq!(code(&decided(call(&tool, &json!({})), &policy())), "OK 2");
        let limited = Call { intent: 1, ..call(&tool, &json!({})) };
        assert_eq!(code(&decided(limited, &policy())), "IMPACT_OVER_INTENT");
    }
}

#[test]
fn parameters_are_bounded_in_depth_and_bytes() {
    let open = tool("fs.write", json!({"type": "object", "additionalProperties": true}), |_| 0);
    let nested = |depth: usize| {
        let inner = format!("{}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        parse_value(&format!(r#"{{"a":{inner}}}"#)).unwrap()
    };
    let judge =
        |params: &Value, limits| code(&decided(call(&open, params), &GatePolicy { limits, ..policy() }));
    let limits = CallLimits { max_depth: 32, max_bytes: 80 };
    assert_eq!(judge(&nested(32), limits), "OK 0");
    assert_eq!(judge(&nested(33), limits), "PARAM_SCHEMA");
    let text = |bytes: usize| json!({"a": "x".repeat(bytes - 8)});
    assert_eq!(judge(&text(80), limits), "OK 0");
    assert_eq!(judge(&text(81), limits), "PARAM_SCHEMA");
    assert_eq!(judge(&json!({"a": 1e20}), CallLimits::PLAN_FILE), "PARAM_SCHEMA");
    for nul in [json!({"a": "b\0"}), json!({"\0": 1}), json!({"a": [[{"b\0c": 1}]]})] {
        assert_eq!(judge(&nul, CallLimits::PLAN_FILE), "PARAM_SCHEMA", "{nul}");
    }
    for (number, expected) in [
        ("9007199254740991", "OK 0"),
        ("-9007199254740991", "OK 0"),
        ("9007199254740992", "PARAM_SCHEMA"),
        ("-9007199254740992", "PARAM_SCHEMA"),
        ("1e21", "OK 0"),
    ] {
        let params = parse_value(&format!(r#"{{"a":[{{"b":{number}}}]}}"#)).unwrap();
        assert_eq!(judge(&params, CallLimits::PLAN_FILE), expected, "{number}");
    }
    let bare = tool("fs.write", Value::Null, |_| 0);
    assert_eq!(code(&decided(call(&bare, &json!({})), &policy())), "OK 0");
    assert_eq!(code(&decided(call(&bare, &json!({"a": 1})), &policy())), "PARAM_SCHEMA");
}

/// Limits apply to the author's parameters with resolved references; defaults are the tool's own.
#[test]
fn defaults_count_for_no_limit() {
    let schema = json!({"type": "object", "properties": {"a": {}, "b": {"default": [["as long as this"]]}}});
    let tool = tool("fs.write", schema, |_| 0);
    let limits = CallLimits { max_depth: 1, max_bytes: 7 };
    let judged = |params: &Value| code(&decided(call(&tool, params), &GatePolicy { limits, ..policy() }));
    assert_eq!(judged(&json!({"a": 1})), "OK 0");
    assert_eq!(judged(&json!({"a": 10})), "PARAM_SCHEMA");
}

/// A call cannot set its own authority, neither by literals nor by references.
#[test]
fn a_call_that_carries_authority_is_refused() {
    let open = tool("fs.write", json!({"type": "object", "additionalProperties": true}), |_| 0);
    for name in ["intent", "impact", "scope", "scopes", "cap", "clearance", "author", "epoch"] {
        let params = json!({ name: "x" });
        assert_eq!(code(&decided(call(&open, &params), &policy())), "PLAN_FIELD_FORBIDDEN", "{name}");
        let inner = json!({"a": { name: "x" }});
        assert_eq!(code(&decided(call(&open, &inner), &policy())), "OK 0", "{name} within");
        let known = Map::from_iter([("a".to_owned(), json!(1))]);
        for (literal, referred) in
            [(params.as_object().unwrap(), BTreeSet::new()), (&known, BTreeSet::from([name]))]
        {
            let bad = open.judge(literal, &referred);
            assert!(matches!(&bad[..], [BadParam::Wrong { .. }]), "{name}: {bad:?}");
        }
        let foreseen = preflight(&call(&open, &params), &policy()).map(|denial| denial.code.as_str());
        assert_eq!(foreseen, Some("PLAN_FIELD_FORBIDDEN"), "{name}");
    }
    let both = json!({"scope": "x", "a": "b\0"});
    assert_eq!(code(&decided(call(&open, &both), &policy())), "PARAM_SCHEMA", "limits are first");
    let ungranted = Call { scope: "none".into(), ..call(&open, &json!({"scope": "x"})) };
    assert_eq!(code(&decided(ungranted, &policy())), "PLAN_FIELD_FORBIDDEN", "it is before the scope");
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
    let old = "http://json-schema.org/draft-07/schema#";
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
        (
            json!({"properties": {"l": {"prefixItems": [{"allOf": [a]}]}}}),
            json!({"l": [{"a": {}}]}),
            json!({"l": [{"x": 1}]}),
        ),
        (json!({"$schema": old, "allOf": [a, c]}), json!({"a": {"b": 1}, "c": 1}), json!({"x": 1})),
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
        json!({}),
    ] {
        let tool = tool("fs.write", schema.clone(), |_| 0);
        assert_eq!(code(&decided(call(&tool, &json!({"x": 1})), &policy())), "OK 0", "{schema}");
    }
}

#[test]
fn a_permit_carries_what_was_judged() {
    let tool = write_tool();
    let verdict = decided(Call { floor: 1, ..call(&tool, &json!({"path": "a", "mode": "read"})) }, &policy());
    let Verdict::Allowed { permit, impact } = verdict else { panic!("{verdict:?}") };
    assert_eq!((permit.tool(), permit.class().impact, impact), ("fs.write", 1, 1));
    assert_eq!(permit.idempotency_key(), Digest([7; 32]));
    let params = json!({"mode": "read", "path": "a"});
    assert_eq!(permit.params(), params.as_object().unwrap());
    assert_eq!(permit.digest(), lineage::value(&canonical(&params).unwrap()));
}
