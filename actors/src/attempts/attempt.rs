//! What an attempt does, from its permit to an output that passed its contract. Runs outside the actors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::contract::{BrokenRule, Test};
use ostler_kernel::event::{Failure, Outcome, Output};
use ostler_kernel::gate::Permit;
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::plan::{Node, Rule, TEST_TOOL};
use ostler_kernel::port::{CallContext, JSON, Tool};
use ostler_kernel::run::FailureCategory;
use ostler_kernel::{json, lineage, template};
use serde_json::{Map, Value, json};

use crate::attempts::attempt_journal::{AttemptJournal, Closing, Late, Silent};
use crate::attempts::executor::Executor;
use crate::base::attempt_end::failed;
use crate::base::limits::TEST_MS_MAX;
use crate::state::caller::Caller;
use crate::storage::results::invalid;

/// What an attempt does.
pub(crate) enum Work {
    /// Calls a tool.
    Tool { tool: Arc<dyn Tool>, permit: Permit },
    /// Renders a template over what became of other nodes.
    Render { template: String, values: Map<String, Value> },
}

impl Work {
    /// Whether it takes microseconds, and waits for nothing.
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            Work::Tool { tool, permit } => tool.is_quick(permit.params()),
            Work::Render { .. } => false,
        }
    }

    /// Whether it does something to the world as work of `node`: by the word of its permit as well, which knows what
    /// it was given.
    pub(crate) fn acts(&self, node: &Node) -> bool {
        match self {
            Work::Tool { permit, .. } => node.reach().and(permit.class()).acts(),
            Work::Render { .. } => node.acts(),
        }
    }
}

/// Does the work within the node's timeout, judges it, and keeps what it gave.
pub(crate) async fn perform(
    executor: &Executor,
    caller: &Caller,
    node: &Node,
    work: Box<Work>,
    log: Arc<AttemptJournal>,
) -> Outcome {
    let timeout_ms = u64::try_from(node.timeout).unwrap_or(1);
    let mut closing = Closing { log, done: false };
    let acted = closing.log.within(timeout_ms, act(executor, caller, node, work, &closing.log));
    let acted = AssertUnwindSafe(acted).catch_unwind().await;
    if !matches!(acted, Ok(Ok(Ok(_)))) && Box::pin(closing.log.is_in_doubt()).await {
        // Whatever ended it, an ordinary retry would call the step again, and a patch would under another key.
        let told = match acted {
            Ok(Ok(Err(failure))) if failure.category == FailureCategory::InDoubt => Some(failure.message),
            _ => None,
        };
        let lost = || "a step may have been done, and its result is lost".to_owned();
        return failed(FailureCategory::InDoubt, told.unwrap_or_else(lost));
    }
    let acted = acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    match acted {
        Ok(Ok(value)) => {
            // Beside the timeout: it is done by now.
            let (most, waited) = (executor.results.bytes_max, &closing.log.waited);
            let kept = executor.results.keep_done(&value, most, waited).await;
            closing.done = kept.is_ok();
            kept.map_or_else(Outcome::Failed, Outcome::Ok)
        }
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(late) => late.into(),
    }
}

impl From<Late> for Outcome {
    fn from(Late { ms, spent }: Late) -> Outcome {
        let message = match spent {
            true => format!("not done within the {ms} credits that were left of the budget of its run"),
            false => format!("not done within {ms} ms"),
        };
        failed(FailureCategory::Timeout, message)
    }
}

async fn act(
    executor: &Executor,
    caller: &Caller,
    node: &Node,
    work: Box<Work>,
    log: &Arc<AttemptJournal>,
) -> Result<Value, Failure> {
    let value = match *work {
        Work::Tool { tool, permit } => {
            let timeout_ms = u64::try_from(node.timeout).unwrap_or(1);
            let workspace = Arc::clone(&caller.workspace);
            let attempt = Arc::<AttemptJournal>::clone(log);
            let called = tool.call(permit, CallContext { workspace, timeout_ms, attempt });
            let called = log.watch(called).await;
            // It may have given up waiting.
            log.reclaim().await;
            called.unwrap_or_else(|silent| Err(silence(silent)))?
        }
        Work::Render { template, values } => {
            // It may take seconds: not on the thread of whoever drives the run.
            let rendering = tokio::task::spawn_blocking(move || template::render(&template, &values));
            let text = rendering.await.map_err(|error| crash(format!("the rendering broke off: {error}")))?;
            json!({ "text": text.map_err(|error| structural(error.to_string()))? })
        }
    };
    judge(executor, caller, &node.contract, &value).await?;
    Ok(value)
}

