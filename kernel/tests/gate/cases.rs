//! Shared conformance cases that concern limits, reserved names, schema, scope, impact, paths and URLs only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::gate::{ArgvTable, Call, CallLimits, Egress, GatePolicy, GatedTool, Scope, Verdict};
use ostler_kernel::json::parse_value;
use ostler_kernel::port::ToolSpec;
use serde_json::{Map, Value, json};

use super::common::{cases, check_copy, text};
use super::{Classify, Scripted, decided};

const FILE: &str = "gate_cases.jsonl";

/// Supported fields of policy, tool and call; a case with any other field is skipped.
const POLICY: [&str; 9] = [
    "intent",
    "default_intent",
    "token_max_intent",
    "tenant_ceiling",
    "scopes",
    "users",
    "limits",
    "paths",
    "egress",
];
const STEP: [&str; 8] = ["id", "title", "md", "policy", "tools", "dns", "call", "expect"];
const CODES: [&str; 10] = [
    "OK",
    "PARAM_SCHEMA",
    "PLAN_FIELD_FORBIDDEN",
    "OUT_OF_SCOPE",
    "SCOPE_UNRESOLVED",
    "IMPACT_OVER_INTENT",
    "IMPACT_OVER_SCOPE_CAP",
    "IMPACT_OVER_TENANT_CEILING",
    "PATH_ESCAPE",
    "EGRESS_FORBIDDEN",
];

fn only<'a>(object: &Value, known: impl IntoIterator<Item = &'a str>) -> bool {
    let known: Vec<&str> = known.into_iter().collect();
    object.as_object().unwrap().keys().all(|key| known.contains(&key.as_str()))
}

/// The tool of a call; `None` if the case uses an unsupported field.
fn case_tool(name: &str, described: &Value) -> Option<GatedTool> {
    if described.get("hints").is_some() {
        return None;
    }
    let impact: Classify = match described.get("impact").cloned() {
        None => Box::new(|_| 2),
        Some(Value::Number(level)) => {
            let level = level.as_u64().and_then(|level| u8::try_from(level).ok()).unwrap_or(u8::MAX);
            Box::new(move |_| level)
        }
        Some(table) if table.get("argv").is_some() => {
            let programs = ArgvTable::from_programs(&table["programs"].to_string()).unwrap();
            let param = text(&table, "argv").to_owned();
            Box::new(move |params| {
                let argv: Option<Vec<&str>> = params
                    .get(&param)
                    .and_then(Value::as_array)
                    .and_then(|list| list.iter().map(Value::as_str).collect());
                argv.map_or(2, |argv| programs.classify(&argv).impact)
            })
        }
        Some(table) => {
            let rules = table.get("rules").and_then(Value::as_array)?.clone();
            let level = |value: &Value| value.as_u64().map_or(u8::MAX, |level| level as u8);
            let otherwise = table.get("else").map_or(2, level);
            Box::new(move |params| {
                let fitting = rules.iter().find(|rule| rule_fits(&rule["when"], params));
                fitting.map_or(otherwise, |rule| level(&rule["impact"]))
            })
        }
    };
    let schema = described.get("schema").cloned().unwrap_or(Value::Null);
    let spec = ToolSpec {
        name: name.into(),
        version: "1".into(),
        description: String::new(),
        params: schema,
        result: json!({}),
    };
    Some(GatedTool::new(Arc::new(Scripted { spec, impact })).unwrap())
}

/// True if a rule of a case's impact table matches the call.
fn rule_fits(when: &Value, params: &Map<String, Value>) -> bool {
    if let Some(all) = when.get("all").and_then(Value::as_array) {
        return all.iter().all(|when| rule_fits(when, params));
    }
    let value = params.get(text(when, "param"));
    match (when.get("equals"), when.get("in").and_then(Value::as_array)) {
        (Some(expected), _) => value == Some(expected),
        (None, Some(expected)) => value.is_some_and(|value| expected.contains(value)),
        (None, None) => value.is_none() == when["absent"].as_bool().unwrap_or(true),
    }
}

