//! The work of an attempt, from permit to accepted output. Runs outside the actors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::contract::{BrokenRule, Judgement, Test};
use ostler_kernel::event::{Failure, Outcome, Output};
use ostler_kernel::gate::{CallClass, OnLostResult, Permit};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::plan::{Effect, Idempotency, Node, Rule, SUB_AGENT_TOOL};
use ostler_kernel::port::{CallContext, CallOrigin, JSON, MCP_PREFIX, NamedFile, Tool};
use ostler_kernel::run::FailureCategory;
use ostler_kernel::{callback, json, lineage, template};
use serde_json::{Map, Value, json};

use crate::attempts::attempt_journal::turn::CallTurn;
use crate::attempts::attempt_journal::{AttemptJournal, Closing, Late, Silent};
use crate::attempts::executor::Executor;
use crate::attempts::gated_call::{Recorder, refused};
use crate::attempts::model_judge;
use crate::base::attempt_end::{failed, structural};
use crate::base::limits::TEST_MS_MAX;
use crate::base::workspace_turns::Turn;
use crate::state::caller::Caller;
use crate::storage::results::invalid;

pub(crate) enum Work {
    Tool {
        tool: Arc<dyn Tool>,
        permit: Permit,
        /// Tokens of callback addresses among the parameters.
        tokens: Vec<String>,
        /// Recorded result of an equal read.
        recorded: Option<Arc<Value>>,
    },
    /// A result that is known without work.
    Known(Value),
    /// Renders a template over the results of dependencies.
    Render { template: String, values: Map<String, Value> },
}

impl Work {
    /// True if the work takes microseconds and never waits.
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            Work::Tool { tool, permit, .. } => tool.is_quick(permit.params()),
            Work::Known(_) => true,
            Work::Render { .. } => false,
        }
    }

    /// Gives the tool the recorded result of an equal read.
    pub(crate) fn offer(&mut self, offered: Option<Arc<Value>>) {
        if let Work::Tool { recorded, .. } = self {
            *recorded = offered;
        }
    }

    /// True if the work changes the world, according to the node or to the permit, which knows the parameters.
    pub(crate) fn acts(&self, node: &Node) -> bool {
        match self {
            Work::Tool { permit, .. } => node.reach().and(permit.class()).acts(),
            Work::Known(_) | Work::Render { .. } => node.acts(),
        }
    }

    /// True if the call runs a program, which reads what it finds in the workspace.
    pub(crate) fn runs_program(&self) -> bool {
        matches!(self, Work::Tool { tool, .. } if tool.confinement().is_some())
    }

    /// True if the call may write files of the workspace that its parameters do not show: a program, or a server with a program.
    pub(crate) fn writes_unseen(&self) -> bool {
        let is_server =
            |tool: &Arc<dyn Tool>| tool.spec().name.starts_with(MCP_PREFIX) && tool.workspace_use().writes;
        self.runs_program() || matches!(self, Work::Tool { tool, .. } if is_server(tool))
    }

    /// Class of the call by its tool alone, which decides about its cage. A tool without a network has no outer effect.
    pub(crate) fn class_by_tool(&self) -> CallClass {
        match self {
            Work::Tool { tool, permit, .. } => {
                let class = tool.class(permit.params());
                let effect = if tool.sends_out() { class.effect } else { class.effect.min(Effect::Write) };
                CallClass { effect, ..class }
            }
            Work::Known(_) | Work::Render { .. } => {
                CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural }
            }
        }
    }

    /// True if the call itself may change files of the workspace. A sub-agent changes none: the calls of its run do.
    pub(crate) fn writes_files(&self, node: &Node) -> bool {
        match self {
            Work::Tool { tool, .. } => {
                tool.workspace_use().writes && tool.spec().name != SUB_AGENT_TOOL && self.acts(node)
            }
            Work::Known(_) | Work::Render { .. } => false,
        }
    }
}

/// The turn with which an attempt begins.
pub(crate) struct BeginTurn {
    pub(crate) turn: Turn,
    /// The files that were approved with a turn alone; `None` for a turn that others share.
    pub(crate) approved: Option<ApprovedFiles>,
}

/// Files that were approved with a call.
pub(crate) struct ApprovedFiles {
    pub(crate) of_tests: Vec<NamedFile>,
    /// A test may do more than a program before it, which could change what the test runs.
    pub(crate) look_before_tests: bool,
}

/// The turn of an attempt, held in the attempt's journal.
struct Held<'a> {
    turn: CallTurn<'a>,
    approved: Option<ApprovedFiles>,
}

