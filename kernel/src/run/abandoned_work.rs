//! Which work of a run is not wanted any more, and with it the runs that it opened.

use super::Run;
use crate::event::Event;
use crate::id::NodeId;
use crate::run::{NodeState, TransitionReason};

/// Work of a node that is not wanted any more: all of it, or what came before a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedWork {
    node: NodeId,
    /// Patches that had been applied then; `None`: however many.
    before: Option<u32>,
}

impl AbandonedWork {
    /// Whether an attempt of this node, after so many patches, was about it.
    pub fn covers(&self, node: &NodeId, patch_count: u32) -> bool {
        self.node == *node && self.before.is_none_or(|before| patch_count < before)
    }
}

impl Run {
    /// What these records, which have taken effect, give up of its work.
    pub fn abandoned_work(&self, events: &[Event]) -> impl Iterator<Item = AbandonedWork> {
        events.iter().filter_map(|event| match event {
            Event::NodeTransition(moved) if moved.reason == TransitionReason::Patched => {
                let before = self.instance(&moved.node).map(|instance| instance.patch_count);
                Some(AbandonedWork { node: moved.node.clone(), before })
            }
            Event::NodeTransition(moved) if moved.to.is_terminal() && moved.to != NodeState::Executed => {
                Some(AbandonedWork { node: moved.node.clone(), before: None })
            }
            Event::Draining { node } => Some(AbandonedWork { node: node.clone(), before: None }),
            _ => None,
        })
    }
}
