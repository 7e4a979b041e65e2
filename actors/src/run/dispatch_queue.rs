//! Places of a run's ready nodes: pure bookkeeping between the run's decisions and the run queue.
//!
//! A ready node is in exactly one place: `awaiting_prompt` until a person was asked, `ready` until the plan's own slot
//! limit admits the node, `queued` while its job is in the run queue, or `rejected` after the queue was full, until a
//! timer offers it again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use ostler_kernel::id::NodeId;
use tokio::time::{Duration, Instant};

use crate::messages::slots::Granted;

/// Delay before nodes that the run queue rejected are offered again.
const REJECTED_RETRY_DELAY: Duration = Duration::from_millis(200);

/// What keeps a run with ready nodes from starting anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CreditWait {
    #[default]
    Nothing,
    /// The client's credits are used up.
    Credits,
    /// The rest of the client's credits is reserved for market jobs.
    Reserve,
}

/// Place of a node in the order of dispatch: the longest way to the end of the plan first, then the longest way from its
/// beginning, then its id.
pub(super) type Place = (Reverse<u32>, Reverse<u32>, NodeId);

#[derive(Default)]
pub(super) struct DispatchQueue {
    awaiting_prompt: BTreeSet<NodeId>,
    ready: BTreeSet<Place>,
    queued: BTreeSet<NodeId>,
    rejected: Vec<NodeId>,
    /// When `rejected` is offered again; `None` if no timer is armed.
    retry_at: Option<Instant>,
    pub(super) credit_wait: CreditWait,
    /// Enough other runs of the client hold the client's place in the run queue while it waits for credits.
    pub(super) is_surplus: bool,
    /// Slots that were granted and are not used yet.
    pub(super) granted: VecDeque<Granted>,
}

impl DispatchQueue {
    /// A ready node wants a slot, or a person's answer first.
    pub(super) fn offer(&mut self, place: Place, asks_person: bool) {
        if asks_person {
            self.awaiting_prompt.insert(place.2);
        } else {
            self.ready.insert(place);
        }
    }

    /// Forgets a node that is no longer ready. A queued job of the node is returned when granted.
    pub(super) fn remove(&mut self, node: &NodeId, place: impl FnOnce() -> Place) {
        // A node is in one of them at most; `ready` comes last because it may be as large as the plan.
        let _ = self.queued.remove(node) || self.awaiting_prompt.remove(node) || self.ready.remove(&place());
    }

    /// Takes all nodes out of `ready`, in order.
    pub(super) fn take_ready(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.ready).into_iter().map(|(.., node)| node).collect()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next node that a person must be asked about.
    pub(super) fn next_prompt(&mut self) -> Option<NodeId> {
        self.awaiting_prompt.pop_first()
    }

    /// The next node to queue, if fewer than `slots` are queued.
    pub(super) fn next_ready(&mut self, slots: usize) -> Option<NodeId> {
        if self.queued.len() >= slots {
            return None;
        }
        self.ready.pop_first().map(|(.., node)| node)
    }

    /// Notes that the job of a node is in the run queue.
    pub(super) fn mark_queued(&mut self, node: NodeId) {
        self.queued.insert(node);
    }

    /// Notes that the job of a node has left the run queue; `false` if the queue did not have it.
    pub(super) fn unmark_queued(&mut self, node: &NodeId) -> bool {
        self.queued.remove(node)
    }

    pub(super) fn is_queued(&self, node: &NodeId) -> bool {
        self.queued.contains(node)
    }

    /// Keeps a node until [`DispatchQueue::retry`].
    pub(super) fn reject(&mut self, node: NodeId) {
        self.rejected.push(node);
    }

