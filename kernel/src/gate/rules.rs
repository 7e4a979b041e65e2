//! The gate's rules as an operator writes them: the keys of `[policy]`, and of conformance cases.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::impact::ImpactTable;

/// Labels that may not leave unless the policy says otherwise.
pub const SECRET: &str = "secret";

/// The rules beside the scopes. Every key is optional; unknown keys are rejected.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [policy]")]
pub struct GateRules {
    /// Intent of a caller that gives none: 0 or 1.
    pub default_intent: u8,
    /// Highest intent that a caller may ask for, 0 to 2.
    pub token_max_intent: u8,
    /// Upper bound on the impact of every call, 0 to 2.
    pub tenant_ceiling: u8,
    /// Calls of impact 0 during a lockdown.
    pub lockdown_observe: OnObserve,
    /// Calls of impact 0 while no verdict can be recorded.
    pub audit_observe: OnObserve,
    /// Size limits of parameters.
    pub limits: Limits,
    /// Folders of path parameters; without one, a path stays in the workspace.
    pub paths: Vec<PathRule>,
    /// Destinations of URL parameters; without one, a URL needs an entry of `egress_allow`.
    pub egress: Vec<EgressRule>,
    /// Labels of data that may not leave.
    pub egress_forbidden_labels: Vec<String>,
    /// Rules for values.
    pub param_policies: Vec<ParamPolicy>,
    /// Limits on all calls of a run together.
    pub budgets: Vec<Budget>,
    /// Address of the clearance authority; read at start only.
    pub clearance_url: Option<String>,
    /// Calls that need a clearance.
    pub clearance_routes: Vec<ClearanceRoute>,
    /// Denials after which a run is stopped; `None`: any number.
    pub deny_budget: Option<u32>,
    /// Parameters by tool whose values must be trusted, beside those that the tool declares.
    pub sensitive: BTreeMap<String, BTreeSet<String>>,
    /// Tools whose results are trusted, although they say that strangers may have written them.
    pub trusted: BTreeSet<String>,
    /// Tools whose results count as written by strangers, beside those that say so of themselves.
    pub untrusted: BTreeSet<String>,
    /// Labels of the results of tools.
    pub labels: BTreeMap<String, BTreeSet<String>>,
    /// Impact by tool, where it is more than the tool's own.
    pub impact: BTreeMap<String, ImpactTable>,
}

impl Default for GateRules {
    fn default() -> GateRules {
        GateRules {
            default_intent: 1,
            token_max_intent: 2,
            tenant_ceiling: 2,
            lockdown_observe: OnObserve::Deny,
            audit_observe: OnObserve::Deny,
            limits: Limits::default(),
            paths: Vec::new(),
            egress: Vec::new(),
            egress_forbidden_labels: vec![SECRET.to_owned()],
            param_policies: Vec::new(),
            budgets: Vec::new(),
            clearance_url: None,
            clearance_routes: Vec::new(),
            deny_budget: None,
            sensitive: BTreeMap::new(),
            trusted: BTreeSet::new(),
            untrusted: BTreeSet::new(),
            labels: BTreeMap::new(),
            impact: BTreeMap::new(),
        }
    }
}

/// What a switch leaves to calls that only observe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnObserve {
    /// They go on.
    Allow,
    /// They stop like all others.
    #[default]
    Deny,
}

/// Size limits that replace the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the limits `max_depth` and `max_bytes`")]
pub struct Limits {
    /// Nesting; the parameter object has depth 1.
    #[serde(deserialize_with = "present")]
    pub max_depth: Option<u64>,
    /// Bytes.
    #[serde(deserialize_with = "present")]
    pub max_bytes: Option<u64>,
}

/// The folder of a path parameter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRule {
    /// The tool.
    pub tool: String,
    /// The parameter.
    pub param: String,
    /// Absolute folder.
    pub root: String,
}

/// Destinations of a URL parameter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressRule {
    /// The tool.
    pub tool: String,
    /// The parameter.
    pub param: String,
    /// Hosts in lower case, `*.example.com` or `*`.
    pub hosts: Vec<String>,
    /// Schemes in lower case.
    #[serde(default = "https")]
    pub schemes: Vec<String>,
    /// Ports; `None`: the known port of the scheme.
    #[serde(default, deserialize_with = "present")]
    pub ports: Option<Vec<u16>>,
    /// Opens private networks and loopback.
    #[serde(default)]
    pub allow_private: bool,
}

fn https() -> Vec<String> {
    vec!["https".to_owned()]
}

