//! What of pipelines that go on nobody needs any more: events that are over the quota, and records that later ones make needless.

use std::collections::HashMap;

use ostler_kernel::event::Event;
use ostler_kernel::pipeline::Compaction;
use ostler_kernel::port::{StreamId, StreamKind};

use super::frame::Section;
use crate::bytes::put_block;

/// Records of a pipeline that are not needed any more before the journal is written anew for their sake alone.
pub(crate) const NEEDLESS_MIN: u64 = 1_000;

/// What the records of pipelines say of each other.
#[derive(Default)]
pub(crate) struct Pipelines {
    /// By the stream of its stages.
    compactions: HashMap<StreamId, Compaction>,
    /// By its stream: the first event of a log, and the last one of its first section.
    logs: HashMap<StreamId, (u64, u64)>,
}

/// What of pipelines is to go.
#[derive(Debug, Default)]
pub(crate) struct Needless {
    /// Records of the streams of stages, by their numbers, ascending.
    records: HashMap<StreamId, Vec<u64>>,
    /// Of logs: the first event that is needed.
    logs: HashMap<StreamId, u64>,
}

impl Pipelines {
    /// Takes in the records of a section.
    pub(crate) fn note(&mut self, section: &Section<'_>, events: &[Event]) {
        match section.stream.kind {
            StreamKind::PipelineLog => {
                self.logs.entry(section.stream).or_insert((section.first, section.last()));
            }
            StreamKind::Pipeline => {
                let compaction = self.compactions.entry(section.stream).or_default();
                for (event, number) in events.iter().zip(section.first..) {
                    if let Event::Pipeline(record) = event {
                        compaction.note(number, record);
                    }
                }
            }
            StreamKind::Run | StreamKind::Client | StreamKind::Attempts => {}
        }
    }

    /// What is to go of each pipeline, if there is enough of it, or if the journal is written anew anyway; events only where at least
    /// as many go as stay, since those are written anew with their log. `last`: the last record of a stream.
    pub(crate) fn needless(&self, is_anyway: bool, last: impl Fn(&StreamId) -> u64) -> Needless {
        let mut needless = Needless::default();
        for (stream, compaction) in &self.compactions {
            let log = stream.log();
            // The end of a log stays whatever it holds: its numbers go on behind it.
            let end = last(&log);
            let oldest = compaction.oldest().min(end);
            let first = self.logs.get(&log).filter(|(_, last)| *last < oldest).map(|(first, _)| *first);
            let events =
                first.map(|first| oldest - first).filter(|events| *events > end - oldest).unwrap_or(0);
            let count = events + compaction.needless().len() as u64;
            if !is_anyway && count < NEEDLESS_MIN {
                continue;
            }
            if events > 0 {
                needless.logs.insert(log, oldest);
            }
            if !compaction.needless().is_empty() {
                let mut numbers = compaction.needless().to_vec();
                numbers.sort_unstable();
                needless.records.insert(*stream, numbers);
            }
        }
        needless
    }
}

impl Needless {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.logs.is_empty()
    }

    /// Records of streams of stages that go.
    pub(crate) fn count(&self) -> u64 {
        self.records.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// Streams of stages some of whose records go. Nothing names a record of theirs by its number.
    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.records.keys().copied()
    }

    /// Of logs of which events go: the first one that is needed.
    pub(crate) fn logs(&self) -> &HashMap<StreamId, u64> {
        &self.logs
    }

    /// What stays of the records of a section, and how many that are; `None`: all of them.
    pub(crate) fn without(&self, section: &Section<'_>) -> Option<(Vec<u8>, u64)> {
        let numbers = self.records.get(&section.stream)?;
        let from = numbers.partition_point(|number| *number < section.first);
        let numbers = numbers[from..].iter().take_while(|number| **number <= section.last());
        let mut gone = numbers.peekable();
        gone.peek()?;
        let (mut bytes, mut count) = (Vec::new(), 0);
        for (record, number) in section.records().unwrap_or_default().into_iter().zip(section.first..) {
            if gone.next_if(|gone| **gone == number).is_none() {
                put_block(&mut bytes, record);
                count += 1;
            }
        }
        Some((bytes, count))
    }
}
