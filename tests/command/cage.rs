//! What programs of steps and MCP servers see and leave, with the whole command around them.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::world::{Ended, World, ended, until};

/// Runs a plan of `shell.run` nodes, one after the other.
fn run(world: &World, programs: &[&[&str]], settings: &[(&str, &str)], more: &str) -> Ended {
    let node = |(at, argv): (usize, &&[&str])| {
        let deps: Vec<String> = at.checked_sub(1).iter().map(|before| format!("n{before}")).collect();
        json!({"id": format!("n{at}"), "tool": "shell.run", "params": {"argv": argv}, "deps": deps, "retries": 0})
    };
    let nodes: Vec<Value> = programs.iter().enumerate().map(node).collect();
    world.file("plan.json", &json!({"id": "p", "nodes": nodes}).to_string());
    ended(world.command(&format!("run plan.json {more}")).envs(settings.iter().copied()))
}

/// Everything that the steps of the last run left to read.
fn artifacts(world: &World) -> String {
    world.ostler("export @last").out
}

#[test]
fn an_mcp_server_cannot_read_the_operator_key() {
    let world = World::new();
    let key = world.config().join("ostler/ostler-operator.key");
    world.ostler("operator key").exits(0);
    let server = format!("echo started > work/told; cat {} >> work/told", key.display());
    world.file(
        "own.toml",
        &format!(
            "[sandbox]\nread = [{:?}]\n[mcp.x]\ncommand = [\"sh\", \"-c\", {server:?}]\nwrite = [\"work\"]\n",
            world.config()
        ),
    );
    world.ostler("mcp probe x --config own.toml").exits(1);
    assert_eq!(world.work("told"), "started\n");
}

#[test]
fn a_link_where_programs_write_shows_nothing_else() {
    let world = World::new();
    std::fs::create_dir(world.path().join("private")).unwrap();
    world.file("private/secret", "7f3a");
    symlink(world.path().join("private"), world.path().join("work/bin")).unwrap();
    let path = format!("{}:{}", world.path().join("work/bin").display(), std::env::var("PATH").unwrap());
    // `cat` at impact 0, as the built-in table has it.
    run(&world, &[&["cat", "bin/secret"]], &[("PATH", &path)], "--workspace work").exits(1);
    assert!(!artifacts(&world).contains("7f3a"));
}

#[test]
fn the_key_stays_hidden_behind_a_link_to_the_home_folder() {
    let world = World::new();
    std::fs::create_dir(world.path().join("real")).unwrap();
    symlink("real", world.path().join("home")).unwrap();
    let config = world.path().join("home/.config");
    let settings = [("XDG_CONFIG_HOME", config.to_str().unwrap())];
    std::fs::create_dir(&config).unwrap();
    world.file("own.toml", &format!("[sandbox]\nread = [{config:?}]\n"));
    world.file("home/.config/visible", "seen");
    let more = "--workspace work --config own.toml";
    let (key, visible) = (config.join("ostler/ostler-operator.key"), config.join("visible"));
    run(&world, &[&["cat", visible.to_str().unwrap()]], &settings, more).exits(0);
    assert!(key.exists());
    run(&world, &[&["cat", key.to_str().unwrap()]], &settings, more).exits(1);
    let real = world.path().join("real/.config/ostler/ostler-operator.key");
    run(&world, &[&["cat", real.to_str().unwrap()]], &settings, more).exits(1);
}

