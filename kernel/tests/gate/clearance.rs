//! Clearance: which calls wait for it, which call a yes is for, and when a yes counts again.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::gate::{
    Asker, AtConnection, Call, Cleared, Denial, DenialCode, GatePolicy, GatedTool, Hold, Judged, Permit,
    Provenance, Seal, Standing, Trust, judge,
};
use ostler_kernel::id::Digest;
use ostler_kernel::json::canonical;
use ostler_kernel::lineage;
use serde_json::{Value, json};

use super::{call, policy, tool, versioned};

const ASKER: Asker<'_> = Asker { tenant: "acme", user: "ann" };

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "to": {}, "cc": {}, "bcc": {}, "n": {"type": "number"}, "mode": {"default": "slow"},
    }})
}

fn mail_tool() -> GatedTool {
    tool("fs.write", schema(), |_| 1)
}

/// The policy with these routes, in which `to`, `cc`, `bcc` and `mode` are sensitive.
fn routed(routes: &Value) -> GatePolicy {
    let sensitive = json!({"fs.write": ["to", "cc", "bcc", "mode"]});
    let rules = json!({"clearance_routes": routes, "sensitive": sensitive});
    policy().with_rules(&serde_json::from_value(rules).unwrap())
}

fn from_strangers(names: &[&str]) -> Provenance {
    let params = names.iter().map(|name| ((*name).to_owned(), Trust::Untrusted)).collect();
    Provenance { params, ..Provenance::default() }
}

fn judged<'a>(call: Call<'a>, policy: &'a GatePolicy) -> Judged<'a> {
    judge(call, policy, Standing::default(), &mut AtConnection).unwrap()
}

fn permitted(judged: Judged<'_>, cleared: Option<Seal>) -> Result<Permit, Denial> {
    judged.permit(Digest([7; 32]), cleared.map(Cleared::new))
}

#[test]
fn a_call_waits_if_it_is_held_or_if_its_tool_always_does() {
    let (tool, params) = (mail_tool(), json!({"to": "x"}));
    let route = |tool: &str, deadline_ms| json!({"tool": tool, "deadline_ms": deadline_ms});
    let of_tainted =
        |tool: &str| json!({"tool": tool, "deadline_ms": 5, "only_tainted": true, "cache_ttl_ms": 1});
    let (held, asked) = (Some("TAINT_SENSITIVE_PARAM"), Some("CLEARANCE_UNREACHABLE"));
    for (routes, is_tainted, deadline_ms, code) in [
        (json!([]), false, None, None),
        (json!([]), true, None, held),
        (json!([route("fs.write", 1)]), false, Some(1), asked),
        (json!([route("fs.write", 1)]), true, Some(1), held),
        (json!([route("*", 2)]), false, Some(2), asked),
        (json!([route("*", 2), route("fs.write", 1)]), false, Some(1), asked),
        (json!([route("fs.write", 3), route("fs.write", 1)]), false, Some(3), asked),
        (json!([route("fs.read", 1)]), false, None, None),
        (json!([route("fs.read", 1)]), true, None, held),
        (json!([of_tainted("*")]), false, None, None),
        (json!([of_tainted("fs.write")]), true, Some(5), held),
    ] {
        let policy = routed(&routes);
        let provenance = if is_tainted { from_strangers(&["to"]) } else { Provenance::default() };
        let call = Call { provenance: &provenance, ..call(&tool, &params) };
        let found = judged(call.clone(), &policy);
        assert_eq!(found.route().map(|route| route.deadline_ms), deadline_ms, "{routes} {is_tainted}");
        assert_eq!(found.needs_clearance(), code.is_some(), "{routes} {is_tainted}");
        let seal = found.seal().unwrap();
        let denial = permitted(found, None).err();
        assert_eq!(denial.as_ref().map(|denial| denial.code.as_str()), code, "{routes} {is_tainted}");
        if let Some(denial) = denial {
            let in_vain = deadline_ms.and(held.filter(|_| is_tainted));
            assert_eq!(denial.held.map(DenialCode::as_str), in_vain, "{routes} {is_tainted}");
            assert_eq!(denial.measured.map(|it| (it.impact, it.ceiling, it.failed)), Some((1, 2, false)));
        }
        let permit = permitted(judged(call, &policy), Some(seal)).unwrap();
        assert_eq!(permit.tainted(), &["to".to_owned()][..usize::from(is_tainted)]);
    }
    let exists = |routes, tool| routed(&routes).has_route(tool);
    assert!(exists(json!([of_tainted("fs.write")]), "fs.write") && exists(json!([route("*", 1)]), "any"));
    assert!(!exists(json!([route("fs.read", 1)]), "fs.write") && !exists(json!([]), "fs.write"));
}

