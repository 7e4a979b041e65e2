//! The evaluator: what scores add up to, for each agent and client, and how that bends the weight of the client.
//!
//! A run's own scores are computed by the kernel and written down as the run is closed; what is kept here is an average of them,
//! derived from the journal like the accounts.

use std::sync::Arc;

use ostler_kernel::event::Evaluated;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::scheduler::{Owner, SchedulerMessage};
use crate::services::Services;

pub(crate) enum EvaluatorMessage {
    /// A run of this agent was closed, and how well it was done.
    Evaluated { owner: Arc<Owner>, evaluated: Evaluated },
}

pub(crate) struct Evaluator;

impl Actor for Evaluator {
    type Msg = EvaluatorMessage;
    type State = Arc<Services>;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        _: ActorRef<EvaluatorMessage>,
        services: Arc<Services>,
    ) -> Result<Arc<Services>, ActorProcessingErr> {
        services.ledger.read_reputations(services.journal.accounts()?);
        Ok(services)
    }

    async fn handle(
        &self,
        _: ActorRef<EvaluatorMessage>,
        EvaluatorMessage::Evaluated { owner, evaluated }: EvaluatorMessage,
        services: &mut Arc<Services>,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        services.trip("evaluator");
        services.ledger.books(&owner.lane).agent.score(evaluated.composite);
        services.links.tell_scheduler(SchedulerMessage::Terms(owner.lane.client.clone()));
        Ok(())
    }
}
