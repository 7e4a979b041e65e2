//! Rules as an operator writes them: what is read, and which faults are told.

use ostler_kernel::gate::{GateRules, Place};
use serde_json::{Value, json};

fn place(place: &[Place]) -> String {
    let steps = place.iter().map(|step| match step {
        Place::Key(key) => key.clone(),
        Place::Item(at) => at.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}

fn read(rules: &Value) -> GateRules {
    serde_json::from_value(rules.clone()).unwrap()
}

#[test]
fn a_rule_outside_its_bounds_is_a_fault() {
    let host = |name: &str, text: &str| json!({"egress": [{"tool": "t", "param": "p", "hosts": ["a"]}, {"tool": "t", "param": "p", "hosts": ["a"], name: [text]}]});
    let value =
        |name: &str, text: &str| json!({"param_policies": [{"tool": "t", "param": "p", name: [text]}]});
    let ports =
        |ports: &[u16]| json!({"egress": [{"tool": "t", "param": "p", "hosts": ["a"], "ports": ports}]});
    let path = |root: &str| json!({"paths": [{"tool": "t", "param": "p", "root": root}]});
    let impact = |level: u8| json!({"impact": {"t": {"rules": [], "else": level}}});
    for (rules, expected) in [
        (json!({}), None),
        (json!({"default_intent": 1}), None),
        (json!({"default_intent": 2}), Some(("default_intent", "default_intent is 2"))),
        (json!({"default_intent": 3}), Some(("default_intent", "default_intent is 3"))),
        (json!({"token_max_intent": 2}), None),
        (json!({"token_max_intent": 3}), Some(("token_max_intent", "token_max_intent is 3"))),
        (json!({"tenant_ceiling": 2}), None),
        (json!({"tenant_ceiling": 4}), Some(("tenant_ceiling", "tenant_ceiling is 4"))),
        (json!({"limits": {"max_depth": 1, "max_bytes": 1}}), None),
        (
            json!({"limits": {"max_depth": 0}}),
            Some(("limits.max_depth", "max_depth is 0, which allows no call")),
        ),
        (
            json!({"limits": {"max_bytes": 0}}),
            Some(("limits.max_bytes", "max_bytes is 0, which allows no call")),
        ),
        (path("/srv"), None),
        (path("srv/a"), Some(("paths.0.root", "the root \"srv/a\" is not absolute"))),
        (host("hosts", "a.b"), None),
        (host("hosts", "a.B"), Some(("egress.1.hosts", "\"a.B\" has capitals"))),
        (host("schemes", "Https"), Some(("egress.1.schemes", "\"Https\" has capitals"))),
        (value("url_host", "a.B"), Some(("param_policies.0.url_host", "\"a.B\" has capitals"))),
        (value("email_domain", "A.b"), Some(("param_policies.0.email_domain", "\"A.b\" has capitals"))),
        (value("email_domain", "a.b"), None),
        (ports(&[1, 65535]), None),
        (ports(&[443, 0]), Some(("egress.0.ports", "port 0 is none"))),
        (impact(2), None),
        (impact(3), Some(("impact.t", "an impact of t is none"))),
    ] {
        let faults: Vec<(String, String)> =
            read(&rules).faults().into_iter().map(|fault| (place(&fault.place), fault.what)).collect();
        let expected = expected.map(|(place, what)| (place.to_owned(), what.to_owned()));
        assert_eq!(faults, Vec::from_iter(expected), "{rules}");
    }
}

#[test]
fn every_rule_for_a_tool_that_nobody_registered_is_found() {
    let rules = json!({
        "paths": [{"tool": "a", "param": "p", "root": "/"}],
        "egress": [{"tool": "known", "param": "p", "hosts": []}, {"tool": "b", "param": "p", "hosts": []}],
        "param_policies": [{"tool": "c", "param": "p"}],
        "budgets": [{"tool": "d", "max_calls": 1}],
        "clearance_routes": [{"tool": "*", "deadline_ms": 1}, {"tool": "e", "deadline_ms": 1}],
        "sensitive": {"f": [], "known": []},
        "trusted": ["g"],
        "untrusted": ["h", "known"],
        "labels": {"i": []},
        "impact": {"j": {"rules": []}},
    });
    let rules = read(&rules);
    let unknown = rules.unknown_tools(&|tool| tool == "known");
    let found: Vec<(String, &str)> = unknown.into_iter().map(|(at, tool)| (place(&at), tool)).collect();
    let expected = [
        ("paths.0.tool", "a"),
        ("egress.1.tool", "b"),
        ("param_policies.0.tool", "c"),
        ("budgets.0.tool", "d"),
        ("clearance_routes.1.tool", "e"),
        ("sensitive.f", "f"),
        ("trusted", "g"),
        ("untrusted", "h"),
        ("labels.i", "i"),
        ("impact.j", "j"),
    ];
    assert_eq!(found, expected.map(|(at, tool)| (at.to_owned(), tool)));
}

#[test]
fn every_parameter_that_a_rule_names_is_found() {
    let when = json!({"all": [{"param": "g", "equals": 1}, {"all": [{"param": "h", "in": []}]}]});
    let rules = read(&json!({
        "paths": [{"tool": "t", "param": "a", "root": "/"}],
        "egress": [{"tool": "t", "param": "b", "hosts": []}],
        "param_policies": [{"tool": "t", "param": "c"}],
        "budgets": [{"tool": "t", "max_calls": 1}, {"tool": "t", "param": "d", "max_sum": 1}],
        "sensitive": {"t": ["e", "f"], "u": []},
        "impact": {"t": {"rules": [{"when": when, "impact": 0}, {"when": {"param": "i", "absent": true}, "impact": 0}]}},
    }));
    let found: Vec<(String, &str, &str)> =
        rules.params().into_iter().map(|(at, tool, param)| (place(&at), tool, param)).collect();
    let expected = [
        ("paths.0.param", "a"),
        ("egress.0.param", "b"),
        ("param_policies.0.param", "c"),
        ("budgets.1.param", "d"),
        ("sensitive.t", "e"),
        ("sensitive.t", "f"),
        ("impact.t", "g"),
        ("impact.t", "h"),
        ("impact.t", "i"),
    ];
    assert_eq!(found, expected.map(|(at, param)| (at.to_owned(), "t", param)));
}

#[test]
fn a_rule_has_one_form() {
    let rule = |list: &str, more: Value| {
        let mut rule = json!({"tool": "t", "param": "p"});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ list: [rule] })
    };
    for (rules, reads) in [
        (json!({"budgets": [{"tool": "t", "max_calls": 1}]}), true),
        (rule("budgets", json!({"max_sum": 1.5})), true),
        (rule("budgets", json!({})), false),
        (rule("budgets", json!({"max_calls": 1})), false),
        (rule("budgets", json!({"max_calls": 1, "max_sum": 1})), false),
        (json!({"budgets": [{"tool": "t", "max_sum": 1}]}), false),
        (json!({"budgets": [{"tool": "t"}]}), false),
        (rule("param_policies", json!({"min": 1})), true),
        (rule("param_policies", json!({"min": null})), false),
        (rule("param_policies", json!({"least": 1})), false),
        (rule("egress", json!({"hosts": [], "ports": null})), false),
        (json!({"limits": {"max_depth": null}}), false),
        (json!({"lockdown_observe": "allow"}), true),
        (json!({"lockdown_observe": "maybe"}), false),
        (json!({"unknown": 1}), false),
    ] {
        let read = serde_json::from_value::<GateRules>(rules.clone());
        assert_eq!(read.is_ok(), reads, "{rules}: {read:?}");
    }
    let egress = read(&rule("egress", json!({"hosts": ["a"]}))).egress;
    assert_eq!((&egress[0].schemes[..], egress[0].allow_private), (&["https".to_owned()][..], false));
    let rules = GateRules::default();
    assert_eq!((rules.default_intent, rules.token_max_intent, rules.tenant_ceiling), (1, 2, 2));
    assert_eq!(rules.egress_forbidden_labels, ["secret"]);
    assert_eq!(rules, read(&json!({})));
}
