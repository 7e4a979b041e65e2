//! Output of programs: writing the lines of attempts, and reading those of a run.

use std::io;
use std::sync::Arc;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{OUTPUT_LINE_BYTES_MAX, OutputLine, OutputStore};
use tokio::sync::watch;

/// Bytes read at once. JSON needs at most six bytes for one of a text, so a line always fits.
const READ_BYTES: usize = 8 * OUTPUT_LINE_BYTES_MAX;

/// Lines of output, each with the offset behind it.
pub type OutputPage = Vec<(u64, OutputLine)>;

pub(crate) struct ProgramOutput {
    store: Arc<dyn OutputStore>,
    changes: watch::Sender<u64>,
}

impl ProgramOutput {
    pub(crate) fn new(store: Arc<dyn OutputStore>) -> ProgramOutput {
        ProgramOutput { store, changes: watch::Sender::new(0) }
    }

    /// Appends lines. A failure costs the lines, never the attempt.
    pub(crate) fn append(&self, run: RunId, lines: &[OutputLine]) {
        if lines.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line).expect("texts and numbers are JSON");
            bytes.push(b'\n');
        }
        if let Err(error) = self.store.append(run, &bytes) {
            tracing::warn!(%error, %run, "output of a program is not kept");
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Reads lines from an offset; none at the end.
    pub(crate) fn read(&self, run: RunId, mut after: u64) -> io::Result<OutputPage> {
        loop {
            let bytes = self.store.read(run, after, READ_BYTES)?;
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let mut page = OutputPage::new();
            for line in bytes[..whole].split_inclusive(|&byte| byte == b'\n') {
                after += line.len() as u64;
                // A power failure may leave a line that is none.
                page.extend(serde_json::from_slice(line).ok().map(|line| (after, line)));
            }
            if !page.is_empty() || whole == 0 {
                return Ok(page);
            }
        }
    }

    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
