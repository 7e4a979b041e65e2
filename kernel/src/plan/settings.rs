//! What a plan means depends on where it runs: a simulation or a real run.

use crate::evaluation::Domains;
use crate::gate::DENIALS_MAX;
use std::collections::BTreeSet;
use std::sync::Arc;

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
    pub ticks_per_second: Ticks,
    /// Of an attempt, where the plan says nothing.
    pub timeout: Ticks,
    /// Retries of a node, where the plan says nothing.
    pub retries: fn(Idempotency) -> i64,
    /// The tools that exist; `None`: nobody knows (V20 is not judged).
    pub tools: Option<&'a dyn Tools>,
    /// The domains that exist; `None`: nobody knows (V26 is not judged).
    pub domains: Option<&'a Domains>,
    /// Which kinds something here executes (V21).
    pub executes: fn(Kind) -> bool,
    /// Whether what a plan leaves out is completed from what its tools and kinds are known to do, and a
    /// parameter may be given only once (V22). True in real runs.
    pub real_run: bool,
    /// Whether the wait before a retry is drawn between nothing and its full length.
    pub jitter: bool,
    /// Calls of a run that the gate refuses before it is cancelled; `None`: however many, as in a simulation.
    pub denials_max: Option<u32>,
}

impl<'a> Settings<'a> {
    /// Virtual time: ticks, scripted outcomes, tools that at most exist.
    pub fn simulation(overrides: PolicyDraft, tools: Option<&'a dyn Tools>) -> Settings<'a> {
        Settings {
            policy: Policy::SIMULATION,
            overrides,
            ticks_per_second: 1,
            timeout: 100,
            retries: |_| 0,
            tools,
            domains: None,
            executes: |_| true,
            real_run: false,
            jitter: false,
            denials_max: None,
        }
    }

    /// Real time: milliseconds, and tools that say what they do. `slots` is twice the cores of the machine.
    pub fn real(slots: u32, tools: &'a dyn Tools) -> Settings<'a> {
        Settings {
            policy: Policy::real(slots),
            overrides: PolicyDraft::default(),
            ticks_per_second: 1_000,
            timeout: 60_000,
            retries: |idem| match idem {
                Idempotency::Natural | Idempotency::Keyed => 2,
                Idempotency::None => 0,
            },
            tools: Some(tools),
            domains: None,
            executes: |kind| matches!(kind, Kind::Tool | Kind::Aggregator | Kind::HumanApproval),
            real_run: true,
            jitter: true,
            denials_max: Some(DENIALS_MAX),
        }
    }
}

/// The tool that runs the tests of contracts. Tools say themselves what they take and do, and the kernel knows none by its name
/// but two: this one, which a plan has called without naming it, and [`RENDER_TOOL`], of which one parameter says what the
/// other must hold, which no schema can.
pub const TEST_TOOL: &str = "shell.run";

/// The tool that fills a template in, over `values`.
pub const RENDER_TOOL: &str = "text.render";

/// The tools that a plan may name.
pub trait Tools: Send + Sync {
    /// What calls of `tool` do when these parameters are known and others may come; `None`: no such tool.
    fn defaults(&self, tool: &str, literal: &Map<String, Value>) -> Option<ToolDefaults>;

    /// The names of all of them, to find the one that was meant.
    fn names(&self) -> Vec<String>;

    /// What is wrong with the parameters of `tool` before any call, when `literal` are known and those named in
    /// `referred` are yet to come. What depends on values that are to come is not judged. Unless overridden:
    /// nothing is known to be wrong.
    fn check_params(&self, _tool: &str, _literal: &Map<String, Value>, _referred: &BTreeSet<&str>) -> Vec<BadParam> {
        Vec::new()
    }
}

/// A parameter that a tool cannot take. Pointers are JSON pointers into the literal parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadParam {
    /// There is no parameter of that name.
    Unknown {
        /// Where it stands.
        pointer: String,
        /// What it is called.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// It is needed, and neither given nor referred to.
    Missing {
        /// The map that it should stand in.
        pointer: String,
        /// What it is called.
        name: String,
        /// What it says; may be empty.
        says: String,
    },
    /// Its value cannot be worked with.
    Wrong {
        /// Where it stands.
        pointer: String,
        /// What is wrong, as a sentence without a full stop. The value itself is not repeated: it may have come from
        /// a parameter of the plan that nobody else is to see.
        what: String,
        /// What would mend it, as a sentence without a full stop.
        help: String,
        /// The line of its text where that is, from 1, if it is known.
        line: Option<usize>,
    },
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
    pub result_schema: Option<Arc<Value>>,
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