/// A rule for the values of a parameter. All conditions must hold, for each element of a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamPolicy {
    /// The tool.
    pub tool: String,
    /// The parameter.
    pub param: String,
    /// The values.
    #[serde(rename = "in", default, deserialize_with = "present")]
    pub within: Option<Vec<Value>>,
    /// The least number.
    #[serde(default, deserialize_with = "present")]
    pub min: Option<f64>,
    /// The greatest number.
    #[serde(default, deserialize_with = "present")]
    pub max: Option<f64>,
    /// Hosts of https URLs.
    #[serde(default, deserialize_with = "present")]
    pub url_host: Option<Vec<String>>,
    /// Domains of mail addresses.
    #[serde(default, deserialize_with = "present")]
    pub email_domain: Option<Vec<String>>,
    /// Fewest elements of a list.
    #[serde(default, deserialize_with = "present")]
    pub min_items: Option<u64>,
    /// Most elements of a list.
    #[serde(default, deserialize_with = "present")]
    pub max_items: Option<u64>,
    /// Null passes.
    #[serde(default)]
    pub null_ok: bool,
}

/// A limit on all calls of a tool in a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "BudgetFields")]
pub struct Budget {
    /// The tool.
    pub tool: String,
    /// What is limited.
    pub limit: BudgetLimit,
}

/// What a [`Budget`] limits.
#[derive(Debug, Clone, PartialEq)]
pub enum BudgetLimit {
    /// Number of calls.
    Calls(u64),
    /// Sum of a parameter.
    Sum {
        /// The parameter.
        param: String,
        /// The largest sum.
        max: f64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetFields {
    tool: String,
    #[serde(default, deserialize_with = "present")]
    param: Option<String>,
    #[serde(default, deserialize_with = "present")]
    max_calls: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    max_sum: Option<f64>,
}

impl TryFrom<BudgetFields> for Budget {
    type Error = &'static str;

    fn try_from(fields: BudgetFields) -> Result<Budget, &'static str> {
        let limit = match (fields.param, fields.max_calls, fields.max_sum) {
            (None, Some(calls), None) => BudgetLimit::Calls(calls),
            (Some(param), None, Some(max)) => BudgetLimit::Sum { param, max },
            _ => return Err("a budget has `max_calls`, or `param` and `max_sum`"),
        };
        Ok(Budget { tool: fields.tool, limit })
    }
}

/// Calls of a tool need a clearance.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearanceRoute {
    /// The tool; `*`: every tool without a route of its own.
    pub tool: String,
    /// Time for the answer, in milliseconds.
    pub deadline_ms: u64,
    /// Time for which a yes counts for the same call, in milliseconds; at most a minute.
    #[serde(default)]
    pub cache_ttl_ms: u64,
    /// Only calls that would be held are asked about.
    #[serde(default)]
    pub only_tainted: bool,
}

/// Reads a value that may be left out but not be null.
fn present<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    serde_json::from_value(value).map(Some).map_err(D::Error::custom)
}

/// A fault of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFault {
    /// Path of the rule: keys, and places in lists.
    pub place: Vec<Place>,
    /// The problem, as a sentence without a full stop.
    pub what: String,
    /// The remedy, as a sentence without a full stop.
    pub help: &'static str,
}

/// A step of a path into the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A key of a table.
    Key(String),
    /// A place in a list, from 0.
    Item(usize),
}

