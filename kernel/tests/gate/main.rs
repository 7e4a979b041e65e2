//! Verdicts of the gate through its public API. The conformance cases run in the crate of simulations.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may panic, say that it skips, and look for the shared cases"
)]

mod clearance;
mod domain;
mod limits;
mod params;
mod rules;
mod schemas;
mod trust;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::contract::SchemaError;
use ostler_kernel::gate::{
    Call, CallClass, CallLimits, Egress, GatePolicy, GatedTool, Permit, Preview, Provenance, REFUSAL, Scope,
    Scopes, Spent, Verdict, decide, preflight, preview,
};
use ostler_kernel::id::Digest;
use ostler_kernel::json::{canonical, parse_value};
use ostler_kernel::lineage;
use ostler_kernel::plan::{BadParam, Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, ParamProblem, Tool, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

type Classify = Box<dyn Fn(&Map<String, Value>) -> u8 + Send + Sync>;

/// A tool that only declares a class.
struct Scripted {
    spec: ToolSpec,
    impact: Classify,
    sends_out: bool,
    reads_strangers: bool,
    problems: Vec<ParamProblem>,
}

impl Scripted {
    fn new(
        name: &str,
        version: &str,
        params: Value,
        impact: impl Fn(&Map<String, Value>) -> u8 + Send + Sync + 'static,
    ) -> Scripted {
        let (name, version) = (name.to_owned(), version.to_owned());
        let spec = ToolSpec { name, version, description: String::new(), params, result: json!({}) };
        Scripted {
            spec,
            impact: Box::new(impact),
            sends_out: false,
            reads_strangers: false,
            problems: Vec::new(),
        }
    }

    fn gated(self) -> Result<GatedTool, SchemaError> {
        GatedTool::new(Arc::new(self))
    }
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

    fn check(&self, _: &Map<String, Value>) -> Vec<ParamProblem> {
        self.problems.clone()
    }

    fn sends_out(&self) -> bool {
        self.sends_out
    }

    fn reads_strangers(&self) -> bool {
        self.reads_strangers
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
    versioned(name, "1", params, impact)
}

fn versioned(
    name: &str,
    version: &str,
    params: Value,
    impact: impl Fn(&Map<String, Value>) -> u8 + Send + Sync + 'static,
) -> GatedTool {
    Scripted::new(name, version, params, impact).gated().unwrap()
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
    let granted = Scope { tools: BTreeMap::from([("no.such".to_owned(), None)]) };
    let granted = GatePolicy { scopes: BTreeMap::from([("all".to_owned(), granted)]), ..policy() };
    let other = decided(Call { name: "no.such", ..call(&tool, &wrong) }, &granted);
    for (verdict, unregistered) in [(ungranted, false), (unknown, true), (unregistered, true), (other, false)]
    {
        let Verdict::Denied(denial) = verdict else { panic!("{verdict:?}") };
        assert_eq!((denial.code.as_str(), denial.for_model()), ("OUT_OF_SCOPE", REFUSAL));
        assert_eq!(denial.unregistered, unregistered, "{denial:?}");
    }
    let Verdict::Denied(granted) = decided(call(&tool, &wrong), &policy()) else { panic!() };
    assert_ne!(granted.for_model(), REFUSAL);
}

#[test]
fn an_operator_reads_scopes_and_tools_by_their_names() {
    let (tool, params) = (write_tool(), json!({"path": "a"}));
    let held = ["none".to_owned(), "other".to_owned()];
    let policy =
        GatePolicy { scopes: held.iter().map(|name| (name.clone(), Scope::default())).collect(), ..policy() };
    for (scope, shown) in [("none&other".into(), "none&other"), (Scopes::Held(&held), "none+other")] {
        let verdict = decided(Call { scope, ..call(&tool, &params) }, &policy);
        let Verdict::Denied(denial) = verdict else { panic!("{verdict:?}") };
        assert_eq!(denial.operator, format!("scope \"{shown}\" does not grant tool \"fs.write\""));
    }
    assert_eq!(format!("{tool:?}"), "GatedTool(fs.write)");
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
