//! What the `ostler` command makes of a hostile world: exit codes, messages, and nothing lost afterwards.
#![allow(clippy::unwrap_used)] // a test that unwraps in vain fails, which is its purpose

mod data_folder;
mod machine;
mod mutated;
mod tools;
#[path = "../command/world.rs"]
#[allow(dead_code)] // the tests of the command use more of it
mod world;

use world::World;

/// Panics unless the data folder is in order.
#[track_caller]
fn is_well(world: &World) {
    world.ostler("doctor").exits(0).says("nothing is broken");
}
