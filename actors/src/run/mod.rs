//! The actor of an agent. It drives the agent's runs one at a time: the kernel decides, the [`driver::RunDriver`] appends the
//! decisions, asks the run queue for slots, and starts attempts. Its state is a cache of the journal.

mod advance;
mod advice;
pub(crate) mod arguments;
mod arrivals;
mod ask;
mod asked;
mod attempt_launch;
mod clearances;
mod deadlines;
mod decided;
mod dispatch;
mod dispatch_queue;
mod driver;
pub(crate) mod goal;
mod grants;
mod inline;
mod inline_budget;
mod judge;
mod judge_state;
mod launch;
mod load;
mod lost_calls;
pub(crate) mod missing;
mod record;
mod reuse;
mod reuse_progress;
pub(crate) mod services;
mod standing;
pub(crate) mod suspended_runs;
mod timers;
mod turns;
mod verdicts;
mod without_slot;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{JournalError, RunRow};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::{Duration, Instant};

use crate::base::error::RunError;
use crate::messages::agent::{AgentMessage, AskReply, Request};
use crate::messages::registry::RegistryMessage;
use crate::messages::slots::Granted;
use crate::run::arguments::AgentArguments;
use crate::run::suspended_runs::CHECKPOINTED;
use advance::Idle;
use driver::RunDriver;

pub(crate) struct Agent;

/// Time until a run that waits for disk space is read again without a notification.
const DISK_SPACE_RETRY: Duration = Duration::from_secs(60);

pub(crate) struct AgentState {
    arguments: AgentArguments,
    me: ActorRef<AgentMessage>,
    drive: Option<RunDriver>,
    /// Requests so far: the registry compares it before it removes the actor.
    asked: u64,
    waits_for_disk: Option<RunId>,
}

impl Actor for Agent {
    type Msg = AgentMessage;
    type State = AgentState;
    type Arguments = AgentArguments;

    async fn pre_start(
        &self,
        me: ActorRef<AgentMessage>,
        arguments: AgentArguments,
    ) -> Result<AgentState, ActorProcessingErr> {
        Ok(AgentState { arguments, me, drive: None, asked: 0, waits_for_disk: None })
    }

    async fn post_start(
        &self,
        me: ActorRef<AgentMessage>,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        let agent = state.arguments.owner.agent.clone();
        state.arguments.services.mailboxes.tell_registry(RegistryMessage::Up { agent, actor: me });
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<AgentMessage>,
        message: AgentMessage,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        state.arguments.services.journal.status.faults.inject_panic(state.arguments.owner.agent.as_str());
        // Boxed: an actor reserves room for its handler's future for as long as it lives.
        match Box::pin(state.take(message)).await {
            Err(error) => state.wait_for_room(error),
            Ok(()) => Ok(()),
        }
    }

    async fn post_stop(
        &self,
        _: ActorRef<AgentMessage>,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        state.record_clean_shutdown();
        Ok(())
    }
}

impl AgentState {
    /// Records the end in good order, which counts against no run.
    fn record_clean_shutdown(&mut self) {
        let Some(drive) = self.drive.as_mut().filter(|drive| drive.services.journal.status.is_stopping())
        else {
            return;
        };
        if let Err(error) = drive.record_clean_shutdown() {
            let run = drive.opened.run;
            tracing::warn!(%run, %error, "the clean shutdown of the run is not recorded; it counts as a crash");
        }
    }

    async fn take(&mut self, message: AgentMessage) -> Result<(), ActorProcessingErr> {
        let message = match message {
            AgentMessage::Drive(row, asked) => return self.begin(*row, asked).await,
            message => message,
        };
        if matches!(message, AgentMessage::Ask { .. }) {
            self.asked += 1;
            self.reload_after_disk_full().await?;
        }
        let Some(drive) = &mut self.drive else {
            self.decline(message);
            return Ok(());
        };
        match message {
            AgentMessage::Drive(..) => {}
            AgentMessage::Granted(grants) => drive.queue.granted.extend(grants),
            AgentMessage::Ended(keys) => {
                // A stopped attempt of a run that is given up is no failure.
                drive.cancel_if_given_up();
                drive.results_arrived(keys).await;
            }
            AgentMessage::NoRoom(nodes) => drive.rejected_by_queue(nodes),
            AgentMessage::Again | AgentMessage::AskAgain(_)
                if self.arguments.services.journal.disk.is_full() =>
            {
                self.release_on_disk_full();
                return Ok(());
            }
            // Other futures get the thread first.
            AgentMessage::Again => tokio::task::yield_now().await,
            AgentMessage::AskAgain(at) => drive.retry_rejected(at),
            AgentMessage::OutOfCredit { out, surplus } => drive.out_of_credit(out, surplus),
            AgentMessage::Due => drive.fire_due_timers(),
            AgentMessage::ContractJudged { version, broken } => drive.contract_judged(version, broken),
            AgentMessage::Judged { run, judgement, adherence, calls } => {
                drive.judged(run, (judgement, adherence), calls);
            }
            AgentMessage::Advised(advice) => drive.advised(*advice),
            AgentMessage::Cleared(answer) => drive.cleared(*answer).await,
            AgentMessage::Turn(end) => drive.turn_came(*end),
            AgentMessage::AttemptLost(node) => drive.end_lost_drain(&node),
            AgentMessage::Verdict { run, verdict, reply } => drive.record_call(run, *verdict, reply),
            AgentMessage::BeforeTest { run, of: (node, attempt), reply } => {
                let _ = reply.send(drive.before_test(run, &node, attempt));
            }
            AgentMessage::Ask { request, reply } => {
                // Boxed: otherwise this rare future enlarges the future of every message.
                Box::pin(drive.look_again(&request)).await;
                drive.ask(*request, reply);
            }
        }
        self.advance().await
    }

