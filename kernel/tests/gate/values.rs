//! Rules of an operator for the values of a call: folders, destinations, labels, values and budgets.

use std::collections::BTreeSet;

use ostler_kernel::gate::{
    Call, Egress, GatePolicy, GatedTool, Provenance, Scope, Scopes, Spent, Verdict, intersect_scopes,
};
use serde_json::{Value, json};

use super::{Scripted, call, code, decided, policy, tool, versioned};

fn ruled(rules: Value) -> GatePolicy {
    policy().with_rules(&serde_json::from_value(rules).unwrap())
}

fn open_tool() -> GatedTool {
    tool("fs.write", json!({"type": "object", "additionalProperties": true}), |_| 0)
}

#[test]
fn a_value_is_judged_by_every_condition_of_its_rule() {
    let tool = open_tool();
    for (rule, taken, refused) in [
        (json!({"in": [1, "a", null]}), json!([1, "a", null, [1, "a"], []]), json!([2, 1.0, ["a", 2], {}])),
        (json!({"in": [1]}), json!([1]), json!([null])),
        (json!({"in": [1], "null_ok": true}), json!([1, null]), json!([[null]])),
        (json!({"null_ok": true, "max": 1}), json!([null, 1]), json!(["1", [null]])),
        (json!({}), json!([1, "a", [null]]), json!([null])),
        (json!({"null_ok": true}), json!([1, null]), json!([])),
        (json!({"min": 1, "max": 2}), json!([1, 1.5, 2, [1, 2]]), json!([0.9, 2.1, [1, 3], "1", null])),
        (json!({"min": 1}), json!([1, 9e9]), json!([0, -1, true])),
        (json!({"max": 2}), json!([2, -9]), json!([3, "x"])),
        (
            json!({"min_items": 1, "max_items": 2}),
            json!([["x"], ["x", "y"]]),
            json!([[], [1, 2, 3], "x", 1, null]),
        ),
        (json!({"min_items": 2}), json!([[1, 2], [1, 2, 3]]), json!([[1], [], "x"])),
        (json!({"max_items": 1}), json!([[], [1]]), json!([[1, 2], "x"])),
        (
            json!({"url_host": ["*.example.com"]}),
            json!(["https://a.example.com/x", ["https://b.example.com"]]),
            json!(["https://example.com/", "http://a.example.com/", "a.example.com", 1, ["https://x.net"]]),
        ),
        (
            json!({"email_domain": ["example.com"]}),
            json!(["a@example.com", ["b@EXAMPLE.com"]]),
            json!(["a@example.org", "example.com", 1, ["a@example.com", "x@y.net"]]),
        ),
    ] {
        let mut rule_of_tool = json!({"tool": "fs.write", "param": "x"});
        rule_of_tool.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
        let policy = ruled(json!({"param_policies": [rule_of_tool]}));
        for (values, expected) in [(taken, "OK 0"), (refused, "PARAM_POLICY")] {
            for value in values.as_array().unwrap() {
                let params = json!({"x": value});
                assert_eq!(code(&decided(call(&tool, &params), &policy)), expected, "{rule} {value}");
            }
        }
        assert_eq!(
            code(&decided(call(&tool, &json!({"y": 7})), &policy)),
            "OK 0",
            "{rule}: another parameter"
        );
    }
}

#[test]
fn a_path_stays_in_one_of_its_folders_or_in_the_workspace() {
    let tool = tool("fs.write", json!({"properties": {"at": {"format": "path"}, "x": {}}}), |_| 0);
    let rule = |param: &str, root: &str| json!({"tool": "fs.write", "param": param, "root": root});
    let two = json!([rule("at", "/srv/a"), rule("at", "/srv/b")]);
    for (rules, workspace, params, expected) in [
        (two.clone(), Some("/ws"), json!({"at": "/srv/a/x"}), "OK 0"),
        (two.clone(), None, json!({"at": "/srv/b/x"}), "OK 0"),
        (two.clone(), Some("/ws"), json!({"at": "/ws/x"}), "PATH_ESCAPE"),
        (two, Some("/ws"), json!({"at": ["/srv/a/x", "/srv/b/../c"]}), "PATH_ESCAPE"),
        (json!([rule("x", "/srv/a")]), None, json!({"x": "/srv/a"}), "OK 0"),
        (json!([rule("x", "/srv/a")]), None, json!({"x": "/srv"}), "PATH_ESCAPE"),
        (json!([rule("x", "/srv/a")]), None, json!({"x": 1}), "PATH_ESCAPE"),
        (json!([]), None, json!({"x": "/etc"}), "OK 0"),
        (json!([]), None, json!({"at": "a"}), "PATH_ESCAPE"),
        (json!([]), Some(""), json!({"at": "a"}), "OK 0"),
        (json!([]), Some("/ws"), json!({"at": "/ws/a"}), "OK 0"),
    ] {
        let call = Call { workspace, ..call(&tool, &params) };
        let verdict = decided(call, &ruled(json!({"paths": rules})));
        assert_eq!(code(&verdict), expected, "{rules} {workspace:?} {params}");
    }
}