/// Holds a value against a contract; tests are run, through the gate like any call.
async fn judge(executor: &Executor, caller: &Caller, rules: &[Rule], value: &Value) -> Result<(), Failure> {
    for test in judge_here(executor, rules, value)? {
        // Boxed, as all that is seldom awaited: what stands here is part of every attempt.
        Box::pin(run_test(executor, caller, &test)).await?;
    }
    Ok(())
}

/// Holds a value against what a contract says of it, and gives the tests that remain to be run.
fn judge_here(executor: &Executor, rules: &[Rule], value: &Value) -> Result<Vec<Test>, Failure> {
    let contract = executor.gatekeeper.contract(rules).map_err(|error| structural(error.to_string()))?;
    let judgement = contract.judge(value);
    if !judgement.holds() {
        let broken: Vec<String> = judgement.broken.iter().map(BrokenRule::to_string).collect();
        return Err(invalid(broken.join("; ")));
    }
    if let Some((rule, method)) = judgement.external.first() {
        return Err(structural(
            format!("contract[{rule}]: nothing here judges by {method:?}").to_lowercase(),
        ));
    }
    Ok(judgement.tests)
}

async fn run_test(executor: &Executor, caller: &Caller, test: &Test) -> Result<(), Failure> {
    let key = lineage::hash("aos/test/1", &[test.argv.join("\0").as_bytes()]);
    let gated = executor.gatekeeper.gate(caller, TEST_TOOL, test.params().into(), 0, key);
    let (tool, permit) = gated.map_err(|denial| Failure {
        category: FailureCategory::GateDenied,
        message: denial.for_model().to_owned(),
    })?;
    let context = CallContext::without_log(Arc::clone(&caller.workspace), TEST_MS_MAX);
    // Dropping the call ends its program with all that came of it.
    let ran = tokio::time::timeout(Duration::from_millis(TEST_MS_MAX), tool.call(permit, context)).await;
    let failed = match ran {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(failure)) => format!("failed: {}", failure.message),
        Err(_) => format!("was ended: a test may take {TEST_MS_MAX} ms"),
    };
    let rule = test.rule;
    Err(invalid(format!("contract[{rule}]: the test {} {failed}", test.argv.join(" "))))
}

fn silence(Silent { ms }: Silent) -> Failure {
    let message = format!("no sign of life for {ms} ms, which is its heartbeat_timeout");
    Failure { category: FailureCategory::Timeout, message }
}

/// Holds the map of the outputs against the plan's own contract; why that does not hold. Nothing is run for it: no plan with a
/// test there is valid.
pub(crate) async fn judge_plan(
    executor: &Executor,
    rules: &[Rule],
    outputs: Vec<(NodeId, Option<Output>)>,
) -> Result<(), String> {
    let mut values = Map::new();
    for (node, output) in outputs {
        let value = match &output {
            Some(output) => executor.results.load(output).await.unwrap_or(Value::Null),
            None => Value::Null,
        };
        values.insert(node.to_string(), value);
    }
    let judged = judge_here(executor, rules, &Value::Object(values)).and_then(|tests| match tests.first() {
        None => Ok(()),
        Some(Test { rule, .. }) => Err(structural(format!("contract[{rule}]: a plan runs no tests"))),
    });
    judged.map_err(|failure| failure.message)
}

/// The outcome of a wait that is over.
pub(crate) fn slept() -> Outcome {
    let empty = json::canonical(&json!({})).expect("an empty object is canonical");
    let artifact: Digest = lineage::artifact(JSON, empty.as_str().as_bytes());
    Outcome::Ok(Output { artifact, bytes: 2, inline: Some(empty), directive: None })
}

fn crash(message: String) -> Failure {
    Failure { category: FailureCategory::Crash, message }
}

fn structural(message: String) -> Failure {
    Failure { category: FailureCategory::Structural, message }
}
