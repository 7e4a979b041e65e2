//! What people answer, and their silence.

use super::standing::Standing;
use super::turn::Turn;
use crate::event::{Event, HumanAnswer, HumanRequestKind};
use crate::id::NodeId;
use crate::run::{Category, NodeState, Reason};

impl Turn<'_, '_, '_> {
    /// The request a node waits for, if it is this one.
    fn open_request(&self, node: &NodeId, request: u32) -> Option<(usize, HumanRequestKind)> {
        let at = self.run.position(node)?;
        let instance = &self.run.instances[at];
        match instance.standing {
            Standing::WaitingHuman { ask, .. } if instance.requests == request => Some((at, ask)),
            _ => None,
        }
    }

    pub(super) fn answer(&mut self, node: &NodeId, request: u32, approve: bool, by: String, note: String) {
        let Some((at, ask)) = self.open_request(node, request) else { return };
        if ask == HumanRequestKind::InDoubt {
            return; // settled by `resolve`, which says what became of it
        }
        self.human_answer(at, approve, false, by, note);
        match (ask, approve) {
            (HumanRequestKind::Before, true) => self.transit(at, NodeState::Ready, Reason::Approved),
            (HumanRequestKind::Before, false) => {
                self.transit(at, NodeState::Cancelled, Reason::HumanRejected);
            }
            (_, true) => self.executed(at),
            (_, false) => self.failed(at, Category::HumanRejection),
        }
    }

    pub(super) fn silence(&mut self, node: &NodeId, request: u32) {
        if let Some((at, ask)) = self.open_request(node, request)
            && ask != HumanRequestKind::InDoubt
        {
            self.transit(at, NodeState::Cancelled, Reason::HumanTimeout);
        }
    }

    pub(super) fn human_answer(&mut self, at: usize, approve: bool, redo: bool, by: String, note: String) {
        self.emit(Event::HumanAnswer(HumanAnswer { node: self.id(at), approve, redo, by, note }));
    }
}
