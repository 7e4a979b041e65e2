//! The log of a call of a model that a program makes: the log of its attempt, which also keeps the question.

use std::sync::{Arc, Mutex};

use ostler_kernel::event::Failure;
use ostler_kernel::port::{
    AnswerForm, AttemptLog, BoxFuture, CallGrant, Delta, ModelCall, ModelTurn, ModelTurnEnd, PricedCall,
};
use serde_json::{Map, Value};

use crate::base::lock::lock;

/// Forwards what a model reports, and remembers the call that answered.
pub(super) struct CallLog {
    log: Arc<dyn AttemptLog>,
    answered: Mutex<Option<ModelCall>>,
}

impl CallLog {
    pub(super) fn new(log: &Arc<dyn AttemptLog>) -> CallLog {
        CallLog { log: Arc::clone(log), answered: Mutex::default() }
    }

    /// Keeps the question with its answer.
    pub(super) fn answered(&self, params: &Map<String, Value>, answer: &Value) {
        if let Some(call) = lock(&self.answered).take() {
            self.log.model_exchanged(params, answer, call);
        }
    }
}

impl AttemptLog for CallLog {
    fn heartbeat(&self) {
        self.log.heartbeat();
    }

    fn heartbeat_ms(&self) -> Option<u64> {
        self.log.heartbeat_ms()
    }

    fn model_begins(&self, form: AnswerForm) -> u32 {
        self.log.model_begins(form)
    }

    fn model_delta(&self, call: u32, delta: &Delta) {
        self.log.model_delta(call, delta);
    }

    fn model_called(&self, number: u32, call: ModelCall) {
        *lock(&self.answered) = Some(call.clone()).filter(ModelCall::is_answered);
        self.log.model_called(number, call);
    }

    fn reserve_call<'a>(&'a self, call: PricedCall<'a>) -> BoxFuture<'a, Result<CallGrant, Failure>> {
        self.log.reserve_call(call)
    }

    fn settle_call(&self, reservation: u64, call: &ModelCall) {
        self.log.settle_call(reservation, call);
    }

    fn model_turn<'a>(&'a self, turn: ModelTurn<'a>) -> BoxFuture<'a, ()> {
        self.log.model_turn(turn)
    }

    fn model_turn_ended(&self, end: ModelTurnEnd<'_>) -> bool {
        self.log.model_turn_ended(end)
    }
}
