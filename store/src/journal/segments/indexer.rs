//! Bringing the index up to date, beside the appends: when a segment is full, and at the end.

use std::sync::{Arc, PoisonError};

use crossbeam::channel::Receiver;

use super::files::Files;
use super::frame::Place;
use super::load::{LoadError, load};
use super::{Fold, Shared};
use crate::index::{Index, Mark};

/// Catches up with each place it is told of, until nobody can tell it of another.
pub(crate) fn run(shared: Arc<Shared>, places: Receiver<Place>) {
    while let Ok(mut upto) = places.recv() {
        while let Ok(later) = places.try_recv() {
            upto = later;
        }
        let caught_up = {
            let _building = shared.indexing.lock().unwrap_or_else(PoisonError::into_inner);
            catch_up(&shared.files, &shared.index, upto)
        };
        match caught_up {
            Ok(()) => {
                let mut order = shared.order();
                // The index may have been emptied since; only what it has now may be forgotten.
                if let Ok(Some(mark)) = shared.index.mark() {
                    order.fold.forget(mark.upto);
                }
            }
            // What the index lacks stays in memory; the next time may go better, opening builds it again.
            Err(error) => tracing::warn!(?error, "the index was left behind"),
        }
    }
}

/// Adds everything before `upto`, all of which is durable, to the index.
pub(crate) fn catch_up(files: &Files, index: &Index, upto: Place) -> Result<(), LoadError> {
    let mark = index.mark()?;
    if mark.is_some_and(|mark| mark.upto >= upto) {
        return Ok(());
    }
    let loaded = load(files, index, Some(upto))?;
    if loaded.last_segment == 0 {
        return Ok(()); // no segment before it: nothing to say
    }
    let Fold { epoch, last: (last, last_crc), .. } = loaded.fold;
    index.commit(&loaded.fold, mark, Mark { upto, last, last_crc, epoch })?;
    Ok(())
}
