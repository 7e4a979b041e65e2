//! The README and the guide: commands are executed, plans are checked, tables are compared with the code.
//!
//! `UPDATE_EXPECT=1` rewrites the pages.
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
