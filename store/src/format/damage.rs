//! Damage: bytes of the journal other than those written.

use std::{fmt, io};

use ostler_kernel::port::{JournalError, StreamId};

use super::lsn::Lsn;
use super::segment;
use super::stream::describe;

/// Unreadable or misplaced bytes in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Number of the segment.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// Description of the bytes found.
    pub what: String,
    /// Streams with lost records: streams with a gap behind the damage, and streams the damaged bytes still seem to name.
    pub streams: Vec<StreamId>,
    /// True if the bytes are only the torn end of the last write. Opening the journal truncates such an end.
    pub torn: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}, offset {}: {}", self.segment, self.offset, self.what)?;
        for (index, stream) in self.streams.iter().enumerate() {
            f.write_str(if index == 0 { "; touches " } else { ", " })?;
            f.write_str(&describe(stream))?;
        }
        Ok(())
    }
}

impl Damage {
    pub(crate) fn new(lsn: Lsn, what: String, streams: Vec<StreamId>) -> Damage {
        Damage { segment: lsn.segment(), offset: lsn.offset(), what, streams, torn: false }
    }

    /// Damage of the header of segment `number`, the successor of segment `before`.
    pub(crate) fn in_header(number: u32, before: u32, bytes: &[u8]) -> Damage {
        let what = match segment::previous(number, bytes) {
            Some(previous) if previous == before => "a segment of another journal".to_owned(),
            Some(previous) => format!("the header names predecessor {previous}, found segment {before}"),
            None => match segment::own_number(bytes) {
                Some(own) => {
                    format!("the header of segment {own}: a copy of it, or a file of another journal")
                }
                None => "not a segment header".to_owned(),
            },
        };
        Damage::new(Lsn::new(number, 0), what, Vec::new())
    }

    pub(crate) fn add_stream(&mut self, stream: StreamId) {
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

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenJournalError {
    /// Durable records are lost or changed. Opening changes nothing in this case.
    #[error("the journal is damaged: {}", list(.0))]
    Damaged(Vec<Damage>),
    /// The file system reported an error.
    #[error("opening the journal: {0}")]
    Io(#[from] io::Error),
}

fn list(damages: &[Damage]) -> String {
    damages.iter().map(Damage::to_string).collect::<Vec<_>>().join("; ")
}
