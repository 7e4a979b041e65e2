//! Everything that is wrong with a journal, without trusting the index and without giving any of it out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::{JournalError, StreamId};

use super::compact::Pipelines;
use super::files::Files;
use super::frame::{self, Body, FRAME_HEADER_BYTES, Place, Section};
use super::load::recognise;
use super::segment::{self, SEGMENT_HEADER_BYTES, Step, Walk};
use crate::codec;
use crate::index::{Head, Index};
use crate::journal::rows::{self, Lines, Reader};

/// Bytes of the journal that are not what they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Number of the segment.
    pub segment: u32,
    /// Where in it, in bytes from its start.
    pub offset: u64,
    /// What was found.
    pub what: String,
    /// Streams that lost records: those that go on behind the damage with a gap, and those that the damaged
    /// bytes still seem to name.
    pub streams: Vec<StreamId>,
    /// Whether this is only the torn end of the last write, which opening cuts off.
    pub torn: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}, offset {}: {}", self.segment, self.offset, self.what)?;
        for (index, stream) in self.streams.iter().enumerate() {
            f.write_str(if index == 0 { "; touches " } else { ", " })?;
            f.write_str(&rows::name_of(stream))?;
        }
        Ok(())
    }
}

impl Damage {
    pub(crate) fn new(place: Place, what: String, streams: Vec<StreamId>) -> Damage {
        Damage { segment: place.segment(), offset: place.offset(), what, streams, torn: false }
    }

    /// What is wrong with a segment's header, if its predecessor should be `before`.
    pub(crate) fn header(number: u32, before: u32, bytes: &[u8]) -> String {
        match segment::previous(number, bytes) {
            Some(previous) => format!("it follows segment {previous}, found segment {before} before it"),
            None => "its header is not a segment's".to_owned(),
        }
    }

    fn touch(&mut self, stream: StreamId) {
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
    }
}

impl From<Damage> for JournalError {
    fn from(damage: Damage) -> JournalError {
        let place = format!("segment {}, offset {}", damage.segment, damage.offset);
        JournalError::Damaged { place, what: damage.what }
    }
}

/// Reads the whole journal up to `until` and lists what is wrong with it.
pub(crate) fn verify(files: &Files, until: Option<Place>) -> io::Result<Vec<Damage>> {
    Ok(survey(files, until)?.damages)
}

/// Everything that is wrong with a journal that has lost its end, by what the index knows of it; nothing if it has not, or nobody can tell.
pub(crate) fn damages_without_end(files: &Files, index: &Index) -> io::Result<Vec<Damage>> {
    let Ok(Some(mark)) = index.mark() else { return Ok(Vec::new()) };
    if recognise(files, mark).is_ok() {
        return Ok(Vec::new());
    }
    let mut survey = survey(files, None)?;
    Ok(if survey.add_lost_end(files, index) { survey.damages } else { Vec::new() })
}

/// What a journal holds and what is wrong with it, by its segments alone.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) damages: Vec<Damage>,
    /// Numbers of its segments, ascending.
    pub(crate) segments: Vec<u32>,
    /// Stretches that cannot be read, torn ends left out: from where, and where reading goes on.
    pub(crate) lost: Vec<(Place, Place)>,
    /// Frames that are whole and do not belong where they are.
    pub(crate) misfits: BTreeSet<Place>,
    /// Streams of which records are missing or cannot be read, and where that shows.
    pub(crate) touched: BTreeMap<StreamId, Place>,
    /// The end of each stream, and where its last frame is.
    pub(crate) heads: HashMap<StreamId, (Head, Place)>,
    /// What the records that can be read say of runs and accounts.
    pub(crate) lines: Lines,
    /// Of each run, the nodes whose work was begun and has no result, and where it was begun first.
    pub(crate) unfinished: HashMap<RunId, BTreeMap<NodeId, Place>>,
    /// Runs that an attempt of another one opened, and which.
    pub(crate) parents: HashMap<RunId, RunId>,
    /// Runs of jobs that are not over.
    pub(crate) jobs: HashSet<RunId>,
    /// When jobs were over whose plans stand in the records, and in which stream.
    pub(crate) jobs_over: HashMap<RunId, (StreamId, Ticks)>,
    /// What the records of pipelines say of each other.
    pub(crate) pipelines: Pipelines,
    /// Jobs whose plans stand in the records.
    planned: HashSet<RunId>,
    /// Highest epoch.
    pub(crate) epoch: u64,
    /// Where its last frame ends.
    pub(crate) end: Place,
    /// Bytes behind the last frame that are none.
    pub(crate) is_torn: bool,
    reader: Reader,
    /// Streams that the bytes of a damage, by its index, seem to name.
    guesses: Vec<(usize, StreamId)>,
}

