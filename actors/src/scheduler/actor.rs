//! The actor that keeps the run queue open.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::messages::scheduler::SchedulerMessage;
use crate::scheduler::handle::SchedulerHandle;

pub(crate) struct SchedulerArguments {
    pub(crate) slots: u32,
    pub(crate) scheduler: Arc<SchedulerHandle>,
}

pub(crate) struct Scheduler;

/// For as long as this is there, the queue is open, unless another epoch has opened it meanwhile: a supervisor may start that before
/// this is dropped.
pub(crate) struct Open {
    scheduler: Arc<SchedulerHandle>,
    epoch: u64,
}

impl Actor for Scheduler {
    type Msg = SchedulerMessage;
    type State = Open;
    type Arguments = SchedulerArguments;

    async fn pre_start(
        &self,
        me: ActorRef<SchedulerMessage>,
        SchedulerArguments { slots, scheduler }: SchedulerArguments,
    ) -> Result<Open, ActorProcessingErr> {
        // Should the queue break as soon as it is open, it is this epoch that hears of it.
        scheduler.mailboxes().scheduler.point_to(me);
        let epoch = scheduler.open(slots)?;
        Ok(Open { scheduler, epoch })
    }

    async fn handle(
        &self,
        _: ActorRef<SchedulerMessage>,
        SchedulerMessage::Broken(why): SchedulerMessage,
        _: &mut Open,
    ) -> Result<(), ActorProcessingErr> {
        Err(why.into())
    }
}

impl Drop for Open {
    /// However it ends, what is owed to whom outlives it.
    fn drop(&mut self) {
        self.scheduler.close(self.epoch);
    }
}
