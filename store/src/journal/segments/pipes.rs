//! Pipelines that lost records: which, and what is left of them.
//!
//! An event of a pipeline is told by its place in its stream, and cursors are such places. So a pipeline that lost a record cannot go
//! on as what it was: all that is left of it is moved out of the journal, to a file.

use std::collections::BTreeMap;
use std::io;

use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::pipeline::PipelineSpec;
use ostler_kernel::port::{StreamId, StreamKind};

use super::frame::{Place, Section};
use super::quarantine::Remaining;
use super::repair::PipelineLoss;
use super::swap::Swap;
use super::verify::Survey;
use crate::index::Head;

/// What tells pipelines apart, in both of their streams.
type Key = [u8; 16];

/// The two streams of a pipeline.
const KINDS: [StreamKind; 2] = [StreamKind::Pipeline, StreamKind::PipelineLog];

/// Whether it is one of the two streams of a pipeline.
pub(super) fn is_pipeline(stream: &StreamId) -> bool {
    KINDS.contains(&stream.kind)
}

/// Whether it is a stream of one of these pipelines.
pub(super) fn is_of(stream: &StreamId, pipelines: &BTreeMap<Key, String>) -> bool {
    is_pipeline(stream) && pipelines.contains_key(&stream.key)
}

/// The pipelines that lost records, and why that is believed. `known`: the ends of streams as the index has them, if it is to be
/// believed; without it, whatever has no record behind the damage may have lost its last ones.
pub(super) fn touched(survey: &Survey, known: Option<&[(StreamId, Head)]>) -> BTreeMap<Key, String> {
    let mut touched: BTreeMap<Key, String> = BTreeMap::new();
    let mut touch = |stream: &StreamId, why: String| {
        if is_pipeline(stream) {
            touched.entry(stream.key).or_insert(why);
        }
    };
    for (stream, place) in &survey.touched {
        touch(stream, format!("records of it are lost before {}", named(*place)));
    }
    let seq = |stream: &StreamId| survey.heads.get(stream).map_or(0, |(head, _)| head.seq);
    match known {
        Some(known) => {
            for (stream, _) in known.iter().filter(|(stream, head)| seq(stream) < head.seq) {
                touch(stream, format!("its records from {} on are lost", seq(stream) + 1));
            }
        }
        None => {
            let pipelines = survey.heads.keys().filter(|stream| is_pipeline(stream));
            for stream in pipelines.flat_map(|stream| KINDS.map(|kind| StreamId { kind, ..*stream })) {
                // Of one that has no record all may be lost.
                let last = survey.heads.get(&stream).map_or(Place::default(), |(_, last)| *last);
                if let Some((from, _)) = survey.lost.iter().find(|(from, _)| *from > last) {
                    touch(&stream, format!("its last records may be among those lost at {}", named(*from)));
                }
            }
        }
    }
    touched
}

fn named(place: Place) -> String {
    format!("segment {}, offset {}", place.segment(), place.offset())
}

/// What is left of pipelines that lost records.
#[derive(Default)]
pub(super) struct Left(BTreeMap<Key, One>);

#[derive(Default)]
struct One {
    name: Option<String>,
    count: u64,
    text: Vec<u8>,
}

impl Left {
    /// Takes in a section that goes.
    pub(super) fn see(&mut self, section: &Section<'_>, events: Vec<Event>) -> io::Result<()> {
        let one = self.0.entry(section.stream.key).or_default();
        for (event, seq) in events.into_iter().zip(section.first..) {
            if let Event::Pipeline(record) = &event
                && let PipelineRecord::Created { spec } = &**record
            {
                let spec = serde_json::from_str::<PipelineSpec>(spec.as_str()).ok();
                one.name = spec.map(|spec| spec.id);
            }
            serde_json::to_writer(&mut one.text, &Remaining { seq, at_ms: section.at_ms, event })?;
            one.text.push(b'\n');
            one.count += 1;
        }
        Ok(())
    }

    /// Writes what is left to files, if there is a swap, and tells of it.
    pub(super) fn set_aside(
        mut self,
        touched: &BTreeMap<Key, String>,
        epoch: u64,
        mut swap: Option<&mut Swap<'_>>,
    ) -> io::Result<Vec<PipelineLoss>> {
        let mut losses = Vec::new();
        for (key, why) in touched {
            let One { name, count, text } = self.0.remove(key).unwrap_or_default();
            let remains = format!("pipeline-{:032x}-{epoch}.left", u128::from_be_bytes(*key));
            if let (Some(swap), true) = (swap.as_deref_mut(), count > 0) {
                swap.replace(&remains, &text, None)?;
            }
            losses.push(PipelineLoss { pipeline: name, what: why.clone(), moved: count, remains });
        }
        Ok(losses)
    }
}
