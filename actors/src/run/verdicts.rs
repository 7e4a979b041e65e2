//! Records the gate's verdicts on the calls of a run.

use ostler_kernel::event::GateVerdict;
use ostler_kernel::gate::{Denial, DenialCode, Permit, Provenance};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Node;
use ostler_kernel::run::NodeState;

use super::driver::RunDriver;
use crate::base::error::RunError;
use crate::messages::agent::AskReply;
use crate::state::holds::NodeHold;

impl RunDriver {
    /// Records the exposure to the runs above and beside this one, before the gate decides about a node: another run that they opened
    /// meanwhile may have written texts of strangers, or private data, to the workspace.
    pub(super) fn record_exposure(&mut self, id: &NodeId) {
        let Some(node) = self.run.node(id).filter(|_| self.run.terms().parent.is_some()) else { return };
        let Some(above) = self.services.gatekeeper.exposure_above(self.opened.run, &self.run, node) else {
            return;
        };
        let record = self.run.expose(self.services.journal.now(), &above);
        self.apply_effects(record.into_iter().collect());
    }

    /// Holds a node if a person must allow the call, once for each reason. The question to the person follows.
    pub(super) fn hold_for_person(&mut self, id: &NodeId) {
        let Some(node) = self.run.node(id) else { return };
        let known = self.run.holds(id);
        let holds = self.services.gatekeeper.holds(&self.caller, &self.run, node);
        let new: Vec<NodeHold> = holds.into_iter().filter(|hold| !known.contains(&hold.reason)).collect();
        let instance = self.run.instance(id);
        let is_running = instance.is_some_and(|instance| instance.state() == NodeState::Running);
        let next = instance.map_or(0, |instance| instance.attempts) + u32::from(!is_running);
        for hold in new {
            let held = self.services.gatekeeper.held(&self.caller, (id, next), hold);
            self.record(held);
        }
    }

    /// The verdict on the call of a starting attempt.
    pub(super) fn allowed(&self, node: &Node, permit: &Permit) -> GateVerdict {
        let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
        self.services.gatekeeper.allowed(&self.caller, (&node.id, attempt), permit)
    }

    pub(super) fn record_denial(&mut self, id: &NodeId, attempt: u32, denial: &Denial) {
        let Some(node) = self.run.node(id) else { return };
        let tool = node.tool.as_deref().unwrap_or_default();
        let denied = self.services.gatekeeper.denied(&self.caller, (id, attempt), tool, denial);
        self.record(denied);
    }

    /// What the run has read by now, as far as it decides about a test of an attempt.
    ///
    /// # Errors
    ///
    /// The test may not run, or the attempt is not of this run.
    pub(super) fn before_test(
        &mut self,
        run: RunId,
        node: &NodeId,
        attempt: u32,
    ) -> Result<Provenance, Denial> {
        let gone = || Denial::new(DenialCode::AuditUnavailable, "the run of the test is over");
        if run != self.opened.run {
            return Err(gone());
        }
        self.record_exposure(node);
        let node = self.run.node(node).ok_or_else(gone)?;
        self.services.gatekeeper.before_test(&self.run, node, attempt)
    }

    /// Records a verdict on a call within an attempt; the reply follows once the record is durable.
    pub(super) fn record_call(&mut self, run: RunId, verdict: GateVerdict, reply: AskReply) {
        if run != self.opened.run || !self.record(verdict) {
            let _ = reply.send(Err(RunError::Over));
            return;
        }
        self.writer.answers.push((reply, Ok(())));
    }

    fn record(&mut self, verdict: GateVerdict) -> bool {
        let record = self.run.record_verdict(self.services.journal.now(), verdict);
        let is_recorded = record.is_some();
        self.apply_effects(record.into_iter().collect());
        is_recorded
    }
}
