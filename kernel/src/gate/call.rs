//! A tool call as the gate sees it, and the class of what the call does.

use serde::{Deserialize, Serialize};

use super::decide::Hold;
use super::policy::Scopes;
use super::provenance::Provenance;
use super::spent::Spent;
use super::tool::GatedTool;
use crate::json::Object;
use crate::plan::{Effect, Idempotency};

/// Effect of a call with given parameters, as the tool declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallClass {
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// Effect on the world.
    pub effect: Effect,
    /// Repeatability of the effect.
    pub idem: Idempotency,
}

/// Treatment of a call after the loss of its result: the process died, or the result never arrived. Ordered from most to least
/// permissive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnLostResult {
    /// Retry: the call changes nothing.
    Retry,
    /// Retry under the same idempotency key: the effect is naturally idempotent, or the receiver deduplicates by key.
    RetryWithKey,
    /// Ask a person whether the call may be retried.
    InDoubt,
}

impl CallClass {
    /// True if the call changes the world. The intent of such a call is durable before the call starts, and a cancelled run
    /// lets the call finish.
    pub fn acts(self) -> bool {
        self.effect.acts() || self.impact > 0
    }

    /// Treatment of this call if its result is lost.
    ///
    /// ```
    /// # use ostler_kernel::{gate::{OnLostResult, CallClass}, plan::{Effect, Idempotency}};
    /// let post = |idem| CallClass { impact: 1, effect: Effect::External, idem };
    /// assert_eq!(post(Idempotency::Keyed).on_lost_result(), OnLostResult::RetryWithKey);
    /// assert_eq!(post(Idempotency::None).on_lost_result(), OnLostResult::InDoubt);
    /// ```
    pub fn on_lost_result(self) -> OnLostResult {
        match self.idem {
            _ if !self.acts() => OnLostResult::Retry,
            Idempotency::Natural | Idempotency::Keyed => OnLostResult::RetryWithKey,
            Idempotency::None => OnLostResult::InDoubt,
        }
    }

    /// Class of a sequence of both calls: the larger impact, the stronger effect, the weaker repeatability.
    pub fn and(self, other: CallClass) -> CallClass {
        CallClass {
            impact: self.impact.max(other.impact),
            effect: self.effect.max(other.effect),
            idem: self.idem.max(other.idem),
        }
    }
}

/// A tool call with resolved parameters.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// `None` if no tool of this name is registered.
    pub tool: Option<&'a GatedTool>,
    /// Requested tool name.
    pub name: &'a str,
    /// Resolved parameters.
    pub params: Object,
    /// Lower bound on the impact, set by the plan.
    pub floor: u8,
    /// Upper bound on the impact, set by the caller: 0..=2.
    pub intent: u8,
    /// The caller's scopes.
    pub scope: Scopes<'a>,
    /// Absolute folder for paths without a rule. Empty if the run has none, which forbids absolute paths; `None` forbids all.
    pub workspace: Option<&'a str>,
    /// Provenance of the parameters.
    pub provenance: &'a Provenance,
    /// What the run's calls before this one add up to.
    pub spent: &'a Spent,
}

/// The outcome of an allowed call, for display. Not a permit.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// Parameters including the tool's defaults.
    pub params: Object,
    /// Effect of the call, with at least the plan's floor as impact.
    pub class: CallClass,
    /// Why the call needs clearance.
    pub hold: Option<Hold>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_acts_by_its_effect_or_by_its_impact() {
        for (effect, impact, acts) in [
            (Effect::Read, 0, false),
            (Effect::Read, 1, true),
            (Effect::Write, 0, true),
            (Effect::External, 2, true),
        ] {
            let class = CallClass { impact, effect, idem: Idempotency::None };
            assert_eq!(class.acts(), acts, "{class:?}");
        }
    }
    #[test]
    fn a_lost_call_is_made_again_only_if_that_changes_nothing_more() {
        for (impact, effect, idem, expected) in [
            (0, Effect::Read, Idempotency::None, OnLostResult::Retry),
            (0, Effect::None, Idempotency::Keyed, OnLostResult::Retry),
            (1, Effect::Read, Idempotency::None, OnLostResult::InDoubt),
            (0, Effect::Write, Idempotency::None, OnLostResult::InDoubt),
            (1, Effect::Write, Idempotency::Natural, OnLostResult::RetryWithKey),
            (2, Effect::External, Idempotency::Keyed, OnLostResult::RetryWithKey),
            (2, Effect::External, Idempotency::None, OnLostResult::InDoubt),
        ] {
            let class = CallClass { impact, effect, idem };
            assert_eq!(class.on_lost_result(), expected, "{class:?}");
        }
    }

    #[test]
    fn a_sequence_is_as_bad_as_the_worst_of_each_part() {
        let read = CallClass { impact: 0, effect: Effect::External, idem: Idempotency::None };
        let write = CallClass { impact: 2, effect: Effect::Write, idem: Idempotency::Natural };
        let both = CallClass { impact: 2, effect: Effect::External, idem: Idempotency::None };
        assert_eq!((read.and(write), write.and(read)), (both, both));
    }
}