    pub(super) fn has_rejected(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// Arms the timer of the rejected nodes; `None` if there are none or the timer is armed.
    pub(super) fn arm_retry(&mut self, now: Instant) -> Option<Instant> {
        if self.rejected.is_empty() || self.retry_at.is_some() {
            return None;
        }
        self.retry_at = Some(now + REJECTED_RETRY_DELAY);
        self.retry_at
    }

    /// Takes the rejected nodes if `at` is the armed time; a timer of an earlier run is ignored.
    pub(super) fn retry(&mut self, at: Instant) -> Option<Vec<NodeId>> {
        self.retry_at.take_if(|due| *due == at)?;
        Some(std::mem::take(&mut self.rejected))
    }

    /// Ready nodes that want a slot, in any place.
    pub(super) fn wanting_slots(&self) -> impl Iterator<Item = &NodeId> {
        self.ready.iter().map(|(.., node)| node).chain(&self.queued).chain(&self.rejected)
    }

    /// Takes nodes out of the run queue and the rejected ones, and drops what was granted.
    pub(super) fn withdraw(&mut self, nodes: &BTreeSet<NodeId>) {
        self.granted.clear();
        self.queued.retain(|node| !nodes.contains(node));
        self.rejected.retain(|node| !nodes.contains(node));
    }

    /// Sets what the run waits for; returns the new state of being out of credit if it has changed.
    pub(super) fn wait_for(&mut self, wait: CreditWait) -> Option<bool> {
        let before = std::mem::replace(&mut self.credit_wait, wait);
        let is_out = wait != CreditWait::Nothing;
        ((before != CreditWait::Nothing) != is_out).then_some(is_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::from(name)
    }

    fn ready(nodes: &[(u32, &str)]) -> DispatchQueue {
        let mut queue = DispatchQueue::default();
        nodes
            .iter()
            .for_each(|(height, name)| queue.offer((Reverse(*height), Reverse(0), node(name)), false));
        queue
    }

    #[test]
    fn nodes_are_queued_by_the_way_to_the_end_and_id_within_the_slot_limit() {
        let mut queue = ready(&[(0, "c"), (3, "b"), (3, "a")]);
        for expected in ["a", "b"] {
            let next = queue.next_ready(2).expect("a slot is free");
            assert_eq!(next, node(expected));
            queue.mark_queued(next);
        }
        assert_eq!(queue.next_ready(2), None);
        assert!(queue.unmark_queued(&node("a")));
        assert_eq!(queue.next_ready(2), Some(node("c")));
    }

    #[test]
    fn a_node_that_asks_a_person_is_prompted_and_not_queued() {
        let mut queue = DispatchQueue::default();
        queue.offer((Reverse(0), Reverse(0), node("a")), true);
        assert_eq!(queue.next_ready(8), None);
        assert_eq!(queue.next_prompt(), Some(node("a")));
        assert_eq!(queue.next_prompt(), None);
    }

    #[test]
    fn a_removed_node_is_in_no_place() {
        let mut queue = ready(&[(0, "a")]);
        queue.remove(&node("a"), || (Reverse(0), Reverse(0), node("a")));
        queue.mark_queued(node("b"));
        queue.remove(&node("b"), || (Reverse(0), Reverse(0), node("b")));
        assert_eq!(queue.wanting_slots().count(), 0);
    }

    #[test]
    fn rejected_nodes_come_back_once_at_the_armed_time() {
        let (mut queue, now) = (DispatchQueue::default(), Instant::now());
        assert_eq!(queue.arm_retry(now), None);
        queue.reject(node("a"));
        let at = queue.arm_retry(now).expect("the timer was not armed");
        assert_eq!(queue.arm_retry(now), None, "one timer is enough");
        assert_eq!(queue.retry(now), None, "a timer of another time is ignored");
        assert_eq!(queue.retry(at), Some(vec![node("a")]));
        assert_eq!(queue.retry(at), None);
    }

    #[test]
    fn only_a_change_of_being_out_of_credit_is_recorded() {
        let mut queue = DispatchQueue::default();
        assert_eq!(queue.wait_for(CreditWait::Credits), Some(true));
        assert_eq!(queue.wait_for(CreditWait::Reserve), None);
        assert_eq!(queue.wait_for(CreditWait::Nothing), Some(false));
    }

    #[test]
    fn withdrawn_nodes_leave_the_queue_and_the_rejected_ones() {
        let mut queue = ready(&[(0, "c")]);
        queue.mark_queued(node("a"));
        queue.reject(node("b"));
        queue.withdraw(&BTreeSet::from([node("a"), node("b")]));
        assert_eq!(queue.wanting_slots().collect::<Vec<_>>(), [&node("c")]);
    }
}
