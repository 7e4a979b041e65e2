//! Implementations of the kernel's ports that touch the outside world. [`tool`] holds the built-in tools, [`cage`] confines the
//! programs that they start, [`HttpClearance`] asks a clearance authority, [`model`] drives language models, and [`mcp`] talks to
//! servers of the Model Context Protocol.
//!
//! A driver decides nothing: a tool runs only with a `Permit`, which only the kernel's gate constructs.
#![forbid(unsafe_code)]

pub mod cage;
mod clearance;
mod http;
pub mod mcp;
pub mod model;
pub mod regular_file;
pub mod tool;

pub use clearance::HttpClearance;
pub use http::http_client;
