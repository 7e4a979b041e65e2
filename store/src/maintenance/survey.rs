//! The survey: one pass over all segments, without the index, collecting content and damage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use ostler_kernel::event::Event;
use ostler_kernel::port::StreamId;

use super::compact::PipelineHistory;
use super::obligations::Obligations;
use crate::format::damage::Damage;
use crate::format::frame::FRAME_HEADER_BYTES;
use crate::format::frame_body::{self, Body, Section};
use crate::format::lsn::Lsn;
use crate::format::segment::{self, Scanner, Step};
use crate::format::segment_files::SegmentFiles;
use crate::format::stream::StreamHead;
use crate::index::tables::{self, ChangeReader, Tables};

#[derive(Default)]
pub(super) struct Survey {
    pub(super) damages: Vec<Damage>,
    pub(super) segments: Vec<u32>,
    /// Unreadable ranges, torn ends excluded: start, and where reading continues.
    pub(super) lost_ranges: Vec<(Lsn, Lsn)>,
    pub(super) misplaced_frames: BTreeSet<Lsn>,
    /// Streams with missing or unreadable records, and the address showing it.
    pub(super) affected_streams: BTreeMap<StreamId, Lsn>,
    /// Each stream's head, and the address of the stream's last frame.
    pub(super) heads: HashMap<StreamId, (StreamHead, Lsn)>,
    pub(super) tables: Tables,
    pub(super) obligations: Obligations,
    pub(super) pipelines: PipelineHistory,
    pub(super) epoch: u64,
    /// Identity of the journal; 0 if no segment has one.
    pub(super) journal: u64,
    pub(super) end: Lsn,
    change_reader: ChangeReader,
    /// Guessed streams, with the index of the damage naming them.
    guesses: Vec<(usize, StreamId)>,
}

pub(super) fn survey(files: &SegmentFiles, until: Option<Lsn>) -> io::Result<Survey> {
    let mut segments = files.numbers()?;
    if let Some(until) = until {
        segments.retain(|number| *number <= until.segment());
    }
    let mut survey = Survey { segments: segments.clone(), ..Survey::default() };
    let mut before = 0;
    for number in &segments {
        let bytes = files.read_segment_before(*number, until)?;
        survey.add_segment(*number, before, &bytes, segments.last() == Some(number));
        before = *number;
    }
    survey.resolve_guesses();
    Ok(survey)
}

impl Survey {
    /// Returns whether there is damage beyond a torn end.
    pub(super) fn is_damaged(&self) -> bool {
        self.damages.iter().any(|damage| !damage.torn)
    }

    pub(super) fn last_seq(&self, stream: &StreamId) -> u64 {
        self.heads.get(stream).map_or(0, |(head, _)| head.seq)
    }

    pub(super) fn first_lost_after(&self, lsn: Lsn) -> Option<Lsn> {
        self.lost_ranges.iter().map(|(from, _)| *from).find(|from| *from > lsn)
    }

    fn add_segment(&mut self, number: u32, before: u32, bytes: &[u8], last: bool) {
        let mut scanner = Scanner::new(number, bytes, 0);
        let journal = segment::journal(bytes);
        if segment::differ(journal, self.journal) {
            return self.add_foreign(number, before, bytes);
        }
        self.journal = if journal != 0 { journal } else { self.journal };
        if segment::previous(number, bytes) != Some(before) {
            let mut damage = Damage::in_header(number, before, bytes);
            damage.torn = last && scanner.remaining_len() == 0;
            self.add_damage(damage, segment::first_lsn(number));
        }
        loop {
            match scanner.step() {
                Step::Frame { lsn, body, .. } => {
                    self.end = Lsn::new(number, scanner.offset as u64);
                    self.add_frame(lsn, &body);
                }
                Step::End => return,
                Step::Bad { what } => {
                    let lsn = Lsn::new(number, scanner.offset as u64);
                    let body = scanner.rest().get(FRAME_HEADER_BYTES..).unwrap_or(&[]);
                    let index = self.damages.len();
                    let guesses = frame_body::guess_streams(body);
                    self.guesses.extend(guesses.into_iter().map(|guess| (index, guess)));
                    let torn = last && scanner.may_be_torn();
                    let next = scanner.resync(false);
                    let end = next.unwrap_or(scanner.offset + scanner.remaining_len());
                    let damage = Damage { torn, ..Damage::new(lsn, what.to_owned(), Vec::new()) };
                    self.add_damage(damage, Lsn::new(number, end as u64));
                    match next {
                        // Frames behind a torn frame belong to the same unfinished write.
                        Some(offset) if !torn => scanner.offset = offset,
                        _ => return,
                    }
                }
            }
        }
    }

