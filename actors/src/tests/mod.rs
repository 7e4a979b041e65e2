//! Tests that need the internals of several layers.

mod crash;
mod panic;
pub(crate) mod pipeline_crash;
mod pipeline_output;
mod telemetry;
mod yielded_slots;
