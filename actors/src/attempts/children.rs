//! Child runs: idempotent by their step, limited to their parent's authority and budget, and cancelled with the node
//! that opened them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ostler_kernel::event::{CallTerms, Event, Exposure, Parent};
use ostler_kernel::gate::intersect_scopes;
use ostler_kernel::id::{ClientId, NodeId, RunId};
use ostler_kernel::ledger::CallLimits;
use ostler_kernel::lineage;
use ostler_kernel::plan::Plan;
use ostler_kernel::policy::GoalTerms;
use ostler_kernel::port::{
    AttemptLogError, ChildRunResult, ChildRunSpec, JournalError, RunRowStatus, StreamId,
};
use ostler_kernel::run::{AbandonedWork, OpeningTerms, Run, RunOutcome};

use crate::attempts::attempt_journal::AttemptJournal;
use crate::attempts::child_runs::{ChildEnd, ChildOutputs, ChildRuns};
use crate::attempts::executor::Executor;
use crate::base::error::RunError;
use crate::base::limits::CHILD_RUN_DEPTH_MAX;
use crate::messages::submission::Submission;
use crate::state::active_runs::{ActiveRuns, GIVEN_UP};
use crate::storage::run_reader::{self, RunReader};

/// Child runs that are cancelled at the same time.
const CANCELLED_AT_ONCE: usize = 16;

/// Credits reserved for a child run; returned on drop unless the reservation is recorded.
struct Given<'a> {
    log: &'a AttemptJournal,
    step: &'a str,
    credits: u64,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if !self.log.ask(|notes| notes.child(self.step).is_some()).unwrap_or(true) {
            self.log
                .executor
                .run_budgets
                .with(self.log.site.run, |run_budget| run_budget.refund_child(self.credits));
        }
    }
}

/// A [`ChildRunSpec`] with a valid plan.
struct Asked {
    plan: Plan,
    goal: Option<Box<GoalTerms>>,
    budget: Option<u64>,
    scope: Option<String>,
    intent: Option<u8>,
}

