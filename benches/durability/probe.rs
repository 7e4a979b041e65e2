//! What the disk does right now: records written one after the other, each synced.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Bytes of a record: about what a step writes.
const RECORD_BYTES: usize = 300;

/// Length of the file, in bytes, all of them written before anything is measured.
const FILE_BYTES: usize = 1024 * 1024;

/// A file whose blocks are taken, as those of the journal.
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

    /// Records per second, of so many.
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

/// Waits until the disk has written everything that it was given, by whomever.
pub(crate) fn settle() {
    assert!(Command::new("sync").status().unwrap().success());
}
