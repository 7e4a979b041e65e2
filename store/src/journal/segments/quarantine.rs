//! Runs that were set aside because something of them is damaged: which, why, and what is left of them.
//!
//! The file `quarantine` in the folder of the journal lists them, a line of JSON each, behind a line that says what it is
//! and before one with a checksum. What is left of the records of a run stands in `RUN.remains`, a line of JSON each.

use std::collections::BTreeMap;
use std::io;

use ostler_kernel::event::Event;
use ostler_kernel::id::{Digest, RunId, Ticks};
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus};
use serde::{Deserialize, Serialize};

use super::files::{read_whole, sealed, unsealed};
use crate::disk::Disk;
use crate::journal::rows::{Lines, Reader};

/// The file.
pub(crate) const NAME: &str = "quarantine";

/// What stands in the name of a segment that is kept as it was found.
pub(crate) const DAMAGED: &str = ".damaged-";

/// The first line of it.
const MAGIC: &str = "ostler-quarantine 1";

/// A run that was set aside because something of it is damaged. It is listed, and never driven again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quarantined {
    /// What is known of it.
    pub row: RunRow,
    /// What is damaged.
    pub why: String,
    /// Its records that can be read and were moved out of the journal, to the file [`Quarantined::remains`]; 0: they are
    /// all in the journal.
    pub moved: u64,
    /// Artifacts that those records name.
    pub artifacts: Vec<Digest>,
}

impl Quarantined {
    /// The file in the folder of the journal that holds the records that were moved.
    pub fn remains(&self) -> String {
        remains(self.row.run)
    }

    /// Why its records are not to be had.
    pub(crate) fn damaged(&self) -> JournalError {
        let place = format!("run {}, which is quarantined", self.row.run);
        JournalError::Damaged { place, what: self.why.clone() }
    }

    /// Its line in the table of runs.
    pub(crate) fn listed(&self) -> RunRow {
        RunRow { status: RunRowStatus::Quarantined(self.why.clone()), ..self.row.clone() }
    }
}

/// What the name of a file ends in that holds what is left of a run.
const REMAINS: &str = ".remains";

/// The file that holds what is left of a run.
pub(crate) fn remains(run: RunId) -> String {
    format!("{run}{REMAINS}")
}

/// A record that is left of a run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Remaining {
    pub(crate) seq: u64,
    pub(crate) at_ms: Ticks,
    pub(crate) event: Event,
}

/// What the files that hold what is left of runs say of them: for when the list is damaged.
pub(crate) fn read_remains(disk: &dyn Disk) -> io::Result<Quarantine> {
    let mut found = Quarantine::new();
    for name in disk.list()? {
        let Some(run) = name.strip_suffix(REMAINS).and_then(|run| run.parse().ok()) else { continue };
        let bytes = read_whole(disk, &name)?;
        let (mut lines, reader) = (Lines::default(), Reader::default());
        let (mut moved, mut artifacts) = (0, Vec::new());
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(Remaining { at_ms, event, .. }) = serde_json::from_slice(line) else { continue };
            let change = reader.change(&event, at_ms);
            change.into_iter().for_each(|change| lines.apply(run, change, Position(0)));
            artifacts.extend(super::collect::artifacts(&[event]));
            moved += 1;
        }
        let row = lines.rows.remove(&run).unwrap_or_else(|| unknown(run));
        let why = "it was set aside before; the list that said why was damaged".to_owned();
        found.insert(run, Quarantined { row, why, moved, artifacts });
    }
    Ok(found)
}

/// The line of a run of which nothing is known but when its id was made, with which ids begin.
pub(crate) fn unknown(run: RunId) -> RunRow {
    let made = run.0.as_bytes()[..6].iter().fold(0, |ms, byte| ms << 8 | Ticks::from(*byte));
    RunRow {
        run,
        client: "unknown".into(),
        agent: "unknown".into(),
        plan: "unknown".into(),
        nodes: 0,
        opened_ms: made,
        closed_ms: None,
        status: RunRowStatus::Open,
        evaluated: None,
        acts: 0,
        position: Position(0),
    }
}

/// All runs that were set aside.
pub(crate) type Quarantine = BTreeMap<RunId, Quarantined>;

/// Reads the list; there may be none.
pub(crate) fn read(disk: &dyn Disk) -> io::Result<Quarantine> {
    match read_whole(disk, NAME) {
        Ok(bytes) => parse(&bytes).ok_or_else(|| {
            let what =
                "the file quarantine of the journal is damaged: `ostler doctor --repair` makes it anew";
            io::Error::new(io::ErrorKind::InvalidData, what)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Quarantine::new()),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &[u8]) -> Option<Quarantine> {
    let lines = unsealed(MAGIC, bytes)?.lines();
    lines.map(|line| serde_json::from_str(line).ok().map(|one: Quarantined| (one.row.run, one))).collect()
}

/// The bytes of the list.
pub(crate) fn bytes(quarantine: &Quarantine) -> Vec<u8> {
    let mut lines = String::new();
    for one in quarantine.values() {
        lines += &serde_json::to_string(one).expect("it holds names, numbers and texts");
        lines.push('\n');
    }
    sealed(MAGIC, &lines).into_bytes()
}

#[cfg(test)]
mod tests {
    use ostler_kernel::run::RunOutcome;

    use super::*;

    #[test]
    fn the_list_reads_back_and_no_flipped_bit_of_it_passes() {
        let run: RunId = "00000000-0000-7000-8000-000000000001".parse().unwrap();
        let row = RunRow {
            run,
            client: "acme".into(),
            agent: "worker".into(),
            plan: "audit".into(),
            nodes: 3,
            opened_ms: 1,
            closed_ms: Some(2),
            status: RunRowStatus::Closed(RunOutcome::Failed),
            evaluated: None,
            acts: 2,
            position: Position(0),
        };
        let why = "segment 1, offset 64: its \"checksum\" does not hold\n".to_owned();
        let one = Quarantined { row, why, moved: 7, artifacts: vec![Digest([9; 32])] };
        let list = Quarantine::from([(run, one)]);
        let bytes = bytes(&list);
        assert_eq!(parse(&bytes), Some(list));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&flipped).is_none() || bit / 8 == bytes.len() - 1, "bit {bit}");
        }
    }
}
