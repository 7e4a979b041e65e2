//! Tests that need the internals of several layers.

pub(crate) mod crash;
pub(crate) mod panic;
pub(crate) mod telemetry;
pub(crate) mod yielded_slots;
