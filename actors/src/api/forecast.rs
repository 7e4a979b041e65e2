//! What a plan that waits for a person is expected to cost.

use std::collections::BTreeMap;

use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::json;
use ostler_kernel::plan::model_tool;
use ostler_kernel::policy::{self, ExpectedCalls, View};
use ostler_kernel::port::RunsPage;
use ostler_kernel::run::NodeStatus;
use serde_json::Value;

use crate::api::system::System;
use crate::base::error::RunError;
use crate::run::goal;

/// Runs whose durations count, the latest first.
pub const FORECAST_RUNS_MAX: usize = 8;

/// The expected cost of a plan's steps and of what its mode adds to them, if nothing fails and no answer asks for more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// Calls of models, by role and model.
    pub models: Vec<ForecastCalls>,
    /// The tools of the steps, by name.
    pub tools: BTreeMap<String, ToolTimes>,
}

/// Calls of one model in one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForecastCalls {
    /// The calls.
    pub expected: ExpectedCalls,
    /// Most tokens of all answers together; `None`: the model is not configured here.
    pub output_tokens_max: Option<u64>,
    /// The most that all calls cost, without the results that prompts show, in billionths of a US dollar; `None`: the price is
    /// unknown.
    pub nano_usd_max: Option<u64>,
}

/// How long calls of a tool took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolTimes {
    /// Steps of the plan that call the tool.
    pub steps: u64,
    /// Median of the earlier calls in milliseconds; `None` without any.
    pub median_ms: Option<Ticks>,
    /// Number of the earlier calls.
    pub known: u64,
}

impl System {
    /// What the answer `result` of a run's opening node is expected to cost once it is approved. `tools` has the tool of each step.
    ///
    /// # Errors
    ///
    /// The run or the table of runs cannot be read. Earlier runs that cannot be read do not count.
    pub async fn forecast(
        &self,
        run: RunId,
        node: &NodeId,
        result: &Value,
        tools: impl IntoIterator<Item = String>,
    ) -> Result<Forecast, RunError> {
        let mut view = self.view(run, None).await?;
        goal::equip(&self.services, &mut view.run, &view.opened.scope);
        let expected = match (View::of(&view.run, self.services.journal.now()), json::canonical(result)) {
            (Some(view), Ok(result)) => policy::forecast(view, node, &result),
            _ => Vec::new(),
        };
        let mut steps: BTreeMap<String, ToolTimes> = BTreeMap::new();
        tools.into_iter().for_each(|tool| steps.entry(tool).or_default().steps += 1);
        self.measure(&mut steps).await?;
        Ok(Forecast { models: expected.into_iter().map(|calls| self.priced(calls)).collect(), tools: steps })
    }

    fn priced(&self, expected: ExpectedCalls) -> ForecastCalls {
        let tool = self.services.gatekeeper.toolbox.gated(&model_tool(&expected.model));
        let terms = tool.and_then(|gated| gated.tool().model_terms());
        let output_tokens_max = terms.map(|terms| u64::from(terms.max_output_tokens) * expected.calls);
        let price = terms.and_then(|terms| terms.price);
        let nano_usd_max = price.zip(output_tokens_max).map(|(price, output)| {
            // The rates of a prompt depend on its own length.
            let calls = expected.calls.max(1);
            price
                .nano_usd_max(expected.input_tokens.div_ceil(calls), output.div_ceil(calls))
                .saturating_mul(calls)
        });
        ForecastCalls { expected, output_tokens_max, nano_usd_max }
    }

    /// Fills in how long the last calls of the tools took.
    async fn measure(&self, tools: &mut BTreeMap<String, ToolTimes>) -> Result<(), RunError> {
        let rows = self.runs_page(RunsPage { open_only: false, before: None, limit: FORECAST_RUNS_MAX })?;
        let mut took: BTreeMap<&str, Vec<Ticks>> =
            tools.keys().map(|tool| (tool.as_str(), Vec::new())).collect();
        for row in rows {
            let Ok(view) = self.view(row.run, None).await else { continue };
            for (node, instance) in view.run.instances() {
                let known = node.tool.as_deref().and_then(|tool| took.get_mut(tool));
                let ms = view.figures.took.get(&node.id).filter(|_| instance.status == NodeStatus::Executed);
                if let (Some(known), Some(ms)) = (known, ms) {
                    known.push(*ms);
                }
            }
        }
        let medians: Vec<(Option<Ticks>, u64)> = took
            .into_values()
            .map(|mut times| {
                times.sort_unstable();
                (times.get(times.len() / 2).copied(), times.len() as u64)
            })
            .collect();
        for (tool, (median_ms, known)) in tools.values_mut().zip(medians) {
            (tool.median_ms, tool.known) = (median_ms, known);
        }
        Ok(())
    }
}
