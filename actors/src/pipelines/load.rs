//! Rebuilds a log from its records.

use futures::FutureExt;
use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::pipeline::{IllegalRecord, Pipeline, PipelineSpec};
use ostler_kernel::port::{Journal, Position, Seq, StreamId};

use super::count::event_of;
use super::log::LogState;
use super::recent_events::RecentEvents;
use super::stage_runtime::StageRuntime;
use crate::pipelines::error::PipelineError;
use crate::pipelines::log::Log;
use crate::storage::run_reader::{self, READ_AT_ONCE};

fn illegal(pipeline: impl Into<String>, what: impl Into<String>) -> PipelineError {
    PipelineError::Illegal { pipeline: pipeline.into(), error: IllegalRecord(what.into()) }
}

/// The records of a pipeline's stream.
pub(crate) struct Records {
    /// Number of the last record; 0 for an empty stream.
    pub(crate) last: Seq,
    position: Position,
    /// `None`: never declared, or removed.
    pipeline: Option<Pipeline>,
}

/// Reads the records of a stream, which may have had several pipelines of one name, one after the other.
pub(crate) fn records(journal: &dyn Journal, stream: StreamId) -> Result<Records, PipelineError> {
    let mut read = Records { last: Seq(0), position: Position::default(), pipeline: None };
    let mut removed_upto = 0;
    let name = || format!("{:032x}", u128::from_be_bytes(stream.key));
    run_reader::each(journal, stream, None, |record| -> Result<(), PipelineError> {
        (read.last, read.position) = (record.seq, read.position.max(record.position));
        let Event::Pipeline(told) = &record.event else {
            return Err(illegal(name(), "a record of another kind"));
        };
        match (&mut read.pipeline, &**told) {
            (None, PipelineRecord::Created { spec }) => {
                let spec = serde_json::from_str::<PipelineSpec>(spec.as_str()).ok();
                let spec = spec.ok_or_else(|| illegal(name(), "its first record does not say what it is"))?;
                let topology = spec.validate_recorded();
                let topology =
                    topology.map_err(|faults| illegal(spec.id.as_str(), format!("{}", faults[0])))?;
                read.pipeline = Some(Pipeline::after_removed(topology, removed_upto));
            }
            // Compaction leaves nothing but this record of a removed pipeline.
            (None, PipelineRecord::Removed { upto }) => removed_upto = *upto,
            (None, _) => return Err(illegal(name(), "its first record does not say what it is")),
            (Some(pipeline), told) => {
                if let Err(error) = pipeline.apply(told) {
                    return Err(PipelineError::Illegal {
                        pipeline: pipeline.topology().id().to_string(),
                        error,
                    });
                }
                if pipeline.is_removed() {
                    (removed_upto, read.pipeline) = (pipeline.head(), None);
                }
            }
        }
        Ok(())
    })?;
    Ok(read)
}

/// State of a pipeline from its records; `None` if there is none. Reading of events starts at the end of the last complete
/// section, or at the cursor of the farthest stage, if earlier.
pub(crate) fn state(
    journal: &dyn Journal,
    stream: StreamId,
    records: Records,
) -> Result<Option<LogState>, PipelineError> {
    let Records { last: records, mut position, pipeline: Some(mut pipeline) } = records else {
        return Ok(None);
    };
    let topology = pipeline.topology().clone();
    let id = || topology.id().to_string();
    let known = pipeline.chunked_upto();
    let hearing: Vec<usize> = (0..topology.len()).filter(|stage| !topology.is_source(*stage)).collect();
    let farthest = hearing.iter().map(|stage| pipeline.stage(*stage).cursor).min().unwrap_or(known);
    let mut at = farthest.min(known).max(pipeline.oldest() - 1);
    let mut live: Vec<StageRuntime> = (0..topology.len()).map(|_| StageRuntime::default()).collect();
    // Which removed events were for a stage is unknown.
    for stage in &hearing {
        live[*stage].uncounted = pipeline.missed_gap(*stage).map_or(0, |(_, last)| last);
    }
    loop {
        let page = journal.read(stream.log(), Seq(at), READ_AT_ONCE)?;
        let Some(last) = page.last() else { break };
        (at, position) = (last.seq.0, position.max(last.position));
        for record in page {
            if let (Event::Published(event), true) = (&record.event, record.seq.0 > known) {
                pipeline.publish(event);
            }
            let event = event_of(record)?;
            for stage in &hearing {
                let behind =
                    event.seq > pipeline.stage(*stage).cursor && topology.subscribes_to(*stage, &event.kind);
                live[*stage].behind += u64::from(behind);
            }
        }
    }
    if let Some(stage) = hearing.iter().find(|stage| pipeline.stage(**stage).cursor > pipeline.head()) {
        return Err(illegal(id(), format!("stage {} is beyond the log", topology.name(*stage))));
    }
    let seen = vec![0; topology.len()];
    // Stages read the events themselves; a log that is only shown holds none.
    let (tail, woken) = (RecentEvents::default(), Vec::new());
    Ok(Some(LogState { pipeline, records, position, tail, live, woken, seen }))
}

impl Log {
    /// Reads everything again. Only the running code of stages is kept. `false` if the pipeline's declaration was rolled
    /// back: the log is closed then.
    pub(crate) fn reload(&self) -> Result<bool, PipelineError> {
        let mut now = self.state();
        let read = state(&*self.journal, self.stream, records(&*self.journal, self.stream)?)?;
        let Some(mut read) = read.filter(|read| read.pipeline.topology().spec() == self.topology.spec())
        else {
            self.close();
            return Ok(false);
        };
        for (read, known) in read.live.iter_mut().zip(&mut now.live) {
            (read.life, read.consumers) = (known.life + 1, known.consumers + 1);
            read.handler = known.handler.take();
            read.down = known.down.take();
        }
        // A rolled back position never becomes durable, so no caller may wait for it.
        if !matches!(self.journal.durable(now.position).now_or_never(), Some(Err(_))) {
            read.position = read.position.max(now.position);
        }
        *now = read;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ostler_kernel::pipeline::StageSpec;
    use ostler_store::MemoryJournal;

    use super::*;
    use crate::Measures;
    use crate::tests::pipeline_crash::system_on;

    #[tokio::test]
    async fn a_log_that_is_only_looked_at_holds_no_events() {
        let journal = Arc::new(MemoryJournal::default());
        for (published, held) in [(3, true), (0, false), (1, true)] {
            let system = system_on(journal.clone(), Measures::default()).await;
            let spec = PipelineSpec::new("p").stage(StageSpec::new("a").publishes(["x"]));
            let spec = spec.stage(StageSpec::new("b").subscribes(["x"]));
            let pipeline = system.create_pipeline(&spec).await.unwrap();
            let before = system.pipelines().await.unwrap()[0].head;
            for _ in 0..published {
                pipeline.publisher("a").unwrap().publish("x", &1).await.unwrap();
            }
            let log = system.pipelines.find("p").unwrap().unwrap();
            assert_eq!(log.state().tail.after(before).is_some(), held, "{published} published");
            assert_eq!(pipeline.row().stages[1].lag, before + published);
            system.shutdown().await;
        }
    }
}