#[test]
fn a_url_leaves_by_the_rule_of_its_parameter_or_by_the_list() {
    let tool = tool("fs.write", json!({"properties": {"to": {"format": "uri"}, "x": {}}}), |_| 0);
    let rule = json!({"tool": "fs.write", "param": "to", "hosts": ["a.example.com"]});
    let of_x = json!({"tool": "fs.write", "param": "x", "hosts": ["a.example.com"], "ports": [8443]});
    let (listed, nothing) = (policy().egress, Egress::default());
    for (rules, egress, params, expected) in [
        (json!([]), &listed, json!({"to": "https://hooks.example.com/"}), "OK 0"),
        (json!([]), &listed, json!({"to": []}), "OK 0"),
        (json!([]), &nothing, json!({"to": []}), "EGRESS_FORBIDDEN"),
        (json!([]), &nothing, json!({"x": ["http://any"]}), "OK 0"),
        (json!([]), &nothing, json!({}), "OK 0"),
        (json!([rule]), &nothing, json!({"to": []}), "OK 0"),
        (json!([rule]), &listed, json!({"to": "https://a.example.com/"}), "OK 0"),
        (json!([rule]), &listed, json!({"to": "http://a.example.com/"}), "EGRESS_FORBIDDEN"),
        (json!([rule]), &listed, json!({"to": "https://hooks.example.com/"}), "EGRESS_FORBIDDEN"),
        (json!([of_x]), &listed, json!({"x": "https://a.example.com:8443/"}), "OK 0"),
        (json!([of_x]), &listed, json!({"x": "https://a.example.com/"}), "EGRESS_FORBIDDEN"),
    ] {
        let policy = GatePolicy { egress: egress.clone(), ..ruled(json!({"egress": rules})) };
        assert_eq!(code(&decided(call(&tool, &params), &policy)), expected, "{rules} {params}");
    }
}

#[test]
fn labelled_data_stays_only_with_tools_that_send_nothing_out() {
    let labels = |labels: &[&str]| Provenance {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..Provenance::default()
    };
    for (sends_out, rules, labels, expected) in [
        (true, json!({}), labels(&["secret"]), "EGRESS_LABEL"),
        (false, json!({}), labels(&["secret"]), "OK 0"),
        (true, json!({}), labels(&["private"]), "OK 0"),
        (true, json!({"egress_forbidden_labels": ["private"]}), labels(&["private", "x"]), "EGRESS_LABEL"),
        (true, json!({"egress_forbidden_labels": ["private"]}), labels(&["secret"]), "OK 0"),
        (true, json!({}), labels(&[]), "OK 0"),
    ] {
        let scripted = Scripted { sends_out, ..Scripted::new("fs.write", "1", json!({}), |_| 0) };
        let (tool, params) = (scripted.gated().unwrap(), json!({}));
        let call = Call { provenance: &labels, ..call(&tool, &params) };
        assert_eq!(code(&decided(call, &ruled(rules))), expected, "{sends_out} {labels:?}");
    }
}

