//! Leaves that every layer may use: errors, limits, the clock, interning and locking.

pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod interner;
pub(crate) mod limits;
pub(crate) mod lock;
