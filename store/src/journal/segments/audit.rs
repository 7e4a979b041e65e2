//! Whether the index says what the records say that it was made of.

use std::io;

use super::files::Files;
use super::indexer;
use super::load::{LoadError, recognise};
use super::open::take_in;
use crate::index::{Index, IndexDifferences, Mark};

/// What the index says otherwise than the records before its mark: they are folded again, as for an index that is gone. Nothing if it
/// has none, or was made of another journal, as it is built anew on opening then. The journal must be whole.
pub(crate) fn audit_index(files: &Files, index: &Index) -> io::Result<IndexDifferences> {
    let mark = index.mark().ok().flatten().filter(|mark| recognise(files, *mark).is_ok());
    let Some(mark) = mark else { return Ok(IndexDifferences::default()) };
    let right = Index::open(None);
    match build_up_to(files, &right, mark) {
        Ok(()) => Ok(index.differences(&right)),
        Err(LoadError::Io(error)) => Err(error),
        Err(LoadError::Index(broken)) => Err(io::Error::other(broken)),
        Err(LoadError::Damaged(_)) => {
            let (segment, offset) = (mark.upto.segment(), mark.upto.offset());
            let mut found = IndexDifferences::default();
            found.add(format!("it ends at segment {segment}, offset {offset}, where no record does"));
            Ok(found)
        }
    }
}

fn build_up_to(files: &Files, index: &Index, mark: Mark) -> Result<(), LoadError> {
    take_in(files, index, mark.upto.segment())?;
    indexer::catch_up(files, index, mark.upto, None)
}
