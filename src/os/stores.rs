//! Opens the stores of a system, in memory or in a data folder.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_kernel::port::{ArtifactStore, Journal, OutputStore, WorkspaceWrites};
use ostler_store::{
    MemoryArtifacts, MemoryJournal, MemoryOutput, OpenError, Opened, Options, Store, WriteCounts,
};

/// Time for an earlier system in this process to release the data folder.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// The stores of a system.
pub(super) struct Stores {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) artifacts: Arc<dyn ArtifactStore>,
    pub(super) output: Arc<dyn OutputStore>,
    pub(super) writes: Arc<dyn WorkspaceWrites>,
    /// Report of the opening of the data folder; `None` in memory.
    pub(super) opened: Option<Opened>,
}

pub(super) fn in_memory() -> Stores {
    Stores {
        journal: Arc::new(MemoryJournal::default()),
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        opened: None,
    }
}

pub(super) async fn on_disk(path: &Path, options: Options) -> Result<Stores, OpenError> {
    let begun = Instant::now();
    loop {
        match Store::open_with(path, options.clone()) {
            Ok((Store { journal, artifacts, output, writes }, opened)) => {
                return Ok(Stores { journal, artifacts, output, writes, opened: Some(opened) });
            }
            // Tasks of an earlier system in this process take a moment to release the folder.
            Err(OpenError::Held { pid: Some(pid), .. })
                if pid == std::process::id() && begun.elapsed() < RELEASE_TIMEOUT =>
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error),
        }
    }
}
