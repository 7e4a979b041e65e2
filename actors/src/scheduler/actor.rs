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

/// Keeps the queue open until dropped, unless a later epoch has opened the queue: the supervisor may start the next
/// epoch first.
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
        // A queue that breaks at once must report to this epoch.
        scheduler.mailboxes().scheduler.point_to(me);
        let epoch = scheduler.open(slots)?;
        Ok(Open { scheduler, epoch })
    }

    async fn handle(
        &self,
        _: ActorRef<SchedulerMessage>,
        message: SchedulerMessage,
        open: &mut Open,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SchedulerMessage::TimePassed => open.scheduler.time_passed(),
            SchedulerMessage::Broken(why) => return Err(why.into()),
        }
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.scheduler.close(self.epoch);
    }
}
