//! The actor `pipelines`: creates pipelines, and starts an actor for every stage with code in the process.

use std::sync::Arc;

use ostler_supervisor::{ChildSpec, Restart, StartChildError};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::base::keys::BETWEEN;
use crate::base::system_status::SystemStatus;
use crate::messages::mailboxes::{Mailboxes, START_AGAIN, start_in};
use crate::pipelines::log::Log;
use crate::pipelines::message::PipelinesMessage;
use crate::pipelines::pipeline_map::PipelineMap;
use crate::pipelines::runner::{Runner, RunnerArguments};
use crate::storage::disk_space::DiskSpace;

pub(crate) struct Pipelines;

#[derive(Clone)]
pub(crate) struct PipelinesArguments {
    pub(crate) map: Arc<PipelineMap>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) status: Arc<SystemStatus>,
    pub(crate) disk: Arc<DiskSpace>,
}

impl Actor for Pipelines {
    type Msg = PipelinesMessage;
    type State = PipelinesArguments;
    type Arguments = PipelinesArguments;

    async fn pre_start(
        &self,
        _: ActorRef<PipelinesMessage>,
        this: PipelinesArguments,
    ) -> Result<PipelinesArguments, ActorProcessingErr> {
        this.map.reload()?;
        Ok(this)
    }

    async fn handle(
        &self,
        _: ActorRef<PipelinesMessage>,
        message: PipelinesMessage,
        this: &mut PipelinesArguments,
    ) -> Result<(), ActorProcessingErr> {
        this.status.faults.inject_panic("pipelines");
        match message {
            PipelinesMessage::Create { topology, reply } => {
                let _ = reply.send(this.map.create(*topology));
            }
            PipelinesMessage::Remove { log, reply } => {
                let removed = this.map.remove(&log);
                if removed.is_ok() {
                    end_actors(this, &log).await;
                }
                let _ = reply.send(removed);
            }
            PipelinesMessage::Start { log, stage } => start(this, &log, stage),
            PipelinesMessage::PoolUp => {
                for log in this.map.opened() {
                    (0..log.topology().len()).for_each(|stage| start(this, &log, stage));
                }
            }
            PipelinesMessage::Down { child, reason } => down(this, &child, reason),
        }
        Ok(())
    }
}

/// Starts the actor of a stage that has code here, once there is a pool.
fn start(this: &PipelinesArguments, log: &Arc<Log>, stage: usize) {
    let (Some(handler), Some((pool, _))) = (log.handler(stage), this.mailboxes.pool()) else { return };
    let arguments = RunnerArguments {
        disk: Arc::clone(&this.disk),
        status: Arc::clone(&this.status),
        log: Arc::clone(log),
        stage,
        handler,
    };
    let name = child(log, stage);
    let spec = ChildSpec::actor(name.as_str(), || Runner, move || arguments.clone());
    let (spec, map) = (spec.restart(Restart::Transient), Arc::clone(&this.map));
    tokio::spawn(async move {
        let started = loop {
            match start_in(&pool, spec.clone()).await {
                // Agents have taken all places.
                Err(StartChildError::MaxChildren { .. }) => tokio::time::sleep(START_AGAIN).await,
                started => break started,
            }
        };
        match started {
            Ok(_) | Err(StartChildError::AlreadyStarted { .. } | StartChildError::Ended) => {}
            Err(error) => map.tell(PipelinesMessage::Down { child: name, reason: error.to_string() }),
        }
    });
}

/// Ends the actors of ended stages: a later pipeline of the name needs their places.
async fn end_actors(this: &PipelinesArguments, log: &Log) {
    let Some((pool, _)) = this.mailboxes.pool() else { return };
    for stage in 0..log.topology().len() {
        // Most stages have no actor.
        let _ = pool.terminate_child(child(log, stage)).await;
    }
}

fn child(log: &Log, stage: usize) -> String {
    format!("{}{BETWEEN}{}", log.topology().id(), log.topology().name(stage))
}

fn down(this: &PipelinesArguments, child: &str, reason: String) {
    for log in this.map.opened() {
        let found = child.split_once(BETWEEN).filter(|(id, _)| *id == log.topology().id().as_str());
        if let Some(stage) = found.and_then(|(_, stage)| log.topology().find(stage)) {
            tracing::error!(child, reason, "a stage is down");
            log.down(stage, reason);
            return;
        }
    }
}
