//! Changing runs: taking them up, and cancelling them.

use std::time::Duration;

use ostler_kernel::agent::{LifecycleMessage, RunLifecycle};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{JournalError, RunRowStatus};
use ostler_kernel::run::{Canceller, Operation};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::messages::agent::Request;
use crate::messages::answer::NOTE_BYTES_MAX;
use crate::messages::registry::RegistryMessage;
use crate::run::suspended_runs;

/// Times that something is tried on a run whose agent fails meanwhile: more than it may fail.
const TRIES_MAX: usize = 10;

impl System {
    /// Takes up an open run that nobody drives; one that was set aside, too. One that its agent works on goes on, should it be about
    /// to rest.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] for one that is over, and for one that this process drives and that waits for its turn or for a
    /// person.
    pub async fn resume(&self, run: RunId) -> Result<(), RunError> {
        if let RunRowStatus::Quarantined(why) = self.row(run)?.status {
            return Err(RunError::Quarantined(why));
        }
        self.lifecycle(run).await?.accepts(LifecycleMessage::ExecuteStep)?;
        // Asked first: it may have come to rest, and be let go, before it is known to go on.
        let comes_to_rest = self.services.active_runs.is_resting(run);
        self.or_refused(run, LifecycleMessage::ExecuteStep, self.take_up(run, true)).await?;
        if comes_to_rest {
            // It goes on instead.
            return self.go_on(run).await;
        }
        Ok(())
    }

    /// Lets a run go on that is to come to rest, or has this moment.
    async fn go_on(&self, run: RunId) -> Result<(), RunError> {
        for _ in 0..TRIES_MAX {
            match self.tell(run, Request::GoOn).await {
                Err(error) if self.may_pass(run, &error)? => tokio::task::yield_now().await,
                Err(RunError::Over) => return Ok(()),
                answer => return answer,
            }
        }
        Ok(())
    }

    /// Takes up an open run that nobody named, if nobody drives it: it is set aside if it ended its process again and again.
    pub async fn resume_among_all(&self, run: RunId) -> Result<(), RunError> {
        self.or_refused(run, LifecycleMessage::ExecuteStep, self.take_up(run, false)).await
    }

