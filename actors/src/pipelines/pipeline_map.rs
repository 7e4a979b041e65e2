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
    known: Mutex<Known>,
    journal: Arc<JournalClient>,
    measures: Measures,
    limits: Limits,
    /// The mailbox of the actor `pipelines`.
    pub(crate) actor: StableRef<PipelinesMessage>,
}

#[derive(Default)]
struct Known {
    logs: BTreeMap<PipelineId, Arc<Log>>,
    /// Streams of removed pipelines, with the number of the last record.
    removed: BTreeMap<StreamId, Seq>,
}

impl PipelineMap {
    pub(crate) fn new(journal: Arc<JournalClient>, measures: Measures, limits: Limits) -> PipelineMap {
        PipelineMap { known: Mutex::default(), journal, measures, limits, actor: StableRef::default() }
    }

    /// Sends to the actor of all pipelines. A restarting actor starts all stages itself.
    pub(crate) fn tell(&self, message: PipelinesMessage) {
        let _ = self.actor.send(message);
    }

    pub(crate) fn find(&self, id: &str) -> Result<Option<Arc<Log>>, PipelineError> {
        let known = lock(&self.known).logs.get(id).cloned();
        match known {
            Some(log) => Ok(Some(log)),
            None => self.open(StreamId::pipeline(&PipelineId::from(id))),
        }
    }

    /// The pipeline of a stream; `None` if there is none, or it was removed.
    fn open(&self, stream: StreamId) -> Result<Option<Arc<Log>>, PipelineError> {
        let mut known = lock(&self.known);
        if let Some(log) = known.logs.values().find(|log| log.stream == stream) {
            return Ok(Some(Arc::clone(log)));
        }
        if known.removed.contains_key(&stream) {
            return Ok(None);
        }
        let records = load::records(&**self.journal, stream)?;
        let last = records.last;
        let Some(state) = load::state(&**self.journal, stream, records)? else {
            if last > Seq(0) {
                known.removed.insert(stream, last);
            }
            return Ok(None);
        };
        let topology = state.pipeline.topology().clone();
        let log = Arc::new(Log::new(self.place(topology.id()), topology, state));
        known.logs.insert(log.topology().id().clone(), Arc::clone(&log));
        Ok(Some(log))
    }

    pub(crate) fn all(&self) -> Result<Vec<Arc<Log>>, PipelineError> {
        let mut logs = Vec::new();
        for stream in self.journal.streams(StreamKind::Pipeline)? {
            logs.extend(self.open(stream)?);
        }
        logs.sort_by(|one, other| one.topology().id().cmp(other.topology().id()));
        Ok(logs)
    }

    pub(crate) fn opened(&self) -> Vec<Arc<Log>> {
        lock(&self.known).logs.values().cloned().collect()
    }

    /// Reads every log again after records were rolled back, which may have been declarations and removals.
    pub(crate) fn reload(&self) -> Result<(), PipelineError> {
        let mut known = lock(&self.known);
        known.removed.clear();
        let mut lost = Vec::new();
        for (id, log) in &known.logs {
            if !log.reload()? {
                lost.push(id.clone());
            }
        }
        lost.iter().for_each(|id| drop(known.logs.remove(id)));
        Ok(())
    }

    /// Removes a pipeline that is not in use; the record is appended, not durable.
    pub(crate) fn remove(&self, log: &Log) -> Result<Position, PipelineError> {
        let mut known = lock(&self.known);
        let (position, last) = log.remove()?;
        known.logs.remove(log.topology().id());
        known.removed.insert(log.stream, last);
        Ok(position)
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
        // Streams of removed pipelines stay, so they are an upper bound.
        if self.journal.streams(StreamKind::Pipeline)?.len() >= most && self.all()?.len() >= most {
            return Err(PipelineError::TooMany(most));
        }
        let spec = to_canonical(topology.spec()).map_err(PublishError::Data)?;
        let stream = StreamId::pipeline(topology.id());
        let created = Event::Pipeline(Box::new(PipelineRecord::Created { spec }));
        let last = lock(&self.known).removed.get(&stream).copied().unwrap_or_default();
        let position = self.journal.append_events(stream, last, vec![created])?;
        lock(&self.known).removed.remove(&stream);
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
