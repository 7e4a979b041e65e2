//! The class of a tool's calls, from the operator's configuration and the server's annotations.

use ostler_kernel::gate::CallClass;
use ostler_kernel::plan::{Effect, Idempotency};
use serde::{Deserialize, Serialize};

/// Claims of a server about one of its tools. Not proven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Annotations {
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may delete or overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call with equal arguments has no further effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool interacts with systems outside of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    /// Impact if the claims are believed; a tool without claims counts as destructive.
    fn claimed(self) -> u8 {
        match (self.read_only_hint, self.destructive_hint) {
            (Some(true), _) => 0,
            (_, Some(false)) => 1,
            (_, Some(true) | None) => 2,
        }
    }

    /// Impact that the claims admit; a missing claim admits nothing.
    fn admitted(self) -> u8 {
        match (self.read_only_hint, self.destructive_hint) {
            (Some(true), _) => 0,
            (_, Some(true)) => 2,
            (Some(false), _) => 1,
            (None, Some(false) | None) => 0,
        }
    }
}

/// The class of every call of a tool.
///
/// Without a configured impact the impact is 2, or the claimed impact if the operator trusts the server. Annotations raise a
/// configured impact, and never lower one. Only a call that observes, or a call that a trusted server declares idempotent, may be
/// repeated.
pub(super) fn class(said: Option<u8>, trusted: bool, annotations: Annotations) -> CallClass {
    let impact = match said {
        Some(impact) => impact.max(annotations.admitted()),
        None if trusted => annotations.claimed(),
        None => 2,
    };
    let repeats = trusted && annotations.idempotent_hint == Some(true);
    match impact {
        0 => CallClass { impact, effect: Effect::Read, idem: Idempotency::Natural },
        _ => {
            let idem = if repeats { Idempotency::Natural } else { Idempotency::None };
            CallClass { impact, effect: Effect::External, idem }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_raise_and_never_lower() {
        let all = [None, Some(false), Some(true)];
        for (read_only_hint, destructive_hint) in
            all.into_iter().flat_map(|read| all.map(|destroys| (read, destroys)))
        {
            let annotations = Annotations { read_only_hint, destructive_hint, ..Annotations::default() };
            assert_eq!(class(None, false, annotations).impact, 2, "nobody vouches for {annotations:?}");
            for said in 0..=2 {
                assert!(class(Some(said), false, annotations).impact >= said, "{said} {annotations:?}");
                assert_eq!(class(Some(said), false, annotations), class(Some(said), true, annotations));
            }
        }
        let claims = |read_only_hint, destructive_hint| Annotations {
            read_only_hint,
            destructive_hint,
            ..Annotations::default()
        };
        assert_eq!(class(Some(0), false, claims(None, None)).impact, 0, "silence raises nothing");
        assert_eq!(class(Some(0), false, claims(None, Some(true))).impact, 2);
        assert_eq!(class(Some(0), false, claims(Some(false), None)).impact, 1);
        assert_eq!(class(None, true, claims(Some(true), None)).impact, 0);
        assert_eq!(class(None, true, claims(None, Some(false))).impact, 1);
        assert_eq!(class(None, true, claims(None, None)).impact, 2, "missing ones count as destructive");
    }

    #[test]
    fn only_a_trusted_server_says_that_a_write_may_be_repeated() {
        let annotations = Annotations { idempotent_hint: Some(true), ..Annotations::default() };
        assert_eq!(class(Some(1), false, annotations).idem, Idempotency::None);
        assert_eq!(class(Some(1), true, annotations).idem, Idempotency::Natural);
        assert_eq!(class(Some(0), false, Annotations::default()).idem, Idempotency::Natural);
    }
}
