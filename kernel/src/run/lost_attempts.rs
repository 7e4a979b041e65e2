//! Attempts that their process lost amid a call of a model, as far as the records of the run tell.

use std::collections::{BTreeMap, BTreeSet};

use super::Run;
use crate::event::Event;
use crate::id::NodeId;

/// Nodes whose attempts may have been lost amid a call of their model. The provider may bill such a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostAttempts {
    /// The node of each lost attempt that was made again, in the order of the repetitions.
    pub repeated: Vec<NodeId>,
    /// Nodes with an attempt that has begun, and neither ended nor recorded a call. Without a process, the attempt is lost.
    pub open: BTreeSet<NodeId>,
}

/// Follows the attempts of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenAttempts {
    /// True once a call of the attempt is recorded.
    open: BTreeMap<(NodeId, u32), bool>,
    repeated: Vec<NodeId>,
}

impl OpenAttempts {
    pub(super) fn record(&mut self, event: &Event) {
        match event {
            Event::AttemptIntent(intent) => {
                let attempt = (intent.node.clone(), intent.attempt);
                // The records of a living process begin an attempt once.
                if self.open.insert(attempt, false) == Some(false) {
                    self.repeated.push(intent.node.clone());
                }
            }
            Event::ModelCalled { node, attempt, .. } => {
                if let Some(has_called) = self.open.get_mut(&(node.clone(), *attempt)) {
                    *has_called = true;
                }
            }
            Event::AttemptResult(result) | Event::LateResult(result) => {
                self.open.remove(&(result.node.clone(), result.attempt));
            }
            _ => {}
        }
    }

    /// The attempts of the nodes of `run` that call a model themselves; a program's calls have no record before they end.
    pub(super) fn end(self, run: &Run) -> LostAttempts {
        let calls = |node: &NodeId| run.node(node).is_some_and(|node| node.calls_model());
        let open = self.open.into_iter().filter(|(_, has_called)| !has_called).map(|((node, _), _)| node);
        LostAttempts {
            repeated: self.repeated.into_iter().filter(&calls).collect(),
            open: open.filter(&calls).collect(),
        }
    }
}
