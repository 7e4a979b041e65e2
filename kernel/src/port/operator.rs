//! Decisions of an operator outside of any run, and their storage.

use std::io;

use crate::gate::GatePolicy;

/// Keeps whether all calls are stopped, also beyond the end of the process.
pub trait LockdownStore: Send + Sync + 'static {
    /// True if calls are stopped.
    ///
    /// # Errors
    ///
    /// The state cannot be determined; calls then count as stopped.
    fn is_on(&self) -> io::Result<bool>;

    /// Stops or resumes calls. Durable on return; blocks.
    ///
    /// # Errors
    ///
    /// Nothing has changed.
    fn set(&self, on: bool) -> io::Result<()>;
}

/// Source from which the policy is reloaded.
pub trait PolicySource: Send + Sync + 'static {
    /// Reads the current policy. Blocks.
    ///
    /// # Errors
    ///
    /// The faults of the policy as written.
    fn read(&self) -> Result<GatePolicy, String>;
}
