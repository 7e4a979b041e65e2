//! The operator's policy: which scope may call which tool, and with how much impact.

use std::collections::{BTreeMap, BTreeSet};

use super::egress::Egress;

/// Scope of a caller that names none.
pub const SCOPE_DEFAULT: &str = "default";

/// The gate's policy. Each change increments the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatePolicy {
    /// Scopes by name.
    pub scopes: BTreeMap<String, Scope>,
    /// Upper bound on the impact of every call of the tenant, 0..=2.
    pub ceiling: u8,
    /// Version of the policy.
    pub epoch: u64,
    /// Size limits of parameters.
    pub limits: CallLimits,
    /// Destinations that calls may reach.
    pub egress: Egress,
}

impl GatePolicy {
    /// True if the policy defines this scope. A name such as `a&b` denotes the intersection of `a` and `b` and needs both.
    pub fn has_scope(&self, name: &str) -> bool {
        name.split('&').all(|part| self.scopes.contains_key(part))
    }

    /// True if the scope grants the tool.
    pub fn grants(&self, scope: &str, tool: &str) -> bool {
        matches!(self.cap(scope, tool), Ok(Some(_)))
    }

    /// The cap on a tool's impact in a scope. `Err` names the undefined part of the scope, `Ok(None)` means that the scope
    /// does not grant the tool, `Ok(Some(None))` that the scope grants the tool without a cap. In an intersection every part
    /// must grant the tool, and the smallest cap holds.
    pub(super) fn cap<'a>(&self, scope: &'a str, tool: &str) -> Result<Option<Option<u8>>, &'a str> {
        let mut least: Option<Option<u8>> = Some(None);
        for part in scope.split('&') {
            let cap = self.scopes.get(part).ok_or(part)?.tools.get(tool).copied();
            least = match (least, cap) {
                (Some(Some(one)), Some(Some(other))) => Some(Some(one.min(other))),
                (Some(one), Some(other)) => Some(one.or(other)),
                (_, None) | (None, _) => None,
            };
        }
        Ok(least)
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
