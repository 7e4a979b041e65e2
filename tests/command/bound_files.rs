//! An approval holds for the files that a program names, as they were when the person was asked.

use serde_json::{Value, json};

use super::approvals::{approve, question, world};
use super::world::World;

const DEPLOY: &str = r#"
id: deploy
nodes:
  - id: go
    tool: shell.run
    params: {argv: [sh, ./deploy.sh, now]}
    approval: before
    human_timeout: 1h
"#;

fn deploying(script: &str) -> World {
    let world = world();
    world.file("deploy.yaml", DEPLOY).file("work/deploy.sh", script);
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    world
}

fn file(world: &World) -> Value {
    question(world)["files"][0].clone()
}

#[test]
fn a_script_that_runs_is_the_one_that_was_approved() {
    let world = deploying("echo kind > out\n");
    assert_eq!(file(&world)["path"], "deploy.sh");
    world.ostler("approvals").exits(0).says("goes by deploy.sh");
    approve(&world, "").exits(0);
    assert_eq!(world.work("out"), "kind\n");
}

#[test]
fn a_script_that_was_changed_meanwhile_is_asked_about_again_with_the_difference() {
    let world = deploying("set -e\necho kind > out\n");
    let asked = question(&world);
    world.file("work/deploy.sh", "set -e\necho evil > out\n");
    let listed =
        world.ostler("approvals").exits(0).says("changed since the question was asked: deploy.sh (b3:");
    listed.says("│ -echo kind > out\n    │ +echo evil > out").says("or files have changed");
    let yes = format!("approve @last go --digest {}", asked["digest"].as_str().unwrap());
    world.ostler(&yes);
    assert_eq!(world.work("out"), "", "an approval of something else");
    let again = question(&world);
    assert_ne!(again["digest"], asked["digest"]);
    assert_eq!(again["files"][0]["was"], asked["files"][0]["digest"]);
    assert_eq!(again["files"][0]["difference"], json!(["-echo kind > out", "+echo evil > out"]));
    // What is approved now is what runs.
    approve(&world, "").exits(0);
    assert_eq!(world.work("out"), "evil\n");
}

#[test]
fn files_that_a_program_reads_without_being_told_are_bound_too() {
    let world = world();
    let plan = DEPLOY.replace("[sh, ./deploy.sh, now]", "[env, make, check]");
    world.file("make.yaml", &plan).file("work/Makefile", "check:\n\techo kind > out\n");
    world.ostler("run make.yaml --workspace work --intent 2").exits(3);
    let asked = question(&world);
    assert_eq!(asked["files"][0]["path"], "Makefile");
    // GNU make prefers this one.
    world.file("work/GNUmakefile", "check:\n\techo evil > out\n");
    world.ostler(&format!("approve @last go --digest {}", asked["digest"].as_str().unwrap()));
    assert_eq!(world.work("out"), "");
    world.ostler("approvals").exits(0).says("new since the question was asked: GNUmakefile");
}
