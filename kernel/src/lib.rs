//! The pure decisions of Ostler: what a plan may be, what a run does next, who may call what, what a
//! result is. No clock, no randomness, no threads, no IO: time, random bits and ids arrive as
//! arguments, so the same inputs give the same bytes on every replay.
//!
//! The one exception is [`port`]: the traits the outside implements.
#![forbid(unsafe_code)]

pub mod agent;
pub mod client_terms;
pub mod contract;
pub mod evaluation;
pub mod event;
pub mod gate;
pub mod id;
pub mod json;
pub mod ledger;
pub mod lineage;
pub mod market;
pub mod pipeline;
pub mod plan;
pub mod port;
pub mod run;
pub mod step_history;
pub mod template;
