//! Compacting running pipelines: dropping events over the quota and stage records superseded by later ones.

use std::collections::HashMap;

use ostler_kernel::event::Event;
use ostler_kernel::pipeline::Compaction;
use ostler_kernel::port::{StreamId, StreamKind};

use crate::format::bytes::put_block;
use crate::format::frame_body::Section;

/// Fewest droppable records of a pipeline worth a rewrite of their own.
pub(crate) const COMPACT_RECORDS_MIN: u64 = 1_000;

#[derive(Default)]
pub(super) struct PipelineHistory {
    compactions: HashMap<StreamId, Compaction>,
    /// By the log's stream: the first event, and the last event of the first section.
    logs: HashMap<StreamId, (u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct CompactionPlan {
    records: HashMap<StreamId, Vec<u64>>,
    logs: HashMap<StreamId, u64>,
}

impl PipelineHistory {
    pub(super) fn add(&mut self, section: &Section<'_>, events: &[Event]) {
        match section.stream.kind {
            StreamKind::PipelineLog => {
                self.logs.entry(section.stream).or_insert((section.first, section.last()));
            }
            StreamKind::Pipeline => {
                let compaction = self.compactions.entry(section.stream).or_default();
                for (event, number) in events.iter().zip(section.first..) {
                    if let Event::Pipeline(record) = event {
                        compaction.apply(number, record);
                    }
                }
            }
            StreamKind::Run | StreamKind::Client | StreamKind::Attempts => {}
        }
    }

    /// Plans the compaction of each pipeline with [`COMPACT_RECORDS_MIN`] droppable records, or of all pipelines if the journal
    /// is rewritten anyway. Truncating a log rewrites the log's remaining events, so events are dropped only if they outnumber
    /// the remaining ones. `last_seq` returns the last sequence number of a stream.
    pub(super) fn plan(
        &self,
        is_rewritten_anyway: bool,
        last_seq: impl Fn(&StreamId) -> u64,
    ) -> CompactionPlan {
        let mut plan = CompactionPlan::default();
        for (stream, compaction) in &self.compactions {
            let log = stream.log();
            // The last section always stays: the next event continues its numbers.
            let end = last_seq(&log);
            let oldest = compaction.oldest().min(end);
            let first = self.logs.get(&log).filter(|(_, last)| *last < oldest).map(|(first, _)| *first);
            let events =
                first.map(|first| oldest - first).filter(|events| *events > end - oldest).unwrap_or(0);
            let count = events + compaction.obsolete().len() as u64;
            if !is_rewritten_anyway && count < COMPACT_RECORDS_MIN {
                continue;
            }
            if events > 0 {
                plan.logs.insert(log, oldest);
            }
            if !compaction.obsolete().is_empty() {
                let mut numbers = compaction.obsolete().to_vec();
                numbers.sort_unstable();
                plan.records.insert(*stream, numbers);
            }
        }
        plan
    }
}

impl CompactionPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.logs.is_empty()
    }

    pub(super) fn record_count(&self) -> u64 {
        self.records.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// Streams losing stage records. No record refers to theirs by number, so these streams may be renumbered.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.records.keys().copied()
    }

    pub(super) fn log_starts(&self) -> &HashMap<StreamId, u64> {
        &self.logs
    }

    /// The remaining records of a section and their number; `None` if the section loses nothing.
    pub(super) fn remaining(&self, section: &Section<'_>) -> Option<(Vec<u8>, u64)> {
        let numbers = self.records.get(&section.stream)?;
        let from = numbers.partition_point(|number| *number < section.first);
        let numbers = numbers[from..].iter().take_while(|number| **number <= section.last());
        let mut dropped = numbers.peekable();
        dropped.peek()?;
        let (mut bytes, mut count) = (Vec::new(), 0);
        for (record, number) in section.records().unwrap_or_default().into_iter().zip(section.first..) {
            if dropped.next_if(|dropped| **dropped == number).is_none() {
                put_block(&mut bytes, record);
                count += 1;
            }
        }
        Some((bytes, count))
    }
}
