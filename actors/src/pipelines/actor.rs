//! The actor `pipelines`: makes pipelines, and keeps an actor behind every stage that has code in this process.

use std::sync::Arc;

use ostler_kernel::pipeline::Topology;
use ostler_kernel::port::Position;
use ostler_supervisor::{ChildSpec, Restart, StartChildError};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::messages::mailboxes::{START_AGAIN, start_in};
use crate::pipelines::{Log, PipelineError, Runner, RunnerArguments};
use crate::services::Services;

pub(crate) enum PipelinesMessage {
    /// A pipeline is to exist from here on; the answer is where that is recorded.
    Create { topology: Box<Topology>, reply: RpcReplyPort<Result<(Arc<Log>, Position), PipelineError>> },
    /// A stage has code in this process: it is to have an actor.
    Start { log: Arc<Log>, stage: usize },
    /// The actor of a stage could not be started, or failed too often.
    Down { child: String, reason: String },
    /// The pool is up, empty.
    PoolUp,
}

/// What stands between the names of pipeline and stage in the name of a child; no name of an agent has it.
pub(crate) const BETWEEN: char = '/';

pub(crate) struct Pipelines;

impl Actor for Pipelines {
    type Msg = PipelinesMessage;
    type State = Arc<Services>;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        _: ActorRef<PipelinesMessage>,
        services: Arc<Services>,
    ) -> Result<Arc<Services>, ActorProcessingErr> {
        services.pipelines.reload()?;
        Ok(services)
    }

    async fn handle(
        &self,
        _: ActorRef<PipelinesMessage>,
        message: PipelinesMessage,
        services: &mut Arc<Services>,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        services.trip("pipelines");
        match message {
            PipelinesMessage::Create { topology, reply } => {
                let _ = reply.send(services.pipelines.create(services, *topology));
            }
            PipelinesMessage::Start { log, stage } => start(services, &log, stage),
            PipelinesMessage::PoolUp => {
                for log in services.pipelines.opened() {
                    (0..log.topology().len()).for_each(|stage| start(services, &log, stage));
                }
            }
            PipelinesMessage::Down { child, reason } => down(services, &child, reason),
        }
        Ok(())
    }
}

/// Starts an actor for a stage, if it has code here. Without a pool, that happens when there is one.
fn start(services: &Arc<Services>, log: &Arc<Log>, stage: usize) {
    let (Some(handler), Some((pool, _))) = (log.handler(stage), services.links.pool()) else { return };
    let arguments = RunnerArguments { services: Arc::clone(services), log: Arc::clone(log), stage, handler };
    let name = child(log, stage);
    let spec = ChildSpec::actor(name.as_str(), || Runner, move || arguments.clone());
    let (spec, services) = (spec.restart(Restart::Transient), Arc::clone(services));
    tokio::spawn(async move {
        let started = loop {
            match start_in(&pool, spec.clone()).await {
                // Agents have all the places.
                Err(StartChildError::MaxChildren { .. }) => tokio::time::sleep(START_AGAIN).await,
                started => break started,
            }
        };
        match started {
            Ok(_) | Err(StartChildError::AlreadyStarted { .. } | StartChildError::Ended) => {}
            Err(error) => services
                .links
                .tell_pipelines(PipelinesMessage::Down { child: name, reason: error.to_string() }),
        }
    });
}

fn child(log: &Log, stage: usize) -> String {
    format!("{}{BETWEEN}{}", log.topology().id(), log.topology().name(stage))
}

fn down(services: &Services, child: &str, reason: String) {
    for log in services.pipelines.opened() {
        let found = child.split_once(BETWEEN).filter(|(id, _)| *id == log.topology().id().as_str());
        if let Some(stage) = found.and_then(|(_, stage)| log.topology().find(stage)) {
            tracing::error!(child, reason, "a stage is down");
            log.down(stage, reason);
            return;
        }
    }
}
