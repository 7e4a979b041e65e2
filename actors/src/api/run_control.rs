//! Control of runs: resume, suspend, cancel, change nodes, interject.

use std::time::Duration;

use ostler_kernel::agent::{LifecycleMessage, RunLifecycle};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Delta;
use ostler_kernel::policy::Decider;
use ostler_kernel::port::{BoxFuture, JournalError, RunRowStatus};
use ostler_kernel::run::{Canceller, Operation, Patch, UndoError};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::messages::agent::{PlannedChange, Request};
use crate::messages::answer::NOTE_BYTES_MAX;
use crate::messages::registry::RegistryMessage;
use crate::run::missing::missing;
use crate::run::suspended_runs;

/// Times a request is sent while its agent fails: more than an agent may fail.
const SENDS_MAX: usize = 10;

impl System {
    /// Resumes an inactive open run, also a suspended one; takes an incomplete suspension back.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] if the run is over, or is driven and waits for its turn or a person. [`RunError::Missing`] if
    /// the process lacks a model or a tool of the run.
    pub async fn resume(&self, run: RunId) -> Result<(), RunError> {
        if let RunRowStatus::Quarantined(why) = self.row(run)?.status {
            return Err(RunError::Quarantined(why));
        }
        self.finish_retractions().await?;
        let view = self.view(run, None).await?;
        self.lifecycle_by(&view).accepts(LifecycleMessage::ExecuteStep)?;
        self.check_has_all(&view)?;
        // Asked first: the run may settle before the request arrives.
        let comes_to_rest = self.services.active_runs.is_resting(run);
        self.or_refused(run, LifecycleMessage::ExecuteStep, self.take_up(run, true)).await?;
        if comes_to_rest {
            // The suspension is taken back.
            return self.go_on(run).await;
        }
        Ok(())
    }

    /// Takes back a suspension that is not complete, or has just completed.
    async fn go_on(&self, run: RunId) -> Result<(), RunError> {
        match self.until_answered(run, || Box::pin(self.tell(run, Request::GoOn))).await {
            Err(RunError::Over) => Ok(()),
            answer => answer,
        }
    }

    /// Resumes an open run that was not named; a run with too many crashes is suspended instead.
    ///
    /// # Errors
    ///
    /// [`RunError::Missing`]: the run is unchanged, and a process with its models and tools can resume the run.
    pub async fn resume_among_all(&self, run: RunId) -> Result<(), RunError> {
        self.finish_retractions().await?;
        if matches!(self.row(run)?.status, RunRowStatus::Open | RunRowStatus::Parked(_)) {
            self.check_has_all(&self.view(run, None).await?)?;
        }
        self.or_refused(run, LifecycleMessage::ExecuteStep, self.take_up(run, false)).await
    }

    /// Refuses to change a run that this process could not continue.
    ///
    /// # Errors
    ///
    /// [`RunError::Missing`]: the run is not driven, and the process lacks a model or a tool of the run, or its workspace is not there.
    pub(crate) fn check_has_all(&self, view: &RunView) -> Result<(), RunError> {
        let run = view.opened.run;
        if self.services.active_runs.has(run) {
            return Ok(());
        }
        match missing(&self.services.gatekeeper, &view.run, &view.opened.workspace) {
            Some(missing) => Err(RunError::Missing(missing)),
            None => Ok(()),
        }
    }

    pub(crate) fn take_up(&self, run: RunId, by_name: bool) -> Result<(), RunError> {
        let row = self.row(run)?;
        match row.status {
            RunRowStatus::Closed(_) => Err(RunError::Over),
            RunRowStatus::Quarantined(why) => Err(RunError::Quarantined(why)),
            RunRowStatus::Open | RunRowStatus::Parked(_) => {
                self.drive(row, by_name);
                Ok(())
            }
        }
    }

    /// Resumes every open run that is not suspended, and returns them, oldest first.
    pub async fn resume_all(&self) -> Result<Vec<RunId>, RunError> {
        self.finish_retractions().await?;
        let mut rows = self.services.journal.runs(true)?;
        rows.retain(|row| row.status == RunRowStatus::Open);
        rows.sort_by_key(|row| row.run);
        let runs = rows.iter().map(|row| row.run).collect();
        rows.into_iter().for_each(|row| self.drive(row, false));
        self.pursue_all();
        Ok(runs)
    }

