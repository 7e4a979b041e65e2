//! Asks models about a result, for the rules of a contract with the method `model`.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::contract::{JUDGED_BYTES_MAX, ModelQuestion};
use ostler_kernel::event::{Failure, ResultJudged};
use ostler_kernel::gate::Denial;
use ostler_kernel::plan::{Node, Tools};
use ostler_kernel::port::{
    AttemptLog, BoxFuture, CallContext, CallGrant, CallOrigin, ModelCall, ModelTurn, ModelTurnEnd, PricedCall,
};
use ostler_kernel::run::FailureCategory;
use ostler_kernel::{json, lineage};
use serde_json::Value;

use crate::attempts::attempt_journal::AttemptJournal;
use crate::attempts::executor::Executor;
use crate::attempts::gated_call::{Recorder, refused};
use crate::base::limits::MODEL_JUDGE_MS_MAX;
use crate::state::caller::Caller;
use crate::storage::results::invalid;

/// Role of a model that judges results, as scripts see it.
const JUDGE: &str = "judge";

/// Asks a model about the result of `node`. The call passes the gate like any other; its time and its tokens are those of
/// the attempt, and its verdict is recorded with the result.
///
/// # Errors
///
/// A result that does not hold is `invalid_output`, with the model's reason. A call that fails keeps its category.
pub(super) async fn ask(
    executor: &Executor,
    caller: &Caller,
    node: &Node,
    question: &ModelQuestion,
    value: &Value,
    log: &Arc<AttemptJournal>,
) -> Result<(), Failure> {
    let (rule, toolbox) = (question.rule, &*executor.gatekeeper.toolbox);
    let tools: Option<&dyn Tools> = Some(toolbox);
    let (model, name) = (question.model(tools), question.tool(tools));
    let failed = |category, what: String| Failure { category, message: format!("contract[{rule}]: {what}") };
    if toolbox.version(&name).is_none() {
        let what =
            format!("the model {model} is not configured; add [models.{model}], or name another model");
        return Err(failed(FailureCategory::Structural, what));
    }
    let result =
        json::canonical(value).map_err(|error| failed(FailureCategory::Structural, error.to_string()))?;
    let bytes = result.as_str().len();
    if bytes > JUDGED_BYTES_MAX {
        let what = format!("a model judges results of up to {JUDGED_BYTES_MAX} bytes, found {bytes}");
        return Err(invalid(format!("contract[{rule}]: {what}")));
    }
    let params = question.params(&result);
    let key = lineage::hash("aos/judge/1", &[question.ask.as_bytes(), result.as_str().as_bytes()]);
    let gated = Recorder::of(log).permit(&name, params.into(), key).await;
    let (tool, permit) = gated.map_err(|denial| {
        tracing::warn!(node = %node.id, tool = name, code = denial.code.as_str(), why = denial.operator, "a judge is denied");
        denied(rule, &name, &denial)
    })?;
    let context = CallContext {
        workspace: Arc::clone(&caller.workspace),
        timeout_ms: MODEL_JUDGE_MS_MAX,
        repeatable: true,
        origin: CallOrigin {
            role: JUDGE.to_owned(),
            node: Some(node.id.clone()),
            ordinal: log.attempt(),
            refusals: 0,
        },
        attempt: Arc::new(BillOnly(Arc::clone(log))),
        recorded: None,
        turn: None,
    };
    let within = Duration::from_millis(MODEL_JUDGE_MS_MAX);
    let answer = match tokio::time::timeout(within, tool.call(permit, context)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => {
            let what = format!("the judging call failed: {}", failure.message);
            return Err(failed(failure.category, what));
        }
        Err(_) => {
            let what = format!("model {model} took more than {MODEL_JUDGE_MS_MAX} ms to judge");
            return Err(failed(FailureCategory::Timeout, what));
        }
    };
    if let Some((holds, why)) = question.said(&answer) {
        let precision = node.contract.get(rule).and_then(|rule| rule.p);
        let (node, attempt, model) = (node.id.clone(), log.attempt(), model.to_owned());
        log.bill().judged(ResultJudged { node, attempt, rule: rule as u32, model, precision, holds, why });
    }
    question.verdict(model, &answer).map_err(invalid)
}

fn denied(rule: usize, tool: &str, denial: &Denial) -> Failure {
    let Failure { category, message } = refused(denial);
    Failure { category, message: format!("contract[{rule}]: {tool} may not judge the result: {message}") }
}

/// The log of a judging call: its tokens and turns are those of the attempt, and nothing else. The judge's words are no output of the node,
/// and its steps are no steps of the node.
struct BillOnly(Arc<AttemptJournal>);

impl AttemptLog for BillOnly {
    fn model_called(&self, number: u32, call: ModelCall) {
        self.0.model_called(number, call);
    }

    fn reserve_call<'a>(&'a self, call: PricedCall<'a>) -> BoxFuture<'a, Result<CallGrant, Failure>> {
        self.0.reserve_call(call)
    }

    fn settle_call(&self, reservation: u64, call: &ModelCall) {
        self.0.settle_call(reservation, call);
    }

    fn model_turn<'a>(&'a self, turn: ModelTurn<'a>) -> BoxFuture<'a, ()> {
        self.0.model_turn(turn)
    }

    fn model_turn_ended(&self, end: ModelTurnEnd<'_>) -> bool {
        self.0.model_turn_ended(end)
    }
}
