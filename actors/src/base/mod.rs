//! Leaves that every layer may use: keys, errors, limits, the clock, the status of the process.

pub(crate) mod attempt_end;
pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod fault_injection;
pub(crate) mod interner;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod lock;
pub(crate) mod long_work;
pub(crate) mod panic_message;
pub(crate) mod paused_time;
pub(crate) mod process_stops;
pub(crate) mod system_status;
pub(crate) mod workspace_turns;
