//! Goals of the experiment, the modes that reach them, and what calls cost.

use std::fmt;

use ostler_kernel::policy::Mode;
use serde::{Serialize, Serializer};

/// What a call and a result cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Tokens in the context of every call: system text, goal, schema.
    pub base_tokens: u64,
    /// Tokens of a result.
    pub result_tokens: u64,
    /// Most tokens of a digest of a result.
    pub digest_tokens: u64,
    /// Tokens of the description of all tools, which planners and turns read.
    pub index_tokens: u64,
    /// Duration of a call of a model.
    pub model_ms: i64,
    /// Duration of a call of a tool.
    pub tool_ms: i64,
}

impl Default for Costs {
    /// The sizes with which the KAIJU paper computes (c = 6,000, k = 1,000), and a fast model.
    fn default() -> Costs {
        Costs {
            base_tokens: 6_000,
            result_tokens: 1_000,
            digest_tokens: 32,
            index_tokens: 0,
            model_ms: 500,
            tool_ms: 100,
        }
    }
}

/// A goal that needs calls of tools in levels of equal width; each call needs all of the level before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GoalShape {
    /// Calls of tools.
    pub tools: u32,
    /// Levels: a divisor of the number of tools, 1 if they are independent. 0 if no tool is needed.
    pub levels: u32,
}

impl GoalShape {
    /// The goal of independent calls.
    pub fn independent(tools: u32) -> GoalShape {
        GoalShape { tools, levels: tools.min(1) }
    }

    /// The goal whose calls need one another in a row.
    pub fn chain(tools: u32) -> GoalShape {
        GoalShape { tools, levels: tools }
    }

    /// The goals with this number of tools, one for each number of levels that divides it.
    pub fn all_of(tools: u32) -> Vec<GoalShape> {
        match tools {
            0 => vec![GoalShape::independent(0)],
            _ => {
                let levels = (1..=tools).filter(|levels| tools.is_multiple_of(*levels));
                levels.map(|levels| GoalShape { tools, levels }).collect()
            }
        }
    }

    /// Calls of a level.
    pub fn width(self) -> u32 {
        self.tools.checked_div(self.levels).unwrap_or(0)
    }
}

/// A mode, and for `react` how its turns call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// A call in every turn.
    React,
    /// All calls of a level in one turn, as models with parallel function calls do.
    ReactBatched,
    /// `auto`, on independent calls.
    Auto,
    /// `reflect`.
    Reflect,
    /// `nreflect:N`.
    NReflect(u32),
    /// `orchestrator`.
    Orchestrator,
    /// `sgh`.
    Sgh,
}

impl Strategy {
    /// The mode.
    pub fn mode(self) -> Mode {
        match self {
            Strategy::React | Strategy::ReactBatched => Mode::React,
            Strategy::Auto => Mode::Auto,
            Strategy::Reflect => Mode::Reflect,
            Strategy::NReflect(results) => Mode::NReflect(results),
            Strategy::Orchestrator => Mode::Orchestrator,
            Strategy::Sgh => Mode::Sgh,
        }
    }

    /// The strategies with a closed form on a goal: `nreflect:N` for every N that is made of whole levels, `auto` where one turn
    /// can call everything.
    pub fn all_on(goal: GoalShape) -> Vec<Strategy> {
        let mut all = vec![
            Strategy::React,
            Strategy::ReactBatched,
            Strategy::Reflect,
            Strategy::Orchestrator,
            Strategy::Sgh,
        ];
        if goal.levels <= 1 {
            all.push(Strategy::Auto);
        }
        let whole = |results: &u32| {
            goal.tools.is_multiple_of(*results) && results.is_multiple_of(goal.width().max(1))
        };
        all.extend((1..=goal.tools.max(1)).filter(whole).map(Strategy::NReflect));
        all
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::ReactBatched => f.write_str("react, parallel calls"),
            other => other.mode().fmt(f),
        }
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
