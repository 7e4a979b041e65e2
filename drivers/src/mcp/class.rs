//! The class of a tool's calls: the operator's word, and what the server says about its tool.

use ostler_kernel::gate::CallClass;
use ostler_kernel::plan::{Effect, Idempotency};
use serde::{Deserialize, Serialize};

/// What a server says about one of its tools. A claim, not a fact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Annotations {
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may destroy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool reaches others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    /// The impact that the claims amount to; what is not said counts as destructive.
    fn claimed(self) -> u8 {
        match (self.read_only_hint, self.destructive_hint) {
            (Some(true), _) => 0,
            (_, Some(false)) => 1,
            (_, Some(true) | None) => 2,
        }
    }

    /// The impact that the server admits to: only what is said counts.
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
/// Without the operator's word the impact is 2, or what the annotations claim if the operator trusts the server. Annotations raise
/// the operator's word, and never lower it. A call may be repeated only if it observes, or if a trusted server says so.
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
