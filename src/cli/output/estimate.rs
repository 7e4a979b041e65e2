//! The expected cost of a plan as text.

use ostler_kernel::ledger::Amount;
use ostler_server::wire::{EstimateView, EstimatedCalls, EstimatedTool};

use crate::cli::output::units::{elapsed, plural};

/// Two lines: what models may cost, and how long the tools took before. The first is missing if no model is called.
pub(crate) fn estimate_lines(estimate: &EstimateView) -> Vec<String> {
    let EstimateView { models, tools, tokens_max, usd_max } = estimate;
    let mut lines = Vec::new();
    if !models.is_empty() {
        let calls: Vec<String> = models.iter().map(calls).collect();
        let tokens = tokens_max.map_or("tokens unknown".to_owned(), |tokens| {
            format!("at most {} besides what results add to prompts", Amount::Tokens(tokens))
        });
        let price = usd_max.map_or("price unknown".to_owned(), |usd| match usd.0 {
            0 => "free".to_owned(),
            nano_usd => Amount::NanoUsd(nano_usd).to_string(),
        });
        lines.push(format!("models: {}; {tokens}; {price}", calls.join(", ")));
    }
    let times: Vec<String> = tools.iter().map(time).collect();
    lines.push(format!("time: {}", times.join(", ")));
    lines
}

fn calls(EstimatedCalls { role, model, calls, .. }: &EstimatedCalls) -> String {
    format!("{} ({role}) of {model}", plural(usize::try_from(*calls).unwrap_or(usize::MAX), "call"))
}

fn time(EstimatedTool { tool, steps, median_ms, .. }: &EstimatedTool) -> String {
    let times = if *steps == 1 { String::new() } else { format!("{steps} × ") };
    let took = median_ms.map_or("unknown".to_owned(), |ms| format!("about {}", elapsed(ms).trim_start()));
    format!("{times}{tool} {took}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_called_unknown() {
        let mut estimate = json!({
            "models": [
                {"role": "reflect", "model": "big", "calls": 2, "prompt_tokens": 100, "answer_tokens_max": 4_096, "usd_max": "0.01"},
                {"role": "answer", "model": "small", "calls": 1, "prompt_tokens": 50, "answer_tokens_max": 2_048},
            ],
            "tools": [
                {"tool": "fs.list", "steps": 2, "median_ms": 12, "known": 5},
                {"tool": "fs.read", "steps": 1, "known": 0},
            ],
            "tokens_max": 6_294,
        });
        let lines = |estimate: &serde_json::Value| {
            estimate_lines(&serde_json::from_value(estimate.clone()).expect("an estimate"))
        };
        let time = "time: 2 × fs.list about 12 ms, fs.read unknown";
        assert_eq!(
            lines(&estimate),
            [
                "models: 2 calls (reflect) of big, 1 call (answer) of small; at most 6294 tokens besides what results add to \
                 prompts; price unknown",
                time,
            ]
        );
        estimate["usd_max"] = "0.02".into();
        assert!(lines(&estimate)[0].ends_with("; 0.02 usd"));
        estimate["models"] = json!([]);
        assert_eq!(lines(&estimate), [time]);
    }
}
