//! Tools with forbidden or hostile input.

use std::os::unix::fs::symlink;

use super::is_well;
use super::world::World;

fn plan(node: &str) -> String {
    format!("id: one\nnodes:\n  - {{id: a, {node}}}\n")
}

/// Runs a plan of one node, and checks the exit code and output.
#[track_caller]
fn check(world: &World, node: &str, code: i32, says: &str) {
    world.file("one.yaml", &plan(node));
    let ended = world.ostler("run one.yaml --workspace work --intent 2").exits(code);
    ended.says(says);
    is_well(world);
}

#[test]
fn no_path_leads_out_of_the_workspace() {
    let world = World::new();
    world.file("secret", "secret");
    symlink(world.path(), world.path().join("work/link")).unwrap();
    let absolute = world.path().join("secret");
    for path in ["../secret", "x/../../secret", absolute.to_str().unwrap(), "link/secret", "/"] {
        let outside = "out of the workspace";
        check(&world, &format!("tool: fs.read, params: {{path: {path:?}}}"), 1, outside);
        let write = format!("tool: fs.write, params: {{path: {path:?}, text: x, mode: replace}}");
        check(&world, &write, 1, outside);
    }
    check(&world, "tool: fs.list, params: {path: ..}", 1, "out of the workspace");
    check(&world, "tool: text.stats, params: {files: [../secret]}", 1, "out of the workspace");
    check(&world, "tool: shell.run, params: {argv: [ls], cwd: ..}", 1, "out of the workspace");
    assert_eq!(std::fs::read_to_string(absolute).unwrap(), "secret");
}

#[test]
fn a_folder_that_becomes_a_link_out_during_the_run_is_not_followed() {
    let world = World::new();
    world.file("secret", "secret").file(
        "swap.yaml",
        "id: swap
nodes:
  - {id: before, tool: fs.write, params: {path: inner/secret, text: mine, mode: create}}
  - {id: swap, tool: shell.run, params: {argv: [sh, -c, 'rm -r inner && ln -s .. inner']}, deps: [before]}
  - {id: read, tool: fs.read, params: {path: inner/secret}, deps: [swap]}
  - {id: write, tool: fs.write, params: {path: inner/secret, text: x, mode: replace}, deps: [swap]}
",
    );
    let ended = world.ostler("run swap.yaml --workspace work --intent 2").exits(1);
    ended.says("read    failed").says("write   failed").says("leads out of the workspace");
    assert_eq!(std::fs::read_to_string(world.path().join("secret")).unwrap(), "secret");
    is_well(&world);
}

#[test]
fn a_result_that_breaks_its_contract_fails_and_is_not_passed_on() {
    let world = World::new();
    world.file(
        "contract.yaml",
        "id: contract
nodes:
  - id: list
    tool: fs.list
    params: {path: .}
    contract: [{method: code, spec: {check: non_empty, path: files}}]
  - {id: stats, tool: text.stats, param_refs: {files: {from: list, path: files}}}
",
    );
    let ended = world.ostler("run contract.yaml --workspace work").exits(1);
    ended.says("list   failed").says("files").says("stats");
    world.ostler("artifact @last/list").exits(2).complains("no result");
    is_well(&world);
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_tool_that_hangs_is_ended_with_all_that_it_started() {
    let world = World::new();
    // Without a cage a program has the process id that others see.
    world.file("work/ostler.toml", "[tools.shell]\nsandbox = false\n");
    let script = "echo $$ >> pids; sleep 1000 & echo $! >> pids; \
                  setsid sh -c 'echo $$ >> pids; exec sleep 1000' & (sleep 1000 & echo $! >> pids); wait";
    let node = format!("tool: shell.run, params: {{argv: [sh, -c, {script:?}]}}, timeout: 5s, retries: 0");
    // The effect is unknown, so a person decides.
    check(&world, &node, 3, "in doubt a");
    let pids = world.work("pids");
    assert_eq!(pids.lines().count(), 4, "{pids}");
    // A killed process takes a moment to exit.
    let begun = std::time::Instant::now();
    while pids.lines().any(is_alive) {
        assert!(begun.elapsed().as_secs() < 60, "they live on: {pids}");
        std::thread::yield_now();
    }
}

#[test]
fn a_flood_of_output_is_bounded() {
    let world = World::new();
    check(&world, "tool: shell.run, params: {argv: [sh, -c, 'yes | head -c 50000000']}", 0, "succeeded");
    let output = world.ostler("artifact @last/a").exits(0).out;
    assert!(output.contains("bytes left out") && output.len() < 3 << 20, "{} bytes", output.len());
    let size: u64 = walk(&world.data().join("artifacts"));
    assert!(size < 3 << 20, "{size} bytes in the store");
}

fn walk(folder: &std::path::Path) -> u64 {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() { walk(&entry.path()) } else { metadata.len() }
        })
        .sum()
}

