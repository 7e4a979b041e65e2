//! What programs of steps and MCP servers see and leave, with the whole command around them.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::world::{Ended, World};

/// Runs a plan of `shell.run` nodes, one after the other.
fn run(world: &World, programs: &[&[&str]], settings: &[(&str, &str)], more: &str) -> Ended {
    let node = |(at, argv): (usize, &&[&str])| {
        let deps: Vec<String> = at.checked_sub(1).iter().map(|before| format!("n{before}")).collect();
        json!({"id": format!("n{at}"), "tool": "shell.run", "params": {"argv": argv}, "deps": deps, "retries": 0})
    };
    let nodes: Vec<Value> = programs.iter().enumerate().map(node).collect();
    world.file("plan.json", &json!({"id": "p", "nodes": nodes}).to_string());
    let mut command = world.command(&format!("run plan.json {more}"));
    let output = command.envs(settings.iter().copied()).output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
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
