//! Auditing the index against the records.

use std::io;

use crate::format::segment_files::SegmentFiles;
use crate::index::catch_up::{catch_up, catch_up_in_steps};
use crate::index::replay::{ReplayError, check_mark};
use crate::index::{Index, IndexDifferences, Mark};

/// The differences between the index and the records before its mark, from a second index built in memory.
///
/// Empty for an index without a mark or of another journal, as opening rebuilds such an index. The journal must be intact.
pub(super) fn audit_index(files: &SegmentFiles, index: &Index) -> io::Result<IndexDifferences> {
    let mark = index.mark().ok().flatten().filter(|mark| check_mark(files, *mark).is_ok());
    let Some(mark) = mark else { return Ok(IndexDifferences::default()) };
    let expected = Index::open(None);
    match build_up_to(files, &expected, mark) {
        Ok(()) => Ok(index.differences(&expected)),
        Err(ReplayError::Io(error)) => Err(error),
        Err(ReplayError::Index(error)) => Err(io::Error::other(error)),
        Err(ReplayError::Damaged(_)) => {
            let mut differences = IndexDifferences::default();
            differences.add(format!("the mark is at {}, where no frame ends", mark.upto));
            Ok(differences)
        }
    }
}

fn build_up_to(files: &SegmentFiles, index: &Index, mark: Mark) -> Result<(), ReplayError> {
    catch_up_in_steps(files, index, mark.upto.segment())?;
    catch_up(files, index, mark.upto, None)
}