/// Policy of a case, scope of its user, and root of its paths.
fn case_policy(described: &Value) -> Option<(GatePolicy, String, String)> {
    let no_rules = Vec::new();
    let rules = |name: &str| described.get(name).and_then(Value::as_array).unwrap_or(&no_rules).clone();
    let roots: Vec<String> = rules("paths").iter().map(|rule| text(rule, "root").to_owned()).collect();
    if roots.windows(2).any(|pair| pair[0] != pair[1]) {
        return None;
    }
    let mut listed = Vec::new();
    for rule in rules("egress") {
        listed.extend(case_egress(&rule)?);
    }
    let [scope] = described["users"]["u1"].as_array()?.as_slice() else { return None };
    let mut scopes = BTreeMap::new();
    for scope in rules("scopes") {
        let mut tools = BTreeMap::new();
        for (tool, grant) in scope["tools"].as_object()? {
            if !only(grant, ["cap"]) {
                return None;
            }
            tools.insert(tool.clone(), grant.get("cap").map(|cap| cap.as_u64().unwrap() as u8));
        }
        scopes.insert(text(&scope, "name").to_owned(), Scope { tools });
    }
    let limit = |name: &str, default| {
        described["limits"].get(name).map_or(default, |it| it.as_u64().unwrap() as usize)
    };
    let policy = GatePolicy {
        scopes,
        ceiling: described.get("tenant_ceiling").map_or(2, |it| it.as_u64().unwrap() as u8),
        limits: CallLimits { max_depth: limit("max_depth", 32), max_bytes: limit("max_bytes", 65_536) },
        egress: Egress::new(listed).unwrap(),
        ..GatePolicy::default()
    };
    Some((policy, scope.as_str()?.to_owned(), roots.first().cloned().unwrap_or_default()))
}

/// Egress entries equivalent to a rule; `None` if there are none, since private addresses need an entry by name here.
fn case_egress(rule: &Value) -> Option<Vec<String>> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let schemes = rule.get("schemes").map_or_else(|| vec!["https".to_owned()], texts);
    let known = |scheme: &str| match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    };
    let ports: Vec<u64> = match rule.get("ports").and_then(Value::as_array) {
        Some(ports) => ports.iter().filter_map(Value::as_u64).collect(),
        None => schemes.iter().map(|scheme| known(scheme)).collect::<Option<_>>()?,
    };
    let of_their_schemes = ports.iter().all(|&port| schemes.iter().any(|scheme| known(scheme) == Some(port)));
    let expressible = schemes.iter().all(|scheme| known(scheme).is_some())
        && (of_their_schemes || (schemes.len() == 2 && ports.iter().all(|port| ![443, 80].contains(port))));
    if !expressible || rule.get("allow_private").is_some() {
        return None;
    }
    let hosts = texts(&rule["hosts"]);
    Some(hosts.iter().flat_map(|host| ports.iter().map(move |port| format!("{host}:{port}"))).collect())
}

/// True if the parameters with a path or URL rule are exactly those with the format in the schema. Operator rules beyond the
/// schema are not supported here.
fn rules_match_formats(policy: &Value, name: &str, tool: Option<&Value>) -> bool {
    let no_rules = Vec::new();
    let properties = tool.and_then(|tool| tool.pointer("/schema/properties")).and_then(Value::as_object);
    [("paths", r#""format":"path""#), ("egress", r#""format":"uri""#)].iter().all(|(kind, format)| {
        let rules = policy.get(kind).and_then(Value::as_array).unwrap_or(&no_rules);
        let ruled = rules.iter().filter(|rule| rule["tool"] == name).map(|rule| text(rule, "param"));
        let with_format =
            properties.into_iter().flatten().filter(|(_, inner)| inner.to_string().contains(format));
        let ruled: BTreeSet<&str> = ruled.collect();
        // A URL parameter without a rule is denied, as is one outside the egress list.
        (ruled.is_empty() && *kind == "egress")
            || ruled == with_format.map(|(param, _)| param.as_str()).collect()
    })
}

