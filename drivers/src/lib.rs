//! The outside of Ostler: what stands behind the kernel's ports. [`tool`] has the built-in tools.
//!
//! Nothing here decides whether a call may be made: a tool takes a `Permit`, which only the kernel's gate can
//! make.
#![forbid(unsafe_code)]

pub mod tool;
