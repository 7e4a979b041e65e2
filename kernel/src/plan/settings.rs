//! Defaults and rules of a plan that depend on where the plan runs: a simulation or a real run.

use crate::evaluation::Domains;
use crate::gate::DENIALS_MAX;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::draft::PolicyDraft;
use super::{Effect, Idempotency, Kind, Policy};
use crate::id::{Digest, Ticks};

/// The environment of a plan, as far as defaults and rules depend on the environment.
#[derive(Clone)]
pub struct Settings<'a> {
    /// Defaults below the plan's policy.
    pub policy: Policy,
    /// Values above the plan's policy, key by key.
    pub overrides: PolicyDraft,
    /// Ticks in a bare second: 1 in a simulation, 1,000 in a real run.
    pub ticks_per_second: Ticks,
    /// Default timeout of an attempt, in ticks.
    pub timeout: Ticks,
    /// Default number of retries.
    pub retries: fn(Idempotency) -> i64,
    /// The tools; `None` skips V20.
    pub tools: Option<&'a dyn Tools>,
    /// The domains; `None` skips V26.
    pub domains: Option<&'a Domains>,
    /// Kinds with an executor (V21).
    pub executes: fn(Kind) -> bool,
    /// True if the plan is for a real run: fields left out are completed from tools and kinds, parameters and
    /// specs are checked, and ticks are milliseconds.
    pub real_run: bool,
    /// True if a wait before a retry is drawn uniformly from zero to the full length.
    pub jitter: bool,
    /// True if a listener takes callbacks, so that waits have an address (V33).
    pub callbacks: bool,
    /// Calls denied by the gate before the run is cancelled; `None` for no limit, as in a simulation.
    pub denials_max: Option<u32>,
    /// Calls denied in the other runs of the tree of runs, which count for the limit too.
    pub denials_around: u32,
    /// Digest of the policy of the gate, for approvals that cover it; `None` in a simulation.
    pub gate_policy: Option<Digest>,
}

impl<'a> Settings<'a> {
    /// Default number of retries of a node; 0 for programs, since a program that failed mostly fails again.
    pub(crate) fn default_retries(&self, tool: Option<&str>, idem: Idempotency) -> i64 {
        if tool == Some(TEST_TOOL) { 0 } else { (self.retries)(idem) }
    }

    /// Default timeout of one attempt, in ticks: models take longer than tools, and agents longer than models.
    pub(crate) fn default_timeout(&self, kind: Kind, tool: Option<&str>) -> Ticks {
        match kind {
            _ if !self.real_run => self.timeout,
            Kind::Model => MODEL_TIMEOUT_MS,
            _ if tool == Some(SUB_AGENT_TOOL) => SUB_AGENT_TIMEOUT_MS,
            _ => self.timeout,
        }
    }

    /// Virtual time in ticks, scripted outcomes, and tools known by name at most.
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
            callbacks: true,
            denials_max: None,
            denials_around: 0,
            gate_policy: None,
        }
    }

    /// Real time in milliseconds, and tools that declare their class. `slots` is twice the cores of the
    /// machine.
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
            executes: |kind| {
                let asked =
                    matches!(kind, Kind::Aggregator | Kind::HumanApproval | Kind::Wait | Kind::Collector);
                asked || matches!(kind, Kind::Tool | Kind::Model | Kind::SubAgent)
            },
            real_run: true,
            jitter: true,
            callbacks: false,
            denials_max: Some(DENIALS_MAX),
            denials_around: 0,
            gate_policy: None,
        }
    }
}

/// The tool that runs the tests of contracts. Tools declare their parameters and class; the kernel names only
/// three: this one, called without being named in the plan, [`SUB_AGENT_TOOL`], and [`RENDER_TOOL`], whose `template` constrains
/// its `values` in a way no schema can express.
pub const TEST_TOOL: &str = "shell.run";

/// The tool of sub_agent nodes: opens a run under the node's attempt, and gives its answer.
pub const SUB_AGENT_TOOL: &str = "agent.ask";

/// Default timeout of an attempt of a sub-agent, in milliseconds.
pub const SUB_AGENT_TIMEOUT_MS: Ticks = 3_600_000;

/// The tool that renders a template over `values`.
pub const RENDER_TOOL: &str = "text.render";

/// The model of nodes that name none.
pub const MODEL_DEFAULT: &str = "default";

/// Default timeout of an attempt of a model node, in milliseconds.
pub const MODEL_TIMEOUT_MS: Ticks = 180_000;

const MODEL_TOOL_PREFIX: &str = "model.";

/// Name of the tool that calls a configured model. Scopes name models like any tool.
pub fn model_tool(model: &str) -> String {
    format!("{MODEL_TOOL_PREFIX}{model}")
}

/// Name of the model that a tool calls; `None` for other tools.
pub fn model_of_tool(tool: &str) -> Option<&str> {
    tool.strip_prefix(MODEL_TOOL_PREFIX)
}

/// The tools available to a plan.
pub trait Tools: Send + Sync {
    /// Class and result schema of calls with the literal parameters known and others still open; `None` for
    /// an unknown tool.
    fn defaults(&self, tool: &str, literal: &Map<String, Value>) -> Option<ToolDefaults>;

    /// All tool names, for suggestions.
    fn names(&self) -> Vec<String>;

    /// Name of the model of the role `judge`, which judges by rules that name no model.
    fn judge_model(&self) -> &str {
        MODEL_DEFAULT
    }

    /// JSON Schema of the parameters of a tool; `None` if nothing is known of them.
    fn params_schema(&self, _tool: &str) -> Option<&Value> {
        None
    }

    /// Checks parameters before any call: `literal` are known, `referred` come from results later. Checks
    /// that depend on later values are skipped. The default implementation accepts everything.
    fn check_params(
        &self,
        _tool: &str,
        _literal: &Map<String, Value>,
        _referred: &BTreeSet<&str>,
    ) -> Vec<BadParam> {
        Vec::new()
    }
}

/// An invalid parameter. Pointers are JSON pointers into the literal parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadParam {
    /// The tool has no such parameter.
    Unknown {
        /// Place of the parameter.
        pointer: String,
        /// Name of the parameter.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// A required parameter is neither given nor referred to.
    Missing {
        /// The map that lacks the parameter.
        pointer: String,
        /// Name of the parameter.
        name: String,
        /// Description from the tool's schema; may be empty.
        says: String,
    },
    /// The value is invalid.
    Wrong {
        /// Place of the value.
        pointer: String,
        /// Problem, a sentence without a full stop. Omits the value, because the value may come from a secret
        /// plan parameter.
        what: String,
        /// Suggested fix, a sentence without a full stop.
        help: String,
        /// Line within the value's text, from 1, if known.
        line: Option<usize>,
    },
}

/// Node defaults from a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolDefaults {
    /// Effect on the world.
    pub effect: Effect,
    /// Impact 0 to 2: the worst case over parameters not known yet.
    pub impact: u8,
    /// Permitted reaction to a lost result.
    pub idem: Idempotency,
    /// The call does nothing but let time pass.
    pub only_waits: bool,
    /// JSON Schema of the result.
    pub result_schema: Option<Arc<Value>>,
}

/// Known names without further knowledge, for simulations.
impl Tools for BTreeSet<String> {
    fn defaults(&self, tool: &str, _literal: &Map<String, Value>) -> Option<ToolDefaults> {
        self.contains(tool).then(ToolDefaults::default)
    }

    fn names(&self) -> Vec<String> {
        self.iter().cloned().collect()
    }
}
