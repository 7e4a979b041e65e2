//! Intent of an undo, and the advice of `check` about it.

use super::world::World;

/// `a` writes a file and is undone by a program; `d` fails.
const PLAN: &str = "id: back\npolicy: {on_failure: undo}\nnodes:\n\
    \x20 - id: a\n    tool: fs.write\n    params: {path: a.txt, text: hi, mode: create}\n\
    \x20   undo: {tool: shell.run, params: {argv: [rm, a.txt]}}\n\
    \x20 - {id: d, tool: fs.read, params: {path: missing.txt}, deps: [a]}\n";

#[test]
fn a_call_that_undoes_counts_before_the_run() {
    let world = World::new();
    world.file("back.yaml", PLAN);
    let told = world.ostler("check back.yaml --workspace work").exits(0);
    told.says("W06")
        .says("back.yaml:7:")
        .says("would be denied in its undo: impact 2 is above --intent 1")
        .says("impact         2 (control)")
        .says("tools          fs.read, fs.write, shell.run");
    assert!(!world.ostler("check back.yaml --workspace work --intent 2").exits(0).out.contains("W06"));
    let ran = world.ostler("run back.yaml --workspace work --intent 2").exits(1);
    ran.says("undo.a");
    assert_eq!(world.work("a.txt"), "");
}

#[test]
fn an_undo_gets_its_own_intent() {
    let world = World::new();
    world.file("back.yaml", PLAN);
    let ran = world.ostler("run back.yaml --workspace work").exits(1);
    ran.complains("in its undo").says("IMPACT_OVER_INTENT").says("ostler undo").says("--intent 2");
    assert_eq!(world.work("a.txt"), "hi");
    world.ostler("undo @last").exits(1);
    world.ostler("undo @last --intent 3").exits(2);
    world.ostler("undo @last --intent 2").exits(0);
    assert_eq!(world.work("a.txt"), "");
}

#[test]
fn nobody_undoes_with_more_than_the_policy_allows() {
    let world = World::new();
    world.file("back.yaml", PLAN).file("o.toml", "[policy]\ntoken_max_intent = 1\n");
    world.ostler("run back.yaml --workspace work").exits(1);
    world.ostler("undo @last --intent 2 --config o.toml").exits(2).complains("the highest that is allowed");
    assert_eq!(world.work("a.txt"), "hi");
}

#[test]
fn a_fallback_counts_before_the_run() {
    let world = World::new();
    world.file(
        "else.yaml",
        "id: else\nnodes:\n  - id: a\n    tool: fs.read\n    params: {path: a.txt}\n\
         \x20   fallback: {tool: shell.run, params: {argv: [make]}}\n",
    );
    let told = world.ostler("check else.yaml --workspace work").exits(0);
    told.says("W06")
        .says("else.yaml:6:")
        .says("would be denied in its fallback: impact 2 is above --intent 1")
        .says("impact         2 (control)");
    assert!(!world.ostler("check else.yaml --workspace work --intent 2").exits(0).out.contains("W06"));
}