impl GateRules {
    /// The faults of rules that are well-formed.
    pub fn faults(&self) -> Vec<RuleFault> {
        let mut faults = Vec::new();
        let mut fault = |place: Vec<Place>, what: String, help: &'static str| {
            faults.push(RuleFault { place, what, help });
        };
        let key = |name: &str| vec![Place::Key(name.to_owned())];
        for (name, level, most) in [
            ("default_intent", self.default_intent, 1),
            ("token_max_intent", self.token_max_intent, 2),
            ("tenant_ceiling", self.tenant_ceiling, 2),
        ] {
            if level > most {
                fault(key(name), format!("{name} is {level}"), "set 0, 1 or, but for the default intent, 2");
            }
        }
        for (name, limit) in [("max_depth", self.limits.max_depth), ("max_bytes", self.limits.max_bytes)] {
            if limit == Some(0) {
                let place = vec![Place::Key("limits".to_owned()), Place::Key(name.to_owned())];
                fault(place, format!("{name} is 0, which allows no call"), "set at least 1");
            }
        }
        for (at, rule) in self.paths.iter().enumerate() {
            if !rule.root.starts_with('/') {
                let place = item("paths", at, "root");
                fault(place, format!("the root {:?} is not absolute", rule.root), "begin it with /");
            }
        }
        for (list, at, name, text) in self.lower_case_texts() {
            if text.chars().any(char::is_uppercase) {
                fault(item(list, at, name), format!("{text:?} has capitals"), "write it in lower case");
            }
        }
        for (at, rule) in self.egress.iter().enumerate() {
            if rule.ports.as_ref().is_some_and(|ports| ports.contains(&0)) {
                fault(item("egress", at, "ports"), "port 0 is none".to_owned(), "set 1 to 65535");
            }
        }
        for (tool, table) in &self.impact {
            if !table.is_sound() {
                let place = vec![Place::Key("impact".to_owned()), Place::Key(tool.clone())];
                fault(place, format!("an impact of {tool} is none"), "set 0, 1 or 2");
            }
        }
        faults
    }

    /// Rules for tools that are not registered: the place, and the name of the tool.
    pub fn unknown_tools(&self, is_registered: &dyn Fn(&str) -> bool) -> Vec<(Vec<Place>, &str)> {
        let mut tools = self.tools();
        tools.retain(|(_, tool)| !is_registered(tool));
        tools
    }

    /// Every parameter that a rule names: the place, the tool, and the parameter.
    pub fn params(&self) -> Vec<(Vec<Place>, &str, &str)> {
        let mut params = Vec::new();
        let mut listed = |list, at, tool, param| params.push((item(list, at, "param"), tool, param));
        for (at, rule) in self.paths.iter().enumerate() {
            listed("paths", at, rule.tool.as_str(), rule.param.as_str());
        }
        for (at, rule) in self.egress.iter().enumerate() {
            listed("egress", at, &rule.tool, &rule.param);
        }
        for (at, rule) in self.param_policies.iter().enumerate() {
            listed("param_policies", at, &rule.tool, &rule.param);
        }
        for (at, budget) in self.budgets.iter().enumerate() {
            if let BudgetLimit::Sum { param, .. } = &budget.limit {
                listed("budgets", at, &budget.tool, param);
            }
        }
        for (tool, names) in &self.sensitive {
            params.extend(names.iter().map(|name| (keyed("sensitive", tool), tool.as_str(), name.as_str())));
        }
        for (tool, table) in &self.impact {
            params
                .extend(table.params().into_iter().map(|name| (keyed("impact", tool), tool.as_str(), name)));
        }
        params
    }

    fn lower_case_texts(&self) -> Vec<(&'static str, usize, &'static str, &str)> {
        let mut texts = Vec::new();
        for (at, rule) in self.egress.iter().enumerate() {
            texts.extend(rule.hosts.iter().map(|host| ("egress", at, "hosts", host.as_str())));
            texts.extend(rule.schemes.iter().map(|scheme| ("egress", at, "schemes", scheme.as_str())));
        }
        for (at, rule) in self.param_policies.iter().enumerate() {
            let hosts = rule.url_host.iter().flatten();
            texts.extend(hosts.map(|host| ("param_policies", at, "url_host", host.as_str())));
            let domains = rule.email_domain.iter().flatten();
            texts.extend(domains.map(|domain| ("param_policies", at, "email_domain", domain.as_str())));
        }
        texts
    }

    /// Every tool that a rule names, with the place.
    fn tools(&self) -> Vec<(Vec<Place>, &str)> {
        let mut tools = Vec::new();
        let mut listed = |list: &'static str, at: usize, tool| tools.push((item(list, at, "tool"), tool));
        self.paths.iter().enumerate().for_each(|(at, rule)| listed("paths", at, rule.tool.as_str()));
        self.egress.iter().enumerate().for_each(|(at, rule)| listed("egress", at, &rule.tool));
        self.param_policies
            .iter()
            .enumerate()
            .for_each(|(at, rule)| listed("param_policies", at, &rule.tool));
        self.budgets.iter().enumerate().for_each(|(at, rule)| listed("budgets", at, &rule.tool));
        for (at, route) in self.clearance_routes.iter().enumerate().filter(|(_, it)| it.tool != ANY_TOOL) {
            listed("clearance_routes", at, &route.tool);
        }
        tools.extend(self.sensitive.keys().map(|tool| (keyed("sensitive", tool), tool.as_str())));
        for (list, named) in [("trusted", &self.trusted), ("untrusted", &self.untrusted)] {
            tools.extend(named.iter().map(|tool| (vec![Place::Key(list.to_owned())], tool.as_str())));
        }
        tools.extend(self.labels.keys().map(|tool| (keyed("labels", tool), tool.as_str())));
        tools.extend(self.impact.keys().map(|tool| (keyed("impact", tool), tool.as_str())));
        tools
    }
}

/// A route for every tool without one of its own.
pub(super) const ANY_TOOL: &str = "*";

fn keyed(table: &str, tool: &str) -> Vec<Place> {
    vec![Place::Key(table.to_owned()), Place::Key(tool.to_owned())]
}

fn item(list: &str, at: usize, name: &str) -> Vec<Place> {
    vec![Place::Key(list.to_owned()), Place::Item(at), Place::Key(name.to_owned())]
}
