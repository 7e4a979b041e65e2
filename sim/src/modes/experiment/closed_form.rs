//! Tokens and latency of the modes, in closed form.

use ostler_kernel::policy::ContextForm;
use serde::Serialize;

use super::goal::{Costs, GoalShape, Strategy};

/// Input tokens of a run without failures and without a model that writes the answer. `nreflect` needs reflections that end before
/// the next results.
///
/// With c tokens of base, k of a result, δ of a digest, n tools in d levels, and the tool index left out:
///
/// | mode | every result in full | digests of earlier results |
/// |---|---|---|
/// | react | (n+1)c + kn(n+1)/2 | the same |
/// | react, parallel calls | (d+1)c + kn(d+1)/2 | the same |
/// | auto, d = 1 | 2c + kn | the same |
/// | reflect | c + dc + kn(d+1)/2 | c + dc + kn + δn(d-1)/2 |
/// | nreflect:N, q = n/N | c + qc + kn(q+1)/2 | c + qc + kn + δn(q-1)/2 |
/// | orchestrator | c + n(c+k) + c + kn | c + n(c+k) + c + δn |
/// | sgh | c | c |
///
/// A goal without tools takes one call of any mode.
pub fn closed_form(strategy: Strategy, goal: GoalShape, context: ContextForm, costs: &Costs) -> u64 {
    let Costs { base_tokens: c, result_tokens: k, index_tokens: index, .. } = *costs;
    let (n, d) = (u64::from(goal.tools), u64::from(goal.levels));
    if n == 0 {
        return c + index;
    }
    let digest = match context {
        ContextForm::Bounded => costs.digest_tokens.min(k),
        ContextForm::Cumulative => k,
    };
    let turns = |turns: u64, results: u64| turns * (c + index) + k * results * turns / 2;
    let reflections = |q: u64| c + index + q * c + k * n + digest * n * (q - 1) / 2;
    match strategy {
        Strategy::React => turns(n + 1, n),
        Strategy::ReactBatched => turns(d + 1, n),
        Strategy::Reflect => reflections(d),
        Strategy::Auto => reflections(1),
        Strategy::NReflect(results) => reflections(n / u64::from(results)),
        Strategy::Orchestrator => c + index + n * (c + k) + c + digest * n,
        Strategy::Sgh => c + index,
    }
}

/// The longest path of a run: how many tools and how many calls of models wait for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Waves {
    /// Tools one after another.
    pub tools: i64,
    /// Calls of models one after another that no tool runs beside.
    pub calls: i64,
}

/// Latency where tools take longer than calls of models, without a model that writes the answer.
pub fn waves(strategy: Strategy, goal: GoalShape) -> Waves {
    let (n, d) = (i64::from(goal.tools), i64::from(goal.levels));
    if n == 0 {
        return Waves { tools: 0, calls: 1 };
    }
    let (tools, calls) = match strategy {
        Strategy::React => (n, n + 1),
        Strategy::ReactBatched | Strategy::Reflect => (d, d + 1),
        Strategy::Auto => (1, 2),
        // Planner and last reflection; all others run beside tools.
        Strategy::NReflect(_) => (d, 2),
        // Planner, observers of the last level, final reflection.
        Strategy::Orchestrator => (d, 3),
        Strategy::Sgh => (d, 1),
    };
    Waves { tools, calls }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn react_takes_the_tokens_that_the_kaiju_paper_prints() {
        // Its 63,000 tokens for 7 turns of 6,000 and 1,000 tokens: it counts turns, not tools.
        let goal = GoalShape::chain(6);
        assert_eq!(closed_form(Strategy::React, goal, ContextForm::Bounded, &Costs::default()), 63_000);
    }
}
