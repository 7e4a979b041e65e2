//! The size of the data folder, and the latency of durable writes.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cli::commands::doctor::report::Report;
use crate::cli::output::units::bytes;

const PROBES: usize = 32;

const PROBE_BYTES: usize = 4_096;

const SYNC_PLAUSIBLE: Duration = Duration::from_micros(15);

/// Unit of `st_blocks`, independent of the file system.
const BLOCK_BYTES: u64 = 512;

pub(crate) fn size_text((files, size): (u64, u64)) -> String {
    format!("{} in {files} files", bytes(size))
}

/// Counts the files below a folder, and their bytes on disk. Unreadable entries are ignored.
pub(crate) fn folder_bytes(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) if about.is_file() => sum = (sum.0 + 1, sum.1 + about.blocks() * BLOCK_BYTES),
                _ => {}
            }
        }
    }
    sum
}

/// Measures the latency of durable writes where the journal is.
pub(crate) fn check_disk(data: &Path, report: &mut Report) {
    let mut folder: PathBuf = data.to_owned();
    while !folder.is_dir() {
        match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => folder = parent.to_owned(),
            _ => folder = PathBuf::from("."),
        }
    }
    // Without a name: nothing is left of the file however this process ends.
    match tempfile::tempfile_in(&folder).and_then(measure) {
        Ok(mut spans) => {
            spans.sort_unstable();
            let (median, worst) = (spans[spans.len() / 2], spans[spans.len() - 1]);
            let latency = format!(
                "durable write: median {:.2} ms, maximum {:.2} ms; about {:.0} sequential steps per second, more in parallel",
                median.as_secs_f64() * 1e3,
                worst.as_secs_f64() * 1e3,
                1.0 / median.as_secs_f64().max(1e-9)
            );
            if median < SYNC_PLAUSIBLE {
                report.warn("disk", format!("{latency}; implausibly fast"), MEMORY_DISK);
            } else {
                report.pass("disk", latency);
            }
        }
        Err(error) => {
            let what = format!("{}: cannot write: {error}", folder.display());
            report.fail(
                "disk",
                what,
                "free space, change the permissions, or name another folder with --data",
            );
        }
    }
}

const MEMORY_DISK: &str = "if runs must survive a power loss, name a folder on a persistent disk with --data";

fn measure(mut file: File) -> std::io::Result<Vec<Duration>> {
    let block = [0x5a_u8; PROBE_BYTES];
    (0..PROBES)
        .map(|_| {
            let begun = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            Ok(begun.elapsed())
        })
        .collect()
}
