//! Everything that is wrong with a journal, without trusting the index and without giving any of it out.

use std::collections::HashMap;
use std::fmt;
use std::io;

use ostler_kernel::port::{JournalError, StreamId};

use super::files::Files;
use super::frame::{self, Body, FRAME_HEADER_BYTES, Place};
use super::segment::{self, Step, Walk};
use crate::codec;
use crate::index::Head;
use crate::journal::rows;

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
            match rows::run_of(stream) {
                Some(run) => write!(f, "run {run}")?,
                None => write!(f, "client {:032x}", u128::from_be_bytes(stream.key))?,
            }
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
    let mut numbers = files.numbers()?;
    if let Some(until) = until {
        numbers.retain(|number| *number <= until.segment());
    }
    let mut doctor = Doctor::default();
    let mut before = 0;
    for number in &numbers {
        let mut bytes = files.read_segment(*number)?;
        if let Some(until) = until.filter(|until| until.segment() == *number) {
            bytes.truncate(until.offset() as usize);
        }
        doctor.segment(*number, before, &bytes, numbers.last() == Some(number));
        before = *number;
    }
    Ok(doctor.finish())
}

#[derive(Default)]
struct Doctor {
    found: Vec<Damage>,
    /// Streams that the bytes of a damage, by its index, seem to name.
    guesses: Vec<(usize, StreamId)>,
    heads: HashMap<StreamId, Head>,
    epoch: u64,
}

impl Doctor {
    fn segment(&mut self, number: u32, before: u32, bytes: &[u8], last: bool) {
        let mut walk = Walk::new(number, bytes, 0);
        if segment::previous(number, bytes) != Some(before) {
            let what = Damage::header(number, before, bytes);
            let mut damage = Damage::new(Place::new(number, 0), what, Vec::new());
            damage.torn = last && walk.left() == 0;
            self.found.push(damage);
        }
        loop {
            match walk.step() {
                Step::Frame { place, body, .. } => self.frame(place, &body),
                Step::End => return,
                Step::Bad { what } => {
                    let place = Place::new(number, walk.offset as u64);
                    let body = walk.rest().get(FRAME_HEADER_BYTES..).unwrap_or(&[]);
                    let mut damage = Damage::new(place, what.to_owned(), Vec::new());
                    let index = self.found.len();
                    self.guesses.extend(frame::guess_streams(body).into_iter().map(|guess| (index, guess)));
                    damage.torn = last && walk.resync(true).is_none();
                    self.found.push(damage);
                    match walk.resync(false) {
                        Some(offset) => walk.offset = offset,
                        None => return,
                    }
                }
            }
        }
    }

    /// What was found; a guess counts if there is such a stream, or if it is all that is known.
    fn finish(mut self) -> Vec<Damage> {
        for (index, guess) in self.guesses {
            if self.heads.contains_key(&guess) || self.found[index].streams.is_empty() {
                self.found[index].touch(guess);
            }
        }
        self.found
    }

    fn frame(&mut self, place: Place, body: &Body<'_>) {
        if body.epoch < self.epoch {
            let what = format!("written in epoch {}, after epoch {} had begun", body.epoch, self.epoch);
            self.found.push(Damage::new(place, what, Vec::new()));
        }
        self.epoch = self.epoch.max(body.epoch);
        for section in &body.sections {
            let head = Head { seq: section.last(), chain: section.chain() };
            let known = self.heads.insert(section.stream, head).unwrap_or_default();
            if section.first != known.seq + 1 || section.prev != known.chain {
                match self.found.last_mut() {
                    Some(damage) => damage.touch(section.stream),
                    None => {
                        let what = format!("records before {} of this stream are missing", section.first);
                        self.found.push(Damage::new(place, what, vec![section.stream]));
                    }
                }
            }
            let records = section.records().unwrap_or_default();
            let wrong = match records.iter().find_map(|record| codec::decode(record).err()) {
                Some(error) => error.to_string(),
                None if records.is_empty() => "its records do not add up".to_owned(),
                None => continue,
            };
            self.found.push(Damage::new(place, wrong, vec![section.stream]));
        }
    }
}
