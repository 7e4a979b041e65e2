//! The indexer thread: catches the index up with each full segment, and at closing.

use std::sync::Arc;

use crossbeam::channel::Receiver;

use super::shared::Shared;
use crate::format::lsn::Lsn;
use crate::index::catch_up::catch_up;

pub(super) fn run(shared: Arc<Shared>, addresses: Receiver<Lsn>) {
    while let Ok(mut upto) = addresses.recv() {
        while let Ok(later) = addresses.try_recv() {
            upto = later;
        }
        let caught_up = {
            let (_indexing, snapshot) = shared.lock_for_catch_up(upto);
            catch_up(&shared.files, &shared.index, upto, snapshot)
        };
        match caught_up {
            Ok(()) => {
                let mut sequencer = shared.sequencer();
                // The index may have been cleared meanwhile, so the mark is read again.
                if let Ok(Some(mark)) = shared.index.mark() {
                    sequencer.tail.evict_indexed(mark.upto);
                }
            }
            // The tail index keeps everything missing in the index. The next round may succeed, and opening rebuilds.
            Err(error) => tracing::warn!(?error, "the index did not catch up"),
        }
    }
}
