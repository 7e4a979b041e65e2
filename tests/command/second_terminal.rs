//! Commands while another process holds the data folder.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::world::{Watchdog, World, until};

const LONG: &str = "id: long\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s, deps: [a]}\n";
const ASK: &str =
    "id: ask\nnodes:\n  - {id: ok, kind: human_approval, params: {question: \"Now?\"}, human_timeout: 1h}\n";
const SHORT: &str = "id: short\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n";
const MIDDLE: &str = "id: middle\nnodes:\n  - {id: nap, tool: time.sleep, params: {ms: 1500}}\n";

fn world() -> World {
    let world = World::new();
    world.file("long.yaml", LONG).file("short.yaml", SHORT).file("middle.yaml", MIDDLE);
    world
}

fn run_of(line: &str) -> String {
    line.split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn a_second_terminal_looks_runs_and_cancels() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    let run = run_of(&holder.until("opened: long"));
    holder.until("a    executed");
    world.ostler("ps").exits(0).says("waiting").says("1/2");
    world.ostler(&format!("show {run}")).exits(0).says("nap  running");
    until("the time so far is told", || {
        let told = |format: &str| world.ostler(&format!("show {run} --format {format}")).exits(0);
        told("json").lines()[0]["makespan_ms"].as_i64().unwrap() >= 1_000
            && told("text").out.lines().any(|line| line.contains("nap  running") && line.contains(" s"))
    });
    let mut follower = world.start(&format!("events {run} --follow --json"));
    follower.until("\"executed\"");
    world.ostler("run short.yaml --workspace work").exits(0).says("succeeded  short");
    let beside = world.ostler("doctor").exits(0).says("held by process").says("executes");
    beside.says("checksums and index were not checked");
    let beside = world.ostler("gc --older-than 1ms").exits(0);
    beside.says("1 run would be removed").complains("held by process").complains("--apply needs");
    assert_eq!(world.ostler("gc --json").exits(0).lines()[0]["held"], true);
    world.ostler("gc --apply").exits(4).complains("held by process");
    world.ostler(&format!("cancel {}", &run[24..])).exits(0).says("cancelled  long");
    holder.end().exits(1).says("cancelled  long");
    follower.end().exits(0).says("run_closed");
    world.ostler("ps").exits(0).says("succeeded").says("cancelled");
}

#[test]
fn a_goal_beside_a_holder_without_its_model_is_told_that_the_holder_has_to_end() {
    let world = world();
    world.file("script.yaml", "roles: {planner: [{answer: {answer: hi, missing: null, steps: []}}]}\n");
    let mut holder = world.start("run long.yaml --workspace work");
    let run = run_of(&holder.until("opened: long"));
    holder.until("a    executed");
    let ask = "ask hello --yes --workspace work --mode reflect --model scripted:script.yaml";
    let told = world.ostler(ask).exits(2).complains("knows no model \"scripted\"");
    told.complains("it read its configuration when it started; ask again when it has ended");
    let other = format!("{ask} --config other.toml");
    world.file("other.toml", "").ostler(&other).complains("note: other.toml is not used: process");
    world.ostler(&format!("cancel {run}")).exits(0);
    holder.end().exits(1);
    world.ostler(ask).exits(0).says("hi");
}

#[test]
fn a_holder_stays_until_the_runs_of_others_are_done() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    let run = run_of(&holder.until("opened: long"));
    let mut other = world.start("run middle.yaml --workspace work");
    other.until("opened: middle");
    world.ostler(&format!("cancel {run}")).exits(0);
    other.end().exits(0).says("succeeded  middle");
    holder.end().exits(1).complains("waiting for 1 run of other terminals");
}

#[test]
fn when_the_holder_dies_who_follows_is_told_how_to_go_on() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("a    executed");
    let mut other = world.start("run middle.yaml --workspace work");
    let run = run_of(&other.until("opened: middle"));
    other.signal("KILL");
    other.end();
    let mut follower = world.start(&format!("events {run} -f"));
    follower.until("run_opened");
    holder.signal("KILL");
    let told =
        format!("the process that holds the data folder ended; `ostler resume {run}` continues the run");
    follower.end().exits(5).complains(&told);
    world.ostler(&format!("resume {run}")).exits(0).says("succeeded  middle");
}