impl AttemptJournal {
    /// See [`ostler_kernel::port::AttemptLog::spawn`].
    pub(crate) async fn open_child(
        &self,
        step: &str,
        child: ChildRunSpec,
    ) -> Result<ChildRunResult, AttemptLogError> {
        let executor = &self.executor;
        let failed = |why: String| AttemptLogError::ChildRun { step: step.to_owned(), why };
        let opener = executor.children.get();
        let opener = opener.ok_or_else(|| failed("the system is being shut down".to_owned()))?;
        if executor.active_runs.is_given_up(self.site.run) {
            return Err(failed(GIVEN_UP.to_owned()));
        }
        self.check_denials(&failed)?;
        let waits = executor.children.enter();
        let _waits =
            waits.map_err(|waiting| AttemptLogError::TooManyWaiting { step: step.to_owned(), waiting })?;
        let ChildRunSpec { plan, goal, budget, scope, intent } = child;
        let plan = opener.validate(plan).await.map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            failed(format!("its plan is none: {}", faults.join("; ")))
        })?;
        let asked = Asked { plan, goal, budget, scope, intent };
        // A run that was opened before is found, whatever is open now.
        let is_new = self.ask(|notes| notes.child(step).is_none())?;
        let most = if is_new { executor.gatekeeper.limits.child_runs_open } else { usize::MAX };
        let place = executor.gatekeeper.totals.place(self.child_id(step), self.site.run, most);
        let place = place.map_err(|error| failed(error.to_string()))?;
        let _place = place.ok_or_else(|| AttemptLogError::TooManyOpen { step: step.to_owned(), most })?;
        let (run, submission, budget) = self.order(step, asked, &failed)?;
        if is_new {
            let (of, name) = (self.site.of.clone(), step.to_owned());
            let _given = Given { log: self, step, credits: budget.unwrap_or(0) };
            self.append_durably(Event::ChildRun { of, step: name, run, budget }).await?;
        }
        executor.gatekeeper.totals.add_child(run, self.site.run);
        let parent = Parent { run: self.site.run, of: self.site.of.clone(), step: step.to_owned() };
        opener.open(submission, parent.clone()).await.map_err(failed)?;
        let (only_waits, turn) = (self.waits_for_run(step), self.begin_child_wait());
        let ended = self.wait_for(&*opener, run, &parent).await;
        drop(only_waits);
        self.reclaim().await;
        self.end_child_wait(turn).await;
        let outcome = ended.map_err(|why| failed(format!("run {run}: {why}")))?;
        let unread = |error: RunError| failed(format!("run {run}: {error}"));
        let ChildOutputs { outputs, labels } = opener.outputs(run).await.map_err(unread)?;
        let all = outputs.iter().map(|(id, output)| (id, output));
        let results = self.executor.results.together(all).await;
        let results = results.map_err(|error| failed(format!("run {run}: {error}")))?;
        let outputs = results.into_iter().map(|(id, result)| (id.to_string(), result)).collect();
        Ok(ChildRunResult { run, outcome, outputs, labels })
    }

    /// Refuses a child run of a run that the gate has denied too many calls.
    fn check_denials(&self, failed: &dyn Fn(String) -> AttemptLogError) -> Result<(), AttemptLogError> {
        let gatekeeper = &self.executor.gatekeeper;
        let Some(most) = gatekeeper.policy().deny_budget else { return Ok(()) };
        let totals = gatekeeper.totals.of(self.site.run, None).map_err(|error| failed(error.to_string()))?;
        let denied = totals.with(|totals| totals.denied());
        if denied >= most {
            let what = format!("{denied} calls of the run, and of the runs around it, were denied");
            return Err(failed(what));
        }
        Ok(())
    }

    /// The submission of a child run, limited by the run of the attempt.
    fn order(
        &self,
        step: &str,
        asked: Asked,
        failed: &dyn Fn(String) -> AttemptLogError,
    ) -> Result<(RunId, Submission, Option<u64>), AttemptLogError> {
        let executor = &self.executor;
        let row = executor.journal.run(self.site.run)?;
        let row = row.ok_or_else(|| failed("its own run is not known".to_owned()))?;
        let folded = executor.runs.fold(&row, None, |_| {}).map_err(|error| failed(error.to_string()))?;
        let opened = folded.opened;
        let Asked { mut plan, goal, budget, scope, intent } = asked;
        let above: Vec<RunId> =
            run_reader::ancestors(&**executor.journal, self.site.run).collect::<Result<_, _>>()?;
        if above.len() >= CHILD_RUN_DEPTH_MAX as usize {
            return Err(failed(format!("runs open runs {CHILD_RUN_DEPTH_MAX} deep at most")));
        }
        plan.policy.inherit(&folded.run.plan().policy);
        let run = self.child_id(step);
        let mut exposure = self.exposure(&folded.run);
        // Later reads are looked for before each call about which they decide.
        let parent = Parent { run: self.site.run, of: self.site.of.clone(), step: step.to_owned() };
        exposure.extend(&executor.gatekeeper.exposure_beside(&parent, run));
        let budget = match self.ask(|notes| notes.child(step).cloned())? {
            Some(spawned) => spawned.budget,
            // Everything that may fail has passed: the reservation holds from here on.
            None => {
                match executor.run_budgets.with(self.site.run, |run_budget| run_budget.fund_child(budget)) {
                    Some(Ok(given)) => Some(given),
                    Some(Err(left)) => {
                        let (step, asked) = (step.to_owned(), budget.unwrap_or(1));
                        return Err(AttemptLogError::Budget { step, asked, left });
                    }
                    None => budget,
                }
            }
        };
        let submission = Submission {
            client: opened.client.clone(),
            // A child has at most the impact of its attempt.
            intent: intent.unwrap_or(2).min(opened.intent).min(self.site.impact),
            scope: intersect_scopes(&opened.scope, scope.as_deref()),
            workspace: opened.workspace.clone().into(),
            run: Some(run),
            terms: OpeningTerms {
                budget,
                calls: self.calls_of_child(folded.run.call_terms()),
                exposure,
                ..OpeningTerms::default()
            },
            goal: goal.map(Arc::from),
            ..Submission::plan(plan)
        };
        Ok((run, submission, budget))
    }

    /// The labelled data and the texts of strangers that this run has read, for a child run.
    fn exposure(&self, run: &Run) -> Exposure {
        run.node(&self.site.of.node)
            .map_or_else(Exposure::default, |node| self.executor.gatekeeper.exposure(run, node))
    }

    /// A child run shares the account of its parent, and asks people if its parent does.
    fn calls_of_child(&self, terms: Option<&CallTerms>) -> Option<CallTerms> {
        let (account, asks) = (self.site.payer.account, terms.is_none_or(|terms| terms.asks));
        (account.is_some() || !asks).then_some(CallTerms { account, limits: CallLimits::default(), asks })
    }

    /// The run id of a step, the same for every attempt.
    fn child_id(&self, step: &str) -> RunId {
        let of = &self.site.of;
        let (generation, patch_count) = (of.generation.to_le_bytes(), of.patch_count.to_le_bytes());
        let parts = [
            self.site.run.0.as_bytes(),
            of.node.as_str().as_bytes(),
            &generation,
            &patch_count,
            step.as_bytes(),
        ];
        RunId::hashed(lineage::hash("aos/child/1", &parts))
    }

    /// The run of the attempt waits for a person, if nothing else of it goes on.
    fn note_suspended(&self, run: RunId, by: &Parent) {
        self.executor.active_runs.note_suspended(run, by);
        self.executor.attempts.look_again(by.run, &by.of.node);
    }

    /// Waits for the end of a run. Never completes during a shutdown: the attempt ends with its process.
    async fn wait_for(&self, opener: &dyn ChildRuns, run: RunId, by: &Parent) -> Result<RunOutcome, String> {
        let _waits = WaitsForSuspended { active_runs: &self.executor.active_runs, run };
        tokio::select! {
            ended = self.wait_for_end(opener, run, by) => ended,
            never = self.ends_with_process() => match never {},
        }
    }

    /// Waits for the end of a run, through suspensions; the wait is a sign of life.
    async fn wait_for_end(
        &self,
        opener: &dyn ChildRuns,
        run: RunId,
        by: &Parent,
    ) -> Result<RunOutcome, String> {
        let patience = self.site.heartbeat_ms.map(|ms| Duration::from_millis(ms / 2 + 1));
        let mut followed = opener.follow(run).map_err(|error| error.to_string())?;
        let (status, disk) = (&self.executor.journal.status, &self.executor.journal.disk);
        loop {
            let (mut changes, mut full) = (status.watch_changes(), disk.watch());
            // The child run waits for disk space, which does not count as time of the attempt.
            let _waits = disk.is_full().then(|| self.waited.begin());
            let settled = async {
                match followed.ended().await {
                    Ok(ChildEnd::Closed(outcome)) => return Some(Ok(outcome)),
                    Ok(ChildEnd::Suspended) => self.note_suspended(run, by),
                    Ok(ChildEnd::Waits) => {}
                    Err(why) => return Some(Err(why)),
                }
                let _ = changes.changed().await;
                None
            };
            let settled = async {
                tokio::select! {
                    settled = settled => settled,
                    _ = full.changed() => None,
                }
            };
            let settled = match patience {
                Some(patience) => tokio::time::timeout(patience, settled).await.unwrap_or(None),
                None => settled.await,
            };
            self.sign();
            if let Some(settled) = settled {
                return settled;
            }
        }
    }
}

