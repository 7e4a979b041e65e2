//! An agent: drives its runs, one at a time. It decides nothing itself: the kernel does; the agent records what was
//! decided, asks for slots, and starts what was granted.

mod advance;
mod arrivals;
mod ask;
mod deadlines;
mod dispatch;
mod dispatch_queue;
mod driver;
mod grants;
mod inline;
mod judge;
mod launch;
mod load;
mod record;
pub(crate) mod suspended_runs;

use std::sync::Arc;

use ostler_kernel::evaluation::Judgement;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{JournalError, RunRow};
use ostler_kernel::run::Operation;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::time::{Duration, Instant};

use crate::api::approval::AnswerRequest;
use crate::api::resolve::ResolveRequest;
use crate::attempts::attempt_table::AttemptKey;
use crate::base::error::RunError;
use crate::registry::RegistryMessage;
use crate::run::suspended_runs::CHECKPOINTED;
use crate::scheduler::{Granted, Owner};
use crate::services::Services;
use advance::Idle;
use driver::RunDriver;

pub(crate) enum AgentMessage {
    /// A run to drive, and what was asked of it before.
    Drive(Box<RunRow>, Vec<(Request, AskReply)>),
    /// Slots for ready nodes.
    Granted(Vec<Granted>),
    /// Attempts ended, and are settled; their outcomes are in the effects table.
    Ended(Vec<AttemptKey>),
    /// There was no room in the run queue for these nodes.
    NoRoom(Vec<NodeId>),
    /// There may be more to do.
    Again,
    /// Nodes for which there was no room ask again, as was to be at this time.
    AskAgain(Instant),
    /// The client's credits are used up, or they are not any more. `surplus`: enough of its agents wait for them in the run queue.
    OutOfCredit { out: bool, surplus: bool },
    /// The earliest deadline is past.
    Due,
    /// The plan's own contract was judged, for this version; why it does not hold, if so.
    ContractJudged { version: u32, broken: Option<String> },
    /// A judge has said how good the results of the run are.
    Judged { run: RunId, judgement: Judgement },
    /// Somebody asks for something about the run, which may be over by the time this arrives. Only the registry
    /// passes it on, so it does not meet the next run.
    Ask { request: Box<Request>, reply: AskReply },
}

/// Where the answer to a request goes.
pub(crate) type AskReply = RpcReplyPort<Result<(), RunError>>;

/// The answer to a request, and where it goes.
pub(crate) type Answer = (AskReply, Result<(), RunError>);

/// What may be asked for about a run that is being driven. Answered once what follows from it is durable.
pub(crate) enum Request {
    /// The operator wants something.
    Operate(Operation),
    /// A person answers a question.
    Answer(AnswerRequest),
    /// A person settles an attempt in doubt.
    Resolve(ResolveRequest),
    /// The run is to come to rest, and to be set aside.
    Checkpoint,
    /// It is to go on, should it be about to rest.
    GoOn,
}

#[derive(Clone)]
pub(crate) struct AgentArguments {
    pub(crate) owner: Arc<Owner>,
    pub(crate) services: Arc<Services>,
}

pub(crate) struct Agent;

/// Time until a run is read again that waits for room on the disk, should nobody say that there is.
const ROOM_AT_LAST: Duration = Duration::from_secs(60);

