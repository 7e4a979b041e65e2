//! Verdicts of the gate on the calls of a run: their chain, what allowed calls add up to, and nodes that wait for a person.

use super::Run;
use super::apply::IllegalStep;
use crate::event::{Event, GateAnswer, GateVerdict};
use crate::gate::Spent;
use crate::id::{Digest, NodeId, Ticks};
use crate::lineage;

/// What the verdicts of a run amount to.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdicts {
    /// Hash of the last one.
    last: Option<Digest>,
    spent: Spent,
}

impl Run {
    /// What the allowed calls of the run add up to.
    pub fn spent(&self) -> &Spent {
        &self.verdicts.spent
    }

    /// The same without an attempt of a node: a lost attempt is judged again as if it had not been.
    pub fn spent_without(&self, node: &NodeId, attempt: u32, tool: &str) -> Spent {
        let mut spent = self.verdicts.spent.clone();
        spent.refund(number(node, attempt), tool);
        spent
    }

    /// True if the gate held the call of the node until a person allows it.
    pub fn is_held_by_gate(&self, node: &NodeId) -> bool {
        self.instance(node).is_some_and(|instance| instance.held_by_gate)
    }

    /// Puts a verdict behind those before it. The record has taken effect: append it before the call starts, durably if the
    /// call acts on the world. `None` if the plan has no such node.
    pub fn record_verdict(&mut self, now: Ticks, verdict: GateVerdict) -> Option<Event> {
        self.node(&verdict.node)?;
        let previous = self.verdicts.last.unwrap_or(Digest([0; 32]));
        let verdict = Event::GateVerdict(Box::new(verdict.sealed(previous)));
        self.apply(&verdict, now).expect("a verdict applies to every node of the plan");
        Some(verdict)
    }

    pub(super) fn apply_verdict(&mut self, verdict: &GateVerdict) -> Result<(), IllegalStep> {
        self.verdicts.last = Some(verdict.hash);
        let at = self.find(&verdict.node)?;
        match verdict.answer {
            GateAnswer::Allow => {
                let number = number(&verdict.node, verdict.attempt);
                self.verdicts.spent.charge_amounts(number, &verdict.tool, &verdict.amounts);
            }
            GateAnswer::Hold => self.instances[at].held_by_gate = true,
            GateAnswer::Deny => {}
        }
        Ok(())
    }
}

/// Identifies the charge of an attempt.
fn number(node: &NodeId, attempt: u32) -> u64 {
    let digest = lineage::hash("ostler.charge.1", &[node.as_str().as_bytes(), &attempt.to_le_bytes()]);
    u64::from_le_bytes(digest.0[..8].try_into().expect("a digest has 32 bytes"))
}