#[test]
fn a_call_is_held_for_the_worst_of_its_sensitive_parameters() {
    let (tool, policy) = (mail_tool(), routed(&json!([])));
    let params = json!({"to": "x", "cc": "y", "bcc": "z", "n": 1});
    let own = ("to".to_owned(), Trust::Own);
    let hold = |code, names: &[&str]| {
        Some(Hold { code, params: names.iter().map(|&name| name.to_owned()).collect() })
    };
    for (untrusted_author, untrusted, expected) in [
        (false, &[][..], None),
        (false, &["n"], None),
        (false, &["cc", "n"], hold(DenialCode::TaintSensitiveParam, &["cc"])),
        (false, &["cc", "bcc"], hold(DenialCode::TaintSensitiveParam, &["bcc", "cc"])),
        (true, &[], hold(DenialCode::TaintAuthor, &["bcc", "cc"])),
        (true, &["cc"], hold(DenialCode::TaintSensitiveParam, &["cc"])),
    ] {
        let mut provenance = Provenance { untrusted_author, ..from_strangers(untrusted) };
        provenance.params.extend([own.clone()]);
        let call = Call { provenance: &provenance, ..call(&tool, &params) };
        assert_eq!(judged(call, &policy).hold, expected, "{untrusted_author} {untrusted:?}");
    }
    let written = json!({"mode": "fast"});
    let strangers = from_strangers(&["mode"]);
    let held = |params: &Value| {
        judged(Call { provenance: &strangers, ..call(&tool, params) }, &policy).hold.is_some()
    };
    assert!(held(&written) && !held(&json!({})), "the tool's own default is no stranger's");
}

#[test]
fn a_verdict_is_sealed_with_all_that_it_was_about() {
    let (tool, params) = (mail_tool(), json!({"to": "x", "n": 1}));
    let (other_tool, policy) =
        (versioned("fs.write", "2", schema(), |_| 1), GatePolicy { epoch: 3, ..policy() });
    let verdict = judged(call(&tool, &params), &policy);
    let sealed = json!({"to": "x", "n": 1, "mode": "slow"});
    let seal = Seal {
        tool: "1".to_owned(),
        params: lineage::value(&canonical(&sealed).unwrap()),
        epoch: 3,
        held: None,
    };
    assert_eq!(verdict.seal().unwrap(), seal);
    let (mismatch, stale) = (Some("SEAL_MISMATCH"), Some("POLICY_EPOCH_STALE"));
    for (tool, given, epoch, expected) in [
        (Some(&tool), Some(json!({"to": "x", "n": 1})), 3, None),
        (Some(&tool), Some(sealed), 3, None),
        (Some(&tool), Some(json!({"to": "x", "n": 1})), 4, stale),
        (Some(&tool), Some(json!({"to": "x", "n": 1})), 2, stale),
        (Some(&tool), Some(json!({"to": "x", "n": 1.0})), 3, mismatch),
        (Some(&tool), Some(json!({"to": "y", "n": 1})), 4, mismatch),
        (Some(&tool), Some(json!({"to": "x", "n": 1, "mode": "fast"})), 3, mismatch),
        (Some(&other_tool), Some(json!({"to": "x", "n": 1})), 3, mismatch),
        (None, Some(json!({"to": "x", "n": 1})), 3, mismatch),
        (Some(&tool), None, 3, mismatch),
    ] {
        let now = given.as_ref().map(|given| given.as_object().unwrap().clone().into());
        let denial = verdict.check_seal(tool, now, epoch).err();
        assert_eq!(denial.as_ref().map(|it| it.code.as_str()), expected, "{tool:?} {given:?} {epoch}");
        assert!(denial.is_none_or(|it| it.measured.is_some()));
    }
    let double = json!({"n": 2.0});
    let verdict = judged(call(&tool, &double), &policy);
    let now = |given: Value| Some(given.as_object().unwrap().clone().into());
    assert!(verdict.check_seal(Some(&tool), now(double), 3).is_ok());
    assert!(verdict.check_seal(Some(&tool), now(json!({"n": 2})), 3).is_err());
}

