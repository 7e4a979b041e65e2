//! Pipelines with lost records.
//!
//! Cursors of stages are sequence numbers of the pipeline's log, so a pipeline cannot continue with a record missing. Repairing
//! moves all remaining records of an affected pipeline to a file; the pipeline can then be declared again.

use std::collections::BTreeMap;
use std::io;

use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::pipeline::PipelineSpec;
use ostler_kernel::port::{StreamId, StreamKind};

use super::atomic_replace::AtomicReplace;
use super::findings::PipelineLoss;
use super::quarantine::MovedRecord;
use super::survey::Survey;
use crate::format::frame_body::Section;
use crate::format::lsn::Lsn;
use crate::format::stream::StreamHead;

type Key = [u8; 16];

pub(super) type AffectedPipelines = BTreeMap<Key, String>;

const KINDS: [StreamKind; 2] = [StreamKind::Pipeline, StreamKind::PipelineLog];

pub(super) fn is_pipeline(stream: &StreamId) -> bool {
    KINDS.contains(&stream.kind)
}

pub(super) fn is_of(stream: &StreamId, pipelines: &AffectedPipelines) -> bool {
    is_pipeline(stream) && pipelines.contains_key(&stream.key)
}

/// The affected pipelines. `indexed` holds the heads of an index built before the damage; without one, every pipeline without a
/// record behind the damage counts as affected.
pub(super) fn affected_pipelines(
    survey: &Survey,
    indexed: Option<&[(StreamId, StreamHead)]>,
) -> AffectedPipelines {
    let mut affected = AffectedPipelines::new();
    let mut add = |stream: &StreamId, why: String| {
        if is_pipeline(stream) {
            affected.entry(stream.key).or_insert(why);
        }
    };
    for (stream, lsn) in &survey.affected_streams {
        add(stream, format!("records are lost before {lsn}"));
    }
    match indexed {
        Some(heads) => {
            for (stream, _) in heads.iter().filter(|(stream, head)| survey.last_seq(stream) < head.seq) {
                add(stream, format!("records from {} on are lost", survey.last_seq(stream) + 1));
            }
        }
        None => {
            let pipelines = survey.heads.keys().filter(|stream| is_pipeline(stream));
            for stream in pipelines.flat_map(|stream| KINDS.map(|kind| StreamId { kind, ..*stream })) {
                // A stream without records may have lost all.
                let last = survey.heads.get(&stream).map_or(Lsn::default(), |(_, last)| *last);
                if let Some(from) = survey.first_lost_after(last) {
                    add(&stream, format!("the last records may be among those lost at {from}"));
                }
            }
        }
    }
    affected
}

#[derive(Default)]
pub(super) struct SalvagedPipelines(BTreeMap<Key, SalvagedPipeline>);

#[derive(Default)]
struct SalvagedPipeline {
    name: Option<String>,
    count: u64,
    text: Vec<u8>,
}

impl SalvagedPipelines {
    pub(super) fn add(&mut self, section: &Section<'_>, events: Vec<Event>) -> io::Result<()> {
        let one = self.0.entry(section.stream.key).or_default();
        for (event, seq) in events.into_iter().zip(section.first..) {
            if let Event::Pipeline(record) = &event
                && let PipelineRecord::Created { spec } = &**record
            {
                let spec = serde_json::from_str::<PipelineSpec>(spec.as_str()).ok();
                one.name = spec.map(|spec| spec.id);
            }
            serde_json::to_writer(&mut one.text, &MovedRecord { seq, at_ms: section.at_ms, event })?;
            one.text.push(b'\n');
            one.count += 1;
        }
        Ok(())
    }

    /// Lists the losses, and writes the remaining records to files if there is a `change`.
    pub(super) fn into_losses(
        mut self,
        affected: &AffectedPipelines,
        epoch: u64,
        mut change: Option<&mut AtomicReplace<'_>>,
    ) -> io::Result<Vec<PipelineLoss>> {
        let mut losses = Vec::new();
        for (key, why) in affected {
            let SalvagedPipeline { name, count, text } = self.0.remove(key).unwrap_or_default();
            let remains = format!("pipeline-{:032x}-{epoch}.left", u128::from_be_bytes(*key));
            if let (Some(change), true) = (change.as_deref_mut(), count > 0) {
                change.replace(&remains, &text, None)?;
            }
            losses.push(PipelineLoss { pipeline: name, what: why.clone(), moved: count, remains });
        }
        Ok(losses)
    }
}