#[test]
fn the_calls_of_a_run_stay_within_its_budgets() {
    let tool = open_tool();
    let calls = |most: u64| json!({"tool": "fs.write", "max_calls": most});
    let sum = |max: f64| json!({"tool": "fs.write", "param": "n", "max_sum": max});
    let mut spent = Spent::default();
    for (number, amount) in [(1, 2), (2, 3)] {
        spent.charge(number, "fs.write", json!({"n": amount}).as_object().unwrap());
    }
    for (budgets, params, expected) in [
        (json!([calls(3)]), json!({}), "OK 0"),
        (json!([calls(2)]), json!({}), "BUDGET_CUMULATIVE"),
        (json!([calls(1)]), json!({}), "BUDGET_CUMULATIVE"),
        (json!([sum(9.0)]), json!({"n": 4}), "OK 0"),
        (json!([sum(9.0)]), json!({"n": 4.5}), "BUDGET_CUMULATIVE"),
        (json!([sum(9.0)]), json!({"n": 100}), "BUDGET_CUMULATIVE"),
        (json!([sum(9.0)]), json!({"n": 0}), "OK 0"),
        (json!([sum(9.0)]), json!({"n": -1}), "BUDGET_CUMULATIVE"),
        (json!([sum(9.0)]), json!({"n": "4"}), "BUDGET_CUMULATIVE"),
        (json!([sum(1.0)]), json!({"m": 4}), "OK 0"),
        (json!([sum(9.0), calls(2)]), json!({"n": 1}), "BUDGET_CUMULATIVE"),
        (json!([{"tool": "fs.read", "max_calls": 0}]), json!({}), "OK 0"),
    ] {
        let call = Call { spent: &spent, ..call(&tool, &params) };
        assert_eq!(code(&decided(call, &ruled(json!({"budgets": budgets})))), expected, "{budgets} {params}");
    }
}