    /// Adds a segment of another journal as lost. No frame of it counts.
    fn add_foreign(&mut self, number: u32, before: u32, bytes: &[u8]) {
        let mut scanner = Scanner::new(number, bytes, 0);
        let end = Lsn::new(number, (scanner.offset + scanner.remaining_len()) as u64);
        loop {
            match scanner.step() {
                Step::Frame { lsn, .. } => drop(self.misplaced_frames.insert(lsn)),
                Step::End => break,
                Step::Bad { .. } => match scanner.resync(false) {
                    Some(next) => scanner.offset = next,
                    None => break,
                },
            }
        }
        self.add_damage(Damage::in_header(number, before, bytes), end);
    }

    fn add_damage(&mut self, damage: Damage, end: Lsn) {
        if !damage.torn {
            self.lost_ranges.push((Lsn::new(damage.segment, damage.offset), end));
        }
        self.damages.push(damage);
    }

    fn add_misplaced(&mut self, lsn: Lsn, what: String, streams: Vec<StreamId>) {
        self.misplaced_frames.insert(lsn);
        for stream in &streams {
            self.affected_streams.entry(*stream).or_insert(lsn);
        }
        self.damages.push(Damage::new(lsn, what, streams));
    }

    /// Adds a guessed stream to its damage if the stream exists, or if nothing else is known.
    fn resolve_guesses(&mut self) {
        for (index, guess) in std::mem::take(&mut self.guesses) {
            if self.heads.contains_key(&guess) || self.damages[index].streams.is_empty() {
                self.damages[index].add_stream(guess);
            }
        }
    }

    fn add_frame(&mut self, lsn: Lsn, body: &Body<'_>) {
        let streams = || body.sections.iter().map(|section| section.stream).collect();
        if body.epoch < self.epoch {
            let what = format!("a frame of epoch {} behind epoch {}", body.epoch, self.epoch);
            return self.add_misplaced(lsn, what, streams());
        }
        self.epoch = body.epoch;
        let mut events = Vec::new();
        for section in &body.sections {
            match section.events() {
                Ok(decoded) => events.push(decoded),
                Err(what) => return self.add_misplaced(lsn, what, streams()),
            }
        }
        for account in &body.accounts {
            match tables::decode_checkpointed(account, lsn.position()) {
                Ok(row) => drop(self.tables.accounts.insert(tables::key_of(&row), row)),
                Err(error) => {
                    return self.add_misplaced(lsn, format!("checkpointed accounts: {error}"), Vec::new());
                }
            }
        }
        for (section, events) in body.sections.iter().zip(&events) {
            self.add_section(lsn, section, events);
        }
    }

    fn add_section(&mut self, lsn: Lsn, section: &Section<'_>, events: &[Event]) {
        let known = self.heads.insert(section.stream, (section.head(), lsn)).unwrap_or_default().0;
        if !section.follows(&known) {
            self.affected_streams.entry(section.stream).or_insert(lsn);
            match self.damages.last_mut() {
                Some(damage) => damage.add_stream(section.stream),
                None => {
                    let what = format!("records before {} of this stream are missing", section.first);
                    self.damages.push(Damage::new(lsn, what, vec![section.stream]));
                }
            }
        }
        for (run, change) in self.change_reader.changes(&section.stream, section.first, events, section.at_ms)
        {
            self.tables.apply(run, change, lsn.position());
        }
        self.obligations.add(lsn, section, events);
        self.pipelines.add(section, events);
    }
}