    fn take_up(&self, run: RunId, by_name: bool) -> Result<(), RunError> {
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

    /// Takes up every open run that was not set aside, and gives them, oldest first.
    pub async fn resume_all(&self) -> Result<Vec<RunId>, RunError> {
        let mut rows = self.services.journal.runs(true)?;
        rows.retain(|row| row.status == RunRowStatus::Open);
        rows.sort_by_key(|row| row.run);
        let runs = rows.iter().map(|row| row.run).collect();
        rows.into_iter().for_each(|row| self.drive(row, false));
        self.pursue_all();
        Ok(runs)
    }

    /// Cancels a run. One that nobody drives is closed where it rests, and nothing of it is started. What acts on the world
    /// right now goes on to its end. Durable when it returns; dropping the future still cancels it, and the runs that it opened.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] for one that is over.
    pub async fn cancel(&self, run: RunId) -> Result<(), RunError> {
        self.cancel_by(run, Canceller::Operator).await
    }

    /// The same, whoever has it cancelled.
    pub(crate) async fn cancel_by(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        // Its own task: whoever hangs up before the answer must not leave half of it.
        let system = self.clone();
        let cancelled = tokio::spawn(async move { system.cancel_run(run, by).await });
        let cancelled = cancelled.await.unwrap_or(Err(RunError::Restarting));
        self.or_refused(run, LifecycleMessage::Cancel, cancelled).await
    }

    async fn cancel_run(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        self.cancel_alone(run, by).await?;
        let row = self.row(run)?;
        self.services.executor.cancel_opened(&row.client, row.run, |_, _| true);
        Ok(())
    }

    async fn cancel_alone(&self, run: RunId, by: Canceller) -> Result<(), RunError> {
        if self.rests(run) && self.cancel_at_rest(run, by).await? {
            return Ok(());
        }
        let mut told = RunError::Restarting;
        for _ in 0..TRIES_MAX {
            match self.cancel_driven(run, by).await {
                // It was set aside meanwhile, as the runs of an agent are that is out of service: nobody takes it up to
                // learn what its last attempts come to.
                Err(RunError::Over | RunError::Restarting) if !self.services.active_runs.has(run) => {
                    self.services.attempts.cancel_run(run);
                    return if self.cancel_at_rest(run, by).await? { Ok(()) } else { Err(RunError::Over) };
                }
                // It comes to rest this very moment, or its agent fails again and again: in the end it is set aside.
                Err(error) if self.may_pass(run, &error)? => {
                    told = error;
                    tokio::task::yield_now().await;
                }
                answer => return answer,
            }
        }
        Err(told)
    }

    /// Whether somebody who is told this may be told otherwise when they ask again: an agent that sets a run aside says that it is
    /// over, and only the table of runs knows.
    fn may_pass(&self, run: RunId, error: &RunError) -> Result<bool, RunError> {
        Ok(match error {
            // What was ordered when the disk turned out to be full is undone; what an operator wants has room then.
            RunError::Restarting | RunError::Journal(JournalError::Full(_)) => true,
            RunError::Over => !matches!(self.row(run)?.status, RunRowStatus::Closed(_)),
            _ => false,
        })
    }

    /// Lets a run come to rest: nothing more of it starts, and when what is under way has ended, it is set aside until
    /// [`System::resume`] takes it up where it was. Durable when it returns; dropping the future may or may not have set it aside.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] unless its agent works on it.
    pub async fn checkpoint(&self, run: RunId) -> Result<(), RunError> {
        for _ in 0..TRIES_MAX {
            self.lifecycle(run).await?.accepts(LifecycleMessage::Checkpoint)?;
            match self.tell(run, Request::Checkpoint).await {
                // Its agent failed, or it came to its end meanwhile.
                Err(RunError::Restarting | RunError::Over) => tokio::task::yield_now().await,
                answer => return answer,
            }
        }
        Err(RunError::Restarting)
    }

    /// The requests that the run accepts now.
    async fn lifecycle(&self, run: RunId) -> Result<RunLifecycle, RunError> {
        let view = self.view(run, None).await?;
        Ok(self.lifecycle_by(&view))
    }

    pub(crate) fn lifecycle_by(&self, view: &RunView) -> RunLifecycle {
        view.lifecycle(self.services.active_runs.has(view.opened.run))
    }

    /// What came of it, told to somebody who wanted that of a run: if it is over, where it stands and where it would have to.
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

    /// Cancels and closes a run that nobody drives; false if there is nothing left to cancel.
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

    /// Cancels one node: what depends on it is lost with it. If it acts on the world right now it goes on to its end,
    /// and that is what counts. The run goes on. Durable when it returns.
    ///
    /// # Errors
    ///
    /// The node is unknown, or over already, or [`RunError::InvalidState`]: the run is over, or was set aside and is resumed first;
    /// nothing has changed then.
    pub async fn cancel_node(&self, run: RunId, node: NodeId) -> Result<(), RunError> {
        self.operate(run, Operation::Cancel(node)).await
    }

    /// Skips one node, as not needed; otherwise as [`System::cancel_node`].
    ///
    /// # Errors
    ///
    /// Those of [`System::cancel_node`].
    pub async fn skip_node(&self, run: RunId, node: NodeId) -> Result<(), RunError> {
        self.operate(run, Operation::Skip(node)).await
    }

    /// Holds a run and asks a person: nothing more of it starts, what runs goes on to its end, until somebody has answered the
    /// question that this opens. It shows `text`. A yes lets the run go on; a no cancels it, and so does silence after `wait`. Gives
    /// the node that asks. Durable when it returns; dropping the future may or may not have asked.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] for one that is over, that was set aside or that is to come to rest: it is resumed first.
    /// [`RunError::Said`] if the text is empty or has more than
    /// [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX) bytes, [`RunError::Change`] if its plan has as many versions or nodes as it may have.
    pub async fn interject(&self, run: RunId, text: &str, wait: Duration) -> Result<NodeId, RunError> {
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
            let (node, operation) = view.run.interjection(text, wait);
            let refused = match self.operate(run, operation).await {
                Ok(()) => return Ok(node),
                Err(error @ RunError::Change(_)) => error,
                Err(error) => return Err(error),
            };
            // Somebody else may have interjected under that name meanwhile.
            view = self.view(run, None).await?;
            if view.run.node(&node).is_none() {
                return Err(refused);
            }
        }
    }

    async fn operate(&self, run: RunId, operation: Operation) -> Result<(), RunError> {
        let operated = self.operated(run, operation).await;
        self.or_refused(run, LifecycleMessage::Cancel, operated).await
    }

    async fn operated(&self, run: RunId, operation: Operation) -> Result<(), RunError> {
        // What is refused does not set a run going that rests.
        let view = self.view(run, None).await?;
        view.run.check_operation(&operation, &self.services.kernel.settings())?;
        self.lifecycle_by(&view).accepts_operation()?;
        if self.rests(run) {
            // Before it is taken up, or it would start what it is to do without.
            let position = suspended_runs::operate(&self.services, &self.row(run)?, &operation)?;
            self.services.journal.durable(position).await?;
            return self.take_up(run, true);
        }
        let mut told = RunError::Restarting;
        for _ in 0..TRIES_MAX {
            match self.tell(run, Request::Operate(operation.clone())).await {
                Err(error) if self.may_pass(run, &error)? => {
                    // It may have come to rest meanwhile.
                    self.lifecycle(run).await?.accepts_operation()?;
                    told = error;
                    tokio::task::yield_now().await;
                }
                answer => return answer,
            }
        }
        Err(told)
    }

    /// Whether nobody drives a run, and nothing of it is under way in this process.
    fn rests(&self, run: RunId) -> bool {
        !self.services.active_runs.has(run) && !self.services.attempts.knows_run(run)
    }

    /// Sends to the actor that drives a run, which is brought up first if need be.
    pub(crate) async fn tell(&self, run: RunId, request: Request) -> Result<(), RunError> {
        if !self.services.active_runs.has(run) {
            self.take_up(run, true)?;
        }
        let agent = self.row(run)?.agent;
        let asked = self.ask_registry(|reply| RegistryMessage::Ask { agent, run, request, reply }).await;
        asked.ok_or(RunError::Restarting)?
    }
}
