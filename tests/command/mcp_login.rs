//! Logins at an MCP server through the command.

#[allow(dead_code, reason = "the tests of the driver need more of it")]
#[path = "../../drivers/tests/mcp/authority.rs"]
mod authority;
#[path = "../../drivers/tests/mcp/wire.rs"]
mod wire;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use authority::{Authority, Conduct, browse};

use super::world::{Watchdog, World, ended, until};

const CONFIG: &str = "--config ostler.toml";
const RUN: &str = "run plan.yaml --workspace work --config ostler.toml";

/// A world with a server that asks for a login, and a plan that calls its tool.
fn world(authority: &Authority) -> World {
    let world = World::new();
    world.file("ostler.toml", &format!("[mcp.x]\n{}", authority.table()));
    world.file("plan.yaml", "id: p\nnodes:\n  - {id: n, tool: mcp.x.say, retries: 0}\n");
    world
}

/// Logs in by pasting the address at which a browser ends.
fn log_in(world: &World) {
    let mut command = world.command(&format!("mcp login x {CONFIG}"));
    let command = command.env_remove("BROWSER").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let told = BufReader::new(child.stderr.take().unwrap());
    let address = told.lines().map_while(Result::ok).find(|line| line.starts_with("http")).unwrap();
    let there = browse(&address).1.unwrap();
    let mut paste = child.stdin.take().unwrap();
    write!(paste, "what?\n{there}\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && out.contains("logged in at http://127.0.0.1"), "{out}");
    assert!(
        out.contains("server x: the token holds until 20") && out.contains("is renewed without you"),
        "{out}"
    );
}

/// True if a file at or below the folder has this text.
fn has(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| match entry.file_type().unwrap().is_dir() {
        true => has(&entry.path(), text),
        false => {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            bytes.windows(text.len()).any(|part| part == text.as_bytes())
        }
    })
}

#[test]
fn a_run_names_the_login_that_a_person_does_once() {
    let authority = Authority::start(Conduct { lasts: Some(3_600), ..Conduct::default() });
    let world = world(&authority);
    world
        .ostler(&format!("mcp ls {CONFIG}"))
        .exits(0)
        .says("no login; if it asks for one: `ostler mcp login x");
    world.ostler(&format!("mcp probe x {CONFIG}")).exits(1).says("login needed: `ostler mcp login x");
    world.ostler(&format!("mcp accept x --yes {CONFIG}")).exits(5).complains("login needed");
    log_in(&world);
    world.ostler(&format!("mcp probe x {CONFIG}")).exits(0).says("the token holds until");
    world.ostler(&format!("mcp accept x --yes {CONFIG}")).exits(0);
    world.ostler(RUN).exits(0).says("succeeded");
    world
        .ostler(&format!("mcp ls --json {CONFIG}"))
        .exits(0)
        .says(r#""login":{"renewed":true,"state":"kept""#);
    // No token is in logs, nor in the data folder.
    let mut logging = world.command(RUN);
    let ran = ended(logging.env("OSTLER_LOG", "trace")).exits(0);
    assert!(!ran.err.contains("access-1") && !ran.out.contains("access-1"));
    assert!(!has(&world.data(), "access-1") && !has(&world.data(), "refresh-1"));
    assert!(has(world.config(), "access-1"));
    // The folder that holds the token is the operator key's.
    assert!(world.config().join("ostler/ostler-operator.key").exists());
    world.ostler(&format!("mcp logout x {CONFIG}")).exits(0).says("is removed");
    world.ostler(&format!("mcp logout x {CONFIG}")).exits(0).says("there is no login");
    world.ostler(RUN).exits(1).says("login needed: `ostler mcp login x");
    world.file("ostler.toml", &format!("[mcp.x]\n{}oauth = {{}}", authority.table()));
    world.ostler(&format!("mcp ls {CONFIG}")).exits(0).says("login needed: `ostler mcp login x");
    assert!(!has(world.config(), "access-1"));
}

#[test]
fn the_browser_of_the_environment_is_started_and_returns_to_the_port() {
    let authority = Authority::start(Conduct::default());
    let world = world(&authority);
    let script = world.path().join("browser");
    std::fs::write(&script, "#!/bin/sh\necho \"$1\" > opened.new\nmv opened.new opened\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = world.command(&format!("mcp login x --json {CONFIG}"));
    let command = command.env("BROWSER", format!("no-such-browser:{}", script.display()));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let opened = world.path().join("opened");
    until("the browser opens", || opened.exists());
    let address = std::fs::read_to_string(&opened).unwrap();
    assert_eq!(browse(&browse(address.trim()).1.unwrap()).0, "HTTP/1.1 200 OK");
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains(r#""issuer":"http://127.0.0.1"#) && out.contains(r#""scopes":["read"]"#), "{out}");
    assert!(!out.contains("access-"), "{out}");
}

#[test]
fn a_login_that_nobody_finishes_ends_and_leaves_nothing() {
    let authority = Authority::start(Conduct::default());
    let world = world(&authority);
    let left = || has(world.config(), "127.0.0.1");
    let login = format!("mcp login x --wait 1s {CONFIG}");
    world.ostler(&login).exits(1).complains("no login at server x: nobody logged in within 1s");
    assert!(!left());
    let mut command = world.command(&format!("mcp login x {CONFIG}"));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let told = BufReader::new(child.stderr.take().unwrap());
    told.lines().map_while(Result::ok).find(|line| line.starts_with("waiting")).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!left());
    world.file(
        "ostler.toml",
        "[mcp.x]\ncommand = [\"x\"]\n[mcp.t]\nurl = \"https://h/\"\ntoken_env = \"HOME\"\n",
    );
    world.ostler(&format!("mcp login x {CONFIG}")).exits(1).complains("only a server with a `url`");
    world.ostler(&format!("mcp login t {CONFIG}")).exits(1).complains("remove `token_env`");
    world.ostler(&format!("mcp login y {CONFIG}")).exits(2).complains("no MCP server");
}
