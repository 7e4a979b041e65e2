//! Durable steps on a memory file system against a bare log: the cost of everything but the disk.

use std::path::Path;

use crate::bare_log::BareLog;
use crate::steps::{self, Kind};
use crate::table::{Must, Row, median};

/// A memory file system.
const MEMORY: &str = "/dev/shm";

/// Samples per figure.
const ROUNDS: usize = 15;

pub(crate) fn rows() -> Vec<Row> {
    if !Path::new(MEMORY).is_dir() {
        eprintln!("skipped: there is no {MEMORY}");
        return Vec::new();
    }
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let folder = tempfile::tempdir_in(MEMORY).unwrap();
        let os = steps::start(folder.path()).await;
        let log = BareLog::open(folder.path());
        let plan = steps::plan(&os, Kind::Pure);
        let mut rows = Vec::new();
        for (at_once, times, records) in [(1, 50, 5_000), (16, 10, 2_000), (256, 4, 200)] {
            let mut pairs = Vec::new();
            for round in 0..=ROUNDS {
                let ours = steps::steps_per_s(&os, &plan, at_once, times).await;
                let bare = log.records_per_s(at_once, records).await;
                if round > 0 {
                    pairs.push((ours, bare));
                }
            }
            let figure = format!("in memory, pure steps, {at_once} at a time ÷ a bare log");
            let ratio = median(pairs.iter().map(|(ours, bare)| ours / bare));
            let [ours, bare] =
                [median(pairs.iter().map(|pair| pair.0)), median(pairs.iter().map(|pair| pair.1))];
            let note = format!("{ours:.0} steps/s ÷ {bare:.0} records/s");
            rows.push(Row::new(figure, Must::Least(0.25), 0.4, ratio).note(note));
        }
        log.close();
        os.shutdown().await;
        rows
    })
}
