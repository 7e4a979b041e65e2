//! Disk usage of a chain of steps against the size of the results.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::plans;
use crate::table::Row;

const STEP_BYTES: usize = 1_000;

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let empty = taken(0).await;
        let [short, long] = [taken(200).await, taken(400).await];
        let payload = |steps: usize| (steps * STEP_BYTES) as f64;
        let journal = short.journal - empty.journal;
        vec![
            Row::ratio("200 steps of 1 kB: journal ÷ payload", 1.5, journal / payload(200))
                .note(format!("{journal:.0} bytes ÷ {:.0}", payload(200))),
            Row::ratio(
                "400 steps of 1 kB ÷ twice 200",
                1.05,
                (long.journal - empty.journal) / (2.0 * journal),
            ),
            Row::ratio("200 steps of 1 kB: blocks the folder takes", None, short.blocks / 1e3)
                .unit("kB")
                .note(format!("of it {:.0} kB for the empty folder", empty.blocks / 1e3)),
        ]
    })
}

/// Sizes in bytes.
struct Taken {
    /// Written to the journal.
    journal: f64,
    /// Allocated by the file system.
    blocks: f64,
}

async fn taken(steps: usize) -> Taken {
    let data = plans::folder();
    let os = plans::in_folder(data.path()).await;
    if steps > 0 {
        let plan = plans::plan(&os, plans::carrying(steps, STEP_BYTES));
        plans::run(&os, plan).await;
    }
    os.shutdown().await;
    drop(os);
    let journal = files(&data.path().join("journal")).iter().map(|file| written(file)).sum::<usize>() as f64;
    let blocks =
        files(data.path()).iter().map(|file| fs::metadata(file).unwrap().blocks() * 512).sum::<u64>();
    Taken { journal, blocks: blocks as f64 }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Bytes up to the last non-zero one; segments are preallocated.
fn written(segment: &Path) -> usize {
    let bytes = fs::read(segment).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}
