//! Terms of a goal run: the mode, the budgets and the tools it was opened with.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{EarlierRun, OfferedTemplate, Role};
use crate::id::Ticks;
use crate::plan::{Effect, HumanDuration, Idempotency, ParamRef};
use crate::port::{ToolOffer, WorkspaceUse};

/// Execution mode of a goal run: which models see results, and when (KAIJU §5; SGH §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A reflection behind each level of a planner's steps; the next level waits for it.
    Reflect,
    /// A reflection over every so many results. Reflections hold nothing back.
    NReflect(u32),
    /// An observer beside each step of a planner.
    Orchestrator,
    /// Turns of one model: calls of tools, then the next turn.
    React,
    /// One turn; if it calls tools, the run goes on as in [`Mode::Reflect`].
    Auto,
    /// No control nodes. A planner rewrites the rest of the plan after failures.
    Sgh,
}

impl Mode {
    /// True if the run opens with a turn of a model instead of a planner.
    pub fn opens_with_turn(self) -> bool {
        match self {
            Mode::React | Mode::Auto => true,
            Mode::Reflect | Mode::NReflect(_) | Mode::Orchestrator | Mode::Sgh => false,
        }
    }

    /// True if evidence that no reflection covers gets a final reflection.
    pub fn reviews(self) -> bool {
        match self {
            Mode::React | Mode::Sgh => false,
            Mode::Reflect | Mode::NReflect(_) | Mode::Orchestrator | Mode::Auto => true,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Reflect => f.write_str("reflect"),
            Mode::NReflect(results) => write!(f, "nreflect:{results}"),
            Mode::Orchestrator => f.write_str("orchestrator"),
            Mode::React => f.write_str("react"),
            Mode::Auto => f.write_str("auto"),
            Mode::Sgh => f.write_str("sgh"),
        }
    }
}

/// A text that names no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "mode {found:?}: expected reflect, nreflect:N with N from 1 on, orchestrator, react, auto or sgh; name one of them"
)]
pub struct UnknownMode {
    found: String,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Mode, UnknownMode> {
        let every = |number: &str| number.parse().ok().filter(|results| *results > 0).map(Mode::NReflect);
        let mode = match text {
            "reflect" => Some(Mode::Reflect),
            "orchestrator" => Some(Mode::Orchestrator),
            "react" => Some(Mode::React),
            "auto" => Some(Mode::Auto),
            "sgh" => Some(Mode::Sgh),
            _ => text.strip_prefix("nreflect:").and_then(every),
        };
        mode.ok_or_else(|| UnknownMode { found: text.chars().take(80).collect() })
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The model that writes the answer of a run over its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregator {
    /// None: the answer is put together from texts that exist.
    #[default]
    Off,
    /// The executor, the cheaper of the two configured models.
    Executor,
    /// The planner.
    Planner,
}

/// The form in which earlier results enter the context of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextForm {
    /// As digests of bounded length.
    #[default]
    Bounded,
    /// In full.
    Cumulative,
}

/// Budgets of a goal run besides nodes, versions and depth, which are limits of the plan's policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgets {
    /// Calls of models, retries and micro-planner included.
    pub model_calls: u64,
    /// Tokens of input and output of all calls; `None`: no limit.
    pub tokens: Option<u64>,
    /// Planner nodes after version 1.
    pub replans: u32,
    /// Time from the opening of the run to its end, in ticks; `None`: no limit.
    pub wall: Option<Ticks>,
}

/// Number of nodes, versions, nodes on a path and model calls that a goal run may have by default.
pub const GOAL_LIMIT: u32 = 64;

impl Budgets {
    /// The budgets of a run without budgets of its own.
    pub fn of_mode(mode: Mode) -> Budgets {
        let replans = if mode == Mode::Sgh { 2 } else { 3 };
        Budgets { model_calls: GOAL_LIMIT.into(), tokens: None, replans, wall: None }
    }
}

/// Tokens that every call of a role has in its context: system text, goal, schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseTokens {
    /// Tokens by role.
    pub roles: BTreeMap<Role, u64>,
    /// Tokens of any other role.
    pub other: u64,
}

impl BaseTokens {
    /// Tokens of a role.
    pub fn of(&self, role: Role) -> u64 {
        self.roles.get(&role).copied().unwrap_or(self.other)
    }
}

/// What a goal run was opened with. Fixed for the whole run, apart from budgets that a person raises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalTerms {
    /// The goal, as the user wrote it.
    pub goal: String,
    /// The execution mode.
    pub mode: Mode,
    /// The model that writes the answer.
    pub aggregator: Aggregator,
    /// The form of earlier results in contexts.
    pub context: ContextForm,
    /// Longest digest of a result, in tokens.
    pub digest_tokens: u64,
    /// The budgets.
    pub budgets: Budgets,
    /// Tokens in the context of every call.
    pub base: BaseTokens,
    /// Timeout of an attempt of a control node.
    pub control_timeout: HumanDuration,
    /// Wait for a person's approval of a step by a tainted author.
    pub human_timeout: HumanDuration,
    /// Time at which the run was opened.
    pub opened_at: Ticks,
    /// Names of the configured models that think; none in a simulation.
    #[serde(default)]
    pub models: GoalModels,
    /// The model as named by a command through a file, such as `scripted:script.yaml`. A command that continues the run
    /// must name the file again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// Names of the tools that models are offered; `None`: all of the scope.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// A person approves the answer of the opening node before anything is done.
    #[serde(default)]
    pub confirm: bool,
    /// Earlier runs whose results the goal may use, the oldest first; see [`bounded_earlier`](super::bounded_earlier).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<EarlierRun>,
    /// Learnt plans that planners are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<OfferedTemplate>,
}

