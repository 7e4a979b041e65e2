//! Attempts that wait for their turn in the workspace: approved ones until no other call writes, and ones that write until no approved
//! one does. Such an attempt has started and has no slot: the call that it waits for may need the slot. Waits are not recorded: after a
//! crash the attempts are lost ones without an intent, and run again.

use std::sync::Arc;

use ostler_kernel::id::NodeId;
use tokio_util::sync::CancellationToken;

use super::asked::{Stage, TurnWait};
use super::driver::RunDriver;
use crate::base::keys::AttemptKey;
use crate::messages::agent::AgentMessage;
use crate::messages::slots::Ticket;
use crate::messages::turn::TurnEnd;

impl RunDriver {
    /// Returns the slot of an attempt, and waits for its turn. The end arrives as [`AgentMessage::Turn`].
    pub(super) fn wait_for_turn(&mut self, key: AttemptKey, slot: Ticket, again: bool, alone: bool) {
        self.release_slot(slot);
        self.release_budget(&key);
        let end = CancellationToken::new();
        let stage = Stage::Turn { _end: end.clone().drop_guard() };
        self.in_flight.turns.insert(key.node.clone(), TurnWait { attempt: key.attempt, again, stage });
        let (me, turns) = (self.me.clone(), Arc::clone(&self.services.gatekeeper.turns));
        let workspace = self.caller.workspace.clone();
        tokio::spawn(async move {
            let turn = async {
                match alone {
                    true => turns.alone(&workspace, &key).await,
                    false => Ok(turns.shared(&workspace, &key).await),
                }
            };
            if let Some(came) = end.run_until_cancelled_owned(turn).await {
                let _ = me.cast(AgentMessage::Turn(Box::new(TurnEnd { key, came })));
            }
        });
    }

    /// Queues an attempt that may have its turn, or asks its approver again.
    pub(super) fn turn_came(&mut self, TurnEnd { key, came }: TurnEnd) {
        if !self.waits_for_turn(&key) {
            return;
        }
        match came {
            Err(AttemptKey { run, node, .. }) => {
                self.in_flight.turns.remove(&key.node);
                let what = format!(
                    "{node} of run {run} has had its turn in the workspace for a minute, and could change the files that the call \
                     opens; the call runs while no other call writes"
                );
                self.unapproved(key.node, what);
            }
            Ok(turn) => {
                if let Some(waits) = self.in_flight.turns.get_mut(&key.node) {
                    waits.stage = Stage::Slot { turn: Some(turn) };
                }
                self.rerun(vec![key.node]);
            }
        }
    }

    /// True if an attempt waits for its turn.
    pub(super) fn waits_for_turn(&self, key: &AttemptKey) -> bool {
        let waits = self.in_flight.turns.get(&key.node);
        key.run == self.opened.run
            && waits.is_some_and(|waits| waits.attempt == key.attempt && waits.is_open())
    }

    /// Gives up the wait of a node that drains, or runs no more. A draining attempt then counts as lost.
    pub(super) fn stop_waiting_for_turn(&mut self, node: &NodeId) {
        if self.in_flight.turns.remove(node).is_some() {
            // The decision that led here is not over.
            let _ = self.me.cast(AgentMessage::AttemptLost(node.clone()));
        }
    }

    /// Lets other calls write while an attempt gets no slot. It waits for its turn again when it has one.
    pub(super) fn yield_turn(&mut self, node: &NodeId) {
        if let Some(TurnWait { stage: Stage::Slot { turn }, .. }) = self.in_flight.turns.get_mut(node) {
            *turn = None;
        }
    }

    /// Lets other calls write while no attempt of the run gets a slot.
    pub(super) fn yield_turns(&mut self) {
        let waiting: Vec<NodeId> = self.in_flight.turns.keys().cloned().collect();
        waiting.iter().for_each(|node| self.yield_turn(node));
    }

    /// Takes the turn of an attempt that has got a slot. Returns whether the attempt repeats one that was lost with its process.
    pub(super) fn take_turn(&mut self, node: &NodeId) -> bool {
        let attempt = self.run.instance(node).map_or(0, |instance| instance.attempts);
        let waited = self.in_flight.turns.remove(node).filter(|waited| waited.attempt == attempt);
        let Some(TurnWait { again, stage: Stage::Slot { turn }, .. }) = waited else { return true };
        self.in_flight.turn = turn;
        again
    }
}
