//! The operator's policy, compiled: which scope may call which tool, with how much impact, and what its values may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::DENIALS_MAX;
use super::egress::{Destinations, Egress, HostPattern};
use super::impact::ImpactTable;
use super::param_rule::{ParamRule, https_hosts};
use super::rules::{ANY_TOOL, BudgetLimit, ClearanceRoute, GateRules, OnObserve, SECRET};
use crate::id::Digest;
use crate::lineage;

/// Scope of a caller that names none.
pub const SCOPE_DEFAULT: &str = "default";

/// The gate's policy. Each change increments the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct GatePolicy {
    /// Scopes by name.
    pub scopes: BTreeMap<String, Scope>,
    /// Pinned versions of tools, by scope and tool.
    pub pins: BTreeMap<String, BTreeMap<String, String>>,
    /// Upper bound on the impact of every call of the tenant, 0..=2.
    pub ceiling: u8,
    /// Version of the policy.
    pub epoch: u64,
    /// Size limits of parameters.
    pub limits: CallLimits,
    /// Destinations that URL parameters without a rule of their own may reach.
    pub egress: Egress,
    /// Intent of a caller that gives none.
    pub default_intent: u8,
    /// Highest intent that a caller may ask for.
    pub max_intent: u8,
    /// Denials after which a run is stopped; `None`: any number.
    pub deny_budget: Option<u32>,
    /// Calls of impact 0 during a lockdown.
    pub lockdown_observe: OnObserve,
    /// Calls of impact 0 while no verdict can be recorded.
    pub audit_observe: OnObserve,
    /// Calls that need a clearance.
    pub routes: Vec<ClearanceRoute>,
    /// Labels of data that may not leave.
    pub forbidden_labels: BTreeSet<String>,
    /// Rules by tool; made by [`GatePolicy::with_rules`].
    pub tools: BTreeMap<String, ToolRules>,
}

impl Default for GatePolicy {
    fn default() -> GatePolicy {
        GatePolicy {
            scopes: BTreeMap::new(),
            pins: BTreeMap::new(),
            ceiling: 0,
            epoch: 0,
            limits: CallLimits::default(),
            egress: Egress::default(),
            default_intent: 1,
            max_intent: 2,
            deny_budget: Some(DENIALS_MAX),
            lockdown_observe: OnObserve::Deny,
            audit_observe: OnObserve::Deny,
            routes: Vec::new(),
            forbidden_labels: BTreeSet::from([SECRET.to_owned()]),
            tools: BTreeMap::new(),
        }
    }
}

/// The rules that concern one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolRules {
    /// Roots by parameter; a path must stay in one of them.
    pub(super) paths: BTreeMap<String, Vec<String>>,
    pub(super) egress: BTreeMap<String, Egress>,
    pub(super) values: Vec<(String, ParamRule)>,
    pub(super) budgets: Vec<BudgetLimit>,
    pub(super) sensitive: BTreeSet<String>,
    /// What the operator says of the tool's results.
    pub(super) trusted: Option<bool>,
    pub(super) labels: BTreeSet<String>,
    pub(super) impact: Option<ImpactTable>,
}

impl GatePolicy {
    /// Digest of the policy without its number: the same policy has the same digest in every process of the same program. Another
    /// program may give another digest, and then a person is asked once more.
    pub fn digest(&self) -> Digest {
        let unnumbered = GatePolicy { epoch: 0, ..self.clone() };
        lineage::hash("ostler.policy.1", &[format!("{unnumbered:?}").as_bytes()])
    }

    /// Adds the rules of an operator. The faults of [`GateRules::faults`] are not looked for.
    #[must_use]
    pub fn with_rules(mut self, rules: &GateRules) -> GatePolicy {
        let limit = |given: Option<u64>, usual: usize| {
            given.map_or(usual, |it| usize::try_from(it).unwrap_or(usize::MAX))
        };
        self.limits = CallLimits {
            max_depth: limit(rules.limits.max_depth, self.limits.max_depth),
            max_bytes: limit(rules.limits.max_bytes, self.limits.max_bytes),
        };
        self.ceiling = rules.tenant_ceiling;
        self.default_intent = rules.default_intent;
        self.max_intent = rules.token_max_intent;
        self.deny_budget = rules.deny_budget.or(self.deny_budget);
        self.lockdown_observe = rules.lockdown_observe;
        self.audit_observe = rules.audit_observe;
        self.routes.clone_from(&rules.clearance_routes);
        self.forbidden_labels = rules.egress_forbidden_labels.iter().cloned().collect();
        self.tools = tool_rules(rules);
        self
    }

