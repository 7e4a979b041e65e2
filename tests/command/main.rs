//! The `ostler` command, as people and scripts meet it: its words, its exit codes, and what survives a kill.
#![allow(clippy::unwrap_used)] // a test that unwraps in vain fails, which is its purpose

mod agents;
mod api;
mod approvals;
mod bad_plans;
mod clients;
mod damage;
mod escapes;
mod heartbeats;
mod kill;
mod long_run;
mod market;
mod metrics;
mod pipelines;
mod plans;
mod second_terminal;
mod simulations;
mod terminal;
mod top;
mod world;