/// Does the work within the node's timeout, judges the result and stores it.
pub(crate) async fn perform(
    executor: &Executor,
    caller: &Caller,
    node: &Node,
    work: Box<Work>,
    log: Arc<AttemptJournal>,
    turn: Option<BeginTurn>,
) -> Outcome {
    let timeout_ms = u64::try_from(node.timeout).unwrap_or(1);
    let mut closing = Closing { log, done: false };
    let writes = work.writes_files(node);
    let held = turn.map(|BeginTurn { turn, approved }| Held {
        turn: closing.log.hold_turn(turn, writes, approved.is_some()),
        approved,
    });
    let acted = closing.log.within(timeout_ms, act(executor, caller, node, work, &closing.log, held));
    let acted = AssertUnwindSafe(acted).catch_unwind().await;
    if !matches!(acted, Ok(Ok(Ok(_)))) && Box::pin(closing.log.is_in_doubt()).await {
        // An ordinary retry would call the step again, and a patch would do so under another key: the doubt comes
        // first.
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
            // Outside of the timeout, because the work is done.
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
    mut held_turn: Option<Held<'_>>,
) -> Result<Value, Failure> {
    let value = match *work {
        Work::Tool { tool, permit, tokens, recorded } => {
            // The policy may have changed while the verdict was being recorded.
            if let Err(denial) = executor.gatekeeper.check_seal(&permit) {
                return Err(Box::pin(Recorder::of(log).unsealed(&permit, denial)).await);
            }
            let timeout_ms = u64::try_from(node.timeout).unwrap_or(1);
            let workspace = Arc::clone(&caller.workspace);
            let attempt = Arc::<AttemptJournal>::clone(log);
            let repeatable = node.reach().on_lost_result() != OnLostResult::InDoubt;
            let origin = CallOrigin {
                role: String::new(),
                node: Some(node.id.clone()),
                ordinal: log.attempt(),
                refusals: 0,
            };
            let turn = held_turn.as_ref().map(|_| log.workspace_turn());
            let called = tool.call(
                permit,
                CallContext { workspace, timeout_ms, repeatable, origin, attempt, recorded, turn },
            );
            let called = log.watch(called).await;
            // A turn alone lasts over the tests. One that others share ends before the attempt waits for a slot.
            held_turn = held_turn.filter(|held| held.approved.is_some());
            // The attempt may have returned its slot to wait.
            log.reclaim().await;
            without_tokens(called.unwrap_or_else(|silent| Err(silence(silent))), &tokens)?
        }
        Work::Known(value) => value,
        Work::Render { template, values } => {
            // Rendering may take seconds, so it stays off the driver's thread.
            let rendering = tokio::task::spawn_blocking(move || template::render(&template, &values));
            let text = rendering.await.map_err(|error| crash(format!("the rendering broke off: {error}")))?;
            json!({ "text": text.map_err(|error| structural(error.to_string()))? })
        }
    };
    if let Err(failure) = judge(executor, caller, node, &value, log, held_turn).await {
        // Without room for the output there is no candidate.
        if failure.category == FailureCategory::InvalidOutput
            && let Ok(output) = Box::pin(executor.results.keep(&value)).await
        {
            log.keep_refused(output);
        }
        return Err(failure);
    }
    Ok(value)
}

/// Judges the result of a node by its contract. Tests and questions to models pass the gate like any call; the run asks
/// people after the attempt.
async fn judge(
    executor: &Executor,
    caller: &Caller,
    node: &Node,
    value: &Value,
    log: &Arc<AttemptJournal>,
    held_turn: Option<Held<'_>>,
) -> Result<(), Failure> {
    let Judgement { tests, models, .. } = judge_here(executor, &node.contract, value)?;
    for test in &tests {
        // Boxed: otherwise these rare futures enlarge every attempt.
        let shared = match held_turn.as_ref().and_then(|held| held.approved.as_ref()) {
            Some(approved) => {
                Box::pin(check_test_files(executor, caller, &tests, log, approved)).await?;
                None
            }
            None => Some(Box::pin(log.begin_test_turn()).await),
        };
        Box::pin(run_test(caller, test, log)).await?;
        drop(shared);
    }
    drop(held_turn.map(|held| held.turn));
    // Last, because a model costs more than a broken test.
    for question in models {
        let asked = model_judge::ask(executor, caller, node, &question, value, log);
        Box::pin(log.lending(asked)).await?;
    }
    Ok(())
}

/// Looks at the files of tests once more if they may have changed since the approval: the call has waited for a child run, or a program
/// before a test may do less than the test, and could write what the test runs.
async fn check_test_files(
    executor: &Executor,
    caller: &Caller,
    tests: &[Test],
    log: &AttemptJournal,
    approved: &ApprovedFiles,
) -> Result<(), Failure> {
    let has_waited = log.hold_alone_again().await?;
    if !has_waited && !approved.look_before_tests {
        return Ok(());
    }
    let argv = tests.iter().map(|test| test.argv.as_slice());
    let now = executor.gatekeeper.files_of_tests(caller, argv).await;
    match NamedFile::first_changed(&approved.of_tests, &now) {
        None => Ok(()),
        Some(NamedFile { path, .. }) => Err(structural(format!(
            "its test was not run: {path} is not as it was when the call was approved; run the test as a node of its own"
        ))),
    }
}

/// Judges a value by the rules that need no call, and returns the others.
fn judge_here(executor: &Executor, rules: &[Rule], value: &Value) -> Result<Judgement, Failure> {
    let judgement = executor.gatekeeper.judge(rules, value).map_err(|error| structural(error.to_string()))?;
    if !judgement.holds() {
        let broken: Vec<String> = judgement.broken.iter().map(BrokenRule::to_string).collect();
        return Err(invalid(broken.join("; ")));
    }
    Ok(judgement)
}

async fn run_test(caller: &Caller, test: &Test, log: &Arc<AttemptJournal>) -> Result<(), Failure> {
    let key = lineage::hash("aos/test/1", &[test.argv.join("\0").as_bytes()]);
    let gated = Recorder::of(log).permit_test(test.params().into(), key).await;
    let (tool, permit) = gated.map_err(|denial| refused(&denial))?;
    let context = CallContext {
        turn: Some(log.workspace_turn()),
        ..CallContext::without_log(Arc::clone(&caller.workspace), TEST_MS_MAX)
    };
    // Dropping the call ends its program with all children.
    let ran = tokio::time::timeout(Duration::from_millis(TEST_MS_MAX), tool.call(permit, context)).await;
    let failed = match ran {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(failure)) => format!("failed: {}", failure.message),
        Err(_) => format!("was ended: a test may take {TEST_MS_MAX} ms"),
    };
    let rule = test.rule;
    Err(invalid(format!("contract[{rule}]: the test {} {failed}", test.argv.join(" "))))
}