    /// True if the policy defines this scope. A name such as `a&b` denotes the intersection of `a` and `b` and needs both;
    /// `a+b` holds what either holds.
    pub fn has_scope(&self, name: &str) -> bool {
        name.split(['&', '+']).all(|part| self.scopes.contains_key(part))
    }

    /// True if the scope grants the tool.
    pub fn grants(&self, scope: &str, tool: &str) -> bool {
        matches!(self.grant(Scopes::Named(scope), tool), Ok(Some(_)))
    }

    /// True if a clearance authority decides on held calls of a tool, or on all of them.
    pub fn has_route(&self, tool: &str) -> bool {
        self.route(tool).is_some()
    }

    /// The first exact route of a tool, else the first for every tool.
    pub(super) fn route(&self, tool: &str) -> Option<&ClearanceRoute> {
        let named = |name: &str| self.routes.iter().find(|route| route.tool == name);
        named(tool).or_else(|| named(ANY_TOOL))
    }

    /// What the scopes grant of a tool; `None`: nothing.
    pub(super) fn grant<'a>(
        &'a self,
        scopes: Scopes<'a>,
        tool: &str,
    ) -> Result<Option<Grant<'a>>, ScopeFault<'a>> {
        match scopes {
            Scopes::Held(names) => self.union(names.iter().map(String::as_str), tool),
            Scopes::Named(expression) => {
                let mut all: Option<Grant<'_>> = Some(Grant::default());
                for part in expression.split('&') {
                    let granted = self.union(part.split('+').filter(|name| !name.is_empty()), tool)?;
                    all = all.zip(granted).map(|(all, granted)| all.and(granted));
                }
                Ok(all)
            }
        }
    }

    /// Union of the tools, minimum of the caps. Every pin counts.
    fn union<'a>(
        &'a self,
        names: impl Iterator<Item = &'a str>,
        tool: &str,
    ) -> Result<Option<Grant<'a>>, ScopeFault<'a>> {
        let mut granted: Option<Grant<'_>> = None;
        let mut holds_any = false;
        for name in names {
            holds_any = true;
            let Some(cap) = self.scopes.get(name).ok_or(ScopeFault::Unresolved(name))?.tools.get(tool) else {
                continue;
            };
            let pin = self.pins.get(name).and_then(|pins| pins.get(tool)).map(String::as_str);
            let grant = Grant { cap: *cap, pins: [pin, None] };
            granted = Some(granted.map_or(grant, |before| before.and(grant)));
        }
        if holds_any { Ok(granted) } else { Err(ScopeFault::Empty) }
    }
}

/// The scopes of a caller.
#[derive(Debug, Clone, Copy)]
pub enum Scopes<'a> {
    /// Names joined by `+` for a union, and unions joined by `&` for an intersection: a parent's and a child's.
    Named(&'a str),
    /// The union of these.
    Held(&'a [String]),
}

impl fmt::Display for Scopes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scopes::Named(expression) => f.write_str(expression),
            Scopes::Held(names) => f.write_str(&names.join("+")),
        }
    }
}

impl<'a> From<&'a str> for Scopes<'a> {
    fn from(name: &'a str) -> Scopes<'a> {
        Scopes::Named(name)
    }
}

/// Why scopes grant nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeFault<'a> {
    Unresolved(&'a str),
    Empty,
}

/// What scopes grant of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Grant<'a> {
    pub(super) cap: Option<u8>,
    /// Two different pins are as good as all of them: no version fits both.
    pins: [Option<&'a str>; 2],
}