pub(crate) struct AgentState {
    arguments: AgentArguments,
    me: ActorRef<AgentMessage>,
    drive: Option<RunDriver>,
    /// Requests so far.
    asked: u64,
    /// The run that waits for room on the disk.
    short: Option<RunId>,
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
        Ok(AgentState { arguments, me, drive: None, asked: 0, short: None })
    }

    async fn post_start(
        &self,
        me: ActorRef<AgentMessage>,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        let agent = state.arguments.owner.agent.clone();
        state.arguments.services.links.tell_registry(RegistryMessage::Up { agent, actor: me });
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<AgentMessage>,
        message: AgentMessage,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        state.arguments.services.trip(state.arguments.owner.agent.as_str());
        // Boxed: what stands here an actor keeps room for as long as it lives, whether it has anything to do or not.
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
    /// The process ends in good order: that counts against no run.
    fn record_clean_shutdown(&mut self) {
        let Some(drive) = self.drive.as_mut().filter(|drive| drive.services.is_stopping()) else { return };
        if let Err(error) = drive.record_clean_shutdown() {
            let run = drive.opened.run;
            tracing::warn!(%run, %error, "that its process ends in good order is not written down: that counts as if it had died");
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
            AgentMessage::Ended(keys) => drive.results_arrived(keys).await,
            AgentMessage::NoRoom(nodes) => drive.rejected_by_queue(nodes),
            AgentMessage::Again | AgentMessage::AskAgain(_) if self.arguments.services.room.is_full() => {
                self.release_on_disk_full();
                return Ok(());
            }
            // Others have the thread first.
            AgentMessage::Again => tokio::task::yield_now().await,
            AgentMessage::AskAgain(at) => drive.retry_rejected(at),
            AgentMessage::OutOfCredit { out, surplus } => drive.out_of_credit(out, surplus),
            AgentMessage::Due => drive.fire_due_timers(),
            AgentMessage::ContractJudged { version, broken } => drive.contract_judged(version, broken),
            AgentMessage::Judged { run, judgement } => drive.judged(run, judgement),
            AgentMessage::Ask { request, reply } => drive.ask(*request, reply),
        }
        self.advance().await
    }

    /// Takes a run up: whatever an earlier life of this agent queued for it is void. What was `asked` of it before counts before
    /// anything of it starts.
    async fn begin(
        &mut self,
        row: RunRow,
        asked: Vec<(Request, AskReply)>,
    ) -> Result<(), ActorProcessingErr> {
        let AgentArguments { owner, services } = &self.arguments;
        services.scheduling.hello(services, &owner.agent, &self.me);
        let is_asked = !asked.is_empty();
        let Some(mut drive) = RunDriver::load(&self.arguments, &self.me, row).await? else {
            asked.into_iter().for_each(|(_, reply)| drop(reply.send(Err(RunError::Over))));
            return Ok(());
        };
        // A question whose time is over is not asked again.
        drive.fire_due_timers();
        drive.ask_anew().await;
        asked.into_iter().for_each(|(request, reply)| drive.ask(request, reply));
        (self.drive, self.short) = (Some(drive), None);
        if services.room.is_full() {
            // What an operator wants has room, and is here or waiting right behind this; nothing else goes on.
            self.me.cast(AgentMessage::Again)?;
            if !is_asked {
                return Ok(());
            }
        }
        self.advance().await
    }

    /// Lets a run go for which there is no room on the disk.
    fn release_on_disk_full(&mut self) {
        let Some(drive) = self.drive.take() else { return };
        let run = drive.opened.run;
        self.short = Some(run);
        drop(drive);
        let AgentArguments { owner, services } = &self.arguments;
        // Whoever waits for it goes by its records now: it may wait for a person.
        services.stir_run(run);
        services.links.tell_registry(RegistryMessage::Passivate {
            agent: owner.agent.clone(),
            run,
            until: Some(Instant::now() + ROOM_AT_LAST),
            unpaid: false,
            asked: self.asked,
        });
        if !services.room.is_full() {
            // There is again, and nobody may say so any more.
            services.links.tell_registry(RegistryMessage::Wake { agent: owner.agent.clone(), run });
        }
    }

    /// Nothing of a run is written down for now: its agent lets it go, and reads it again when there is room, or somebody asks for
    /// something. Any other error ends the actor.
    fn wait_for_room(&mut self, error: ActorProcessingErr) -> Result<(), ActorProcessingErr> {
        let error = error.downcast::<JournalError>()?;
        if !matches!(*error, JournalError::Full(_)) {
            return Err(error);
        }
        self.release_on_disk_full();
        Ok(())
    }

    /// Reads a run again that waits for room on the disk, as somebody asks for something about it.
    async fn reload_after_disk_full(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(run) = self.short.take() else { return Ok(()) };
        match self.arguments.services.journal.run(run)? {
            Some(row) => self.begin(row, Vec::new()).await,
            None => Ok(()),
        }
    }

    /// Does what follows from the last message; ends the run if nothing can follow any more, and says so if nothing
    /// can for long.
    async fn advance(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(drive) = &mut self.drive else { return Ok(()) };
        if drive.advance().await? {
            self.drive = None;
        } else if let Some(replies) = drive.suspended_waiters() {
            let (agent, run) = (self.arguments.owner.agent.clone(), drive.opened.run);
            self.drive = None;
            let reason = CHECKPOINTED.to_owned();
            self.arguments.services.links.tell_registry(RegistryMessage::SetAside {
                agent,
                run,
                reason,
                replies,
            });
        } else if let Some(Idle { until, unpaid }) = drive.idle() {
            self.arguments.services.sweep_effects_when_durable();
            let (agent, run) = (self.arguments.owner.agent.clone(), drive.opened.run);
            let passivate = RegistryMessage::Passivate { agent, run, until, unpaid, asked: self.asked };
            self.arguments.services.links.tell_registry(passivate);
        }
        Ok(())
    }

    /// What came for a run that is over: slots go back, questions are answered.
    fn decline(&self, message: AgentMessage) {
        let services = &self.arguments.services;
        match message {
            AgentMessage::Granted(grants) => {
                let give_back = |granted: Granted| services.scheduling.give_back(services, granted.ticket);
                grants.into_iter().for_each(give_back);
            }
            AgentMessage::Ask { reply, .. } => {
                let _ = reply.send(Err(RunError::Over));
            }
            AgentMessage::Ended(keys) => {
                keys.into_iter().for_each(|key| services.unheard(key));
            }
            AgentMessage::Drive(..)
            | AgentMessage::NoRoom(_)
            | AgentMessage::Again
            | AgentMessage::AskAgain(_)
            | AgentMessage::OutOfCredit { .. }
            | AgentMessage::Due
            | AgentMessage::Judged { .. }
            | AgentMessage::ContractJudged { .. } => {}
        }
    }
}