    /// Cancels a run. An inactive run is closed without a start; attempts that act on the world finish. Durable on
    /// return; dropping the future still cancels the run and its child runs.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] if the run is over.
    pub async fn cancel(&self, run: RunId) -> Result<(), RunError> {
        self.cancel_by(run, Canceller::Operator).await
    }

    pub(crate) async fn cancel_by(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        // A task of its own: a caller that hangs up must not leave half a cancellation.
        let system = self.clone();
        let cancelled = tokio::spawn(async move { system.cancel_run(run, by).await });
        let cancelled = cancelled.await.unwrap_or(Err(RunError::Restarting));
        self.or_refused(run, LifecycleMessage::Cancel, cancelled).await
    }

    async fn cancel_run(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        self.cancel_alone(run, by).await?;
        let row = self.row(run)?;
        self.services.executor.cancel_opened(&row.client, row.run, Vec::new(), |_, _| true);
        Ok(())
    }

    async fn cancel_alone(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        if self.rests(run) && self.cancel_at_rest(run, by).await? {
            return Ok(());
        }
        self.until_answered(run, || Box::pin(self.cancel_present(run, by))).await
    }

    async fn cancel_present(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        match self.cancel_driven(run, by).await {
            // The run was suspended meanwhile with its quarantined agent; no driver will record its last attempts.
            Err(RunError::Over | RunError::Restarting) if !self.services.active_runs.has(run) => {
                self.services.attempts.cancel_runs(&[run]);
                if self.cancel_at_rest(run, by).await? { Ok(()) } else { Err(RunError::Over) }
            }
            answer => answer,
        }
    }

