//! The turns of the model calls of one attempt, or of one call outside of any attempt.
//!
//! The job of a node that calls a model covers the first call. Every other call asks the run queue for a turn, and so does a call that
//! is made again because its provider asked to wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{ModelTurn, ModelTurnEnd};
use ostler_kernel::run::{RATE_WAIT_MS_MAX, RateWaits};
use tokio::time::sleep;

use crate::base::keys::Owner;
use crate::base::lock::lock;
use crate::messages::slots::{ModelUse, TurnRequest};
use crate::scheduler::{SchedulerHandle, TurnAnswer, TurnWait};
use crate::state::estimates::ANSWER_TOKENS;

/// Delay before a full or restarting run queue is asked again.
const AGAIN: Duration = Duration::from_millis(200);

pub(crate) struct ModelTurns {
    scheduler: Arc<SchedulerHandle>,
    owner: Arc<Owner>,
    run: RunId,
    node: Option<NodeId>,
    state: Mutex<TurnState>,
}

#[derive(Default)]
struct TurnState {
    /// The turn that came with the slot.
    covered: Option<ModelUse>,
    /// Calls that are being made.
    open: Vec<ModelUse>,
    waits: RateWaits,
}

/// A turn that is not given yet.
pub(crate) struct PendingTurn {
    uses: ModelUse,
    wait: Option<TurnWait>,
}

/// The end of a call.
pub(crate) struct TurnEnded {
    /// Share of limited tokens that the call used, as a charge.
    pub(crate) token_charge: u64,
    /// The call is to be made again, in another turn.
    pub(crate) calls_again: bool,
}

impl ModelTurns {
    /// `node`: the node of the attempt; `None` for a call of the run itself.
    pub(crate) fn new(
        scheduler: &Arc<SchedulerHandle>,
        owner: &Arc<Owner>,
        run: RunId,
        node: Option<NodeId>,
    ) -> ModelTurns {
        let (scheduler, owner) = (Arc::clone(scheduler), Arc::clone(owner));
        ModelTurns { scheduler, owner, run, node, state: Mutex::default() }
    }

    /// Notes the turn that came with the slot of the attempt.
    pub(crate) fn cover(&self, model: &str, tokens: u64) {
        lock(&self.state).covered = self.uses(model, tokens);
    }

    fn uses(&self, model: &str, tokens: u64) -> Option<ModelUse> {
        Some(ModelUse { model: Arc::clone(self.scheduler.rates().model(model)?), tokens })
    }

    /// Takes a turn; `Some`: the call has to wait for it.
    pub(crate) fn take(&self, turn: ModelTurn<'_>) -> Option<PendingTurn> {
        let mut state = lock(&self.state);
        if let Some(covered) = state.covered.take_if(|covered| *covered.model == *turn.model) {
            state.open.push(covered);
            return None;
        }
        drop(state);
        let expected = turn.answer_tokens_max.min(ANSWER_TOKENS);
        let uses = self.uses(turn.model, turn.prompt_tokens.saturating_add(expected))?;
        self.ask(uses)
    }

    fn ask(&self, uses: ModelUse) -> Option<PendingTurn> {
        let (owner, node) = (Arc::clone(&self.owner), self.node.clone());
        let request = TurnRequest { owner, run: self.run, node, uses: uses.clone() };
        match self.scheduler.ask_turn(request) {
            TurnAnswer::Taken => {
                lock(&self.state).open.push(uses);
                None
            }
            TurnAnswer::Waits(wait) => Some(PendingTurn { uses, wait: Some(wait) }),
            TurnAnswer::NotNow => Some(PendingTurn { uses, wait: None }),
        }
    }

    /// Waits for a turn. Dropping the future gives the turn up.
    pub(crate) async fn wait(&self, pending: PendingTurn) {
        let mut pending = Some(pending);
        while let Some(PendingTurn { uses, wait }) = pending {
            let is_given = match wait {
                Some(wait) => wait.granted().await,
                None => {
                    sleep(AGAIN).await;
                    false
                }
            };
            if is_given {
                lock(&self.state).open.push(uses);
                return;
            }
            pending = self.ask(uses);
        }
    }

    /// Settles the turn of a call that ended: corrects the buckets to the true count of tokens, parks the model if its provider asks to
    /// wait, and decides whether the call is made again.
    pub(crate) fn end(&self, end: ModelTurnEnd<'_>) -> TurnEnded {
        let mut state = lock(&self.state);
        let at = state.open.iter().position(|open| *open.model == *end.model);
        // Without an open turn the model has no limits.
        let Some(turn) = at.map(|at| state.open.swap_remove(at)) else {
            return TurnEnded { token_charge: 0, calls_again: false };
        };
        let wait_ms = if end.is_refused { state.waits.refused(end.next_call_ms) } else { None };
        drop(state);
        // A provider that asks for more than any attempt waits is not waited for by others either: each learns of it.
        let park_ms = end.next_call_ms.filter(|ms| *ms <= RATE_WAIT_MS_MAX);
        let beyond = i64::try_from(end.tokens).unwrap_or(i64::MAX).saturating_sub_unsigned(turn.tokens);
        self.scheduler.turn_ended(&self.owner.lane.client, end.model, (beyond, 0), park_ms);
        let token_charge = self.scheduler.rates().charge(end.model, end.tokens);
        TurnEnded { token_charge, calls_again: wait_ms.is_some() }
    }

    /// Returns the turn that came with the slot if no call was made.
    pub(crate) fn return_unused(&self) {
        let unused = lock(&self.state).covered.take();
        self.give_back(unused);
    }

    fn give_back(&self, turns: impl IntoIterator<Item = ModelUse>) {
        for turn in turns {
            let tokens = i64::try_from(turn.tokens).unwrap_or(i64::MAX);
            self.scheduler.turn_ended(&self.owner.lane.client, &turn.model, (-tokens, -1), None);
        }
    }
}

/// A turn that is still open belongs to a call that was never made: its budget refused it, or its caller dropped it before.
impl Drop for ModelTurns {
    fn drop(&mut self) {
        let open = std::mem::take(&mut lock(&self.state).open);
        self.give_back(open);
    }
}