/// The argument text, which a case may give as pieces with repeat counts.
fn argument_text(raw: &Value) -> String {
    match raw {
        Value::String(whole) => whole.clone(),
        pieces => {
            let each = pieces.as_array().unwrap().iter();
            each.map(|piece| piece[0].as_str().unwrap().repeat(piece[1].as_u64().unwrap() as usize)).collect()
        }
    }
}

/// Parameters of a call, or the code of the parse error.
fn case_params(call: &Value) -> Result<Map<String, Value>, &'static str> {
    let params = match call.get("raw_params") {
        Some(raw) => parse_value(&argument_text(raw)).map_err(|_| "PARAM_SCHEMA")?,
        None => call.get("params").cloned().unwrap_or_else(|| json!({})),
    };
    params.as_object().cloned().ok_or("PARAM_SCHEMA")
}

/// Difference between one step and its expected verdict; `None` for an unsupported step.
fn run_step(id: &str, case: &Value, step: &Value) -> Option<Option<String>> {
    let (policy, tools, by_address) = (&case["policy"], &case["tools"], case.get("dns").is_some());
    let (call, expect) = (step.get("call")?, &step["expect"]);
    let understood = only(step, STEP)
        && only(policy, POLICY)
        && only(call, ["tool", "params", "raw_params"])
        && CODES.contains(&text(expect, "code"));
    if !understood {
        return None;
    }
    let expected =
        (text(expect, "code"), expect["effective_impact"].as_u64(), expect["args"].as_object().cloned());
    let (gate, scope, root) = case_policy(policy)?;
    let text_bytes = call.get("raw_params").map_or(0, |raw| argument_text(raw).len());
    if text_bytes > gate.limits.max_bytes {
        return None; // plans have parameters, not their text
    }
    let params = match case_params(call) {
        Ok(params) => params,
        Err(code) => {
            return Some(
                (code != expected.0).then(|| format!("{id}: {call}\n  found {code}\n  not {expected:?}")),
            );
        }
    };
    let name = text(call, "tool");
    let tool = match tools.get(name).map(|described| case_tool(name, described)) {
        Some(None) => return None,
        Some(Some(tool)) => Some(tool),
        None => None,
    };
    if !rules_match_formats(policy, name, tools.get(name)) {
        return None;
    }
    let default_intent = policy.get("default_intent").and_then(Value::as_u64).unwrap_or(1);
    let intent = match policy.get("intent") {
        None => 1,
        Some(given) => given.as_u64().unwrap_or(default_intent),
    };
    let call = Call {
        tool: tool.as_ref(),
        name,
        params: params.clone().into(),
        floor: 0,
        intent: intent as u8,
        scope: &scope,
        workspace: &root,
    };
    let found = match decided(call, &gate) {
        Verdict::Allowed { permit, impact } => ("OK", Some(u64::from(impact)), Some(permit.into_params())),
        Verdict::Denied(denial) => (denial.code.as_str(), expected.1, None),
    };
    if found.0 == "OK" && expected.0 == "EGRESS_FORBIDDEN" && by_address {
        return None; // name resolution belongs to the connecting code
    }
    let difference =
        (found != expected).then(|| format!("{id}: {params:?}\n  found {found:?}\n  not {expected:?}"));
    Some(difference)
}

#[test]
fn the_shared_cases_that_concern_these_steps_agree() {
    let mut judged = Vec::new();
    for case in cases(FILE) {
        let id = text(&case, "id");
        if case.get("nodes").is_some() {
            continue;
        }
        let alone = std::slice::from_ref(&case);
        let steps = case.get("steps").and_then(Value::as_array).map_or(alone, Vec::as_slice);
        judged.extend(steps.iter().filter_map(|step| run_step(id, &case, step)));
    }
    let differences: Vec<String> = judged.iter().flatten().cloned().collect();
    assert!(differences.is_empty(), "{} of {}\n{}", differences.len(), judged.len(), differences.join("\n"));
    assert!(judged.len() >= 220, "only {} steps were judged", judged.len());
}

#[test]
fn the_copy_is_the_original() {
    check_copy(FILE);
}
