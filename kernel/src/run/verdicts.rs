//! Verdicts of the gate on the calls of a run: the hash chain, cumulative spending of allowed calls, and held nodes.

use super::Run;
use super::apply::IllegalStep;
use super::approval_request::HeldFor;
use crate::event::{Event, GateAnswer, GateVerdict};
use crate::gate::Spent;
use crate::grant;
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

    /// Number of the charge for a node's own call in an attempt. A lost attempt is judged again under its number.
    pub fn charge_number(node: &NodeId, attempt: u32) -> u64 {
        let digest = lineage::hash("ostler.charge.1", &[node.as_str().as_bytes(), &attempt.to_le_bytes()]);
        number(digest)
    }

    /// Attempts that ended with a denial.
    pub fn denials(&self) -> u32 {
        self.counters.denials
    }

    /// Reasons of the gate to hold the node's call for a person; none if the gate did not.
    pub fn holds(&self, node: &NodeId) -> &[HeldFor] {
        self.instance(node).map_or(&[], |instance| &instance.holds)
    }

    /// True if a grant gave the last answer to a question of the node.
    pub fn is_answered_by_grant(&self, node: &NodeId) -> bool {
        let answered = self.instance(node).and_then(|instance| instance.answered.as_ref());
        answered.is_some_and(|answered| grant::is_author(&answered.by))
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
                // The first call of an attempt is the node's own; the others are calls of tests, judges and programs.
                let judged = &mut self.instances[at].judged;
                let number = match std::mem::replace(judged, verdict.attempt) == verdict.attempt {
                    true => number(verdict.hash),
                    false => Run::charge_number(&verdict.node, verdict.attempt),
                };
                self.verdicts.spent.charge_amounts(number, &verdict.tool, &verdict.amounts);
            }
            GateAnswer::Hold => {
                let (code, params) = (verdict.code.clone(), verdict.tainted.clone());
                let instance = &mut self.instances[at];
                instance.holds.retain(|held| held.code != code);
                instance.holds.push(HeldFor { code, params });
                // The yes was given without this reason.
                instance.approved = false;
            }
            GateAnswer::Deny => {}
        }
        Ok(())
    }
}

fn number(digest: Digest) -> u64 {
    u64::from_le_bytes(digest.0[..8].try_into().expect("a digest has 32 bytes"))
}