    /// Loads and drives a run. Registering at the scheduler voids what an earlier incarnation queued. Requests in `asked` take
    /// effect before anything starts.
    async fn begin(
        &mut self,
        row: RunRow,
        asked: Vec<(Request, AskReply)>,
    ) -> Result<(), ActorProcessingErr> {
        let AgentArguments { owner, services } = &self.arguments;
        services.scheduler.register(&owner.agent, &self.me);
        let is_asked = !asked.is_empty();
        let Some(mut drive) = RunDriver::load(&self.arguments, &self.me, row).await? else {
            asked.into_iter().for_each(|(_, reply)| drop(reply.send(Err(RunError::Over))));
            return Ok(());
        };
        // Expired questions are not asked again.
        drive.fire_due_timers();
        drive.doubt_questions();
        for (request, reply) in asked {
            Box::pin(drive.look_again(&request)).await;
            drive.ask(request, reply);
        }
        (self.drive, self.waits_for_disk) = (Some(drive), None);
        if services.journal.disk.is_full() {
            // Only requests of operators may use the reserve of a full disk; they are in `asked` or next in the mailbox.
            self.me.cast(AgentMessage::Again)?;
            if !is_asked {
                return Ok(());
            }
        }
        self.advance().await
    }

    /// Drops a run that cannot be recorded. The registry wakes it when there is space.
    fn release_on_disk_full(&mut self) {
        let Some(drive) = self.drive.take() else { return };
        let run = drive.opened.run;
        self.waits_for_disk = Some(run);
        drop(drive);
        let AgentArguments { owner, services } = &self.arguments;
        // Callers that wait judge the run by its records from now on.
        services.notify_run_changed(run);
        services.mailboxes.tell_registry(RegistryMessage::Passivate {
            agent: owner.agent.clone(),
            run,
            until: Some(Instant::now() + DISK_SPACE_RETRY),
            unpaid: false,
            asked: self.asked,
        });
        if !services.journal.disk.is_full() {
            // Space came back before the registry knew that the run waits for it.
            services.mailboxes.tell_registry(RegistryMessage::Wake { agent: owner.agent.clone(), run });
        }
    }

    /// Drops the run after a full disk; any other error ends the actor.
    fn wait_for_room(&mut self, error: ActorProcessingErr) -> Result<(), ActorProcessingErr> {
        let error = error.downcast::<JournalError>()?;
        if !matches!(*error, JournalError::Full(_)) {
            return Err(error);
        }
        self.release_on_disk_full();
        Ok(())
    }

    /// Reads a run that waits for disk space again, because of a request.
    async fn reload_after_disk_full(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(run) = self.waits_for_disk.take() else { return Ok(()) };
        match self.arguments.services.journal.run(run)? {
            Some(row) => self.begin(row, Vec::new()).await,
            None => Ok(()),
        }
    }

    /// Runs one turn. Then ends a closed run, suspends the run on request, or reports an idle one to the registry.
    async fn advance(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(drive) = &mut self.drive else { return Ok(()) };
        if drive.advance().await? {
            self.drive = None;
        } else if let Some(replies) = drive.suspended_waiters() {
            let (agent, run) = (self.arguments.owner.agent.clone(), drive.opened.run);
            self.drive = None;
            let reason = CHECKPOINTED.to_owned();
            self.arguments.services.mailboxes.tell_registry(RegistryMessage::Suspend {
                agent,
                run,
                reason,
                replies,
            });
        } else if let Some(Idle { until, unpaid }) = drive.idle() {
            self.arguments.services.attempts.sweep_when_durable();
            let (agent, run) = (self.arguments.owner.agent.clone(), drive.opened.run);
            let passivate = RegistryMessage::Passivate { agent, run, until, unpaid, asked: self.asked };
            self.arguments.services.mailboxes.tell_registry(passivate);
        }
        Ok(())
    }

    /// Handles a message for a run that is over: slots are returned, requests refused.
    fn decline(&self, message: AgentMessage) {
        let services = &self.arguments.services;
        match message {
            AgentMessage::Granted(grants) => {
                let give_back = |granted: Granted| services.scheduler.give_back(granted.ticket);
                grants.into_iter().for_each(give_back);
            }
            AgentMessage::Ask { reply, .. } | AgentMessage::Verdict { reply, .. } => {
                let _ = reply.send(Err(RunError::Over));
            }
            AgentMessage::Ended(keys) => {
                keys.into_iter().for_each(|key| services.attempts.undelivered_result(key));
            }
            // The one who asks sees that nobody answers.
            AgentMessage::BeforeTest { reply, .. } => drop(reply),
            AgentMessage::Cleared(answer) => services.scheduler.give_back(answer.begun.slot),
            AgentMessage::Drive(..)
            | AgentMessage::NoRoom(_)
            | AgentMessage::Turn(_)
            | AgentMessage::AttemptLost(_)
            | AgentMessage::Again
            | AgentMessage::AskAgain(_)
            | AgentMessage::OutOfCredit { .. }
            | AgentMessage::Due
            | AgentMessage::Judged { .. }
            | AgentMessage::Advised(_)
            | AgentMessage::ContractJudged { .. } => {}
        }
    }
}
