//! The built-in tools on real files, processes and connections, each called through the gate.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod class;
mod edit;
mod facts;
mod fetch;
mod fs;
mod http;
mod search;
mod shell;
mod text;
mod world;
