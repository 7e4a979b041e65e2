//! Work made useless by a decision. The child runs of such work are cancelled with it.

use super::Run;
use crate::event::Event;
use crate::id::NodeId;
use crate::run::{NodeState, TransitionReason};

/// Work of a node without a use for its result: all of it, or the part before a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedWork {
    node: NodeId,
    /// Work with fewer patches than these is abandoned; `None`: all work of the node.
    before: Option<u32>,
    has_ended: bool,
}

impl AbandonedWork {
    /// True if an attempt of `node` after `patch_count` patches is part of this work.
    pub fn covers(&self, node: &NodeId, patch_count: u32) -> bool {
        self.node == *node && self.before.is_none_or(|before| patch_count < before)
    }

    /// True if no attempt of this work goes on: what its child runs still do is stopped, and does not end by itself.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

impl Run {
    /// The work that `events` abandon. The events must have taken effect. `left_open` is true for a node with child runs that are still
    /// open: an executed node did not wait for them, such as for the answer to a question, and nothing of a node outlives the node.
    pub fn abandoned_work(
        &self,
        events: &[Event],
        left_open: impl Fn(&NodeId) -> bool,
    ) -> impl Iterator<Item = AbandonedWork> {
        events.iter().filter_map(move |event| match event {
            Event::NodeTransition(moved) if moved.reason == TransitionReason::Patched => {
                let before = self.instance(&moved.node).map(|instance| instance.patch_count);
                Some(AbandonedWork { node: moved.node.clone(), before, has_ended: true })
            }
            Event::NodeTransition(moved)
                if moved.to.is_terminal() && (moved.to != NodeState::Executed || left_open(&moved.node)) =>
            {
                Some(AbandonedWork { node: moved.node.clone(), before: None, has_ended: true })
            }
            Event::Draining { node } => {
                Some(AbandonedWork { node: node.clone(), before: None, has_ended: false })
            }
            _ => None,
        })
    }
}
