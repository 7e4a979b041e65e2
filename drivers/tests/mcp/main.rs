//! Servers of the Model Context Protocol, good and bad, as programs that these tests start.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod address;
mod authority;
mod bad;
mod frames;
mod given_up;
mod good;
mod login;
mod misbehaving;
mod program;
mod wire;
mod world;