#[test]
fn what_is_not_utf_8_is_refused_or_passed_over() {
    let world = World::new();
    std::fs::write(world.path().join("work/latin.txt"), b"caf\xe9 TODO\n").unwrap();
    std::fs::write(world.path().join("work/binary"), b"\0TODO\n").unwrap();
    std::fs::write(world.path().join("work/plain.txt"), "TODO\n").unwrap();
    check(&world, "tool: fs.read, params: {path: latin.txt}", 1, "latin.txt is not UTF-8 text: byte 3 of 10");
    check(&world, "tool: text.search, params: {pattern: TODO}", 0, "succeeded");
    world.ostler("artifact @last/a --path count").exits(0).says("1");
    check(&world, "tool: text.stats, params: {files: [latin.txt, binary, plain.txt]}", 0, "succeeded");
    world.ostler("artifact @last/a --path files").exits(0).says("1");
}

#[test]
fn a_name_that_is_not_utf_8_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    std::fs::write(world.path().join("work").join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    check(&world, "tool: fs.list, params: {path: .}", 1, "is not UTF-8: rename the file");
}

#[test]
fn a_workspace_that_vanishes_fails_the_node_and_keeps_the_run() {
    let world = World::new();
    world.file(
        "vanish.yaml",
        "id: vanish
nodes:
  - {id: first, tool: fs.list, params: {path: .}}
  - {id: wait, tool: time.sleep, params: {ms: 400}, deps: [first]}
  - {id: list, tool: fs.list, params: {path: .}, deps: [wait]}
  - {id: shell, tool: shell.run, params: {argv: [pwd]}, deps: [wait]}
",
    );
    let mut run = world.start("run vanish.yaml --workspace work");
    run.until("first  executed");
    std::fs::remove_dir(world.path().join("work")).unwrap();
    run.end().exits(1).says("cannot open the workspace").says("shell  failed");
    is_well(&world);
    world.ostler("run vanish.yaml --workspace work").exits(2).complains("work: No such file or directory");
}

/// In a cage a step would not get as far as the socket.
const UNCAGED: &str = "[tools.shell]\nsandbox = false\n";

#[test]
fn a_step_of_a_run_may_not_steer_the_process_that_runs_it() {
    let world = World::new();
    world.file("work/ostler.toml", UNCAGED);
    let ostler = env!("CARGO_BIN_EXE_ostler");
    for line in ["cancel @last", "resume @last"] {
        let step = format!("{ostler} {line} --data {}", world.data().display());
        let bare = format!("exec env -i PATH=$PATH {step}");
        for argv in [step.clone(), format!("unset OSTLER_CALL; {step}; exit $?"), bare] {
            let node = format!("tool: shell.run, params: {{argv: [sh, -c, {argv:?}]}}, retries: 0");
            check(&world, &node, 1, "a step of a run may not steer the process that runs it");
        }
    }
}

/// A child process inherits a connection, and sends a request over it. Exits with 7 if that is refused.
const ASKS_OVER_WHAT_WAS_LEFT: &str = r#"
import os, socket, sys
asking = socket.socket(socket.AF_UNIX)
child = os.fork()
if child == 0:
    asking.connect(sys.argv[1])
    os._exit(0)
os.waitpid(child, 0)
asking.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: ostler\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
answer = b""
while True:
    piece = asking.recv(4096)
    if not piece:
        break
    answer += piece
sys.exit(7 if b" 403 " in answer and b"asked_from_within" in answer else 1)
"#;

