//! The README and the guide: what they say is so. Commands are typed, plans are checked, tables are compared with the code.
//!
//! With `UPDATE_EXPECT=1` the pages are rewritten to say what is so now.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that meets an error has failed, and says where"
)]

mod command_line;
mod compare;
mod page;
mod pages;
mod reference;
mod shell;
