//! Models of a configuration, called through the gate as their tools.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed unwrap fails the test, and a skip says why"
)]

mod cassettes;
mod config;
mod failures;
mod guide;
mod judge;
mod over_http;
mod probes;
mod real;
mod real_server;
mod recorded;
mod requests;
mod scripted;
mod server;
mod world;
