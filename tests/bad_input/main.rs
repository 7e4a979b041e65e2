//! The `ostler` command in a hostile environment: exit codes, messages, and no lost data.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod data_folder;
mod full_disk;
mod machine;
mod mutated;
mod tools;
#[path = "../command/world.rs"]
#[allow(dead_code)] // the command tests use more of it
mod world;

use world::World;

/// Asserts that the data folder is sound.
#[track_caller]
fn is_well(world: &World) {
    world.ostler("doctor").exits(0).says("nothing is broken");
}
