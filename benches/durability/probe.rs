//! Current disk speed: sequential records, each synced.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Record size in bytes, about that of a step.
const RECORD_BYTES: usize = 300;

/// File length in bytes, written before the measurement.
const FILE_BYTES: usize = 1024 * 1024;

/// A preallocated file, like a journal segment.
pub(crate) struct Probe {
    file: File,
    at: u64,
}

impl Probe {
    pub(crate) fn new(folder: &Path) -> Probe {
        let file = File::create(folder.join("probe")).unwrap();
        file.write_all_at(&vec![1; FILE_BYTES], 0).unwrap();
        file.sync_all().unwrap();
        Probe { file, at: 0 }
    }

    /// Records per second over `count` records.
    pub(crate) fn syncs_per_s(&mut self, count: u32) -> f64 {
        let begun = Instant::now();
        for _ in 0..count {
            if self.at as usize + RECORD_BYTES > FILE_BYTES {
                self.at = 0;
            }
            self.file.write_all_at(&[2; RECORD_BYTES], self.at).unwrap();
            self.file.sync_data().unwrap();
            self.at += RECORD_BYTES as u64;
        }
        f64::from(count) / begun.elapsed().as_secs_f64()
    }
}

/// Waits until the disk has written all pending data of all processes.
pub(crate) fn settle() {
    assert!(Command::new("sync").status().unwrap().success());
}
