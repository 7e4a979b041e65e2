//! Attempts that wait for the clearance authority. Each attempt holds its slot. Waits are not recorded: after a crash the attempts
//! pass the gate again, and the authority is asked again.

use std::sync::Arc;

use ostler_kernel::id::NodeId;
use ostler_kernel::plan::Node;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use super::driver::RunDriver;
use super::launch::{Prepared, Refusal};
use crate::base::keys::AttemptKey;
use crate::messages::agent::AgentMessage;
use crate::messages::clearance::{Beginning, ClearanceAnswer};
use crate::state::clearance::Question;

impl RunDriver {
    /// Asks the authority about the call of an attempt. The answer arrives as [`AgentMessage::Cleared`].
    pub(super) fn ask_authority(&mut self, key: AttemptKey, question: Question, begun: Beginning) {
        let (me, end, services) = (self.me.clone(), CancellationToken::new(), Arc::clone(&self.services));
        let (asked, slot) = (Asked { attempt: key.attempt, end: end.clone() }, begun.slot);
        self.in_flight.asked.insert(key.node.clone(), asked);
        tokio::spawn(async move {
            let answer = end.run_until_cancelled_owned(services.gatekeeper.ask(question)).await;
            let told = Box::new(ClearanceAnswer { key, begun, answer });
            if me.cast(AgentMessage::Cleared(told)).is_err() {
                services.scheduler.give_back(slot);
            }
        });
    }

    /// Begins an attempt with the authority's answer, if the run still wants the attempt.
    pub(super) async fn cleared(&mut self, answered: ClearanceAnswer) {
        let ClearanceAnswer { key, begun, answer } = answered;
        if !self.asks_about(&key) {
            self.release_slot(begun.slot);
            return;
        }
        self.in_flight.asked.remove(&key.node);
        let is_wanted = self.run.is_current(&key.node, key.attempt)
            && self.run.instance(&key.node).is_some_and(|instance| !instance.is_draining())
            && !self.services.journal.status.is_stopping();
        match answer.filter(|_| is_wanted) {
            Some(answer) => {
                self.in_flight.answer = Some((key.node.clone(), answer));
                self.in_flight.turn = begun.turn;
                // The run may have read more while the authority was asked.
                self.must_ask_first(&key.node);
                self.begin_attempt(&key.node, begun.slot, begun.accounts, begun.again).await;
                self.in_flight.answer = None;
            }
            None => {
                self.release_slot(begun.slot);
                self.release_budget(&key);
                self.end_lost_drain(&key.node);
            }
        }
    }

    /// True if an attempt waits.
    pub(super) fn asks_about(&self, key: &AttemptKey) -> bool {
        let asked = self.in_flight.asked.get(&key.node);
        key.run == self.opened.run && asked.is_some_and(|asked| asked.attempt == key.attempt)
    }

    /// Ends the wait of a node that is cancelled or drains.
    pub(super) fn stop_asking(&self, node: &NodeId) {
        if let Some(asked) = self.in_flight.asked.get(node) {
            asked.end();
        }
    }

    /// Prepares a timer. A timer holds no slot, so the run itself waits for the authority.
    pub(super) async fn prepare_timer(&mut self, node: &Node, attempt: u32) -> Result<Prepared, Refusal> {
        match self.prepare(node, Some(attempt)).await {
            Err(Refusal::Unasked(question)) => {
                let answer = self.services.gatekeeper.ask(*question).await;
                self.in_flight.answer = Some((node.id.clone(), answer));
                let prepared = self.prepare(node, Some(attempt)).await;
                self.in_flight.answer = None;
                prepared
            }
            prepared => prepared,
        }
    }
}