#[test]
fn an_operator_raises_the_impact_of_a_tool_by_its_values() {
    let tool = open_tool();
    let table = json!({"rules": [{"when": {"param": "force", "equals": true}, "impact": 2}], "else": 1});
    for (table, params, expected, failed) in [
        (table.clone(), json!({"force": true}), 2, false),
        (table, json!({}), 1, false),
        (json!({"rules": [], "else": 0}), json!({}), 0, false),
        (json!({"rules": [], "else": 7}), json!({}), 2, true),
    ] {
        let policy = ruled(json!({"impact": {"fs.write": table}}));
        let verdict = decided(call(&tool, &params), &policy);
        let Verdict::Allowed { permit, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!((permit.measured().impact, permit.measured().failed), (expected, failed), "{params}");
    }
}

#[test]
fn scopes_merge_to_all_tools_the_least_cap_and_every_pin() {
    let params = json!({});
    let mut policy = policy();
    let with = |cap| Scope { tools: [("fs.write".to_owned(), cap)].into() };
    policy.scopes.extend([("one".to_owned(), with(Some(2))), ("two".to_owned(), with(Some(1)))]);
    let pin =
        |scope: &str, version: &str| (scope.to_owned(), [("fs.write".to_owned(), version.to_owned())].into());
    policy.pins = [pin("one", "1"), pin("two", "2"), pin("capped", "1")].into();
    let held = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    for (scope, version, impact, expected) in [
        ("one", "1", 2, "OK 2"),
        ("one", "2", 2, "TOOL_CHANGED"),
        ("two", "2", 2, "IMPACT_OVER_SCOPE_CAP"),
        ("two", "2", 1, "OK 1"),
        ("one+two", "1", 0, "TOOL_CHANGED"),
        ("one+two", "2", 0, "TOOL_CHANGED"),
        ("one&two", "1", 0, "TOOL_CHANGED"),
        ("one+capped", "1", 1, "OK 1"),
        ("one&capped", "1", 2, "IMPACT_OVER_SCOPE_CAP"),
        ("all+none", "9", 2, "OK 2"),
        ("all&none", "9", 0, "OUT_OF_SCOPE"),
        ("all+nowhere", "9", 0, "SCOPE_UNRESOLVED"),
        ("", "9", 0, "SCOPE_EMPTY"),
        ("all&", "9", 0, "SCOPE_EMPTY"),
    ] {
        let tool = versioned("fs.write", version, json!({}), move |_| impact);
        let call = Call { scope: scope.into(), ..call(&tool, &params) };
        assert_eq!(code(&decided(call.clone(), &policy)), expected, "{scope} {version} {impact}");
        if !scope.contains('&') && !scope.is_empty() {
            let names = held(&scope.split('+').collect::<Vec<_>>());
            let call = Call { scope: Scopes::Held(&names), ..call };
            assert_eq!(code(&decided(call, &policy)), expected, "{names:?} {version} {impact}");
        }
        let exists = !matches!(expected, "SCOPE_UNRESOLVED" | "SCOPE_EMPTY");
        assert_eq!(policy.has_scope(scope), exists, "{scope}");
        assert_eq!(policy.grants(scope, "fs.write"), exists && expected != "OUT_OF_SCOPE", "{scope}");
        assert!(!policy.grants(scope, "fs.read"), "{scope}");
    }
    let tool = open_tool();
    let nothing = Call { scope: Scopes::Held(&[]), ..call(&tool, &params) };
    assert_eq!(code(&decided(nothing, &policy)), "SCOPE_EMPTY");
    assert_eq!(intersect_scopes("b&a", Some("c&b")), "a&b&c");
    assert_eq!(intersect_scopes("a", None), "a");
}

#[test]
fn rules_replace_what_a_policy_had() {
    let policy = ruled(json!({
        "default_intent": 0, "token_max_intent": 1, "tenant_ceiling": 1, "deny_budget": 4,
        "limits": {"max_depth": 3}, "lockdown_observe": "allow", "audit_observe": "allow",
        "trusted": ["web"], "untrusted": ["mail"], "labels": {"db": ["private", "eu"], "log": []},
        "sensitive": {"mail": ["to"], "db": []}, "budgets": [{"tool": "mail", "max_calls": 1}],
    }));
    assert_eq!((policy.default_intent, policy.max_intent, policy.ceiling), (0, 1, 1));
    assert_eq!((policy.deny_budget, policy.limits.max_depth), (Some(4), 3));
    assert_eq!(policy.limits.max_bytes, GatePolicy::default().limits.max_bytes);
    assert!(policy.trusts("web", false) && !policy.trusts("mail", true));
    assert!(policy.trusts("other", true) && !policy.trusts("other", false));
    assert!(policy.has_budgets("mail") && !policy.has_budgets("db") && !policy.has_budgets("other"));
    assert!(policy.has_sensitive("mail") && !policy.has_sensitive("db") && !policy.has_sensitive("other"));
    assert_eq!(policy.labels_of("db").collect::<BTreeSet<_>>(), BTreeSet::from(["eu", "private"]));
    assert_eq!((policy.labels_of("log").count(), policy.all_labels().count()), (0, 2));
    assert!(policy.has_labels() && !ruled(json!({"labels": {"log": []}, "trusted": ["x"]})).has_labels());
}

#[test]
fn a_policy_without_rules_allows_nothing() {
    let policy = GatePolicy::default();
    assert!(policy.scopes.is_empty() && policy.egress.is_empty() && policy.routes.is_empty());
    assert_eq!((policy.ceiling, policy.default_intent, policy.max_intent), (0, 1, 2));
    assert_eq!(policy.forbidden_labels, BTreeSet::from(["secret".to_owned()]));
}

#[test]
fn the_number_of_a_policy_is_no_part_of_its_digest() {
    let digest = |epoch, ceiling| GatePolicy { epoch, ceiling, ..policy() }.digest();
    assert_eq!(digest(1, 2), digest(7, 2));
    assert_ne!(digest(1, 2), digest(1, 1));
}

/// Sensitive are, besides what a tool declares, the parameters by which a call reaches out or carries texts away.
#[test]
fn the_reach_of_a_tool_follows_from_its_schema_and_its_class() {
    let schema = json!({"properties": {
        "url": {"type": "string", "format": "uri"}, "file": {"type": "string", "format": "path"},
        "argv": {"type": "array"}, "stdin": {"type": "string"},
        "text": {"type": "string"}, "any": {}, "count": {"type": "integer"}, "size": {"type": "number"},
        "dry": {"type": "boolean"}, "none": {"type": "null"}, "mode": {"enum": ["a"]}, "kind": {"const": "a"},
    }});
    for (impact, reads_strangers, expected) in [
        (0, false, &["url"][..]),
        (0, true, &["any", "argv", "stdin", "text", "url"]),
        (1, false, &["argv", "file", "stdin", "url"]),
        (1, true, &["any", "argv", "file", "stdin", "text", "url"]),
    ] {
        let scripted = Scripted::new("fs.write", "1", schema.clone(), move |_| impact);
        let bare = Scripted { reads_strangers, ..scripted }.gated().unwrap();
        assert!(bare.sensitive().is_empty() && !bare.is_sensitive("url"));
        let tool = bare.with_reach();
        assert_eq!(tool.sensitive().iter().collect::<Vec<_>>(), expected, "{impact} {reads_strangers}");
        assert!(tool.is_sensitive("url") && !tool.is_sensitive("count"));
    }
}