#[test]
fn when_the_holder_ends_who_has_a_run_open_goes_on_with_it() {
    for signal in ["KILL", "INT"] {
        let world = world();
        let mut holder = world.start("run long.yaml --workspace work");
        holder.until("a    executed");
        let mut other = world.start("run middle.yaml --workspace work");
        let run = run_of(&other.until("opened: middle"));
        holder.signal(signal);
        let ended = other.end().exits(0).says("succeeded  middle");
        ended.complains("the process that held the data folder ended: the run continues in this one");
        holder.end();
        world.ostler(&format!("show {run}")).exits(0).says("succeeded");
        // The ended process leaves its run to others.
        let open = world.ostler("ps --state queued --json").exits(0).lines();
        assert_eq!((open.len(), &open[0]["plan"]), (1, &"long".into()), "{signal}");
    }
}

#[test]
fn who_ends_and_waits_for_what_acts_takes_looks_and_cancels_and_nothing_else() {
    let world = world();
    let waits = "until [ -e go ]; do sleep 0.05; done";
    let act = format!(
        "id: act\nnodes:\n  - {{id: a, tool: shell.run, params: {{argv: [sh, -c, \"{waits}\"]}}}}\n  - {{id: b, tool: fs.list, params: {{path: .}}, deps: [a]}}\n"
    );
    world.file("act.yaml", &act);
    let mut holder = world.start("run act.yaml --workspace work --intent 2");
    let run = run_of(&holder.until("opened: act"));
    until("it acts", || world.ostler(&format!("show {run}")).out.contains("a  running"));
    holder.signal("INT");
    let refused = "is shutting down and waits up to 30.00 s for attempts that change the world";
    world.ostler("run short.yaml --workspace work").exits(4).complains(refused);
    world.ostler(&format!("skip {run} b")).exits(4).complains(refused);
    world.ostler("ps").exits(0).says("running").says("0/2");
    world.ostler("approvals").exits(0);
    world.ostler(&format!("show {run}")).exits(0).says("a  running");
    let told = world.path().join("told");
    let mut cancel = world.command(&format!("cancel {run}"));
    let mut cancel = cancel.stderr(std::fs::File::create(&told).unwrap()).spawn().unwrap();
    let waits = format!("run {run} is cancelled; waits for a, which changes the world");
    until("it tells what it waits for", || std::fs::read_to_string(&told).unwrap().contains(&waits));
    world.file("work/go", "");
    assert!(cancel.wait().unwrap().success());
    holder.end().exits(130).complains("stopped, state is kept");
    world.ostler(&format!("show {run}")).exits(0).says("a  executed").says("b  cancelled");
}

/// The next holder of the data folder does not resume runs of others.
#[test]
fn who_has_a_run_open_has_it_taken_up_by_whoever_holds_the_folder_next() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("a    executed");
    let mut other = world.start("run middle.yaml --workspace work");
    other.until("opened: middle");
    other.signal("STOP");
    holder.signal("KILL");
    holder.end();
    let mut next = world.start("run long.yaml --workspace work");
    let long = run_of(&next.until("opened: long"));
    other.signal("CONT");
    other.end().exits(0).says("succeeded  middle");
    world.ostler(&format!("cancel {long}")).exits(0);
    next.end().exits(1);
}

#[test]
fn who_follows_a_run_that_waits_for_a_person_is_done_when_the_holder_ends() {
    let world = world();
    world.file("ask.yaml", ASK);
    let mut holder = world.start("run long.yaml --workspace work");
    let long = run_of(&holder.until("opened: long"));
    let mut other = world.start("run ask.yaml --workspace work");
    let run = run_of(&other.until("opened: ask"));
    other.end().exits(3);
    let mut follower = world.start(&format!("events {run} --follow"));
    follower.until("human_request");
    world.ostler(&format!("cancel {long}")).exits(0);
    holder.end().exits(1);
    let told = follower.end().exits(0);
    told.complains(
        "this run is not executing, so no more records follow: it waits for a person: `ostler approvals`",
    );
    world.ostler("ps").exits(0).says("waiting");
}

