//! Verdicts of models on results, with the calls that gave them.

use std::collections::BTreeMap;

use crate::event::{Event, ResultJudged};
use crate::id::NodeId;
use crate::port::ModelCall;

/// The verdict of a model on a result, and the judging call.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedResult {
    /// The verdict.
    pub verdict: ResultJudged,
    /// The call.
    pub call: ModelCall,
    /// Sequence number of the record of the call.
    pub record: u64,
}

/// Collects the verdicts on the last judged attempt of each node.
#[derive(Debug, Clone, Default)]
pub(super) struct JudgedResults {
    found: BTreeMap<NodeId, Vec<JudgedResult>>,
    /// The last record of a call.
    last: Option<(Box<ModelCall>, u64)>,
}

impl JudgedResults {
    /// Adds the record with this sequence number.
    pub(super) fn record(&mut self, event: &Event, seq: u64) {
        match event {
            Event::ModelCalled { call, .. } => self.last = Some((call.clone(), seq)),
            Event::ResultJudged(verdict) => {
                // Each verdict stands behind its own call.
                let Some((call, record)) = self.last.clone() else { return };
                let of_node = self.found.entry(verdict.node.clone()).or_default();
                of_node.retain(|judged| {
                    judged.verdict.attempt == verdict.attempt && judged.verdict.rule != verdict.rule
                });
                of_node.push(JudgedResult { verdict: ResultJudged::clone(verdict), call: *call, record });
            }
            _ => {}
        }
    }

    pub(super) fn end(self) -> BTreeMap<NodeId, Vec<JudgedResult>> {
        self.found
    }
}
