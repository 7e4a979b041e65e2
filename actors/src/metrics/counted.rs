//! A journal that counts records: the one place they all pass.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Recorder, SharedString};
use ostler_kernel::event::{Event, ReuseDecision};
use ostler_kernel::port::{
    Journal, JournalError, JournalLayer, ModelCall, Position, StreamBatch, StreamKind,
};
use ostler_kernel::run::{RunOutcome, TransitionReason};

use super::metric;
use super::shared_recorder::SharedRecorder;

pub(super) fn journal(journal: Arc<dyn Journal>, recorder: SharedRecorder) -> Arc<dyn Journal> {
    Arc::new(Counted { journal, recorder })
}

/// Registers every outcome of a run at 0.
pub(super) fn begin(recorder: &dyn Recorder) {
    let outcomes = [RunOutcome::Succeeded, RunOutcome::Concluded, RunOutcome::Failed, RunOutcome::Cancelled];
    for outcome in outcomes {
        metric::RUNS.counter(recorder, [outcome.as_str().into()]).increment(0);
    }
    for result in REUSE_RESULTS {
        metric::NODE_REUSE.counter(recorder, [result.into()]).increment(0);
    }
    metric::EFFECTS_AVOIDED.counter(recorder, []).increment(0);
    metric::TOKENS_AVOIDED.counter(recorder, []).increment(0);
}

const REUSE_RESULTS: [&str; 6] = ["reused", "cut_off", "revalidated", "edited", "recomputed", "executed"];

struct Counted {
    journal: Arc<dyn Journal>,
    recorder: SharedRecorder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Count {
    Run(RunOutcome),
    Transition { to: &'static str, reason: &'static str },
    Recovery { level: &'static str, result: &'static str },
    Reuse { result: &'static str },
    EffectAvoided,
    Model(Box<ModelCall>),
    Judged { model: String, holds: bool },
}

impl Count {
    fn add(self, recorder: &dyn Recorder) {
        let counter = match self {
            Count::Run(outcome) => metric::RUNS.counter(recorder, [outcome.as_str().into()]),
            Count::Transition { to, reason } => {
                metric::NODE_TRANSITIONS.counter(recorder, [to.into(), reason.into()])
            }
            Count::Recovery { level, result } => {
                metric::RECOVERY.counter(recorder, [level.into(), result.into()])
            }
            Count::Reuse { result } => metric::NODE_REUSE.counter(recorder, [result.into()]),
            Count::EffectAvoided => metric::EFFECTS_AVOIDED.counter(recorder, []),
            Count::Model(call) => return add_call(&call, recorder),
            Count::Judged { model, holds } => {
                let verdict = if holds { "holds" } else { "broken" };
                metric::MODEL_VERDICTS.counter(recorder, [model.into(), verdict.into()])
            }
        };
        counter.increment(1);
    }
}

/// Names of models are those of the configuration, so there are as many series as configured models.
fn add_call(call: &ModelCall, recorder: &dyn Recorder) {
    let model = || SharedString::from(call.model.clone());
    metric::MODEL_CALLS.counter(recorder, [model(), call.end().into()]).increment(1);
    let tokens =
        [("input", call.input_tokens), ("cached", call.cached_tokens), ("output", call.output_tokens)];
    for (direction, count) in tokens {
        metric::MODEL_TOKENS.counter(recorder, [model(), direction.into()]).increment(count);
    }
    metric::MODEL_SECONDS.histogram(recorder, [model()]).record(Duration::from_millis(call.took_ms));
    if let Some(first) = call.first_piece_ms {
        metric::MODEL_FIRST_PIECE_SECONDS.histogram(recorder, [model()]).record(Duration::from_millis(first));
    }
    metric::MODEL_NANO_USD.counter(recorder, [model()]).increment(call.nano_usd.unwrap_or(0));
}

fn counts(kind: StreamKind, events: &[Event]) -> Vec<Count> {
    let tried = |level| Count::Recovery { level, result: "tried" };
    let mut counts = Vec::new();
    for event in events {
        match event {
            Event::NodeTransition(moved) => {
                counts.push(Count::Transition { to: moved.to.as_str(), reason: moved.reason.word() });
                match moved.reason {
                    TransitionReason::Retry => counts.push(tried("retry")),
                    TransitionReason::Patched => counts.push(tried("patch")),
                    _ => {}
                }
            }
            Event::ReplanAsked { .. } => counts.push(tried("replan")),
            Event::RecoveryExhausted { level, .. } => {
                let level = ["retry", "patch", "replan"][usize::from(*level).clamp(1, 3) - 1];
                counts.push(Count::Recovery { level, result: "exhausted" });
            }
            // The log of the attempts has it too.
            Event::ModelCalled { call, .. } if kind == StreamKind::Run => {
                counts.push(Count::Model(call.clone()))
            }
            Event::ResultJudged(judged) => {
                counts.push(Count::Judged { model: judged.model.clone(), holds: judged.holds });
            }
            Event::ReuseDecided(decided) => {
                counts.push(Count::Reuse { result: decided.decision.word().unwrap_or("executed") });
                if matches!(decided.decision, ReuseDecision::Reused(_)) {
                    counts.push(Count::EffectAvoided);
                }
            }
            Event::RunClosed { outcome } => counts.push(Count::Run(*outcome)),
            _ => {}
        }
    }
    counts
}

impl JournalLayer for Counted {
    fn below(&self) -> &dyn Journal {
        &*self.journal
    }

    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let counts: Vec<Count> =
            batches.iter().flat_map(|batch| counts(batch.stream.kind, &batch.events)).collect();
        let position = self.journal.append(batches)?;
        counts.into_iter().for_each(|count| count.add(&self.recorder));
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::event::{NodeTransition, ResultJudged};
    use ostler_kernel::id::NodeId;
    use ostler_kernel::run::NodeState;

    use super::*;

    #[test]
    fn what_is_recorded_is_counted() {
        let moved = |reason, to| {
            let (node, from) = (NodeId::from("n"), NodeState::FailedRetryable);
            Event::NodeTransition(NodeTransition { node, version: 1, from, to, reason, attempt: 1 })
        };
        let exhausted = Event::RecoveryExhausted { node: NodeId::from("n"), level: 1, reason: String::new() };
        let judged = ResultJudged {
            node: NodeId::from("n"),
            attempt: 1,
            rule: 0,
            model: "big".to_owned(),
            precision: None,
            holds: false,
            why: String::new(),
        };
        let events = [
            Event::ResultJudged(Box::new(judged)),
            moved(TransitionReason::Retry, NodeState::Pending),
            exhausted,
            Event::ReplanAsked { for_contract: false },
            Event::RunClosed { outcome: RunOutcome::Failed },
        ];
        let recovery = |level, result| Count::Recovery { level, result };
        let expected = [
            Count::Judged { model: "big".to_owned(), holds: false },
            Count::Transition { to: "pending", reason: "retry" },
            recovery("retry", "tried"),
            recovery("retry", "exhausted"),
            recovery("replan", "tried"),
            Count::Run(RunOutcome::Failed),
        ];
        assert_eq!(counts(StreamKind::Run, &events), expected);
    }
}