#[test]
fn a_yes_is_for_one_call_alone() {
    let (tool, params) = (mail_tool(), json!({"to": "x"}));
    let policy = GatePolicy { epoch: 3, ..routed(&json!([])) };
    let provenance = from_strangers(&["to"]);
    let call = Call { provenance: &provenance, ..call(&tool, &params) };
    let seal = judged(call.clone(), &policy).seal().unwrap();
    assert_eq!(seal.held, Some(DenialCode::TaintSensitiveParam));
    for (of, expected) in [
        (seal.clone(), None),
        (Seal { tool: "2".to_owned(), ..seal.clone() }, Some("SEAL_MISMATCH")),
        (Seal { params: Digest([1; 32]), ..seal.clone() }, Some("SEAL_MISMATCH")),
        (Seal { held: None, ..seal.clone() }, Some("SEAL_MISMATCH")),
        (Seal { held: Some(DenialCode::TaintAuthor), ..seal.clone() }, Some("SEAL_MISMATCH")),
        (Seal { epoch: 2, ..seal.clone() }, Some("POLICY_EPOCH_STALE")),
    ] {
        let denial = permitted(judged(call.clone(), &policy), Some(of.clone())).err();
        assert_eq!(denial.map(|it| it.code.as_str()), expected, "{of:?}");
    }
    let permit = permitted(judged(call, &policy), Some(seal)).unwrap();
    assert_eq!((permit.epoch(), permit.measured().impact, permit.measured().ceiling), (3, 1, 2));
    assert_eq!(Value::Object(permit.into_params()), json!({"to": "x", "mode": "slow"}));
}

#[test]
fn a_yes_counts_again_only_for_the_same_call_and_never_for_control() {
    let tool = mail_tool();
    let route = json!({"tool": "*", "deadline_ms": 5, "cache_ttl_ms": 9});
    let key =
        |tool: &GatedTool, params: &Value, policy: &GatePolicy, floor, asker, provenance: &Provenance| {
            let call = Call { floor, provenance, ..call(tool, params) };
            judged(call, policy).cache_key(asker).unwrap()
        };
    let (policy, params, plan) = (routed(&json!([route])), json!({"to": "x"}), Provenance::PLAN);
    let usual = key(&tool, &params, &policy, 0, ASKER, plan);
    assert_eq!(key(&tool, &params, &policy, 0, ASKER, plan), usual);
    assert_eq!(key(&tool, &params, &policy, 2, ASKER, plan), None, "control");
    assert_eq!(key(&tool, &params, &routed(&json!([])), 0, ASKER, plan), None, "nobody is asked");
    let with_route = |name: &str, value: Value| {
        let mut route = route.clone();
        route[name] = value;
        routed(&json!([route]))
    };
    let other_version = versioned("fs.write", "2", schema(), |_| 1);
    let mut keys = BTreeSet::from([
        usual,
        key(&tool, &json!({"to": "y"}), &policy, 0, ASKER, plan),
        key(&other_version, &params, &policy, 0, ASKER, plan),
        key(&tool, &params, &GatePolicy { epoch: 1, ..policy.clone() }, 0, ASKER, plan),
        key(&tool, &params, &policy, 0, Asker { tenant: "ann", ..ASKER }, plan),
        key(&tool, &params, &policy, 0, Asker { user: "acme", ..ASKER }, plan),
        key(&tool, &params, &policy, 0, ASKER, &from_strangers(&["to"])),
    ]);
    for (name, value) in [
        ("tool", json!("fs.write")),
        ("deadline_ms", json!(6)),
        ("cache_ttl_ms", json!(8)),
        ("only_tainted", json!(true)),
    ] {
        let provenance = if name == "only_tainted" { from_strangers(&["to"]) } else { plan.clone() };
        keys.insert(key(&tool, &params, &with_route(name, value), 0, ASKER, &provenance));
    }
    assert!(keys.len() == 11 && !keys.contains(&None), "{keys:?}");
}

#[test]
fn a_request_names_the_call_who_asks_and_why() {
    let (tool, params, policy) = (mail_tool(), json!({"to": "x"}), routed(&json!([])));
    let asked = |provenance: &Provenance| {
        judged(Call { provenance, ..call(&tool, &params) }, &policy).request(ASKER).to_json()
    };
    let mut expected = json!({
        "tool": "fs.write", "params": {"to": "x", "mode": "slow"}, "user": "ann", "tenant": "acme",
    });
    assert_eq!(asked(Provenance::PLAN), expected);
    expected["tainted"] = json!(["to"]);
    assert_eq!(asked(&from_strangers(&["to"])), expected);
}

#[test]
fn only_an_accepted_version_of_a_tool_is_called() {
    let (tool, params, policy) = (mail_tool(), json!({}), policy());
    for (name, version, expected) in
        [("fs.write", "1", None), ("fs.write", "2", Some("TOOL_CHANGED")), ("fs.read", "2", None)]
    {
        let accepted = BTreeMap::from([(name.to_owned(), version.to_owned())]);
        let standing = Standing { accepted: Some(&accepted), ..Standing::default() };
        let judged = judge(call(&tool, &params), &policy, standing, &mut AtConnection);
        assert_eq!(judged.err().map(|it| it.code.as_str()), expected, "{name} {version}");
    }
}
