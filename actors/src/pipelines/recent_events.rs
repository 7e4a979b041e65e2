//! The newest events of a log, for stages that are close behind.

use std::collections::VecDeque;
use std::sync::Arc;

use super::stage::PipelineEvent;

/// Number of events: more than the lag at which publishers wait.
const EVENTS_MAX: usize = 16_384;

/// Bytes of their data; the newest event is kept at any size.
const BYTES_MAX: usize = 16 << 20;

/// The newest events; the journal has the others.
#[derive(Default)]
pub(crate) struct RecentEvents {
    events: VecDeque<Arc<PipelineEvent>>,
    /// Number of the newest event, kept here so that reading the number does not touch the memory of the oldest event.
    last: u64,
    bytes: usize,
}

impl RecentEvents {
    pub(crate) fn push(&mut self, event: Arc<PipelineEvent>) {
        self.last = event.seq;
        self.bytes += event.data.as_str().len();
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > 1) {
            if let Some(oldest) = self.events.pop_front() {
                self.bytes -= oldest.data.as_str().len();
            }
        }
    }

    /// The events after `after`, if all of them are here.
    pub(crate) fn after(&self, after: u64) -> Option<impl Iterator<Item = &Arc<PipelineEvent>>> {
        self.events.front()?;
        let wanted = usize::try_from(self.last.saturating_sub(after)).unwrap_or(usize::MAX);
        let skip = self.events.len().checked_sub(wanted)?;
        Some(self.events.range(skip..))
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::json::canonical;

    use super::*;

    fn event(seq: u64, bytes: usize) -> Arc<PipelineEvent> {
        let data = canonical(&"x".repeat(bytes).into()).unwrap();
        Arc::new(PipelineEvent { seq, at_ms: 0, stage: "a".into(), kind: "x".into(), data })
    }

    #[test]
    fn no_more_is_held_than_the_limits_and_what_is_not_held_is_not_given() {
        let mut tail = RecentEvents::default();
        assert!(tail.after(0).is_none());
        (1..=EVENTS_MAX as u64 + 10).for_each(|seq| tail.push(event(seq, 1)));
        assert!(tail.after(9).is_none());
        assert_eq!(tail.after(10).unwrap().count(), EVENTS_MAX);
        assert_eq!(tail.after(EVENTS_MAX as u64 + 10).unwrap().count(), 0);
        let next = EVENTS_MAX as u64 + 11;
        tail.push(event(next, BYTES_MAX));
        assert_eq!(tail.events.len(), 1);
        assert_eq!(tail.after(next - 1).unwrap().next().unwrap().seq, next);
    }
}
