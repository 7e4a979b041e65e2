//! What a plan is expected to cost before it is approved.

use ostler_actors::{Forecast, ForecastCalls, ToolTimes};
use ostler_kernel::policy::Role;
use serde::{Deserialize, Serialize};

use super::Usd;

/// The expected cost of the steps of a plan, and of what the mode adds to them, if nothing fails and no answer asks for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimateView {
    /// Calls of models.
    pub models: Vec<EstimatedCalls>,
    /// The tools of the steps.
    pub tools: Vec<EstimatedTool>,
    /// Most tokens of all calls, without the results that prompts show; absent if a model is not configured here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
    /// Price of these tokens; absent if the price of a model is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_max: Option<Usd>,
}

/// Calls of one model for one purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimatedCalls {
    /// `observe`, `reflect`, `think` or `answer`; `step` for steps that call the model themselves.
    pub role: String,
    /// Name of the model in the configuration.
    pub model: String,
    /// Number of calls.
    pub calls: u64,
    /// Tokens of all prompts, without the results that they show.
    pub prompt_tokens: u64,
    /// Most tokens of all answers; absent if the model is not configured here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_tokens_max: Option<u64>,
    /// The most that these calls cost; absent if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_max: Option<Usd>,
}

/// How long the calls of a tool took in the latest runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimatedTool {
    /// The tool.
    pub tool: String,
    /// Steps that call it.
    pub steps: u64,
    /// Median duration of earlier calls in milliseconds; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<i64>,
    /// Number of the earlier calls.
    pub known: u64,
}

impl From<Forecast> for EstimateView {
    fn from(forecast: Forecast) -> EstimateView {
        let sum = |parts: Vec<Option<u64>>| {
            parts.into_iter().try_fold(0, |sum: u64, part| Some(sum.saturating_add(part?)))
        };
        let models = &forecast.models;
        let tokens = |calls: &ForecastCalls| {
            Some(calls.output_tokens_max?.saturating_add(calls.expected.input_tokens))
        };
        let tokens_max = sum(models.iter().map(tokens).collect());
        let usd_max = sum(models.iter().map(|calls| calls.nano_usd_max).collect()).map(Usd);
        let estimated = |ForecastCalls { expected, output_tokens_max, nano_usd_max }| EstimatedCalls {
            role: expected.role.map_or("step", Role::as_str).to_owned(),
            model: expected.model,
            calls: expected.calls,
            prompt_tokens: expected.input_tokens,
            answer_tokens_max: output_tokens_max,
            usd_max: nano_usd_max.map(Usd),
        };
        let times =
            |(tool, ToolTimes { steps, median_ms, known })| EstimatedTool { tool, steps, median_ms, known };
        EstimateView {
            models: forecast.models.into_iter().map(estimated).collect(),
            tools: forecast.tools.into_iter().map(times).collect(),
            tokens_max,
            usd_max,
        }
    }
}