#[test]
fn an_interrupt_of_who_holds_nothing_stops_nothing() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    let long = run_of(&holder.until("opened: long"));
    let mut other = world.start("run middle.yaml --workspace work");
    let run = run_of(&other.until("opened: middle"));
    other.signal("INT");
    other.end().exits(130).complains("continues in the process that holds the data folder");
    let follower = world.start(&format!("events {run} --follow --json"));
    follower.end().exits(0).says("run_closed").says("succeeded");
    world.ostler(&format!("cancel {long}")).exits(0);
    holder.end().exits(1);
}

#[test]
fn a_name_that_fits_no_run_or_several_is_refused() {
    let world = world();
    for _ in 0..2 {
        world.ostler("run short.yaml --workspace work").exits(0);
    }
    let runs = world.ostler("ps --json").exits(0).lines();
    let first = runs[0]["run"].as_str().unwrap();
    world.ostler(&format!("show {}", &first[..4])).exits(2).complains("fits 2 runs");
    world.ostler(&format!("show {}", &first[28..])).exits(0).says(first);
    world.ostler("show ffffffff").exits(2).complains("no run has an id that begins or ends with ffffffff");
    world.ostler("show abc").exits(2).complains("4 or more characters");
    world.ostler("show 0198f3c2-0000-7000-8000-000000000001").exits(2).complains("no run");
}

/// The monitor holds the data folder only while it reads, so work goes on beside it.
#[test]
fn an_audit_is_followed_over_the_processes_that_come_and_go() {
    let world = World::new();
    world.file("look.yaml", "id: look\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n");
    world.ostler("run look.yaml --workspace work").exits(0);
    let mut follows = world.start("audit --follow --json");
    follows.until("\"allow\"");
    for _ in 0..2 {
        world.ostler("run look.yaml --workspace work --fresh").exits(0);
        world.ostler("ps").exits(0);
    }
    world.file("long.yaml", "id: long\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n  - {id: nap, tool: time.sleep, deps: [a], params: {ms: 600000}}\n");
    let mut holder = world.start("run long.yaml --workspace work --fresh");
    holder.until("opened: long");
    for _ in 0..2 {
        follows.until("\"allow\"");
    }
    follows.until("\"allow\"");
    world.ostler("cancel @last").exits(0);
    holder.end().exits(1);
    world.ostler("run look.yaml --workspace work --fresh").exits(0);
    follows.until("\"allow\"");
}

/// Exit code of a command whose reader goes away after the first line, and nothing is printed after it.
fn read_by_head(world: &World, line: &str) -> Option<i32> {
    let mut child = world.command(line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_ne!(first, "", "{line}");
    child.wait().unwrap().code()
}

#[test]
fn a_command_that_follows_ends_when_its_reader_has_gone() {
    let world = world();
    world.ostler("run short.yaml --workspace work").exits(0);
    assert_eq!(read_by_head(&world, "audit --follow"), Some(0), "no process holds the data folder");
    let wait = "echo hello; until test -e go; do sleep 0.01; done";
    let plan = format!(
        "id: says\nnodes:\n  - {{id: hello, tool: shell.run, params: {{argv: [sh, -c, {wait:?}]}}}}\n"
    );
    world.file("says.yaml", &plan);
    let mut holder = world.start("run says.yaml --workspace work --intent 2");
    holder.until("opened: says");
    until("the program has begun", || world.ostler("logs @last").out.contains("hello"));
    let commands = [
        "logs @last --follow",
        "audit --follow",
        "audit @last --follow",
        "events @last --follow",
        "events @last --follow --json",
        "top --json -n 1000",
    ];
    for command in commands {
        assert_eq!(read_by_head(&world, command), Some(0), "{command}");
    }
    std::fs::write(world.path().join("work/go"), "").unwrap();
    holder.end().exits(0);
}
