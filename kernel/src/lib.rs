//! The pure decisions of Ostler: validation of plans, the next steps of a run, permission for calls, contracts of results.
//!
//! The crate has no clock, no randomness, no threads and no IO. Time, random bits and ids arrive as arguments, so equal
//! inputs give equal bytes on every replay. The one exception is [`port`]: the traits that the outside implements.
//!
//! Start with [`run`] for the state machine of a run, [`plan`] for plan files, and [`port`] to add tools, judges or storage.
#![forbid(unsafe_code)]

pub mod agent;
pub mod callback;
pub mod client_terms;
pub mod contract;
pub mod device;
pub mod evaluation;
pub mod event;
pub mod gate;
pub mod grant;
pub mod id;
pub mod json;
pub mod ledger;
pub mod lineage;
pub mod market;
pub mod pipeline;
pub mod plan;
pub mod policy;
pub mod port;
pub mod provenance;
pub mod run;
pub mod step_history;
pub mod template;
pub mod text;