/// An attempt that may come to wait for a suspended run, until dropped.
struct WaitsForSuspended<'a> {
    active_runs: &'a ActiveRuns,
    run: RunId,
}

impl Drop for WaitsForSuspended<'_> {
    fn drop(&mut self) {
        self.active_runs.forget_suspended(self.run);
    }
}

/// True if the parent no longer wants the run, or a run above no longer wants the parent.
pub(crate) fn is_unwanted(
    runs: &RunReader,
    active_runs: &ActiveRuns,
    parent: &Parent,
) -> Result<bool, JournalError> {
    let mut parent = parent.clone();
    loop {
        let (is_unwanted, above) = judge_parent(runs, &parent)?;
        match above {
            // A parent that the process has read gives its child runs up itself.
            Some(above) if !is_unwanted && !active_runs.is_loaded(parent.run) => parent = above,
            _ => return Ok(is_unwanted),
        }
    }
}

/// Whether the parent no longer wants the run: its node has ended, is draining, or was patched; and the parent's parent.
fn judge_parent(runs: &RunReader, parent: &Parent) -> Result<(bool, Option<Parent>), JournalError> {
    let Some(row) = runs.journal.run(parent.run)? else { return Ok((true, None)) };
    match row.status {
        RunRowStatus::Closed(_) => return Ok((true, None)),
        RunRowStatus::Quarantined(_) => return Ok((false, None)),
        RunRowStatus::Open | RunRowStatus::Parked(_) => {}
    }
    // An unreadable parent decides nothing.
    let Ok(folded) = runs.fold(&row, None, |_| {}) else { return Ok((false, None)) };
    let instance = folded.run.instance(&parent.of.node);
    let is_unwanted = instance.is_none_or(|instance| {
        instance.state().is_terminal()
            || instance.is_draining()
            || instance.patch_count != parent.of.patch_count
    });
    Ok((is_unwanted, folded.run.terms().parent.clone()))
}

