//! Models of a configuration, called through the gate as their tools.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed unwrap fails the test, and a skip says why"
)]

mod failures;
mod scripted;
mod server;
mod world;
