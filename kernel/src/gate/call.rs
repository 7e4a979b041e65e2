//! What the gate judges.

use serde::{Deserialize, Serialize};

use super::tool::GatedTool;
use crate::json::Object;
use crate::plan::{Effect, Idempotency};

/// What a call with given parameters would do, by the word of the tool's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallClass {
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// What it does to the world.
    pub effect: Effect,
    /// What a lost result permits.
    pub idem: Idempotency,
}

/// What may be done about work of which nobody knows whether it was done: its process died, or its result was lost. From the
/// most to the least that is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnLostResult {
    /// It is done again: it changes nothing.
    Retry,
    /// It is done again with the same idempotency key: the world, or whoever receives it, takes the two for one.
    RetryWithKey,
    /// Only a person can tell whether it may be done again.
    InDoubt,
}

impl CallClass {
    /// Whether it changes anything in the world. What does is recorded before it starts, and goes on to its end when it is
    /// not wanted any more.
    pub fn acts(self) -> bool {
        self.effect.acts() || self.impact > 0
    }

    /// What may be done about such a call if nobody knows whether it was made.
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

    /// What doing both comes to: the larger impact, the more dangerous effect, and what the pickier of the two permits.
    pub fn and(self, other: CallClass) -> CallClass {
        CallClass {
            impact: self.impact.max(other.impact),
            effect: self.effect.max(other.effect),
            idem: self.idem.max(other.idem),
        }
    }
}

/// A call of a tool, with its parameters resolved.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The tool; `None` if there is none of that name.
    pub tool: Option<&'a GatedTool>,
    /// The name that was asked for.
    pub name: &'a str,
    /// The resolved parameters.
    pub params: Object,
    /// The floor that the plan sets under the impact.
    pub floor: u8,
    /// The most impact the caller asked for, 0..=2.
    pub intent: u8,
    /// The scope the caller acts in.
    pub scope: &'a str,
    /// The absolute folder that paths must stay in; empty if there is none, and then no absolute path will do.
    pub workspace: &'a str,
}

/// What a call would come to that the gate would allow: for people to see, and no leave to make it.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// Its parameters, with the tool's defaults filled in.
    pub params: Object,
    /// What it would do, the plan's floor included.
    pub class: CallClass,
}
