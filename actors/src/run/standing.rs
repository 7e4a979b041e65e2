//! Decides whether the work of an attempt stands as it was approved, and takes its turn in the workspace.

use ostler_kernel::event::HumanRequestKind;
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::Node;
use ostler_kernel::run::{NodeInstance, RunInput};

use super::driver::RunDriver;
use crate::attempts::approval_request;
use crate::attempts::attempt::{ApprovedFiles, Work};
use crate::base::long_work::with_bytes;

/// Failure of an attempt that is asked about again.
pub(super) const UNAPPROVED: &str = "what was approved is not what would be done now: tools, the policy, what confines programs, the named \
                                     files or what the run has read have changed, or other steps have written in the workspace";

/// The approval of an attempt that is about to begin.
pub(super) enum Standing {
    /// A person approved the attempt with these files, or need not (`None`).
    Approved(Option<ApprovedFiles>),
    /// Others write in the workspace, or an approved call does. `alone`: the attempt wants a turn alone.
    WantsTurn { alone: bool },
    /// Something else was approved.
    Changed,
}

impl RunDriver {
    /// Decides whether the work may begin: no approval is needed, or a person approved this very work, down to the files that the call
    /// names. They are looked at while no other call writes.
    pub(super) async fn standing(&mut self, node: &Node, work: &Work) -> Standing {
        if self.run.approval_kind(&node.id) != Some(HumanRequestKind::Before) {
            return self.share_turn(node, work);
        }
        let bytes = self.run.input_bytes(node);
        loop {
            let (gatekeeper, caller) = (&self.services.gatekeeper, &self.caller);
            // Boxed: otherwise this rare future enlarges the future of every message.
            let mut shown =
                Box::pin(approval_request::of_work(gatekeeper, caller, (&self.run, node), work)).await;
            let is_by_grant = self.run.is_answered_by_grant(&node.id);
            let grant = if is_by_grant { self.granted(&shown) } else { None };
            let is_revoked = is_by_grant && grant.is_none();
            if let Some(grant) = grant {
                shown = shown.under(&grant);
            }
            if is_revoked || !self.run.is_approved(&node.id, || with_bytes(bytes, || shown.digest())) {
                self.in_flight.turn = None;
                return Standing::Changed;
            }
            // A program also finds files that come to be after its start.
            let wants_turn = !shown.files.is_empty() || !shown.tests.is_empty() || work.runs_program();
            if !wants_turn {
                return self.share_turn(node, work);
            }
            if let Some(turn) = self.in_flight.turn.as_mut().filter(|turn| turn.is_alone()) {
                if is_by_grant || shown.counts_as_write(work.class_by_tool()) {
                    turn.count();
                }
                let program = work.writes_unseen().then(|| work.class_by_tool());
                let look_before_tests = shown.has_wider_tests(program);
                let tests = shown.tests.iter().map(|test| test.argv.as_slice());
                let of_tests = Box::pin(gatekeeper.files_of_tests(caller, tests)).await;
                return Standing::Approved(Some(ApprovedFiles { of_tests, look_before_tests }));
            }
            let key = self.key_of_last(&node.id);
            self.in_flight.turn = self.services.gatekeeper.turns.try_alone(&self.caller.workspace, &key);
            if self.in_flight.turn.is_none() {
                return Standing::WantsTurn { alone: true };
            }
        }
    }

    /// Takes a turn that others share, if the work may write. The turn is taken before the intent is recorded: an attempt that never
    /// got one has done nothing.
    fn share_turn(&mut self, node: &Node, work: &Work) -> Standing {
        let held = self.in_flight.turn.take().filter(|turn| !turn.is_alone());
        if !work.writes_files(node) {
            return Standing::Approved(None);
        }
        if held.is_some() {
            self.in_flight.turn = held;
            return Standing::Approved(None);
        }
        let key = self.key_of_last(&node.id);
        self.in_flight.turn = self.services.gatekeeper.turns.try_shared(&self.caller.workspace, &key);
        match self.in_flight.turn {
            Some(_) => Standing::Approved(None),
            None => Standing::WantsTurn { alone: false },
        }
    }

    /// Ends an attempt that could not begin as it was approved. A person is asked, also if a grant covers the call: it might never begin.
    pub(super) fn unapproved(&mut self, node: NodeId, what: String) {
        self.decide(RunInput::Unapproved { node: node.clone(), what });
        if self.run.instance(&node).is_some_and(NodeInstance::is_live) {
            self.in_flight.unapproved.insert(node);
        }
    }
}
