//! Requests with answers to nodes of kind `wait`.

use std::sync::{Arc, OnceLock};

use ostler_kernel::event::{AnswerVerdict, Output};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::Rule;
use ostler_kernel::run::{OutsideAnswer, Run, RunInput};
use serde_json::Value;

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
    pub(crate) verdict: Arc<OnceLock<AnswerVerdict>>,
}

impl WaitAnswerRequest {
    /// Input of the decision; also sets `verdict`. The contract is judged only if the node waits: an early answer is judged when
    /// the wait begins.
    pub(crate) fn into_input(self, run: &Run, holds: &dyn Fn(&[Rule], &Value) -> bool) -> RunInput {
        let WaitAnswerRequest { node, id, value, output, by, verdict } = self;
        let contract = run.node(&node).filter(|_| run.waits_for_answer(&node)).map(|node| &node.contract);
        let holds = contract.is_some_and(|contract| holds(contract, &value));
        let _ = verdict.set(run.answer_verdict(&node, id.as_deref(), holds));
        RunInput::WaitAnswer(Box::new(OutsideAnswer { node, id, output: Some(output), holds, by }))
    }
}
