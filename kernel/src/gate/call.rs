//! What the gate judges.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tool::GatedTool;
use crate::id::Digest;
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

impl CallClass {
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
    pub params: Map<String, Value>,
    /// The floor that the plan sets under the impact.
    pub floor: u8,
    /// The most impact the caller asked for, 0..=2.
    pub intent: u8,
    /// The scope the caller acts in.
    pub scope: &'a str,
    /// The absolute folder that paths must stay in; empty if there is none, and then no absolute path will do.
    pub workspace: &'a str,
    /// What a receiver can recognise a repetition by.
    pub idempotency_key: Digest,
}
