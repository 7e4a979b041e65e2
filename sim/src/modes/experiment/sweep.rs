//! Tokens and time over the number of tools, and where a mode overtakes ReAct.

use std::fmt;

use ostler_kernel::policy::{Aggregator, ContextForm};
use serde::Serialize;

use super::goal::{Costs, GoalShape, Strategy};
use super::trial::{Trial, TrialError, measure};

/// Goals that differ in the number of tools alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// All calls may run at once.
    Independent,
    /// Two calls a level.
    Pairs,
    /// Each call needs the one before.
    Chain,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 3] = [Family::Independent, Family::Pairs, Family::Chain];

    /// The goal with this number of tools; `None` if the family has none.
    pub fn goal(self, tools: u32) -> Option<GoalShape> {
        match self {
            Family::Independent => Some(GoalShape::independent(tools)),
            Family::Pairs => tools.is_multiple_of(2).then_some(GoalShape { tools, levels: tools / 2 }),
            Family::Chain => Some(GoalShape::chain(tools)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Independent => "independent",
            Family::Pairs => "pairs",
            Family::Chain => "chain",
        })
    }
}

/// Tokens and time of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Calls of tools.
    pub tools: u32,
    /// Input tokens of all calls of models.
    pub tokens: u64,
    /// Duration of the run.
    pub ms: i64,
}

/// One mode over the goals of a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The mode.
    pub strategy: Strategy,
    /// Ascending in the number of tools.
    pub points: Vec<Point>,
}

/// All modes over the goals of a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sweep {
    /// The goals.
    pub family: Family,
    /// The model that writes the answer.
    pub aggregator: Aggregator,
    /// A line for each mode.
    pub lines: Vec<Line>,
}

/// Largest number of tools in a sweep.
const SWEPT_TOOLS: u32 = 16;

/// N of `nreflect:N` in a sweep.
const SWEPT_RESULTS: u32 = 4;

/// Simulates all modes over the goals of a family with bounded contexts.
///
/// # Errors
///
/// See [`TrialError`].
pub fn sweep(family: Family, aggregator: Aggregator, costs: &Costs) -> Result<Sweep, TrialError> {
    let mut strategies = vec![
        Strategy::React,
        Strategy::ReactBatched,
        Strategy::Reflect,
        Strategy::NReflect(SWEPT_RESULTS),
        Strategy::Orchestrator,
        Strategy::Sgh,
    ];
    match family {
        Family::Independent => strategies.push(Strategy::Auto),
        Family::Pairs => {}
        // There is nothing to call in parallel.
        Family::Chain => strategies.retain(|strategy| *strategy != Strategy::ReactBatched),
    }
    let mut lines = Vec::new();
    for strategy in strategies {
        let mut points = Vec::new();
        for goal in (0..=SWEPT_TOOLS).filter_map(|tools| family.goal(tools)) {
            let trial = Trial { strategy, goal, context: ContextForm::Bounded, aggregator, costs: *costs };
            let measured = measure(&trial)?;
            points.push(Point { tools: goal.tools, tokens: measured.input_tokens, ms: measured.makespan_ms });
        }
        lines.push(Line { strategy, points });
    }
    Ok(Sweep { family, aggregator, lines })
}

/// From how many tools on a mode takes less than ReAct with one call a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Crossover {
    /// The goals.
    pub family: Family,
    /// The model that writes the answer.
    pub aggregator: Aggregator,
    /// The mode.
    pub strategy: Strategy,
    /// Least number of tools from which on the mode takes fewer tokens; `None`: it never does.
    pub tokens_from: Option<u32>,
    /// Least number of tools from which on the mode takes less time; `None`: it never does.
    pub time_from: Option<u32>,
}

impl Crossover {
    /// True if ReAct is at least as good with one tool, and with none.
    pub fn leaves_one_tool_to_react(&self) -> bool {
        [self.tokens_from, self.time_from].into_iter().flatten().all(|from| from > 1)
    }
}

/// The crossovers of a sweep with ReAct.
pub fn crossovers(sweep: &Sweep) -> Vec<Crossover> {
    let Some(react) = sweep.lines.iter().find(|line| line.strategy == Strategy::React) else {
        return Vec::new();
    };
    let others = sweep.lines.iter().filter(|line| line.strategy != Strategy::React);
    let from = |line: &Line, is_less: fn(&Point, &Point) -> bool| {
        let pairs: Vec<(&Point, &Point)> = line.points.iter().zip(&react.points).collect();
        let from = pairs.iter().rposition(|(ours, react)| !is_less(ours, react)).map_or(0, |last| last + 1);
        pairs.get(from).map(|(ours, _)| ours.tools)
    };
    let crossover = |line: &Line| Crossover {
        family: sweep.family,
        aggregator: sweep.aggregator,
        strategy: line.strategy,
        tokens_from: from(line, |ours, react| ours.tokens < react.tokens),
        time_from: from(line, |ours, react| ours.ms < react.ms),
    };
    others.map(crossover).collect()
}