/// Names of the configured models behind the roles of a goal run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GoalModels {
    /// For planners, turns, reflections and interjections.
    pub planner: Option<String>,
    /// For observers, the micro-planner, and answers by the executor.
    pub executor: Option<String>,
}

impl GoalModels {
    /// The first model that is not there.
    pub fn missing(&self, is_there: impl Fn(&str) -> bool) -> Option<&str> {
        let named = [&self.planner, &self.executor].into_iter().flatten();
        named.map(String::as_str).find(|model| !is_there(model))
    }
}

impl GoalTerms {
    /// Name of the model that thinks for a role.
    pub fn model_of(&self, role: Role) -> Option<&str> {
        let GoalModels { planner, executor } = &self.models;
        let model = match role {
            Role::Planner | Role::Reflect | Role::Think | Role::Interject => planner,
            Role::Observe | Role::Micro => executor,
            Role::Answer if self.aggregator == Aggregator::Planner => planner,
            Role::Answer => executor,
        };
        model.as_deref()
    }
}

/// Limits of tokens in a digest by default.
pub const DIGEST_TOKENS: u64 = 32;

/// Properties of a tool that decide about its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolTerms {
    /// True unless the tool returns texts of strangers: web pages, mail, files of others.
    pub trusted: bool,
    /// The same of its calls with the effect `external`.
    pub trusted_outside: bool,
    /// Parameters that say where data go: a tainted author may not choose them alone.
    pub sensitive: Vec<String>,
    /// What its calls do with the files of the workspace.
    pub workspace_use: WorkspaceUse,
    /// Names of the parameters, and whether each is required; `None`: any parameter.
    pub params: Option<BTreeMap<String, bool>>,
    /// Patches of a step.
    pub patches: i64,
    /// Fields of its steps; `None`: normalisation completes a step from the tool, as in a plan file.
    pub step: Option<StepFields>,
}

/// Fields of a step that its tool gives.
#[derive(Debug, Clone, PartialEq)]
pub struct StepFields {
    /// Repeatability of the effect.
    pub idem: Idempotency,
    /// Retries of a step.
    pub retries: i64,
    /// Timeout of an attempt of a step.
    pub timeout: HumanDuration,
    /// JSON Schema of the result.
    pub result_schema: Option<Arc<Value>>,
}

/// Effect and impact of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Effect on the world.
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
}

/// The tools that a goal run offers to its models.
pub trait GoalTools: fmt::Debug + Send + Sync {
    /// Terms of a tool; `None` for an unknown one.
    fn terms(&self, tool: &str) -> Option<&ToolTerms>;

    /// Reach of a call with these literal parameters and references. A referenced parameter counts as the worst value.
    fn reach(&self, tool: &str, literal: &Map<String, Value>, refs: &BTreeMap<String, ParamRef>) -> Reach;

    /// Tokens of the index of all tools, as planners and turns see it.
    fn index_tokens(&self) -> u64;

    /// The tools as prompts describe them. If the scope has more than a prompt may list, those that have most to do with the goal
    /// and with what is `missing`. The default describes none.
    fn offers(&self, missing: Option<&str>) -> Cow<'_, [ToolOffer]> {
        let _ = missing;
        Cow::Borrowed(&[])
    }

    /// Number of tools that [`GoalTools::offers`] leaves out. Above 0, models may search for them. The default leaves none out.
    fn left_out(&self) -> usize {
        0
    }

    /// The tools that fit the words of a search, the best first; at most [`FOUND_TOOLS_MAX`](super::FOUND_TOOLS_MAX). The default
    /// finds none.
    fn search(&self, words: &str) -> Vec<ToolOffer> {
        let _ = words;
        Vec::new()
    }
}

/// No tools: for looking at a goal run that goes on elsewhere, or not at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

impl GoalTools for NoTools {
    fn terms(&self, _: &str) -> Option<&ToolTerms> {
        None
    }

    fn reach(&self, _: &str, _: &Map<String, Value>, _: &BTreeMap<String, ParamRef>) -> Reach {
        Reach { effect: Effect::External, impact: 2 }
    }

    fn index_tokens(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_reads_back_what_it_prints() {
        for text in ["reflect", "nreflect:3", "orchestrator", "react", "auto", "sgh"] {
            let mode: Mode = text.parse().unwrap();
            assert_eq!(mode.to_string(), text);
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(serde_json::from_str::<Mode>(&json).unwrap(), mode);
        }
        for text in ["", "nreflect", "nreflect:0", "nreflect:-1", "Reflect"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }
}