/// Hides tokens that the receiver, or the error of a call, repeats: no record may hold one.
fn without_tokens(called: Result<Value, Failure>, tokens: &[String]) -> Result<Value, Failure> {
    if tokens.is_empty() {
        return called;
    }
    match called {
        Ok(mut value) => {
            callback::hide(&mut value, tokens);
            Ok(value)
        }
        Err(mut failure) => {
            callback::hide_in(&mut failure.message, tokens);
            Err(failure)
        }
    }
}

fn silence(Silent { ms }: Silent) -> Failure {
    let message = format!("no sign of life for {ms} ms, which is its heartbeat_timeout");
    Failure { category: FailureCategory::Timeout, message }
}

/// Judges the outputs by the plan's own contract; returns the violation. A valid plan has no tests and no questions at this
/// level.
pub(crate) async fn judge_plan(
    executor: &Executor,
    rules: &[Rule],
    outputs: Vec<(NodeId, Option<Output>)>,
) -> Result<(), String> {
    let there = outputs.iter().filter_map(|(node, output)| Some((node, output.as_ref()?)));
    let mut results = executor.results.together(there).await.map_err(|error| error.to_string())?;
    let value = |node: &NodeId| (node.to_string(), results.remove(node).unwrap_or_default());
    let values: Map<String, Value> = outputs.iter().map(|(node, _)| node).map(value).collect();
    let judged = judge_here(executor, rules, &Value::Object(values)).and_then(|judgement| {
        let Judgement { tests, models, people, .. } = judgement;
        let rules = tests.iter().map(|test| test.rule).chain(models.iter().map(|question| question.rule));
        match rules.chain(people).min() {
            None => Ok(()),
            Some(rule) => Err(structural(format!("contract[{rule}]: a plan runs no tests and asks nothing"))),
        }
    });
    judged.map_err(|failure| failure.message)
}

pub(crate) fn slept() -> Outcome {
    let empty = json::canonical(&json!({})).expect("an empty object is canonical");
    let artifact: Digest = lineage::artifact(JSON, empty.as_str().as_bytes());
    Outcome::Ok(Output { artifact, bytes: 2, inline: Some(empty), directive: None })
}

fn crash(message: String) -> Failure {
    Failure { category: FailureCategory::Crash, message }
}
