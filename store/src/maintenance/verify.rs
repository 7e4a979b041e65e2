//! Verifying the journal, and detecting a missing end.

use std::io;

use super::survey::{Survey, survey};
use crate::format::damage::{Damage, OpenJournalError};
use crate::format::lsn::Lsn;
use crate::format::segment::Scanner;
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;
use crate::index::replay::check_mark;

pub(crate) fn verify(files: &SegmentFiles, until: Option<Lsn>) -> io::Result<Vec<Damage>> {
    Ok(survey(files, until)?.damages)
}

/// Lists all damage of a journal missing its end according to the index, the missing end last. Empty if no end is missing,
/// or if the index cannot tell.
pub(crate) fn verify_end(files: &SegmentFiles, index: &Index) -> io::Result<Vec<Damage>> {
    let Ok(Some(mark)) = index.mark() else { return Ok(Vec::new()) };
    if check_mark(files, mark).is_ok() {
        return Ok(Vec::new());
    }
    let mut survey = survey(files, None)?;
    Ok(if survey.add_lost_end(files, index) { survey.damages } else { Vec::new() })
}

pub(super) fn check_end(files: &SegmentFiles, index: &Index) -> Result<(), OpenJournalError> {
    let damages = verify_end(files, index)?;
    if damages.is_empty() { Ok(()) } else { Err(OpenJournalError::Damaged(damages)) }
}

impl Survey {
    /// Adds the missing end according to the index, and returns whether an end is missing. A torn end becomes part of the
    /// missing end then, as no opening truncates it.
    pub(super) fn add_lost_end(&mut self, files: &SegmentFiles, index: &Index) -> bool {
        let Some(lost) = self.lost_end(files, index) else { return false };
        self.damages.retain(|damage| !damage.torn);
        self.damages.push(lost);
        true
    }

    /// The missing end: the index was built from frames the journal no longer has.
    ///
    /// Only durable frames enter the index, so such frames were durable once. Two cases are no evidence: an index sharing no
    /// stream with the journal belongs to another journal, and an index ending inside an intact journal belongs to
    /// an earlier state, before a rewrite.
    fn lost_end(&self, files: &SegmentFiles, index: &Index) -> Option<Damage> {
        let mark = index.mark().ok()??;
        check_mark(files, mark).err()?;
        if self.is_intact_beyond(files, mark.upto) {
            return None;
        }
        let heads = index.heads().ok()?;
        if !self.heads.is_empty() && heads.iter().all(|(stream, _)| self.last_seq(stream) == 0) {
            return None;
        }
        let lost = heads.iter().map(|(stream, head)| head.seq.saturating_sub(self.last_seq(stream)));
        let records = lost.fold(0, u64::saturating_add);
        let what = format!(
            "the end is missing, or the journal is an older copy: by the index {records} records are lost, up to {}",
            mark.upto
        );
        let end = self.end.max(Lsn::new(self.segments.first().copied().unwrap_or(1), 0));
        (records > 0).then(|| Damage::new(end, what, Vec::new()))
    }

    /// Returns whether nothing can be missing before `lsn`: the journal is intact and continues behind `lsn`, and the segment of
    /// `lsn` reaches that far.
    fn is_intact_beyond(&self, files: &SegmentFiles, lsn: Lsn) -> bool {
        if self.is_damaged() || self.end < lsn {
            return false;
        }
        let number = lsn.segment();
        // A rewrite starts a new segment and may remove the old one.
        if number == self.end.segment() || !self.segments.contains(&number) {
            return true;
        }
        let Ok(bytes) = files.read_segment(number) else { return false };
        let scanner = Scanner::new(number, &bytes, 0);
        (scanner.offset + scanner.remaining_len()) as u64 >= lsn.offset()
    }
}
