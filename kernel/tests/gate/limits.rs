//! Limits on the authority of a caller and on the denials of a run, and what an operator reads of a limit.

use std::collections::BTreeMap;

use ostler_kernel::gate::{Call, CallLimits, GatePolicy, REMEDY, Scope, Verdict, preflight, screen};
use serde_json::{Value, json};

use super::{call, decided, policy, tool};

#[test]
fn an_intent_is_at_most_what_the_token_allows() {
    for (default_intent, max_intent, given, expected) in [
        (1, 2, None, Ok(1)),
        (0, 2, None, Ok(0)),
        (1, 2, Some(2), Ok(2)),
        (1, 1, Some(1), Ok(1)),
        (1, 1, Some(2), Err("INTENT_ABOVE_TOKEN")),
        (0, 0, Some(2), Err("INTENT_ABOVE_TOKEN")),
        (1, 0, None, Err("INTENT_ABOVE_TOKEN")),
        (1, 0, Some(0), Ok(0)),
    ] {
        let policy = GatePolicy { default_intent, max_intent, ..policy() };
        let admitted = policy.admit(given).map_err(|denial| denial.code.as_str());
        assert_eq!(admitted, expected, "{default_intent} {max_intent} {given:?}");
    }
}

#[test]
fn a_run_has_so_many_denials() {
    for (deny_budget, denials, expected) in [
        (Some(3), 0, None),
        (Some(3), 2, None),
        (Some(3), 3, Some("DENY_BUDGET")),
        (Some(3), 4, Some("DENY_BUDGET")),
        (Some(0), 0, Some("DENY_BUDGET")),
        (None, u32::MAX, None),
        (GatePolicy::default().deny_budget, 19, None),
        (GatePolicy::default().deny_budget, 20, Some("DENY_BUDGET")),
    ] {
        let policy = GatePolicy { deny_budget, ..policy() };
        let denial = policy.check_denials(denials).err();
        assert_eq!(denial.map(|it| it.code.as_str()), expected, "{deny_budget:?} {denials}");
    }
}

#[test]
fn the_parameters_of_a_plan_file_take_at_most_16_mib() {
    let of_bytes = |bytes: usize| json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())});
    for (bytes, expected) in [(16 << 20, None), ((16 << 20) + 1, Some("PARAM_SCHEMA"))] {
        let screened = screen(of_bytes(bytes).as_object().unwrap(), [], &GatePolicy::default());
        assert_eq!(screened.err().map(|it| it.code.as_str()), expected, "{bytes}");
    }
}

/// Parameters that are still to come may make the call acceptable, but for what the known ones and the caller say already.
#[test]
fn a_denial_is_foreseen_that_no_missing_parameter_can_avert() {
    let schema = json!({"required": ["n"], "properties": {"path": {"type": "string", "format": "path"}}});
    let tool = tool("fs.write", schema, |_| 1);
    for (params, intent, scope, expected) in [
        (json!({}), 1, "all", None),
        (json!({"path": "a", "unknown": 1}), 1, "all", None),
        (json!({"path": "../a"}), 1, "all", Some("PATH_ESCAPE")),
        (json!({"path": "../a"}), 0, "all", Some("IMPACT_OVER_INTENT")),
        (json!({"path": "../a"}), 0, "none", Some("OUT_OF_SCOPE")),
        (json!({"cap": 1}), 0, "none", Some("PLAN_FIELD_FORBIDDEN")),
    ] {
        let call = Call { intent, scope: scope.into(), ..call(&tool, &params) };
        let foreseen = preflight(&call, &policy()).map(|denial| denial.code.as_str());
        assert_eq!(foreseen, expected, "{params} {intent} {scope}");
    }
}

#[test]
fn literals_are_screened_before_their_references_are_known() {
    let limits = CallLimits { max_depth: 2, max_bytes: 10 };
    let policy = GatePolicy { limits, ..policy() };
    for (literal, references, expected) in [
        (json!({"a": [1]}), &["b"][..], None),
        (json!({}), &["b", "scope"], Some("PLAN_FIELD_FORBIDDEN")),
        (json!({"cap": 1}), &[], Some("PLAN_FIELD_FORBIDDEN")),
        (json!({"a": [[]]}), &["b"], Some("PARAM_SCHEMA")),
        (json!({"a": "12345"}), &[], Some("PARAM_SCHEMA")),
        (json!({"a": "12345"}), &["scope"], Some("PARAM_SCHEMA")),
    ] {
        let screened = screen(literal.as_object().unwrap(), references.iter().copied(), &policy);
        assert_eq!(screened.err().map(|it| it.code.as_str()), expected, "{literal} {references:?}");
    }
}

/// The remedy names what stands against the call beside the caller's intent, if the caller can change it.
#[test]
fn a_limit_is_told_with_its_remedy() {
    let again = |intent| format!("{REMEDY}run it with --intent {intent}");
    let and_cap = |intent| format!("{}, and raise the cap of fs.write in its scope", again(intent));
    for (impact, intent, cap, ceiling, expected) in [
        (2, 1, None, 2, format!("the caller's intent, 1{}", again(2))),
        (1, 0, None, 2, format!("the caller's intent, 0{}", again(1))),
        (2, 1, Some(2), 2, format!("the caller's intent, 1{}", again(2))),
        (1, 0, Some(2), 2, format!("the caller's intent, 0{}", again(1))),
        (1, 0, Some(1), 1, format!("the caller's intent, 0{}", again(1))),
        (2, 1, Some(1), 2, format!("the caller's intent, 1{}", and_cap(2))),
        (2, 0, Some(1), 2, format!("the caller's intent, 0{}", and_cap(2))),
        (2, 1, None, 1, "the caller's intent, 1".to_owned()),
        (2, 0, None, 1, "the caller's intent, 0".to_owned()),
        (2, 2, Some(1), 2, "the scope's cap, 1".to_owned()),
        (2, 2, None, 1, "the tenant's ceiling, 1".to_owned()),
    ] {
        let tool = tool("fs.write", json!({}), move |_| impact);
        let scope = Scope { tools: BTreeMap::from([("fs.write".to_owned(), cap)]) };
        let policy = GatePolicy { scopes: BTreeMap::from([("all".to_owned(), scope)]), ceiling, ..policy() };
        let params: Value = json!({});
        let verdict = decided(super::Call { intent, ..call(&tool, &params) }, &policy);
        let Verdict::Denied(denial) = verdict else { panic!("{verdict:?}") };
        let expected = format!("impact {impact} of fs.write is above {expected}");
        assert_eq!(denial.operator, expected, "{impact} {intent} {cap:?} {ceiling}");
        let measured = denial.measured.unwrap();
        let limit = intent.min(ceiling).min(cap.unwrap_or(2));
        assert_eq!((measured.impact, measured.ceiling, measured.failed), (impact, limit, false));
    }
}
