//! What the operator allows: who may call what, and how much it may do.

use std::collections::{BTreeMap, BTreeSet};

use super::egress::Egress;

/// The scope of whoever names none.
pub const SCOPE_DEFAULT: &str = "default";

/// The gate's policy. Every change of it is a new epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatePolicy {
    /// Scopes by name.
    pub scopes: BTreeMap<String, Scope>,
    /// The most impact the tenant may have, 0..=2.
    pub ceiling: u8,
    /// Number of the policy's edition.
    pub epoch: u64,
    /// How large parameters may be.
    pub limits: CallLimits,
    /// Where data may be sent.
    pub egress: Egress,
}

impl GatePolicy {
    /// Whether there is a scope of this name: or, if the name is several joined by `&`, all of them, of which it is what they
    /// have in common.
    pub fn has_scope(&self, name: &str) -> bool {
        name.split('&').all(|part| self.scopes.contains_key(part))
    }

    /// What a scope lets a tool do: `Err` says which part of the scope does not exist, `None` that one does not have the tool.
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

/// The name of a scope of what both allow, each part with as many names as it needs.
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

/// The tools one may call who acts in a scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Tools by name, each with the most impact it may have here; `None` leaves that to the tenant's ceiling.
    pub tools: BTreeMap<String, Option<u8>>,
}

/// How large the parameters of a call may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Deepest nesting; the parameters themselves have depth 1.
    pub max_depth: usize,
    /// Bytes of their canonical JSON.
    pub max_bytes: usize,
}

impl CallLimits {
    /// For calls of plan files.
    pub const PLAN_FILE: CallLimits = CallLimits { max_depth: 32, max_bytes: 16 * 1024 * 1024 };
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits::PLAN_FILE
    }
}

impl Default for GatePolicy {
    /// Nobody may call anything.
    fn default() -> GatePolicy {
        GatePolicy {
            scopes: BTreeMap::new(),
            ceiling: 0,
            epoch: 0,
            limits: CallLimits::default(),
            egress: Egress::default(),
        }
    }
}
