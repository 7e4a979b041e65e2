//! Tokens and price of the model calls of a run.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::event::{Event, ResultJudged};
use crate::id::{NodeId, Ticks};
use crate::port::{CageRung, ModelCall};

/// The model calls of an attempt, for the records of its run.
#[derive(Debug, Clone, Default)]
pub struct ReportedCalls {
    /// The calls, in the order of their ends.
    pub calls: Vec<ModelCall>,
    /// Verdicts of models on the result: each with the number of calls before it, of which the last is the judging call.
    pub verdicts: Vec<(usize, ResultJudged)>,
    /// The lowest rung of the cages of the attempt's programs.
    pub rung: Option<CageRung>,
}

impl From<Vec<ModelCall>> for ReportedCalls {
    fn from(calls: Vec<ModelCall>) -> ReportedCalls {
        ReportedCalls { calls, ..ReportedCalls::default() }
    }
}

/// Sums over model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Number of calls, failed ones included.
    pub calls: u32,
    /// Tokens of all prompts.
    pub input_tokens: u64,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// Price of the calls with a known price, in billionths of a US dollar.
    pub nano_usd: u64,
    /// Calls with an unknown price.
    pub unpriced: u32,
}

impl ModelUsage {
    /// Adds a call.
    pub fn add(&mut self, call: &ModelCall) {
        self.calls += 1;
        self.input_tokens = self.input_tokens.saturating_add(call.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(call.output_tokens);
        self.nano_usd = self.nano_usd.saturating_add(call.nano_usd.unwrap_or(0));
        self.unpriced += u32::from(call.nano_usd.is_none());
    }

    /// The sums of both.
    pub fn plus(&self, other: &ModelUsage) -> ModelUsage {
        ModelUsage {
            calls: self.calls + other.calls,
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            nano_usd: self.nano_usd.saturating_add(other.nano_usd),
            unpriced: self.unpriced + other.unpriced,
        }
    }

    /// Tokens of prompts and answers together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl Run {
    /// The model calls of all ended attempts.
    pub fn model_usage(&self) -> ModelUsage {
        self.model_usage
    }

    /// Makes the records of an attempt's model calls, each verdict behind its call, and of its cage. They have taken effect: append them with the attempt's result.
    pub fn record_calls(
        &mut self,
        now: Ticks,
        node: &NodeId,
        attempt: u32,
        ReportedCalls { calls, verdicts, rung }: ReportedCalls,
    ) -> Vec<Event> {
        let caged = rung.map(|rung| Event::Caged { node: node.clone(), attempt, rung });
        let mut records: Vec<Event> = caged.into_iter().collect();
        let mut verdicts = verdicts.into_iter().peekable();
        for (at, call) in calls.into_iter().enumerate() {
            records.push(Event::ModelCalled { node: node.clone(), attempt, call: Box::new(call) });
            while let Some((_, judged)) = verdicts.next_if(|(behind, _)| *behind <= at + 1) {
                records.push(Event::ResultJudged(Box::new(judged)));
            }
        }
        for record in &records {
            self.apply(record, now).expect("such a record applies to every run");
        }
        records
    }
}
