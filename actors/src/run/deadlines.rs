//! The deadlines of a run and the timer that fires the first of them.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::event::TimerKind;
use ostler_kernel::id::NodeId;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// At most one deadline for each node: no state of a node waits for two.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    order: BTreeSet<(Instant, NodeId)>,
    of_node: BTreeMap<NodeId, Deadline>,
}

/// The deadlines of a run, and the task that fires the first of them.
#[derive(Default)]
pub(super) struct Timers {
    pub(super) deadlines: Deadlines,
    /// Time at which the time of a goal run is up; `None` without one, and once it has passed.
    pub(super) wall: Option<Instant>,
    pub(super) armed: Option<(Instant, JoinHandle<()>)>,
}

impl Timers {
    /// The earliest time at which the run moves by itself.
    pub(super) fn first(&self) -> Option<Instant> {
        self.deadlines.first().into_iter().chain(self.wall).min()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) kind: TimerKind,
    pub(super) number: u32,
}

impl Deadlines {
    /// Sets the deadline of a node and replaces its earlier one.
    pub(super) fn set(&mut self, node: &NodeId, deadline: Deadline) {
        self.clear(node);
        self.order.insert((deadline.at, node.clone()));
        self.of_node.insert(node.clone(), deadline);
    }

    pub(super) fn clear(&mut self, node: &NodeId) {
        if let Some(deadline) = self.of_node.remove(node) {
            self.order.remove(&(deadline.at, node.clone()));
        }
    }

    pub(super) fn first(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes and returns the first deadline if it has passed.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(NodeId, Deadline)> {
        self.order.first().filter(|(at, _)| *at <= now)?;
        let (_, node) = self.order.pop_first()?;
        self.of_node.remove_entry(&node)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_has_one_deadline_however_often_it_is_set() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        let (a, b) = (NodeId::from("a"), NodeId::from("b"));
        for number in 0..1_000 {
            let at = after(2_000 - u64::from(number));
            deadlines.set(&a, Deadline { at, kind: TimerKind::Human, number });
        }
        deadlines.set(&b, Deadline { at: after(5), kind: TimerKind::Sleep, number: 1 });
        assert_eq!((deadlines.order.len(), deadlines.of_node.len()), (2, 2));

        assert_eq!(deadlines.first(), Some(after(5)));
        assert_eq!(deadlines.pop_due(after(4)), None);
        deadlines.clear(&b);
        assert_eq!(deadlines.pop_due(after(1_000)), None);
        let last = Deadline { at: after(1_001), kind: TimerKind::Human, number: 999 };
        assert_eq!(deadlines.pop_due(after(1_001)), Some((a, last)));
        assert_eq!((deadlines.order.len(), deadlines.of_node.len()), (0, 0));
    }
}
