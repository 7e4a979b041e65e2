//! The open logs. A pipeline is read on first use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::id::PipelineId;
use ostler_kernel::json::to_canonical;
use ostler_kernel::pipeline::Topology;
use ostler_kernel::port::{Position, Seq, StreamId, StreamKind};
use ostler_supervisor::StableRef;

use super::load;
use super::log::Place;
use crate::base::limits::Limits;
use crate::base::lock::lock;
use crate::metrics::Measures;
use crate::pipelines::error::{PipelineError, PublishError};
use crate::pipelines::log::Log;
use crate::pipelines::message::PipelinesMessage;
use crate::storage::journal_client::JournalClient;

pub(crate) struct PipelineMap {
    logs: Mutex<BTreeMap<PipelineId, Arc<Log>>>,
    journal: Arc<JournalClient>,
    measures: Measures,
    limits: Limits,
    /// The mailbox of the actor `pipelines`.
    pub(crate) actor: StableRef<PipelinesMessage>,
}

impl PipelineMap {
    pub(crate) fn new(journal: Arc<JournalClient>, measures: Measures, limits: Limits) -> PipelineMap {
        PipelineMap { logs: Mutex::default(), journal, measures, limits, actor: StableRef::default() }
    }

    /// Sends to the actor of all pipelines. A restarting actor starts all stages itself.
    pub(crate) fn tell(&self, message: PipelinesMessage) {
        let _ = self.actor.send(message);
    }

    pub(crate) fn find(&self, id: &str) -> Result<Option<Arc<Log>>, PipelineError> {
        let mut logs = lock(&self.logs);
        if let Some(log) = logs.get(id) {
            return Ok(Some(Arc::clone(log)));
        }
        let stream = StreamId::pipeline(&PipelineId::from(id));
        let Some(topology) = load::topology(&**self.journal, stream)? else { return Ok(None) };
        let state = load::state(&**self.journal, &topology)?;
        let log = Arc::new(Log::new(self.place(topology.id()), topology, state));
        logs.insert(log.topology().id().clone(), Arc::clone(&log));
        Ok(Some(log))
    }

    pub(crate) fn all(&self) -> Result<Vec<Arc<Log>>, PipelineError> {
        let mut logs = Vec::new();
        for stream in self.journal.streams(StreamKind::Pipeline)? {
            let Some(topology) = load::topology(&**self.journal, stream)? else { continue };
            logs.extend(self.find(topology.id().as_str())?);
        }
        logs.sort_by(|one, other| one.topology().id().cmp(other.topology().id()));
        Ok(logs)
    }

    pub(crate) fn opened(&self) -> Vec<Arc<Log>> {
        lock(&self.logs).values().cloned().collect()
    }

    pub(crate) fn reload(&self) -> Result<(), PipelineError> {
        self.opened().iter().try_for_each(|log| log.reload())
    }

    /// Creates or finds a pipeline; its record is appended, not durable.
    pub(crate) fn create(&self, topology: Topology) -> Result<(Arc<Log>, Position), PipelineError> {
        if let Some(log) = self.find(topology.id().as_str())? {
            if *log.topology().spec() != *topology.spec() {
                return Err(PipelineError::Taken(topology.id().clone()));
            }
            let position = log.position();
            return Ok((log, position));
        }
        let most = self.limits.pipelines;
        if self.journal.streams(StreamKind::Pipeline)?.len() >= most {
            return Err(PipelineError::TooMany(most));
        }
        let spec = to_canonical(topology.spec()).map_err(PublishError::Data)?;
        let stream = StreamId::pipeline(topology.id());
        let created = Event::Pipeline(Box::new(PipelineRecord::Created { spec }));
        let position = self.journal.append_events(stream, Seq(0), vec![created])?;
        // A concurrent caller may have opened the log: there is only one.
        let log = self.find(topology.id().as_str())?.expect("its first record was just appended");
        Ok((log, position))
    }

    fn place(&self, id: &PipelineId) -> Place {
        Place {
            journal: Arc::clone(self.journal.journal()),
            clock: self.journal.clock,
            published: self.measures.published(id),
            behind_max: self.limits.pipeline_behind,
        }
    }
}
