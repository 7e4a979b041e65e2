//! Scrubbing: verifying checksums of segments the index covers, without decoding records. A damaged journal accepts no appends.

use std::io;

use crate::format::damage::Damage;
use crate::format::frame::{self, Found};
use crate::format::lsn::Lsn;
use crate::format::segment::{self, SEGMENT_HEADER_BYTES};
use crate::format::segment_files::SegmentFiles;

/// Verifies the header and the frames of segment `number` before `until`; `before` is the number of the preceding segment.
pub(crate) fn scrub(
    files: &SegmentFiles,
    number: u32,
    before: u32,
    until: Lsn,
) -> io::Result<Option<Damage>> {
    let bytes = files.read_segment_before(number, Some(until))?;
    if segment::previous(number, &bytes) != Some(before) || files.is_foreign(number, &bytes)? {
        return Ok(Some(Damage::in_header(number, before, &bytes)));
    }
    let mut at = SEGMENT_HEADER_BYTES;
    let bad = |lsn, what: &str| Ok(Some(Damage::new(lsn, what.to_owned(), Vec::new())));
    loop {
        let lsn = Lsn::new(number, at as u64);
        match frame::read(lsn, bytes.get(at..).unwrap_or(&[])) {
            Found::Frame { len, .. } => at += len,
            Found::Blank if bytes.get(at..).is_none_or(segment::is_blank) => return Ok(None),
            Found::Blank => return bad(lsn, "zeros in front of more data"),
            Found::Bad(what) => return bad(lsn, what),
        }
    }
}