/// Calls of models that a run and all runs below it made, by their records. A run that cannot be read adds nothing.
pub(crate) fn calls_made(runs: &RunReader, id: RunId, run: &Run) -> u64 {
    let mut calls = u64::from(run.model_usage().calls);
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        for child in run_reader::opened_by(runs, id).unwrap_or_default() {
            let row = runs.journal.run(child).ok().flatten();
            let Some(folded) = row.and_then(|row| runs.fold(&row, None, |_| {}).ok()) else { continue };
            calls += u64::from(folded.run.model_usage().calls);
            open.push(child);
        }
    }
    calls
}

impl Executor {
    /// Cancels the open child runs of abandoned attempts, in the background. A later attempt to open one reads the
    /// record and is refused. What acts below attempts that have ended is stopped, like a program of theirs.
    pub(crate) fn cancel_children(
        self: &Arc<Executor>,
        client: &ClientId,
        run: RunId,
        work: Vec<AbandonedWork>,
    ) {
        if !work.is_empty() {
            let has_ended = |it: &&AbandonedWork| it.has_ended();
            let stopped = self.active_runs.below(run, |node, patch_count| {
                work.iter().filter(has_ended).any(|it| it.covers(node, patch_count))
            });
            self.cancel_opened(client, run, stopped, move |node, patch_count| {
                work.iter().any(|it| it.covers(node, patch_count))
            });
        }
    }

    /// Cancels the child runs of nodes that `is_unwanted` selects. Attempts that act end by themselves, but for those of `stopped` runs.
    pub(crate) fn cancel_opened(
        self: &Arc<Executor>,
        client: &ClientId,
        run: RunId,
        stopped: Vec<RunId>,
        is_unwanted: impl Fn(&NodeId, u32) -> bool + Send + 'static,
    ) {
        // All of them at once, before anybody is answered: level by level, new runs would be opened ahead of the cancellation.
        let below = self.active_runs.give_up(run, &is_unwanted);
        self.attempts.cancel_runs(&below);
        let executor = Arc::clone(self);
        let stream = StreamId::attempts(client, run);
        // The log may not be read yet after a restart, and the run may be driven again soon.
        let notes =
            if self.active_runs.has(run) { self.step_logs.of(stream) } else { self.step_logs.peek(stream) };
        tokio::spawn(async move {
            let Some(opener) = executor.children.get() else { return };
            let mut children = notes.children(is_unwanted).unwrap_or_else(|error| {
                tracing::warn!(%error, %run, "what a run opened cannot be read, and is not cancelled");
                Vec::new()
            });
            // The other runs are cancelled by the call that gave them up.
            children.retain(|child| !executor.active_runs.is_given_up(*child));
            children.extend(below.iter().chain(&stopped));
            children.sort_unstable();
            children.dedup();
            let cancelled = futures::stream::iter(children).for_each_concurrent(CANCELLED_AT_ONCE, |child| {
                let (opener, attempts) = (Arc::clone(&opener), &executor.attempts);
                let is_stopped = stopped.contains(&child);
                async move {
                    let is_cancelled = match opener.cancel(child).await {
                        Ok(()) | Err(RunError::Over | RunError::InvalidState(_) | RunError::Unknown(_)) => true,
                        Err(error) => {
                            tracing::warn!(%error, run = %child, "a run that is not wanted goes on: cancel it with `ostler cancel`");
                            false
                        }
                    };
                    // A run that goes on would ask a person about a stopped attempt, or repeat it.
                    if is_cancelled && is_stopped {
                        attempts.stop_run(child);
                    }
                }
            });
            cancelled.await;
        });
    }
}