/// Reads the whole journal up to `until`.
pub(crate) fn survey(files: &Files, until: Option<Place>) -> io::Result<Survey> {
    let mut segments = files.numbers()?;
    if let Some(until) = until {
        segments.retain(|number| *number <= until.segment());
    }
    let mut survey = Survey { segments: segments.clone(), ..Survey::default() };
    let mut before = 0;
    for number in &segments {
        let mut bytes = files.read_segment(*number)?;
        if let Some(until) = until.filter(|until| until.segment() == *number) {
            bytes.truncate(until.offset() as usize);
        }
        survey.segment(*number, before, &bytes, segments.last() == Some(number));
        before = *number;
    }
    survey.believe_guesses();
    Ok(survey)
}

impl Survey {
    /// Whether anything is wrong that opening does not mend.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damages.iter().any(|damage| !damage.torn)
    }

    /// Takes in what [`Survey::lost_end`] says, and whether it says anything. What looks like a torn end is part of that then: no
    /// opening drops it.
    pub(crate) fn add_lost_end(&mut self, files: &Files, index: &Index) -> bool {
        let Some(lost) = self.lost_end(files, index) else { return false };
        self.damages.retain(|damage| !damage.torn);
        self.damages.push(lost);
        true
    }

    /// What is wrong if the index knows of records that the journal does not have: it was durable, and its end is gone. An index
    /// of which nothing is in the journal is one of another journal, and says nothing; so does one that ends where the journal
    /// is whole and goes on.
    fn lost_end(&self, files: &Files, index: &Index) -> Option<Damage> {
        let mark = index.mark().ok()??;
        recognise(files, mark).err()?;
        if self.is_whole_beyond(files, mark.upto) {
            return None;
        }
        let heads = index.heads().ok()?;
        let seq = |stream: &StreamId| self.heads.get(stream).map_or(0, |(head, _)| head.seq);
        if !self.heads.is_empty() && heads.iter().all(|(stream, _)| seq(stream) == 0) {
            return None;
        }
        let lost = heads.iter().map(|(stream, head)| head.seq.saturating_sub(seq(stream)));
        let records = lost.fold(0, u64::saturating_add);
        let what = format!(
            "its end is gone, or it is an older copy: records behind this are lost ({records}, by the index), \
             up to segment {}, offset {}",
            mark.upto.segment(),
            mark.upto.offset()
        );
        let end = self.end.max(Place::new(self.segments.first().copied().unwrap_or(1), 0));
        (records > 0).then(|| Damage::new(end, what, Vec::new()))
    }

    /// Whether nothing can be missing before a place: it has records behind that, and in its segment up to it.
    fn is_whole_beyond(&self, files: &Files, place: Place) -> bool {
        if self.is_damaged() || self.end < place {
            return false;
        }
        let number = place.segment();
        // Who writes the journal anew begins it with another segment.
        if number == self.end.segment() || !self.segments.contains(&number) {
            return true;
        }
        let Ok(bytes) = files.read_segment(number) else { return false };
        let walk = Walk::new(number, &bytes, 0);
        (walk.offset + walk.left()) as u64 >= place.offset()
    }

    fn segment(&mut self, number: u32, before: u32, bytes: &[u8], last: bool) {
        let mut walk = Walk::new(number, bytes, 0);
        if segment::previous(number, bytes) != Some(before) {
            let what = Damage::header(number, before, bytes);
            let mut damage = Damage::new(Place::new(number, 0), what, Vec::new());
            damage.torn = last && walk.left() == 0;
            let start = Place::new(number, SEGMENT_HEADER_BYTES as u64);
            self.damaged(damage, start);
        }
        loop {
            match walk.step() {
                Step::Frame { place, body, .. } => {
                    self.end = Place::new(number, walk.offset as u64);
                    self.frame(place, &body);
                }
                Step::End => return,
                Step::Bad { what } => {
                    let place = Place::new(number, walk.offset as u64);
                    let body = walk.rest().get(FRAME_HEADER_BYTES..).unwrap_or(&[]);
                    let mut damage = Damage::new(place, what.to_owned(), Vec::new());
                    let index = self.damages.len();
                    self.guesses.extend(frame::guess_streams(body).into_iter().map(|guess| (index, guess)));
                    damage.torn = last && walk.resync(true).is_none();
                    let is_torn = damage.torn;
                    let next = walk.resync(false);
                    let end = next.unwrap_or(walk.offset + walk.left());
                    self.damaged(damage, Place::new(number, end as u64));
                    match next {
                        // What is behind a torn end of one write goes with it.
                        Some(offset) if !is_torn => walk.offset = offset,
                        _ => return,
                    }
                }
            }
        }
    }

    fn damaged(&mut self, damage: Damage, end: Place) {
        if damage.torn {
            self.is_torn = true;
        } else {
            self.lost.push((Place::new(damage.segment, damage.offset), end));
        }
        self.damages.push(damage);
    }

    /// A frame that is whole does not belong where it is.
    fn misfit(&mut self, place: Place, what: String, streams: Vec<StreamId>) {
        self.misfits.insert(place);
        for stream in &streams {
            self.touched.entry(*stream).or_insert(place);
        }
        self.damages.push(Damage::new(place, what, streams));
    }

    /// A guess counts if there is such a stream, or if it is all that is known.
    fn believe_guesses(&mut self) {
        for (index, guess) in std::mem::take(&mut self.guesses) {
            if self.heads.contains_key(&guess) || self.damages[index].streams.is_empty() {
                self.damages[index].touch(guess);
            }
        }
    }

    fn frame(&mut self, place: Place, body: &Body<'_>) {
        let named = || body.sections.iter().map(|section| section.stream).collect();
        if body.epoch < self.epoch {
            let what = format!("written in epoch {}, after epoch {} had begun", body.epoch, self.epoch);
            return self.misfit(place, what, named());
        }
        self.epoch = body.epoch;
        let mut events = Vec::new();
        for section in &body.sections {
            match decoded(section) {
                Ok(decoded) => events.push(decoded),
                Err(what) => return self.misfit(place, what, named()),
            }
        }
        for account in &body.accounts {
            match rows::checkpointed(account, place.position()) {
                Ok(row) => drop(self.lines.accounts.insert(rows::key_of(&row), row)),
                Err(error) => return self.misfit(place, format!("its accounts: {error}"), Vec::new()),
            }
        }
        for (section, events) in body.sections.iter().zip(&events) {
            self.section(place, section, events);
        }
    }

    fn section(&mut self, place: Place, section: &Section<'_>, events: &[Event]) {
        let known = self.heads.insert(section.stream, (section.head(), place)).unwrap_or_default().0;
        if !section.follows(&known) {
            self.touched.entry(section.stream).or_insert(place);
            match self.damages.last_mut() {
                Some(damage) => damage.touch(section.stream),
                None => {
                    let what = format!("records before {} of this stream are missing", section.first);
                    self.damages.push(Damage::new(place, what, vec![section.stream]));
                }
            }
        }
        for (run, change) in self.reader.changes(&section.stream, events, section.at_ms) {
            self.lines.apply(run, change, place.position());
        }
        if let Some(run) = rows::run_of(&section.stream) {
            events.iter().for_each(|event| self.note_work(run, event, place));
        }
        events.iter().for_each(|event| self.note_job(section, event));
        self.pipelines.note(section, events);
    }

    fn note_work(&mut self, run: RunId, event: &Event, place: Place) {
        match event {
            Event::AttemptIntent(intent) => {
                self.unfinished.entry(run).or_default().entry(intent.node.clone()).or_insert(place);
            }
            Event::AttemptResult(result) if matches!(result.outcome, Outcome::Ok(_)) => {
                self.unfinished.entry(run).or_default().remove(&result.node);
            }
            Event::RunClosed { .. } => drop(self.unfinished.remove(&run)),
            Event::RunTerms(terms) => {
                self.parents.extend(terms.parent.as_ref().map(|parent| (run, parent.run)));
            }
            _ => {}
        }
    }

    fn note_job(&mut self, section: &Section<'_>, event: &Event) {
        let Event::Market { job, step } = event else { return };
        match &**step {
            MarketStep::Posted(posted) => {
                self.jobs.insert(*job);
                self.planned.extend((posted.plan != Json::null()).then_some(*job));
            }
            step if step.stage().is_over() => {
                self.jobs.remove(job);
                if self.planned.remove(job) {
                    self.jobs_over.insert(*job, (section.stream, section.at_ms));
                }
            }
            _ => {}
        }
    }
}

/// The events of a section, or why it has none.
pub(crate) fn decoded(section: &Section<'_>) -> Result<Vec<Event>, String> {
    let records = section.records().ok_or_else(|| "its records do not add up".to_owned())?;
    let events = records.into_iter().map(|record| codec::decode(record).map_err(|error| error.to_string()));
    events.collect()
}
