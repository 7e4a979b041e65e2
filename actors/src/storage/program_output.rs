//! Output of programs: writing that of attempts, and reading that of a run.

use std::io;
use std::sync::Arc;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{OUTPUT_CHUNK_BYTES_MAX, OutputChunk, OutputStore};
use tokio::sync::watch;

/// Bytes read at once. JSON needs at most six bytes for one of a text, so a chunk always fits.
const READ_BYTES: usize = 8 * OUTPUT_CHUNK_BYTES_MAX;

/// Chunks of output, each with the offset behind it.
pub type OutputPage = Vec<(u64, OutputChunk)>;

pub(crate) struct ProgramOutput {
    store: Arc<dyn OutputStore>,
    changes: watch::Sender<u64>,
}

impl ProgramOutput {
    pub(crate) fn new(store: Arc<dyn OutputStore>) -> ProgramOutput {
        ProgramOutput { store, changes: watch::Sender::new(0) }
    }

    /// Appends output. A failure costs the output, never the attempt; [`ProgramOutput::note_loss`] tells readers.
    pub(crate) fn append(&self, run: RunId, chunks: &[OutputChunk]) -> io::Result<()> {
        let appended = self.store.append(run, &lines(chunks));
        self.changes.send_modify(|count| *count += 1);
        appended
    }

    /// Appends a chunk that tells why output is lost. `false` if that failed too.
    pub(crate) fn note_loss(&self, run: RunId, note: &OutputChunk) -> bool {
        let noted = self.store.append_note(run, &lines(std::slice::from_ref(note)));
        let why = note.lost.as_deref().unwrap_or_default();
        tracing::warn!(why, %run, node = %note.node, "output of a program is not kept");
        self.changes.send_modify(|count| *count += 1);
        noted.is_ok()
    }

    /// Reads chunks from an offset; none at the end.
    pub(crate) fn read(&self, run: RunId, mut after: u64) -> io::Result<OutputPage> {
        loop {
            let bytes = self.store.read(run, after, READ_BYTES)?;
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let mut page = OutputPage::new();
            for line in bytes[..whole].split_inclusive(|&byte| byte == b'\n') {
                after += line.len() as u64;
                // A power failure may leave a line that is none.
                page.extend(serde_json::from_slice(line).ok().map(|chunk| (after, chunk)));
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

fn lines(chunks: &[OutputChunk]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        serde_json::to_writer(&mut bytes, chunk).expect("texts and numbers are JSON");
        bytes.push(b'\n');
    }
    bytes
}
