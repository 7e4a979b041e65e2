//! The integrity checks opening needs, implemented by the crate's root with `maintenance`.

use std::io;

use crate::format::damage::Damage;
use crate::format::lsn::Lsn;
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentToScrub {
    pub(crate) number: u32,
    pub(crate) before: u32,
}

pub(crate) trait IntegrityChecks: Sync {
    /// Verifies the checksums of one segment's frames before `until`.
    fn scrub(&self, files: &SegmentFiles, segment: SegmentToScrub, until: Lsn) -> io::Result<Option<Damage>>;

    fn verify(&self, files: &SegmentFiles, until: Option<Lsn>) -> io::Result<Vec<Damage>>;

    /// Lists all damage of a journal missing its end according to the index; empty if no end is missing.
    fn verify_end(&self, files: &SegmentFiles, index: &Index) -> io::Result<Vec<Damage>>;
}

#[cfg(test)]
pub(super) struct NoChecks;

#[cfg(test)]
impl IntegrityChecks for NoChecks {
    fn scrub(&self, _: &SegmentFiles, _: SegmentToScrub, _: Lsn) -> io::Result<Option<Damage>> {
        Ok(None)
    }

    fn verify(&self, _: &SegmentFiles, _: Option<Lsn>) -> io::Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    fn verify_end(&self, _: &SegmentFiles, _: &Index) -> io::Result<Vec<Damage>> {
        Ok(Vec::new())
    }
}
