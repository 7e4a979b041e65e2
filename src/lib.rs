//! Ostler: an agent operating system.
#![forbid(unsafe_code)]

pub mod plan_file;
