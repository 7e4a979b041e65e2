//! Bringing the index up to date, beside the appends: when a segment is full, and at the end.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam::channel::Receiver;

use super::files::Files;
use super::frame::Place;
use super::load::{LoadError, load};
use super::verify::Damage;
use super::{Fold, Shared};
use crate::index::{Index, Mark};

/// Catches up with each place it is told of, until nobody can tell it of another.
pub(crate) fn run(shared: Arc<Shared>, places: Receiver<Place>) {
    while let Ok(mut upto) = places.recv() {
        while let Ok(later) = places.try_recv() {
            upto = later;
        }
        let caught_up = {
            let (_building, kept) = shared.to_index(upto);
            catch_up(&shared.files, &shared.index, upto, kept)
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

/// Adds everything before `upto`, all of which is durable, to the index: as it was `kept` when it was ordered, or as it is read.
pub(crate) fn catch_up(
    files: &Files,
    index: &Index,
    upto: Place,
    kept: Option<Fold>,
) -> Result<(), LoadError> {
    let mark = index.mark()?;
    if mark.is_some_and(|mark| mark.upto >= upto) {
        return Ok(());
    }
    let fold = match kept {
        Some(kept) => {
            let fold = since(files, mark, kept)?;
            debug_assert!(is_what_is_read(&fold, files, index, mark, upto), "before {upto:?}");
            fold
        }
        None => {
            let loaded = load(files, index, Some(upto))?;
            if loaded.last_segment == 0 {
                return Ok(()); // no segment before it: nothing to say
            }
            loaded.fold
        }
    };
    let (epoch, (last, last_crc)) = (fold.epoch, fold.last);
    index.commit(&fold, mark, Mark { upto, last, last_crc, epoch })?;
    Ok(())
}

/// What was ordered behind the mark, with the checksum of its last frame, which is on the disk by now.
fn since(files: &Files, mark: Option<Mark>, mut kept: Fold) -> Result<Fold, LoadError> {
    let last = kept.last.0;
    let no_frame = || Damage::new(last, "what was written last is no frame".to_owned(), Vec::new());
    kept.last.1 = files.frame_crc(last)?.ok_or_else(|| LoadError::Damaged(no_frame()))?;
    kept.forget(mark.unwrap_or_default().upto);
    Ok(kept)
}

/// Whether a fold is the one that reading comes to, if anything can be read.
fn is_what_is_read(fold: &Fold, files: &Files, index: &Index, mark: Option<Mark>, upto: Place) -> bool {
    let Ok(read) = load(files, index, Some(upto)) else { return true };
    let mut read = read.fold;
    read.forget(mark.unwrap_or_default().upto);
    let written = |fold: &Fold| {
        let streams = fold.streams.iter().filter(|(_, tail)| !tail.frames.is_empty());
        streams.map(|(stream, tail)| (*stream, (tail.head, tail.frames.clone()))).collect::<HashMap<_, _>>()
    };
    (fold.epoch, fold.last) == (read.epoch, read.last)
        && written(fold) == written(&read)
        && fold.lines.rows == read.lines.rows
        && fold.lines.accounts == read.lines.accounts
}
