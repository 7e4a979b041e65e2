//! Records moved out of the journal: files `RUN.remains` for runs and `pipeline-KEY-EPOCH.left` for pipelines, one JSON line
//! per record.

use std::io;

use ostler_kernel::event::{Event, RecordPlace};
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::{Position, RunRow, RunRowStatus};
use serde::{Deserialize, Serialize};

use super::artifact_refs::artifacts;
use crate::disk::Disk;
use crate::format::quarantine_list::{Quarantine, Quarantined, REMAINS};
use crate::format::sealed_text::read_file;
use crate::index::tables::{ChangeReader, Tables};

pub(crate) const DAMAGED: &str = ".damaged-";

#[derive(Serialize, Deserialize)]
pub(crate) struct MovedRecord {
    pub(crate) seq: u64,
    pub(crate) at_ms: Ticks,
    pub(crate) event: Event,
}

/// Rebuilds the list of quarantined runs from the `.remains` files, for a damaged list. Runs quarantined for a missing artifact
/// have no such file; the next repair finds them again.
pub(crate) fn rebuild_list(disk: &dyn Disk) -> io::Result<Quarantine> {
    let mut list = Quarantine::new();
    for name in disk.list()? {
        let Some(run) = name.strip_suffix(REMAINS).and_then(|run| run.parse().ok()) else { continue };
        let bytes = read_file(disk, &name)?;
        let (mut tables, reader) = (Tables::default(), ChangeReader::default());
        let (mut moved, mut artifact_refs) = (0, Vec::new());
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(MovedRecord { seq, at_ms, event }) = serde_json::from_slice(line) else { continue };
            let change = reader.change(&event, RecordPlace { run, seq }, at_ms);
            change.into_iter().for_each(|change| tables.apply(run, change, Position(0)));
            artifact_refs.extend(artifacts(&[event]));
            moved += 1;
        }
        let row = tables.runs.remove(&run).unwrap_or_else(|| unknown_row(run));
        let why = "quarantined by an earlier repair; the list with the reason was damaged".to_owned();
        list.insert(run, Quarantined { row, why, moved, artifacts: artifact_refs });
    }
    Ok(list)
}

/// Row of a run without any readable record. The first six bytes of the id (UUIDv7) are the time of creation.
pub(crate) fn unknown_row(run: RunId) -> RunRow {
    let created_ms = run.0.as_bytes()[..6].iter().fold(0, |ms, byte| ms << 8 | Ticks::from(*byte));
    RunRow {
        run,
        client: "unknown".into(),
        agent: "unknown".into(),
        plan: "unknown".into(),
        nodes: 0,
        opened_ms: created_ms,
        closed_ms: None,
        status: RunRowStatus::Open,
        evaluated: None,
        acts: 0,
        failed: 0,
        position: Position(0),
    }
}
