//! The policy of a case: scopes and users, switches, and the gate's rules.

use std::collections::BTreeMap;

use ostler_kernel::gate::{CallLimits, GatePolicy, GateRules, Scope};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::case::{AuditState, present};

/// Size limit of parameters in cases, in bytes.
const BYTES_MAX: usize = 65_536;

/// Keys beside those of [`GateRules`].
const OWN_KEYS: [&str; 5] = ["scopes", "users", "intent", "lockdown", "audit"];

/// Keys of [`GateRules`] that cases know.
const RULE_KEYS: [&str; 13] = [
    "default_intent",
    "token_max_intent",
    "tenant_ceiling",
    "lockdown_observe",
    "audit_observe",
    "limits",
    "paths",
    "egress",
    "egress_forbidden_labels",
    "param_policies",
    "budgets",
    "clearance_routes",
    "deny_budget",
];

/// A valid policy.
#[derive(Debug)]
pub(super) struct CasePolicy {
    pub(super) gate: GatePolicy,
    /// Names of scopes by user.
    pub(super) users: BTreeMap<String, Vec<String>>,
    /// `None`: not given.
    pub(super) intent: Option<u8>,
    pub(super) lockdown: bool,
    pub(super) audit: AuditState,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFields {
    #[serde(default)]
    scopes: Vec<ScopeFields>,
    #[serde(default)]
    users: BTreeMap<String, Vec<String>>,
    #[serde(default = "operate")]
    intent: Option<u8>,
    #[serde(default)]
    lockdown: bool,
    #[serde(default)]
    audit: AuditState,
}

fn operate() -> Option<u8> {
    Some(1)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeFields {
    name: String,
    tools: BTreeMap<String, GrantFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantFields {
    #[serde(default, deserialize_with = "present")]
    cap: Option<u8>,
    #[serde(default, deserialize_with = "present")]
    hash: Option<String>,
}

impl CasePolicy {
    /// Reads a policy; the fault if it is invalid. `is_registered` tells the tools there are.
    pub(super) fn read(
        written: &Map<String, Value>,
        epoch: u64,
        is_registered: &dyn Fn(&str) -> bool,
    ) -> Result<CasePolicy, String> {
        let part = |known: &[&str]| -> Map<String, Value> {
            let fields = written.iter().filter(|(name, _)| known.contains(&name.as_str()));
            fields.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        let known = |name: &&String| OWN_KEYS.contains(&name.as_str()) || RULE_KEYS.contains(&name.as_str());
        if let Some(unknown) = written.keys().find(|name| !known(name)) {
            return Err(format!("unknown field `{unknown}`"));
        }
        let text = |error: serde_json::Error| error.to_string();
        let own: OwnFields = serde_json::from_value(part(&OWN_KEYS).into()).map_err(text)?;
        let rules: GateRules = serde_json::from_value(part(&RULE_KEYS).into()).map_err(text)?;
        if let Some(fault) = rules.faults().into_iter().next() {
            return Err(fault.what);
        }
        if let Some((_, tool)) = rules.unknown_tools(is_registered).first() {
            return Err(format!("there is no tool {tool:?}"));
        }
        if own.intent.is_some_and(|intent| intent > 2) {
            return Err("the intent is above 2".to_owned());
        }
        let mut gate = GatePolicy {
            epoch,
            limits: CallLimits { max_bytes: BYTES_MAX, ..CallLimits::PLAN_FILE },
            deny_budget: None,
            ..GatePolicy::default()
        }
        .with_rules(&rules);
        for scope in own.scopes {
            add_scope(&mut gate, scope, is_registered)?;
        }
        let OwnFields { users, intent, lockdown, audit, .. } = own;
        Ok(CasePolicy { gate, users, intent, lockdown, audit })
    }
}

fn add_scope(
    gate: &mut GatePolicy,
    fields: ScopeFields,
    is_registered: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let ScopeFields { name, tools } = fields;
    let (mut scope, mut pins) = (Scope::default(), BTreeMap::new());
    for (tool, grant) in tools {
        if !is_registered(&tool) {
            return Err(format!("scope {name}: there is no tool {tool:?}"));
        }
        if grant.cap.is_some_and(|cap| cap > 2) {
            return Err(format!("scope {name}: the cap of {tool} is above 2"));
        }
        pins.extend(grant.hash.map(|hash| (tool.clone(), hash)));
        scope.tools.insert(tool, grant.cap);
    }
    if gate.scopes.insert(name.clone(), scope).is_some() {
        return Err(format!("two scopes are called {name}"));
    }
    gate.pins.insert(name, pins);
    Ok(())
}