#[test]
fn a_connection_whose_process_is_gone_steers_nothing() {
    let found = std::process::Command::new("python3").args(["-c", ""]).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    world.file("work/ostler.toml", UNCAGED);
    world.file("work/asks.py", ASKS_OVER_WHAT_WAS_LEFT);
    let socket = world.data().join("control.sock");
    let node =
        format!("tool: shell.run, params: {{argv: [python3, asks.py, {socket:?}], allow_status: [7]}}");
    check(&world, &node, 0, "succeeded");
}

#[test]
fn the_data_folder_is_no_workspace() {
    let world = World::new();
    world.file("one.yaml", &plan("tool: fs.list, params: {path: .}"));
    // A missing data folder is protected too.
    world.ostler("run one.yaml --workspace work --data work").exits(2).complains("is the data folder");
    assert_eq!(std::fs::read_dir(world.path().join("work")).unwrap().count(), 0);
    world.ostler("run one.yaml --workspace work").exits(0);
    symlink(world.data(), world.path().join("link")).unwrap();
    for (place, says) in
        [("data", "is the data folder"), ("data/journal", "is inside"), ("link", "is the data")]
    {
        world.ostler(&format!("run one.yaml --workspace {place}")).exits(2).complains(says);
    }
    // Tools protect the data folder of another process too.
    let other = world.ostler("run one.yaml --workspace data --data other").exits(1);
    other.says("looks like a data folder of ostler");
    assert_eq!(world.ostler("ps --json").exits(0).lines().len(), 1);
    is_well(&world);
}

#[test]
fn a_data_folder_in_the_workspace_is_neither_listed_nor_searched() {
    let world = World::new();
    std::fs::write(world.path().join("work/plain.txt"), "ostler-store\n").unwrap();
    world.file(
        "look.yaml",
        "id: look
nodes:
  - {id: list, tool: fs.list, params: {path: ., hidden: true}}
  - {id: search, tool: text.search, params: {pattern: ostler-store}}
",
    );
    for data in ["work/state", "work/sub/.state"] {
        let line = format!("run look.yaml --workspace work --data {data}");
        world.ostler(&line).exits(0);
        world.ostler(&line).exits(0);
        let artifact = |of: &str| world.ostler(&format!("artifact @last/{of} --data {data}")).exits(0).out;
        assert_eq!(artifact("list --path files"), "[\"plain.txt\"]");
        assert_eq!(artifact("search --path count"), "1");
    }
}

#[test]
fn doctor_tells_what_programs_can_change() {
    let world = World::new();
    world.file("off.toml", "[tools.shell]\nsandbox = false\n");
    let off = world.ostler("doctor --config off.toml").exits(0);
    off.says("disabled: programs that steps start can read and change whatever you can");
    world.file("none.toml", "[sandbox]\nbubblewrap = \"/nonexistent\"\nhelper = \"/nonexistent\"\n");
    let none = world.ostler("doctor --config none.toml").exits(0);
    none.says("none (").says("programs of impact 0 and 1 are refused").says("install bubblewrap");
    let on = world.ostler("doctor").exits(0).out;
    if on.contains("programs of impact 0 and 1 are refused") {
        eprintln!("skipped: this machine has no cage");
        return;
    }
    assert!(on.contains("read the workspace and the system, not your home folder"), "{on}");
}

#[test]
fn without_a_cage_programs_are_refused_unless_the_operator_says_otherwise() {
    let world = World::new();
    let plan = plan("tool: shell.run, params: {argv: [ls]}, retries: 0");
    let without = "[sandbox]\nbubblewrap = \"/nonexistent\"\nhelper = \"/nonexistent\"\n";
    world.file("one.yaml", &plan).file("refuses.toml", without);
    world.file("runs.toml", &format!("{without}minimum = \"none\"\n"));
    let refused = world.ostler("run one.yaml --workspace work --config refuses.toml").exits(1);
    refused.says("no cage for programs: [sandbox] minimum is landlock, and this machine gives none");
    world.ostler("run one.yaml --workspace work --config runs.toml").exits(0).complains("WITHOUT A CAGE");
    world.ostler("events @last --json").exits(0).says("\"rung\":\"none\"");
}
