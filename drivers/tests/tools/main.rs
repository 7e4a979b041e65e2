//! The built-in tools on real files, processes and connections, each called through the gate.
#![allow(clippy::unwrap_used)] // a panic is a failed test

mod class;
mod fs;
mod http;
mod shell;
mod text;
mod world;
