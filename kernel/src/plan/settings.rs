//! What a plan means depends on where it runs: a simulation or a real run.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::draft::PolicyDraft;
use super::{Effect, Idempotency, Kind, Policy};
use crate::id::Ticks;

/// Where a plan is to run, as far as its defaults and rules depend on it.
#[derive(Clone)]
pub struct Settings<'a> {
    /// Defaults under what the plan says.
    pub policy: Policy,
    /// What counts over the plan, key by key.
    pub overrides: PolicyDraft,
    /// What a bare second of time is worth in ticks: 1 in a simulation, 1,000 in a real run.
    pub bare: Ticks,
    /// Of an attempt, where the plan says nothing.
    pub timeout: Ticks,
    /// Retries of a node, where the plan says nothing.
    pub retries: fn(Idempotency) -> i64,
    /// The tools that exist; `None`: nobody knows (V20 is not judged).
    pub tools: Option<&'a dyn Tools>,
    /// Which kinds something here executes (V21).
    pub executes: fn(Kind) -> bool,
    /// Whether what a plan leaves out is completed from what its tools and kinds are known to do, and a
    /// parameter may be given only once (V22). True in real runs.
    pub complete: bool,
    /// Whether the wait before a retry is drawn between nothing and its full length.
    pub jitter: bool,
}

impl<'a> Settings<'a> {
    /// Virtual time: ticks, scripted outcomes, tools that at most exist.
    pub fn simulation(overrides: PolicyDraft, tools: Option<&'a dyn Tools>) -> Settings<'a> {
        Settings {
            policy: Policy::SIMULATION,
            overrides,
            bare: 1,
            timeout: 100,
            retries: |_| 0,
            tools,
            executes: |_| true,
            complete: false,
            jitter: false,
        }
    }

    /// Real time: milliseconds, and tools that say what they do. `slots` is twice the cores of the machine.
    pub fn real(slots: u32, tools: &'a dyn Tools) -> Settings<'a> {
        Settings {
            policy: Policy::real(slots),
            overrides: PolicyDraft::default(),
            bare: 1_000,
            timeout: 60_000,
            retries: |idem| match idem {
                Idempotency::Natural | Idempotency::Keyed => 2,
                Idempotency::None => 0,
            },
            tools: Some(tools),
            executes: |kind| matches!(kind, Kind::Tool | Kind::Aggregator | Kind::HumanApproval),
            complete: true,
            jitter: true,
        }
    }
}

/// The tools that a plan may name.
pub trait Tools: Send + Sync {
    /// What calls of `tool` do when these parameters are known and others may come; `None`: no such tool.
    fn defaults(&self, tool: &str, literal: &Map<String, Value>) -> Option<ToolDefaults>;

    /// The names of all of them, to find the one that was meant.
    fn names(&self) -> Vec<String>;
}

/// What a node takes from its tool where its author says nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolDefaults {
    /// What it does to the world.
    pub effect: Effect,
    /// 0..=2, the worst that parameters not known yet could make of it.
    pub impact: u8,
    /// What a lost result permits.
    pub idem: Idempotency,
    /// JSON Schema of the result.
    pub result_schema: Option<Value>,
}

/// Names alone: what a simulation knows of its tools.
impl Tools for BTreeSet<String> {
    fn defaults(&self, tool: &str, _literal: &Map<String, Value>) -> Option<ToolDefaults> {
        self.contains(tool).then(ToolDefaults::default)
    }

    fn names(&self) -> Vec<String> {
        self.iter().cloned().collect()
    }
}
