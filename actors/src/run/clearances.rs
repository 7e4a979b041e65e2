//! Attempts that wait for the clearance authority, or for a turn in their workspace. Each attempt holds its slot. Waits are not
//! recorded: after a crash the attempts pass the gate again, and the authority is asked again.

use std::sync::Arc;

use ostler_kernel::id::NodeId;
use ostler_kernel::plan::Node;
use ostler_kernel::run::RunInput;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use super::driver::RunDriver;
use super::launch::{Prepared, Refusal};
use crate::base::keys::AttemptKey;
use crate::messages::agent::AgentMessage;
use crate::messages::clearance::{Beginning, Came, WaitEnd};
use crate::state::clearance::Question;

/// Reason for which an approved call is asked about again.
const NO_TURN: &str = "other calls have been writing in the workspace for a minute, and could change the files that it names; it runs while none does";

impl RunDriver {
    /// Asks the authority about the call of an attempt.
    pub(super) fn ask_authority(&mut self, key: AttemptKey, question: Question, begun: Beginning) {
        let services = Arc::clone(&self.services);
        self.begin_after(key, begun, async move { Came::Answer(services.gatekeeper.ask(question).await) });
    }

    /// Waits until no other call writes in the workspace of an attempt.
    pub(super) fn wait_for_turn(&mut self, key: AttemptKey, begun: Beginning) {
        let (services, caller) = (Arc::clone(&self.services), Arc::clone(&self.caller));
        self.begin_after(key, begun, async move {
            services.executor.turns.alone(&caller.workspace).await.map_or(Came::NoTurn, Came::Turn)
        });
    }

    /// Waits for what an attempt needs to begin, which arrives as [`AgentMessage::Awaited`].
    fn begin_after(
        &mut self,
        key: AttemptKey,
        begun: Beginning,
        what: impl Future<Output = Came> + Send + 'static,
    ) {
        let (me, end, services) = (self.me.clone(), CancellationToken::new(), Arc::clone(&self.services));
        let asked = Asked { attempt: key.attempt, end: end.clone() };
        self.in_flight.asked.insert(key.node.clone(), asked);
        tokio::spawn(async move {
            let came = end.run_until_cancelled_owned(what).await;
            let told = Box::new(WaitEnd { key, begun, came });
            if me.cast(AgentMessage::Awaited(told)).is_err() {
                services.scheduler.give_back(begun.slot);
            }
        });
    }

    /// Begins an attempt with what it waited for, if the run still wants the attempt.
    pub(super) async fn awaited(&mut self, end: WaitEnd) {
        let WaitEnd { key, begun, came } = end;
        if !self.asks_about(&key) {
            self.release_slot(begun.slot);
            return;
        }
        self.in_flight.asked.remove(&key.node);
        let is_wanted = self.run.is_current(&key.node, key.attempt)
            && self.run.instance(&key.node).is_some_and(|instance| !instance.is_draining())
            && !self.services.journal.status.is_stopping();
        match came.filter(|_| is_wanted) {
            Some(Came::NoTurn) => {
                self.release_slot(begun.slot);
                self.release_budget(&key);
                self.decide(RunInput::Unapproved { node: key.node, what: NO_TURN.to_owned() });
            }
            Some(came) => {
                match came {
                    Came::Answer(answer) => self.in_flight.answer = Some((key.node.clone(), answer)),
                    Came::Turn(turn) => self.in_flight.turn = Some(turn),
                    Came::NoTurn => {}
                }
                self.begin_attempt(&key.node, begun.slot, begun.accounts, begun.again).await;
                (self.in_flight.answer, self.in_flight.turn) = (None, None);
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
