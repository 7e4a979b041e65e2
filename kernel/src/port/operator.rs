//! What an operator decides outside of any run, and where it is kept.

use std::io;

use crate::gate::GatePolicy;

/// Keeps whether all calls are stopped, also beyond the end of the process.
pub trait LockdownStore: Send + Sync + 'static {
    /// True if calls are stopped.
    ///
    /// # Errors
    ///
    /// It cannot be told; calls then count as stopped.
    fn is_on(&self) -> io::Result<bool>;

    /// Stops calls, or lets them go on; durable on return. Blocks.
    ///
    /// # Errors
    ///
    /// Nothing has changed.
    fn set(&self, on: bool) -> io::Result<()>;
}

/// Where the policy is read again.
pub trait PolicySource: Send + Sync + 'static {
    /// The policy as it is written now. Blocks.
    ///
    /// # Errors
    ///
    /// The faults of what is written.
    fn read(&self) -> Result<GatePolicy, String>;
}
