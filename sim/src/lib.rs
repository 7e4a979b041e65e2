//! Dry runs: the decisions of the kernel and the order of the scheduler, against a scripted world in virtual time.
#![forbid(unsafe_code)]

pub mod graph;
pub mod queue;
