//! Log sequence numbers: addresses in the journal.

use std::fmt;

use ostler_kernel::port::Position;

/// Address of a frame, or of the end of one: the segment's number in the upper 32 bits, the byte offset in the segment in the
/// lower 32. Doubles as the public [`Position`].
///
/// The sequencer hands out each address once. After a rollback the journal continues in a new segment, so an address that a
/// caller has seen never names other records later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Lsn(pub(crate) u64);

impl Lsn {
    pub(crate) fn new(segment: u32, offset: u64) -> Lsn {
        debug_assert!(offset <= u64::from(u32::MAX), "offsets fit in the lower half");
        Lsn(u64::from(segment) << 32 | offset)
    }

    pub(crate) fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    pub(crate) fn position(self) -> Position {
        Position(self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}, offset {}", self.segment(), self.offset())
    }
}
