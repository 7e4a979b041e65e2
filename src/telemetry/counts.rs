//! Counts of spans, as a metric if the system has metrics.

use metrics::Counter;
use ostler_actors::SharedRecorder;
use ostler_actors::metric;

/// Spans by what became of them.
pub(crate) struct Counts {
    exported: Counter,
    dropped: Counter,
    failed: Counter,
}

impl Counts {
    pub(super) fn new(recorder: Option<&SharedRecorder>) -> Counts {
        let counter = |result: &'static str| match recorder {
            Some(recorder) => metric::SPANS.counter(&**recorder, [result.into()]),
            None => Counter::noop(),
        };
        Counts { exported: counter("exported"), dropped: counter("dropped"), failed: counter("failed") }
    }

    pub(super) fn exported(&self, spans: usize) {
        self.exported.increment(spans as u64);
    }

    /// Spans, or notices of appends, that did not fit in a queue.
    pub(super) fn dropped(&self, spans: usize) {
        self.dropped.increment(spans as u64);
    }

    /// Spans that the collector did not take.
    pub(super) fn failed(&self, spans: usize) {
        self.failed.increment(spans as u64);
    }
}
