//! The built-in tools over real files, processes and connections, each called through the gate.
#![allow(clippy::unwrap_used)] // a test that cannot go on panics

mod class;
mod fs;
mod http;
mod shell;
mod text;
mod world;