impl<'a> Grant<'a> {
    fn and(self, other: Grant<'a>) -> Grant<'a> {
        let cap = match (self.cap, other.cap) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let mut pins = self.pins.into_iter().chain(other.pins).flatten();
        let first = pins.next();
        Grant { cap, pins: [first, pins.find(|pin| Some(*pin) != first)] }
    }

    /// True if a pin names another version.
    pub(super) fn excludes(self, version: &str) -> bool {
        self.pins.into_iter().flatten().any(|pin| pin != version)
    }
}

/// The name of the intersection of two scopes: the sorted, deduplicated parts joined by `&`.
///  
/// ```
/// use ostler_kernel::gate::intersect_scopes;
///
/// for (one, other, expected) in [
///     ("default", None, "default"),
///     ("default", Some("default"), "default"),
///     ("b", Some("a"), "a&b"),
///     ("a&b", Some("b&c"), "a&b&c"),
///     ("a+b", Some("c"), "a+b&c"),
/// ] {
///     assert_eq!(intersect_scopes(one, other), expected);
/// }
/// ```
pub fn intersect_scopes(one: &str, other: Option<&str>) -> String {
    let parts = one.split('&').chain(other.into_iter().flat_map(|it| it.split('&')));
    parts.collect::<BTreeSet<&str>>().into_iter().collect::<Vec<_>>().join("&")
}

/// The tools that a caller in this scope may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Cap on the impact by tool; `None` leaves the tenant's ceiling as the only bound.
    pub tools: BTreeMap<String, Option<u8>>,
}

/// Size limits of the parameters of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum nesting; the parameter object itself has depth 1.
    pub max_depth: usize,
    /// Maximum bytes of the canonical JSON.
    pub max_bytes: usize,
}

impl CallLimits {
    /// Limits for calls from plan files.
    pub const PLAN_FILE: CallLimits = CallLimits { max_depth: 32, max_bytes: 16 * 1024 * 1024 };
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits::PLAN_FILE
    }
}

/// The rules by tool.
fn tool_rules(rules: &GateRules) -> BTreeMap<String, ToolRules> {
    let mut tools: BTreeMap<String, ToolRules> = BTreeMap::new();
    for rule in &rules.paths {
        let of_tool = tools.entry(rule.tool.clone()).or_default();
        of_tool.paths.entry(rule.param.clone()).or_default().push(rule.root.clone());
    }
    for rule in &rules.egress {
        let of_tool = tools.entry(rule.tool.clone()).or_default();
        of_tool.egress.entry(rule.param.clone()).or_default().push(Destinations {
            hosts: rule.hosts.iter().map(|host| HostPattern::new(host)).collect(),
            schemes: rule.schemes.clone(),
            ports: rule.ports.clone(),
            allow_private: rule.allow_private,
        });
    }
    for rule in &rules.param_policies {
        let value_rule = ParamRule {
            within: rule.within.clone(),
            min: rule.min,
            max: rule.max,
            url_host: rule.url_host.as_deref().map(https_hosts),
            email_domain: rule.email_domain.clone(),
            min_items: rule.min_items,
            max_items: rule.max_items,
            null_ok: rule.null_ok,
        };
        tools.entry(rule.tool.clone()).or_default().values.push((rule.param.clone(), value_rule));
    }
    for budget in &rules.budgets {
        tools.entry(budget.tool.clone()).or_default().budgets.push(budget.limit.clone());
    }
    for (tool, params) in &rules.sensitive {
        tools.entry(tool.clone()).or_default().sensitive.clone_from(params);
    }
    let trusted = rules.trusted.iter().map(|tool| (tool, true));
    for (tool, trusted) in trusted.chain(rules.untrusted.iter().map(|tool| (tool, false))) {
        tools.entry(tool.clone()).or_default().trusted = Some(trusted);
    }
    for (tool, labels) in &rules.labels {
        tools.entry(tool.clone()).or_default().labels.clone_from(labels);
    }
    for (tool, table) in &rules.impact {
        tools.entry(tool.clone()).or_default().impact = Some(table.clone());
    }
    tools
}
