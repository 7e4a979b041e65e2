//! Limits and choices of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::InDoubt;
use super::node::is_default;
use crate::agent::Oversight;
use crate::id::Ticks;
use crate::ledger::CallLimits;
use crate::run::{FailureCategory, RecoveryStrategy};

/// Reaction to a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Effects stay.
    #[default]
    Keep,
    /// Executed effects are undone.
    Undo,
}

/// Default number of early answers that a wait keeps.
pub const KEPT_ANSWERS_MAX: u32 = 16;

fn kept_answers_max() -> u32 {
    KEPT_ANSWERS_MAX
}

fn is_kept_answers_max(most: &u32) -> bool {
    *most == KEPT_ANSWERS_MAX
}

/// Limits and choices of a run, all filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Attempts running at once; 0 means unlimited.
    pub slots: u32,
    /// Requests to the planner.
    pub max_replans: u32,
    /// Versions of the plan.
    pub max_versions: u32,
    /// Nodes over all versions.
    pub max_nodes: u32,
    /// Nodes on a path.
    pub max_depth: u32,
    /// Upper bound of (retries + 1)(patches + 1) of any node.
    pub max_attempts: i64,
    /// First wait before a retry, in ticks.
    pub backoff_base: Ticks,
    /// Longest wait before a retry, in ticks.
    pub backoff_cap: Ticks,
    /// Treatment of an effectful attempt with an unknown outcome.
    pub in_doubt: InDoubt,
    /// Degree to which people watch the run; `None` asks people only where nodes say so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oversight: Option<Oversight>,
    /// Subject of the run, such as `legal`; selects recovery strategies and evaluation weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub domain: Option<String>,
    /// Recovery strategies stronger than the default and the domain ask for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recovery: BTreeMap<FailureCategory, RecoveryStrategy>,
    /// Limits of the calls of models of a run that no other run opened.
    #[serde(default, skip_serializing_if = "is_default")]
    pub calls: CallLimits,
    /// Reaction to a failed run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// Number of early answers that a wait keeps.
    #[serde(default = "kept_answers_max", skip_serializing_if = "is_kept_answers_max")]
    pub max_kept: u32,
}

impl Policy {
    /// Defaults of simulations.
    pub const SIMULATION: Policy = Policy {
        slots: 0,
        max_replans: 0,
        max_versions: 16,
        max_nodes: 64,
        max_depth: 32,
        max_attempts: 256,
        backoff_base: 1,
        backoff_cap: 60,
        in_doubt: InDoubt::Fail,
        oversight: None,
        domain: None,
        recovery: BTreeMap::new(),
        calls: CallLimits::NONE,
        on_failure: OnFailure::Keep,
        max_kept: KEPT_ANSWERS_MAX,
    };

    /// Defaults of real runs, in milliseconds; `slots` is twice the cores of the machine.
    pub const fn real(slots: u32) -> Policy {
        Policy {
            slots,
            max_replans: 1,
            max_versions: 1_000,
            max_nodes: 10_000,
            max_depth: 10_000,
            max_attempts: 256,
            backoff_base: 200,
            backoff_cap: 60_000,
            in_doubt: InDoubt::Ask,
            oversight: None,
            domain: None,
            recovery: BTreeMap::new(),
            calls: CallLimits::NONE,
            on_failure: OnFailure::Keep,
            max_kept: KEPT_ANSWERS_MAX,
        }
    }
}
