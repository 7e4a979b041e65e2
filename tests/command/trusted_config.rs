//! No step gets Ostler to use a configuration that the step wrote, by a program or by a file tool.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::world::{Ended, World, until};

const HARMLESS: &str = "[retention]\n";

const HARMFUL: &str = "[tools.shell]\nsandbox = false\n";

const DISTRUSTED: &str = "so it may be theirs";

/// Runs the only node of a plan in the workspace `work`.
fn call(world: &World, tool: &str, params: &Value, more: &str) -> Ended {
    let node = json!({"id": "n", "tool": tool, "params": params, "retries": 0});
    world.file("plan.json", &json!({"id": "p", "nodes": [node]}).to_string());
    world.ostler(&format!("run plan.json --workspace work --intent 2 {more}"))
}

fn write(world: &World, path: &str, more: &str) -> Ended {
    call(world, "fs.write", &json!({"path": path, "mode": "replace", "text": HARMFUL}), more)
}

fn sh(world: &World, script: &str, more: &str) -> Ended {
    call(world, "shell.run", &json!({"argv": ["sh", "-c", script]}), more)
}

/// Runs a command in the workspace.
fn in_work(world: &World, line: &str) -> Ended {
    let output = world.command(line).current_dir(world.path().join("work")).output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A world with a harmless configuration `conf/dev.toml` in the workspace.
fn world() -> World {
    let world = World::new();
    std::fs::create_dir(world.path().join("work/conf")).unwrap();
    world.file("work/conf/dev.toml", HARMLESS);
    world
}

#[test]
fn file_tools_do_not_write_the_configuration_in_force() {
    let world = world();
    let refused = "conf/dev.toml in ";
    let named = "--config work/conf/dev.toml";
    write(&world, "conf/dev.toml", named)
        .exits(1)
        .says(refused)
        .says("it is the configuration of this process");
    let edit = json!({"path": "conf/dev.toml", "old": "[retention]", "new": HARMFUL});
    call(&world, "fs.edit", &edit, named).exits(1).says(refused);
    // By the name of a link on the way, too.
    symlink("conf", world.path().join("work/link")).unwrap();
    write(&world, "link/dev.toml", named).exits(1).says("it is the configuration of this process");
    symlink("conf/dev.toml", world.path().join("work/ostler.toml")).unwrap();
    write(&world, "conf/dev.toml", "").exits(1).says("it is the configuration of this process");
    assert_eq!(world.work("conf/dev.toml"), HARMLESS);
    write(&world, "conf/other.toml", "").exits(0);
}

#[test]
fn what_file_tools_wrote_by_the_target_of_a_link_is_not_used() {
    let world = world();
    symlink("conf/dev.toml", world.path().join("work/ostler.toml")).unwrap();
    in_work(&world, "policy check").exits(0);
    world.file("own.toml", HARMLESS);
    write(&world, "conf/dev.toml", "--config own.toml").exits(0);
    for line in ["policy check", "run ../plan.json"] {
        in_work(&world, line).exits(2).complains(DISTRUSTED);
    }
    // No file tool writes that name, so one that an operator makes there counts.
    std::fs::remove_file(world.path().join("work/ostler.toml")).unwrap();
    world.file("work/ostler.toml", HARMLESS);
    in_work(&world, "policy check").exits(0);
}

#[test]
fn a_data_folder_that_file_tools_may_have_made_is_not_used() {
    let world = world();
    for (part, text) in [("operators", ""), ("format", "ostler-store 1\n"), ("lock", ""), ("journal/x", "")] {
        let params = json!({"path": format!("planted/{part}"), "mode": "create", "text": text});
        call(&world, "fs.write", &params, "").exits(0);
    }
    world.ostler("ps --data work/planted").exits(2).complains("ostler policy accept work/planted");
    // Folders that Ostler makes are its own.
    for data in ["work/.ostler", "work/made"] {
        write(&world, "a.txt", &format!("--data {data}")).exits(0);
        world.ostler(&format!("ps --all --data {data}")).exits(0).says("p ");
    }
}

#[test]
fn a_configuration_with_another_name_counts_by_its_content_alone() {
    let world = world();
    // A project that was unpacked with a hard link in it.
    world.file("work/ostler.toml", HARMLESS);
    std::fs::hard_link(world.path().join("work/ostler.toml"), world.path().join("work/conf/x")).unwrap();
    sh(&world, "true", "").exits(0);
    in_work(&world, "policy check").exits(0);
    sh(&world, "echo '[policy]' > conf/x", "").exits(0);
    in_work(&world, "policy check").exits(2).complains(DISTRUSTED);
    let advice =
        "make it a file of its own: cp ostler.toml ostler.toml.new && mv ostler.toml.new ostler.toml";
    in_work(&world, "policy accept ostler.toml").exits(2).complains("has other names").complains(advice);
    world.file("work/conf/x", HARMLESS);
    std::fs::remove_file(world.path().join("work/conf/x")).unwrap();
    in_work(&world, "policy accept ostler.toml").exits(0);
}

#[test]
fn a_named_configuration_that_a_step_changed_is_not_used() {
    let world = world();
    // The link is the name; a step puts a file in its place.
    symlink("conf/dev.toml", world.path().join("work/my.toml")).unwrap();
    let named = "--config work/my.toml";
    let exchange = format!("rm my.toml; printf '{}' > my.toml; cat my.toml", HARMFUL.replace('\n', "\\n"));
    sh(&world, &exchange, named).exits(0);
    assert_eq!(world.work("my.toml"), HARMFUL);
    sh(&world, "true", named).exits(2).complains(DISTRUSTED);
    world.ostler("policy accept work/my.toml").exits(0);
    world.ostler(&format!("policy check {named}")).exits(0);
    // A folder on the way is a link.
    symlink("conf", world.path().join("work/way")).unwrap();
    let named = "--config work/way/dev.toml";
    sh(&world, "rm way; mkdir way; echo > way/dev.toml", named).exits(0);
    world
        .ostler(&format!("policy check {named}"))
        .exits(2)
        .complains("ostler policy accept work/way/dev.toml");
    // Frozen, while it was in force, so the operator may edit it.
    let named = "--config work/conf/dev.toml";
    world.ostler("policy accept work/conf/dev.toml").exits(0);
    sh(&world, "true", named).exits(0);
    sh(&world, "echo >> conf/dev.toml", "").exits(0);
    world.ostler(&format!("policy check {named}")).exits(2).complains(DISTRUSTED);
}

#[test]
fn a_named_configuration_that_is_frozen_each_time_is_edited_freely() {
    let world = world();
    let named = "--config work/conf/dev.toml";
    for content in [HARMLESS, "[tools.shell]\n", "[policy]\n"] {
        world.file("work/conf/dev.toml", content);
        sh(&world, "echo >> conf/dev.toml", named).exits(1);
        write(&world, "other.txt", named).exits(0);
    }
}

#[test]
fn a_server_that_a_step_may_have_written_is_not_accepted_by_itself() {
    let world = world();
    world.file("work/server.py", "import os\nopen('started', 'w')\n");
    let table = "[mcp.x]\nsandbox = false\ncommand = [\"python3\", \"work/server.py\"]\n";
    world.file("own.toml", table);
    world.file("call.yaml", "id: call\nnodes:\n  - {id: n, tool: mcp.x.say}\n");
    sh(&world, "true", "--data other").exits(0);
    let run = world.ostler("run call.yaml --config own.toml");
    assert_ne!(run.code, Some(0));
    run.complains("steps ran where they could write its program").complains("`ostler mcp accept x`");
    assert!(!world.path().join("started").exists());
}

#[test]
fn nothing_is_accepted_for_good_while_a_program_runs_that_can_change_it() {
    let world = world();
    let work = world.path().join("work");
    sh(&world, "mkdir -p data/journal; touch data/format data/lock", "").exits(0);
    let wait = json!({"argv": ["sh", "-c", "touch begun; while [ ! -e end ]; do sleep 0.05; done"]});
    let node = json!({"id": "n", "tool": "shell.run", "params": wait, "retries": 0});
    world.file("wait.json", &json!({"id": "wait", "nodes": [node]}).to_string());
    let run = world.start("run wait.json --workspace work --intent 2 --data other");
    until("the program runs", || work.join("begun").exists());
    in_work(&world, "policy accept data")
        .exits(2)
        .complains("a program of a step runs where it can change it");
    // The content counts, and no other.
    world.file("work/ostler.toml", HARMLESS);
    let shown = in_work(&world, "policy accept ostler.toml").exits(2).complains(HARMLESS.trim());
    let digest = shown.err.split("--digest ").nth(1).and_then(|rest| rest.get(..35)).unwrap().to_owned();
    let named = format!("policy accept ostler.toml --digest {digest}");
    world.file("work/ostler.toml", "[policy]\n");
    in_work(&world, &named).exits(2).complains("another content now");
    world.file("work/ostler.toml", HARMLESS);
    in_work(&world, &named).exits(0);
    in_work(&world, "policy check").exits(0);
    world.file("work/ostler.toml", "[policy]\n");
    in_work(&world, "policy check").exits(2).complains(DISTRUSTED);
    world.file("work/end", "");
    run.end().exits(0);
    in_work(&world, "policy accept data").exits(0);
}

#[test]
fn a_helper_where_steps_write_makes_no_cage() {
    let world = world();
    std::fs::copy(env!("CARGO_BIN_EXE_ostler"), world.path().join("work/helper")).unwrap();
    let helper = world.path().join("work/helper");
    world.file("own.toml", &format!("[sandbox]\nhelper = {helper:?}\n"));
    sh(&world, "touch ran", "--config own.toml").exits(1).says("lies where steps write");
    assert!(!world.path().join("work/ran").exists());
    // Also a link that a step could replace.
    symlink(env!("CARGO_BIN_EXE_ostler"), world.path().join("work/link")).unwrap();
    world.file("own.toml", &format!("[sandbox]\nhelper = {:?}\n", world.path().join("work/link")));
    sh(&world, "touch ran", "--config own.toml").exits(1).says("work/link lies where steps write");
    assert!(!world.path().join("work/ran").exists());
}
