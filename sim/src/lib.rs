//! Dry runs: the decisions of kernel and scheduler against a scripted outside in virtual time.
#![forbid(unsafe_code)]

pub mod gate;
pub mod graph;
pub mod lineage;
pub mod modes;
pub mod queue;