    /// Sends a request until the answer is final. A restart of the registry or of the agent loses the requests sent
    /// before, and an agent whose run comes to rest answers for the run it had.
    pub(crate) async fn until_answered<'a>(
        &'a self,
        run: RunId,
        send: impl Fn() -> BoxFuture<'a, Result<(), RunError>>,
    ) -> Result<(), RunError> {
        let mut last = RunError::Restarting;
        for _ in 0..SENDS_MAX {
            match send().await {
                Err(error) if self.may_pass(run, &error)? => last = error,
                answer => return answer,
            }
            tokio::task::yield_now().await;
        }
        Err(last)
    }

    /// True if sending the request again may help: an agent answers `Over` for a suspended run, and only the table of
    /// runs knows better.
    fn may_pass(&self, run: RunId, error: &RunError) -> Result<bool, RunError> {
        Ok(match error {
            // The append was rolled back by a full disk; requests of operators may use the reserve.
            RunError::Restarting | RunError::Journal(JournalError::Full(_)) => true,
            RunError::Over => !matches!(self.row(run)?.status, RunRowStatus::Closed(_)),
            _ => false,
        })
    }

    /// Suspends a run: nothing more starts, and after the last attempt the run rests until [`System::resume`]. Durable
    /// on return; dropping the future may or may not have taken effect.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] unless the run is running.
    pub async fn checkpoint(&self, run: RunId) -> Result<(), RunError> {
        let answer = self.until_answered(run, || {
            Box::pin(async move {
                // Asked every time: the run may end or be suspended meanwhile.
                self.lifecycle(run).await?.accepts(LifecycleMessage::Checkpoint)?;
                self.tell(run, Request::Checkpoint).await
            })
        });
        let answer = answer.await;
        self.or_refused(run, LifecycleMessage::Checkpoint, answer).await
    }

    async fn lifecycle(&self, run: RunId) -> Result<RunLifecycle, RunError> {
        let view = self.view(run, None).await?;
        Ok(self.lifecycle_by(&view))
    }

    pub(crate) fn lifecycle_by(&self, view: &RunView) -> RunLifecycle {
        view.lifecycle(self.services.active_runs.has(view.opened.run))
    }

    /// Turns a late refusal into the run's present state.
    pub(crate) async fn or_refused(
        &self,
        run: RunId,
        message: LifecycleMessage,
        came: Result<(), RunError>,
    ) -> Result<(), RunError> {
        let Err(RunError::Over) = came else { return came };
        let stands = self.lifecycle(run).await.ok();
        let refused = stands.and_then(|stands| stands.accepts(message).err());
        Err(refused.map_or(RunError::Over, RunError::InvalidState))
    }

    /// Cancels and closes an inactive run; `false` if nothing is left to cancel.
    async fn cancel_at_rest(&self, run: RunId, by: Canceller) -> Result<bool, RunError> {
        let Some(position) = suspended_runs::cancel(&self.services, &self.row(run)?, by)? else {
            return Ok(false);
        };
        self.services.journal.status.notify_changed();
        self.services.journal.durable(position).await?;
        Ok(true)
    }

    async fn cancel_driven(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        if !self.services.active_runs.has(run) {
            self.take_up(run, true)?;
        }
        let agent = self.row(run)?.agent;
        let closed = self.ask_registry(|reply| RegistryMessage::CancelQueued { agent, run, by, reply }).await;
        match closed.ok_or(RunError::Restarting)?? {
            Some(position) => Ok(self.services.journal.durable(position).await?),
            None => self.tell(run, Request::Operate(Operation::CancelPlan(by))).await,
        }
    }

    /// Cancels a node together with its dependants. An attempt that acts on the world finishes, and its result counts.
    /// Durable on return.
    ///
    /// # Errors
    ///
    /// The node is unknown or over; or [`RunError::InvalidState`]: the run is over, or suspended. Nothing has changed
    /// then.
    pub async fn cancel_node(&self, run: RunId, node: NodeId) -> Result<(), RunError> {
        self.operate(run, Operation::Cancel(node)).await
    }

    /// Skips a node as not needed; otherwise as [`System::cancel_node`].
    ///
    /// # Errors
    ///
    /// The errors of [`System::cancel_node`].
    pub async fn skip_node(&self, run: RunId, node: NodeId) -> Result<(), RunError> {
        self.operate(run, Operation::Skip(node)).await
    }

    /// Undoes the effects of a closed run: runs the `undo` call of each executed node with an `undo`, the newest effect first. The
    /// run is open until the last undo has ended, and closes again with its earlier outcome. `intent` is the most impact that the
    /// calls may have; `None` for the intent of the run. The start of the undo is durable on
    /// return.
    ///
    /// # Errors
    ///
    /// [`RunError::Undo`]: the run is still open, or nothing is left to undo. [`RunError::Intent`]: the policy allows nobody so much
    /// impact.
    pub async fn undo(&self, run: RunId, intent: Option<u8>) -> Result<(), RunError> {
        if let Some(intent) = intent {
            let admitted = self.services.gatekeeper.policy().admit(Some(intent));
            admitted.map_err(|denial| RunError::Intent(denial.operator))?;
        }
        let row = self.row(run)?;
        match row.status {
            RunRowStatus::Closed(_) => {}
            RunRowStatus::Open | RunRowStatus::Parked(_) => return Err(RunError::Undo(UndoError::Live)),
            RunRowStatus::Quarantined(why) => return Err(RunError::Quarantined(why)),
        }
        let position = suspended_runs::undo(&self.services, &row, intent)?;
        self.services.journal.durable(position).await?;
        self.take_up(run, true)
    }

    /// Holds a run and asks a person the question `text`: nothing more starts until the answer; running attempts
    /// finish. A yes continues the run; a no and silence after `wait` cancel the run. Returns the asking node. Durable
    /// on return; dropping the future may or may not have asked.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] if the run is over, suspended or being suspended; [`RunError::Said`] if the text is
    /// empty or longer than [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX) bytes; [`RunError::Change`] if the plan has its
    /// maximal number of versions or nodes.
    pub async fn interject(&self, run: RunId, text: &str, wait: Duration) -> Result<NodeId, RunError> {
        self.interject_by(run, text, wait, Decider::Model).await
    }

    /// Holds a run until `decider` has decided about `text`; otherwise as [`System::interject`].
    ///
    /// # Errors
    ///
    /// The errors of [`System::interject`]; [`RunError::Said`] also if the operator's answer has faults, or the run has no goal.
    pub async fn interject_by(
        &self,
        run: RunId,
        text: &str,
        wait: Duration,
        decider: Decider,
    ) -> Result<NodeId, RunError> {
        if text.trim().is_empty() {
            return Err(RunError::Said("an interjection says what a person is to decide about".to_owned()));
        }
        if text.len() > NOTE_BYTES_MAX {
            let told = format!("an interjection has at most {NOTE_BYTES_MAX} bytes, this has {}", text.len());
            return Err(RunError::Said(told));
        }
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let mut view = self.view(run, None).await?;
        loop {
            let comes_to_rest = self.services.active_runs.is_resting(run);
            self.lifecycle_by(&view).accepts_interjection(comes_to_rest)?;
            let (node, operation) = view.run.interjection(text, wait, &decider)?;
            let refused = match self.operate(run, operation).await {
                Ok(()) => return Ok(node),
                Err(error @ RunError::Change(_)) => error,
                Err(error) => return Err(error),
            };
            // Another interjection may have taken the name.
            view = self.view(run, None).await?;
            if view.run.node(&node).is_none() {
                return Err(refused);
            }
        }
    }

    /// Answers request `number` for a patch, to which the planner said [`PlannerAnswer::Later`]; `None` refuses. Durable on return;
    /// dropping the future may or may not have answered.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAsked`]: the run does not wait for the patch.
    ///
    /// [`PlannerAnswer::Later`]: ostler_kernel::run::PlannerAnswer::Later
    pub async fn answer_patch(
        &self,
        run: RunId,
        node: NodeId,
        number: u32,
        patch: Option<Patch>,
    ) -> Result<(), RunError> {
        self.planned(run, PlannedChange::Patch(node, number, patch.map(Box::new))).await
    }

    /// Answers replan request `number`, to which the planner said [`PlannerAnswer::Later`]; otherwise as
    /// [`System::answer_patch`]. An invalid delta is recorded as a refused replan.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAsked`]: the run does not wait for a replan.
    ///
    /// [`PlannerAnswer::Later`]: ostler_kernel::run::PlannerAnswer::Later
    pub async fn answer_replan(&self, run: RunId, number: u32, delta: Option<Delta>) -> Result<(), RunError> {
        self.planned(run, PlannedChange::Replan(number, delta.map(Box::new))).await
    }

    /// A run that is not driven waits for no planner: loading it counts an open request as refused.
    async fn planned(&self, run: RunId, change: PlannedChange) -> Result<(), RunError> {
        self.row(run)?;
        if !self.services.active_runs.has(run) {
            return Err(RunError::NotAsked);
        }
        self.tell(run, Request::Planned(change)).await
    }

    async fn operate(&self, run: RunId, operation: Operation) -> Result<(), RunError> {
        let operated = self.operated(run, operation).await;
        self.or_refused(run, LifecycleMessage::Cancel, operated).await
    }

    async fn operated(&self, run: RunId, operation: Operation) -> Result<(), RunError> {
        // A refused request must not start a run that rests.
        let view = self.view(run, None).await?;
        view.run.check_operation(&operation, &self.services.kernel.settings_of(&view.run))?;
        self.lifecycle_by(&view).accepts_operation()?;
        self.check_has_all(&view)?;
        if self.rests(run) {
            // Recorded before the run is loaded, which would start the node otherwise.
            let position = suspended_runs::operate(&self.services, &self.row(run)?, &operation)?;
            self.services.journal.durable(position).await?;
            return self.take_up(run, true);
        }
        self.until_answered(run, || {
            let operation = operation.clone();
            Box::pin(async move {
                // Asked every time: the run may end or be suspended meanwhile.
                self.lifecycle(run).await?.accepts_operation()?;
                self.tell(run, Request::Operate(operation)).await
            })
        })
        .await
    }

    /// True if no driver has the run and none of its attempts runs in the process.
    pub(crate) fn rests(&self, run: RunId) -> bool {
        !self.services.active_runs.has(run) && !self.services.attempts.knows_run(run)
    }

    /// Sends a request to the driver of a run, which is started if necessary.
    pub(crate) async fn tell(&self, run: RunId, request: Request) -> Result<(), RunError> {
        if !self.services.active_runs.has(run) {
            self.take_up(run, true)?;
        }
        let agent = self.row(run)?.agent;
        let asked = self.ask_registry(|reply| RegistryMessage::Ask { agent, run, request, reply }).await;
        asked.ok_or(RunError::Restarting)?
    }
}
