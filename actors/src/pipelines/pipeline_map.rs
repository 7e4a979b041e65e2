//! The logs that were opened. A pipeline is read when somebody asks for it: a process that is not about pipelines reads none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::id::PipelineId;
use ostler_kernel::json::to_canonical;
use ostler_kernel::pipeline::Topology;
use ostler_kernel::port::{Position, Seq, StreamBatch, StreamId, StreamKind};

use super::error::PipelineError;
use super::load;
use super::log::{Log, Place};
use crate::base::lock::lock;
use crate::services::Services;

/// The logs that were opened.
#[derive(Default)]
pub(crate) struct Book {
    logs: Mutex<BTreeMap<PipelineId, Arc<Log>>>,
}

impl Book {
    /// A pipeline, by its name.
    pub(crate) fn find(&self, services: &Services, id: &str) -> Result<Option<Arc<Log>>, PipelineError> {
        let mut logs = lock(&self.logs);
        if let Some(log) = logs.get(id) {
            return Ok(Some(Arc::clone(log)));
        }
        let stream = StreamId::pipeline(&PipelineId::from(id));
        let Some(topology) = load::topology(&*services.journal, stream)? else { return Ok(None) };
        let state = load::state(&*services.journal, &topology)?;
        let log = Arc::new(Log::new(place(services, topology.id()), topology, state));
        logs.insert(log.topology().id().clone(), Arc::clone(&log));
        Ok(Some(log))
    }

    /// All pipelines, by name.
    pub(crate) fn all(&self, services: &Services) -> Result<Vec<Arc<Log>>, PipelineError> {
        let mut logs = Vec::new();
        for stream in services.journal.streams(StreamKind::Pipeline)? {
            let Some(topology) = load::topology(&*services.journal, stream)? else { continue };
            logs.extend(self.find(services, topology.id().as_str())?);
        }
        logs.sort_by(|one, other| one.topology().id().cmp(other.topology().id()));
        Ok(logs)
    }

    /// Those that were opened.
    pub(crate) fn opened(&self) -> Vec<Arc<Log>> {
        lock(&self.logs).values().cloned().collect()
    }

    /// Reads all that were opened again.
    pub(crate) fn reload(&self) -> Result<(), PipelineError> {
        self.opened().iter().try_for_each(|log| log.reload())
    }

    /// Makes a pipeline, or finds it. Ordered, not durable yet.
    pub(crate) fn create(
        &self,
        services: &Services,
        topology: Topology,
    ) -> Result<(Arc<Log>, Position), PipelineError> {
        if let Some(log) = self.find(services, topology.id().as_str())? {
            if *log.topology().spec() != *topology.spec() {
                return Err(PipelineError::Taken(topology.id().clone()));
            }
            let position = log.position();
            return Ok((log, position));
        }
        let most = services.limits.pipelines;
        if services.journal.streams(StreamKind::Pipeline)?.len() >= most {
            return Err(PipelineError::TooMany(most));
        }
        let spec = to_canonical(topology.spec()).map_err(super::PublishError::Data)?;
        let stream = StreamId::pipeline(topology.id());
        let created = Event::Pipeline(Box::new(PipelineRecord::Created { spec }));
        let at_ms = services.clock.now();
        let batch = StreamBatch { stream, expected: Seq(0), at_ms, events: vec![created] };
        let position = services.append(batch)?;
        // Somebody else may have found it by now: there is one log of it.
        let log = self.find(services, topology.id().as_str())?.expect("its first record was just appended");
        Ok((log, position))
    }
}

fn place(services: &Services, id: &PipelineId) -> Place {
    Place {
        journal: Arc::clone(&services.journal),
        clock: services.clock,
        published: services.measures.published(id),
        behind_max: services.limits.pipeline_behind,
    }
}
