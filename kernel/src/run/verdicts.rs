//! Verdicts of the gate on the calls of a run: the hash chain, cumulative spending of allowed calls, and held nodes.

use super::Run;
use super::apply::IllegalStep;
use crate::event::{Event, GateAnswer, GateVerdict};
use crate::gate::Spent;
use crate::id::{Digest, NodeId, Ticks};
use crate::lineage;

/// Aggregate of a run's verdicts.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdicts {
    /// Hash of the last verdict.
    last: Option<Digest>,
    spent: Spent,
}

impl Run {
    /// Cumulative spending of the run's allowed calls.
    pub fn spent(&self) -> &Spent {
        &self.verdicts.spent
    }

    /// Spending without one attempt of a node. A lost attempt is judged again without its own charge.
    pub fn spent_without(&self, node: &NodeId, attempt: u32, tool: &str) -> Spent {
        let mut spent = self.verdicts.spent.clone();
        spent.refund(number(node, attempt), tool);
        spent
    }

    /// True if the gate held the node's call for a person's approval.
    pub fn is_held_by_gate(&self, node: &NodeId) -> bool {
        self.instance(node).is_some_and(|instance| instance.held_by_gate)
    }

    /// Links a verdict to the chain and applies the record. Append the returned record before the call starts, durably if
    /// the call acts on the world. `None` if the plan has no such node.
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

/// Number that identifies the charge of an attempt.
fn number(node: &NodeId, attempt: u32) -> u64 {
    let digest = lineage::hash("ostler.charge.1", &[node.as_str().as_bytes(), &attempt.to_le_bytes()]);
    u64::from_le_bytes(digest.0[..8].try_into().expect("a digest has 32 bytes"))
}
