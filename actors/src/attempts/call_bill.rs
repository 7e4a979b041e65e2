//! The bill of calls of models: the turns that they take, what they reserve and use, and the calls that ended.

use std::sync::{Arc, Mutex};

use ostler_kernel::event::{Event, Failure, ResultJudged};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{
    AttemptLog, BoxFuture, CallGrant, ModelCall, ModelTurn, ModelTurnEnd, PricedCall, RUN_JUDGE, StreamId,
};

use crate::attempts::call_budget::CallBudget;
use crate::attempts::executor::Executor;
use crate::attempts::model_turns::ModelTurns;
use crate::base::attempt_end::ModelCalls;
use crate::base::keys::Owner;
use crate::base::lock::lock;
use crate::state::call_accounts::Payer;

/// Most recorded calls of one bill; the sums of further ones go to the last record.
const MODEL_CALLS_MAX: usize = 256;

/// Number of the only attempt of a judge.
pub(crate) const JUDGED: u32 = 1;

/// The bill of an attempt, or the whole log of a call outside of any attempt: that call waits for its turns within its time, and its
/// words are shown to nobody.
pub(crate) struct CallBill {
    pub(crate) budget: CallBudget,
    pub(crate) turns: ModelTurns,
    /// Number of the attempt of the budget's node.
    attempt: u32,
    ended: Mutex<Vec<ModelCall>>,
    verdicts: Mutex<Vec<(usize, ResultJudged)>>,
}

impl CallBill {
    /// `of`: the node that the calls are for, and its attempt; `None` for those of the judge of the run.
    pub(crate) fn new(
        executor: &Executor,
        owner: &Arc<Owner>,
        run: RunId,
        payer: Payer,
        of: Option<(NodeId, u32)>,
    ) -> CallBill {
        let (node, attempt) = of.map_or((None, JUDGED), |(node, attempt)| (Some(node), attempt));
        let turns = ModelTurns::new(&executor.scheduler, owner, run, node.clone());
        let budget = CallBudget {
            accounts: Arc::clone(&executor.call_accounts),
            active_runs: Arc::clone(&executor.active_runs),
            run,
            journal: Arc::clone(&executor.journal),
            step_log: executor.step_logs.of(StreamId::attempts(&payer.client, run)),
            payer,
            node: node.unwrap_or_else(|| RUN_JUDGE.into()),
            shortfall: Mutex::default(),
        };
        CallBill { budget, turns, attempt, ended: Mutex::default(), verdicts: Mutex::default() }
    }

    /// Writes a call down at once: whoever is to report it may die before.
    fn log(&self, call: ModelCall) {
        let CallBudget { step_log, node, .. } = &self.budget;
        let called = Event::ModelCalled { node: node.clone(), attempt: self.attempt, call: Box::new(call) };
        if let Err(error) = step_log.append(called) {
            tracing::warn!(%node, %error, "a call of a model is recorded only with the end of its attempt");
        }
    }

    /// Keeps the verdict of the call that ended last.
    pub(crate) fn judged(&self, verdict: ResultJudged) {
        let calls = lock(&self.ended).len();
        lock(&self.verdicts).push((calls, verdict));
    }

    /// The calls so far, for the records of the run.
    pub(crate) fn take(&self) -> ModelCalls {
        let shortfall = lock(&self.budget.shortfall).take();
        let (ended, verdicts) =
            (std::mem::take(&mut *lock(&self.ended)), std::mem::take(&mut *lock(&self.verdicts)));
        ModelCalls { ended, verdicts, shortfall, rung: None, refused: None }
    }
}

impl AttemptLog for CallBill {
    fn model_called(&self, _number: u32, mut call: ModelCall) {
        call.ended_at = self.budget.journal.now();
        let mut ended = lock(&self.ended);
        if ended.len() < MODEL_CALLS_MAX {
            ended.push(call.clone());
            drop(ended);
            self.log(call);
        } else if let Some(last) = ended.last_mut() {
            // The sums stay true, and the records bounded.
            last.input_tokens = last.input_tokens.saturating_add(call.input_tokens);
            last.output_tokens = last.output_tokens.saturating_add(call.output_tokens);
            last.nano_usd = last.nano_usd.zip(call.nano_usd).map(|(last, more)| last.saturating_add(more));
        }
    }

    fn reserve_call<'a>(&'a self, call: PricedCall<'a>) -> BoxFuture<'a, Result<CallGrant, Failure>> {
        Box::pin(self.budget.reserve(call, None))
    }

    fn settle_call(&self, reservation: u64, call: &ModelCall) {
        self.budget.settle(reservation, call);
    }

    fn model_turn<'a>(&'a self, turn: ModelTurn<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(pending) = self.turns.take(turn) {
                self.turns.wait(pending).await;
            }
        })
    }

    fn model_turn_ended(&self, end: ModelTurnEnd<'_>) -> bool {
        self.turns.end(end).calls_again
    }
}
