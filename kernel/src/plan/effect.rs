//! What a node does to the world, and how the engine treats it.

use serde::{Deserialize, Serialize};

/// Effect of a node on the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Effect {
    #[default]
    None,
    Read,
    Write,
    External,
}

impl Effect {
    /// The word of the plan format.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::None => "none",
            Effect::Read => "read",
            Effect::Write => "write",
            Effect::External => "external",
        }
    }

    /// Returns whether the effect changes anything.
    pub fn acts(self) -> bool {
        match self {
            Effect::Write | Effect::External => true,
            Effect::None | Effect::Read => false,
        }
    }
}

/// Permitted reaction to a lost result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Repeating is harmless.
    #[default]
    Natural,
    /// The receiver recognises the idempotency key.
    Keyed,
    /// Nothing; only a person can tell.
    None,
}

/// Moment to ask a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Never.
    #[default]
    None,
    /// Before the action.
    Before,
    /// Before the result is published.
    After,
}

/// Treatment of an effectful attempt with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// Ask the operator (real runs).
    Ask,
    /// Count the attempt as failed (simulation).
    Fail,
}
