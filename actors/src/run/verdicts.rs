//! Records of the gate's verdicts on the calls of nodes.

use ostler_kernel::event::{GateAnswer, GateVerdict};
use ostler_kernel::gate::{Denial, Permit, amounts};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::plan::Node;

use super::driver::RunDriver;

impl RunDriver {
    /// Holds a node whose call a person has to allow. The question to the person follows.
    pub(super) fn hold_if_tainted(&mut self, id: &NodeId) {
        let Some(node) = self.run.node(id).filter(|_| !self.run.is_held_by_gate(id)) else { return };
        let Some(hold) = self.services.gatekeeper.hold(&self.run, node) else { return };
        let next = self.run.instance(id).map_or(0, |instance| instance.attempts) + 1;
        let verdict = self.verdict(node, next, GateAnswer::Hold, hold.code);
        self.record(GateVerdict { tainted: hold.params, ..verdict });
    }

    /// The verdict on an attempt that starts.
    pub(super) fn allowed(&self, node: &Node, permit: &Permit) -> GateVerdict {
        let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
        let measured = permit.measured();
        GateVerdict {
            measured: Some((measured.impact, measured.ceiling)),
            params: Some(permit.digest()),
            tainted: permit.tainted().to_vec(),
            amounts: amounts(permit.params()),
            ..self.verdict(node, attempt, GateAnswer::Allow, "OK".to_owned())
        }
    }

    pub(super) fn record_denial(&mut self, id: &NodeId, attempt: u32, denial: &Denial) {
        let Some(node) = self.run.node(id) else { return };
        let verdict = self.verdict(node, attempt, GateAnswer::Deny, denial.code.as_str().to_owned());
        let measured = denial.measured.map(|measured| (measured.impact, measured.ceiling));
        self.record(GateVerdict { measured, ..verdict });
    }

    fn record(&mut self, verdict: GateVerdict) {
        let record = self.run.record_verdict(self.services.journal.now(), verdict);
        self.apply_effects(record.into_iter().collect());
    }

    fn verdict(&self, node: &Node, attempt: u32, answer: GateAnswer, code: String) -> GateVerdict {
        let tool = node.tool.clone().unwrap_or_default();
        let gatekeeper = &self.services.gatekeeper;
        GateVerdict {
            node: node.id.clone(),
            attempt,
            version: gatekeeper.toolbox.version(&tool).unwrap_or_default().to_owned(),
            tool,
            answer,
            code,
            scope: self.caller.scope.clone(),
            intent: self.caller.intent,
            measured: None,
            policy_epoch: gatekeeper.policy().epoch,
            params: None,
            tainted: Vec::new(),
            amounts: Vec::new(),
            previous: Digest([0; 32]),
            hash: Digest([0; 32]),
        }
    }
}
