//! The `ostler` command, as people and scripts meet it: its words, its exit codes, and what survives a kill.

mod api;
mod kill;
mod plans;
mod second_terminal;
mod world;
