//! The list of quarantined runs: file `quarantine` in the journal's folder, a [sealed text](super::sealed_text) with one JSON
//! line per run.

use std::collections::BTreeMap;
use std::io;

use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::port::{JournalError, RunRow, RunRowStatus};
use serde::{Deserialize, Serialize};

use super::sealed_text::{self, read_file};
use crate::disk::Disk;

pub(crate) const NAME: &str = "quarantine";

const MAGIC: &str = "ostler-quarantine 1";

pub(crate) const REMAINS: &str = ".remains";

/// A run quarantined because of damage: listed, never resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The run's last known row.
    pub row: RunRow,
    /// Description of the damage.
    pub why: String,
    /// Number of readable records moved out of the journal into the file [`Quarantined::remains`]; 0 if all records are still
    /// in the journal.
    pub moved: u64,
    /// Artifacts named by the moved records.
    pub artifacts: Vec<Digest>,
}

impl Quarantined {
    /// Name of the file with the moved records, in the journal's folder.
    pub fn remains(&self) -> String {
        remains(self.row.run)
    }

    pub(crate) fn read_error(&self) -> JournalError {
        let place = format!("run {}, which is quarantined", self.row.run);
        JournalError::Damaged { place, what: self.why.clone() }
    }

    /// The run's row with status `Quarantined`.
    pub(crate) fn listed(&self) -> RunRow {
        RunRow { status: RunRowStatus::Quarantined(self.why.clone()), ..self.row.clone() }
    }
}

pub(crate) fn remains(run: RunId) -> String {
    format!("{run}{REMAINS}")
}

pub(crate) type Quarantine = BTreeMap<RunId, Quarantined>;

/// Reads the list; empty if the file does not exist.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] for a damaged list.
pub(crate) fn read(disk: &dyn Disk) -> io::Result<Quarantine> {
    match read_file(disk, NAME) {
        Ok(bytes) => parse(&bytes).ok_or_else(|| {
            let what = "the journal's file quarantine: damaged; rebuild it with `ostler doctor --repair`";
            io::Error::new(io::ErrorKind::InvalidData, what)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Quarantine::new()),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &[u8]) -> Option<Quarantine> {
    let lines = sealed_text::open(MAGIC, bytes)?.lines();
    lines.map(|line| serde_json::from_str(line).ok().map(|one: Quarantined| (one.row.run, one))).collect()
}

pub(crate) fn bytes(quarantine: &Quarantine) -> Vec<u8> {
    let mut lines = String::new();
    for one in quarantine.values() {
        lines += &serde_json::to_string(one).expect("rows hold only names, numbers and texts");
        lines.push('\n');
    }
    sealed_text::seal(MAGIC, &lines).into_bytes()
}

#[cfg(test)]
mod tests {
    use ostler_kernel::port::Position;
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
            failed: 1,
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
