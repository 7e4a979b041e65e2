//! Requests with answers to nodes of kind `wait`.

use std::sync::{Arc, OnceLock};

use ostler_kernel::event::{AnswerVerdict, Output};
use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::plan::Rule;
use ostler_kernel::run::{OutsideAnswer, Run, RunInput};
use serde_json::Value;

/// The verdict on an answer, with what refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitVerdict {
    /// The verdict.
    pub verdict: AnswerVerdict,
    /// Of [`AnswerVerdict::Invalid`]: the rules that the value breaks, in words, in contract order.
    pub broken: Vec<String>,
    /// Of [`AnswerVerdict::Late`], if the node still waits: its deadline, which has passed, in milliseconds since the Unix epoch.
    pub deadline: Option<Ticks>,
}

impl From<AnswerVerdict> for WaitVerdict {
    fn from(verdict: AnswerVerdict) -> WaitVerdict {
        WaitVerdict { verdict, broken: Vec::new(), deadline: None }
    }
}

/// An answer for the driver of the run.
#[derive(Clone)]
pub(crate) struct WaitAnswerRequest {
    pub(crate) node: NodeId,
    pub(crate) id: Option<String>,
    pub(crate) value: Arc<Value>,
    /// The stored value.
    pub(crate) output: Output,
    pub(crate) by: String,
    /// Set once the answer is decided.
    pub(crate) verdict: Arc<OnceLock<WaitVerdict>>,
}

impl WaitAnswerRequest {
    /// Input of the decision at `now`; also sets `verdict`. The contract is judged only if the node waits: an early answer is
    /// judged when the wait begins.
    pub(crate) fn into_input(
        self,
        run: &Run,
        now: Ticks,
        broken: &dyn Fn(&[Rule], &Value) -> Vec<String>,
    ) -> RunInput {
        let WaitAnswerRequest { node, id, value, output, by, verdict } = self;
        let contract = run.node(&node).filter(|_| run.waits_for_answer(&node)).map(|node| &node.contract);
        let broken = contract.map(|contract| broken(contract, &value));
        let holds = broken.as_ref().is_some_and(Vec::is_empty);
        let word = run.answer_verdict(&node, id.as_deref(), holds, now);
        let broken = broken.filter(|_| word == AnswerVerdict::Invalid).unwrap_or_default();
        let _ = verdict.set(WaitVerdict { verdict: word, broken, deadline: run.passed_deadline(&node, now) });
        RunInput::WaitAnswer(Box::new(OutsideAnswer { node, id, output: Some(output), holds, by, at: now }))
    }
}