/// Writes an executable script into the workspace.
fn program(world: &World, path: &str, script: &str) {
    let file = world.path().join("work").join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_approval_is_bound_to_the_program_that_the_search_path_finds() {
    let world = World::new();
    program(&world, "bin/deploy", "echo good >> log");
    let path = format!("{}:{}", world.path().join("work/bin").display(), std::env::var("PATH").unwrap());
    let node = json!({"id": "go", "tool": "shell.run", "params": {"argv": ["deploy", "now"]}, "approval": "before", "human_timeout": "1h"});
    world.file("plan.json", &json!({"id": "p", "nodes": [node]}).to_string());
    let ostler = |line: &str| ended(world.command(line).env("PATH", &path));
    ostler("run plan.json --workspace work --intent 2").exits(3);
    let asked = ostler("approvals --json").exits(0).lines().remove(0);
    assert_eq!(asked["files"][0]["path"], "bin/deploy", "{asked}");
    program(&world, "bin/deploy", "echo evil >> log");
    ostler(&format!("approve @last go --digest {}", asked["digest"].as_str().unwrap()));
    assert_eq!(world.work("log"), "");
}

#[test]
fn a_program_planted_in_the_search_path_does_not_get_the_network_of_another() {
    let world = World::new();
    program(&world, "bin/git", "echo evil >> log");
    let path = format!("{}:{}", world.path().join("work/bin").display(), std::env::var("PATH").unwrap());
    let entry = |effect| {
        format!("[[tools.shell.allow]]\nargv = [\"git\", \"*\"]\nimpact = 1\neffect = \"{effect}\"\n")
    };
    let more = "--workspace work --config own.toml";
    world.file("own.toml", &entry("external"));
    run(&world, &[&["git", "--version"]], &[("PATH", &path)], more).exits(0);
    assert_eq!(world.work("log"), "");
    // Without the network it is a program of the workspace like any other.
    world.file("own.toml", &entry("write"));
    run(&world, &[&["git", "--version"]], &[("PATH", &path)], more).exits(0);
    assert_eq!(world.work("log"), "evil\n");
}

#[test]
fn a_configuration_that_a_step_leaves_is_not_used_until_an_operator_accepts_it() {
    let world = World::new();
    let work = world.path().join("work");
    let node = |script: &str| json!({"id": "p", "nodes": [{"id": "n", "tool": "shell.run", "params": {"argv": ["sh", "-c", script]}, "retries": 0}]});
    world.file(
        "work/plan.json",
        &node("echo '[tools.shell]' > ostler.toml; mkdir sub; cp ostler.toml sub/").to_string(),
    );
    let ostler = |line: &str, folder: &str| ended(world.command(line).current_dir(work.join(folder)));
    ostler("run plan.json --intent 2", "").exits(0);
    assert_eq!(world.work("ostler.toml"), "[tools.shell]\n");
    for folder in ["", "sub"] {
        for line in ["policy check", "run plan.json --intent 2"] {
            ostler(line, folder).exits(2).complains("ostler policy accept ");
        }
        // To look needs no configuration.
        ostler("ps --all", folder)
            .exits(0)
            .says("succeeded")
            .complains("note: ./ostler.toml is not used, as it");
        ostler("policy accept ostler.toml", folder).exits(0).says("accepted ostler.toml (b3:");
        ostler("policy check", folder).exits(0);
    }
    // A program that runs now cannot change it, so edits are the operator's.
    world.file("work/plan.json", &node("echo x >> ostler.toml").to_string());
    ostler("run plan.json --intent 2", "").exits(1);
    world.file("work/ostler.toml", "[retention]\n");
    ostler("policy check", "").exits(0);
    // In the folder below it can.
    world.file("work/sub/ostler.toml", "[retention]\n");
    ostler("policy check", "sub").exits(2);
    // To name it is a decision for the content that it had when it was first used.
    ostler("policy check --config ostler.toml", "sub").exits(2).complains("ostler policy accept ");
    ostler("policy accept ostler.toml", "sub").exits(0);
    ostler("policy check --config ostler.toml", "sub").exits(0);
}

#[test]
fn a_step_cannot_make_the_folder_where_accepting_is_noted() {
    let world = World::new();
    let user = world.path().join("work/.config");
    let forge = "mkdir -p .config/ostler; echo {} > .config/ostler/workspaces.json; mv .config other; echo done > log";
    let settings = [("XDG_CONFIG_HOME", user.to_str().unwrap())];
    run(&world, &[&["sh", "-c", forge]], &settings, "--workspace work --intent 2").exits(0);
    assert_eq!(world.work("log"), "done\n");
    let notes = std::fs::read_to_string(user.join("ostler/workspaces.json")).unwrap();
    assert!(notes.contains("/work"), "{notes}");
}

#[test]
fn a_policy_that_a_step_of_another_run_leaves_is_not_put_in_force() {
    let world = World::new();
    std::fs::create_dir(world.path().join("work/sub")).unwrap();
    world.file("work/sub/ostler.toml", "[retention]\n");
    world.file("long.yaml", "id: long\nnodes:\n  - {id: nap, tool: time.sleep, params: {ms: 600000}}\n");
    let mut holder = world.start("run long.yaml --workspace work/sub");
    holder.until("opened: long");
    world.ostler("policy reload").exits(0);
    let leave = "echo '[policy]' > sub/ostler.toml";
    run(&world, &[&["sh", "-c", leave]], &[], "--workspace work --intent 2 --data other").exits(0);
    let told = world.ostler("policy reload").complains("ostler policy accept ");
    assert_ne!(told.code, Some(0));
    world.ostler("policy accept work/sub/ostler.toml").exits(0);
    world.ostler("policy reload").exits(0);
    holder.signal("TERM");
    holder.end().exits(143);
}

/// A folder that is made where a program of another process runs is not hidden from that program.
#[test]
fn no_data_folder_is_made_around_a_program_that_runs() {
    let world = World::new();
    let work = world.path().join("work");
    let wait =
        "echo begun > begun; while [ ! -e end ]; do [ ! -e .ostler ] || echo seen > seen; sleep 0.05; done";
    let node = json!({"id": "n", "tool": "shell.run", "params": {"argv": ["sh", "-c", wait]}, "retries": 0});
    world.file("work/wait.json", &json!({"id": "wait", "nodes": [node]}).to_string());
    world.file(
        "work/plan.json",
        &json!({"id": "p", "nodes": [{"id": "n", "tool": "time.sleep", "params": {"ms": 1}}]}).to_string(),
    );
    let ostler = |line: &str| ended(world.command(line).current_dir(&work).env_remove("OSTLER_DATA"));
    let run = world.start("run work/wait.json --intent 2 --workspace work");
    until("the program runs", || work.join("begun").exists());
    for data in ["", " --data other/state"] {
        let told = "a program of another process runs where it could change what this one makes there";
        ostler(&format!("run plan.json{data}")).exits(2).complains(told);
    }
    assert!(!work.join(".ostler").exists() && !work.join("other/state").exists());
    world.file("work/end", "");
    run.end().exits(0);
    ostler("run plan.json").exits(0);
}

/// A program leaves a data folder of somebody else, with a grant, where the next command looks for its own.
#[test]
fn a_data_folder_that_a_program_leaves_is_not_used() {
    let world = World::new();
    let work = world.path().join("work");
    let ostler = |line: &str| ended(world.command(line).current_dir(&work).env_remove("OSTLER_DATA"));
    let argv = ["cp", "-r", "theirs", ".ostler"];
    let node = json!({"id": "n", "tool": "shell.run", "params": {"argv": argv}, "retries": 0});
    std::fs::create_dir(work.join("theirs")).unwrap();
    world.file("work/plan.json", &json!({"id": "p", "nodes": [node]}).to_string());
    world.file("work/theirs/format", "ostler-store 1\n").file("work/theirs/operators", "");
    ostler(&format!("run plan.json --intent 2 --data {}", world.data().display())).exits(0);
    assert_eq!(world.work(".ostler/format"), "ostler-store 1\n");
    for line in ["ps", "run plan.json --intent 2", "operator ls"] {
        ostler(line).exits(2).complains("ostler policy accept .ostler");
    }
    std::fs::remove_dir_all(world.path().join("work/.ostler")).unwrap();
    // Looking makes none, and what Ostler makes there is its own, with the folder around it.
    ostler("ps").exits(0);
    for data in ["", " --data new/deep"] {
        ostler(&format!("run plan.json --intent 2{data}"));
        ostler(&format!("ps --all{data}")).exits(0).says("p ");
    }
    ostler("policy accept .").exits(2).complains("it is no data folder");
}

/// Runs can be looked at and stopped with any configuration in the folder.
#[test]
fn a_configuration_that_cannot_be_used_keeps_nobody_from_stopping_a_run() {
    let world = World::new();
    world.file("long.yaml", "id: long\nnodes:\n  - {id: nap, tool: time.sleep, params: {ms: 600000}}\n");
    for left in ["[polcy]\n", "[retention]\n"] {
        let _ = std::fs::remove_file(world.path().join("work/ostler.toml"));
        let mut holder = world.start("run long.yaml --workspace work");
        holder.until("opened: long");
        let leave = format!("printf '{left}' > ostler.toml");
        run(&world, &[&["sh", "-c", &leave]], &[], "--workspace work --intent 2 --data other").exits(0);
        let ostler = |line: &str| ended(world.command(line).current_dir(world.path().join("work")));
        let not_used = "note: ./ostler.toml is not used: process ";
        for line in ["ps", "approvals", "audit", "lockdown on", "lockdown off", "cancel @last"] {
            ostler(line).exits(0).complains(not_used);
        }
        holder.end().exits(1);
        ostler("ps --all").exits(0).complains("note: ./ostler.toml is not used, as it");
        ostler("policy check").exits(2);
    }
}

#[test]
fn a_configuration_that_is_a_link_to_a_secret_is_not_shown() {
    let world = World::new();
    world.file("secret", "0123456789abcdef\n");
    let work = world.path().join("work");
    run(&world, &[&["ln", "-s", "../secret", "ostler.toml"]], &[], "--workspace work --intent 2").exits(0);
    assert!(work.join("ostler.toml").is_symlink());
    for (line, code) in [("ps", 0), ("policy check", 2), ("doctor", 2), ("policy accept ostler.toml", 2)] {
        let told = ended(world.command(line).current_dir(&work)).exits(code);
        assert!(!told.err.contains("0123456789abcdef") && !told.out.contains("0123456789abcdef"), "{told:?}");
    }
}

#[test]
fn a_link_to_another_data_folder_is_not_used() {
    let world = World::new();
    let work = world.path().join("work");
    run(&world, &[&["ln", "-s", "../data", ".ostler"]], &[], "--workspace work --intent 2").exits(0);
    assert!(work.join(".ostler/format").exists());
    let ostler = |line: &str| ended(world.command(line).current_dir(&work).env_remove("OSTLER_DATA"));
    ostler("ps").exits(2).complains("ostler policy accept .ostler");
    ostler("ps --data ../data").exits(0);
    ostler("policy accept .ostler").exits(0);
    ostler("ps").exits(0);
}

#[test]
fn a_faulty_configuration_that_may_name_another_data_folder_is_not_done_without() {
    let world = World::new();
    let work = world.path().join("work");
    let ostler = |line: &str| ended(world.command(line).current_dir(&work).env_remove("OSTLER_DATA"));
    world.file("work/p.yaml", "id: p\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n");
    ostler("run p.yaml").exits(0);
    world.file("work/ostler.toml", "[polcy]\n");
    ostler("ps --all").exits(0).says("p ");
    world.file("work/ostler.toml", "[store]\nurl = \"file:real\"\n[polcy]\n");
    for line in ["ps --all", "lockdown", "cancel @last"] {
        ostler(line).exits(2).complains("polcy");
    }
    ostler("ps --all --data .ostler").exits(0).says("p ");
}
