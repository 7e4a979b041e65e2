//! What a kill, ^C and a termination leave, and how it goes on.

use super::world::World;

/// Leaves a line for each time a step is done, with a wait between two of them.
const STEPS: &str = r#"
id: steps
nodes:
  - {id: first, tool: shell.run, params: {argv: [sh, -c, "echo first >> log"]}, timeout: 20s}
  - {id: wait, tool: time.sleep, params: {ms: 700}, deps: [first]}
  - {id: last, tool: shell.run, params: {argv: [sh, -c, "echo last >> log"]}, deps: [wait], timeout: 20s}
"#;

/// Is killed while the step is being done.
const DOUBT: &str = r#"
id: doubt
nodes:
  - {id: act, tool: shell.run, params: {argv: [sh, -c, "echo acted >> log; exec sleep 4"]}, timeout: 20s}
  - {id: then, tool: shell.run, params: {argv: [sh, -c, "echo then >> log"]}, deps: [act], timeout: 20s}
"#;

fn world() -> World {
    let world = World::new();
    world.file("steps.yaml", STEPS).file("doubt.yaml", DOUBT);
    world
}

const RUN: &str = "run steps.yaml --workspace work --intent 2";

#[test]
fn after_a_kill_finished_steps_are_not_repeated() {
    let world = world();
    let mut run = world.start(RUN);
    run.until("first  executed");
    run.signal("KILL");
    assert_eq!(run.end().code, None);
    world.ostler("ps").exits(0).says("open").says("1/3");
    world.ostler("show @last").exits(0).says("it stands still: ostler resume ");
    world.ostler("resume").exits(0).says("succeeded  steps");
    assert_eq!(world.work("log"), "first\nlast\n");
    world.ostler("doctor").exits(0).says("runs           1 with ").says("nothing is broken");
}

#[test]
fn an_interrupt_keeps_the_state_and_tells_how_to_go_on() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let world = world();
        let mut run = world.start(RUN);
        run.until("first  executed");
        run.signal(signal);
        run.end().exits(code).complains("goes on");
        world.ostler("resume @last").exits(0).says("succeeded");
        assert_eq!(world.work("log"), "first\nlast\n", "{signal}");
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let world = world();
    let mut run = world.start("run doubt.yaml --workspace work --intent 2 --json");
    run.until("attempt_intent");
    while world.work("log").is_empty() {
        std::thread::yield_now();
    }
    while !run.has_ended() {
        run.signal("INT");
        std::thread::yield_now();
    }
    let ended =
        run.end().exits(130).complains("stopping").complains("ended at once, state is kept: `ostler resume ");
    assert!(!ended.err.contains("stopped,"), "it did not wait for the step: {}", ended.err);
    world.ostler("resume").exits(3).says("in doubt act");
}

/// Runs the plan until its step is under way, and kills it there.
fn in_doubt() -> World {
    let world = world();
    let mut run = world.start("run doubt.yaml --workspace work --intent 2 --json");
    assert!(run.until("attempt_intent").contains("\"act\""));
    // The record is told before the step begins: its trace tells that it has.
    while world.work("log") != "acted\n" {
        std::thread::yield_now();
    }
    run.signal("KILL");
    run.end();
    world
}

#[test]
fn an_attempt_in_doubt_asks_and_goes_on_with_its_result() {
    let world = in_doubt();
    let asked = world.ostler("resume").exits(3);
    asked.says("in doubt act").says("--redo");
    assert_eq!(world.work("log"), "acted\n", "nothing was done again");
    world.ostler("ps").exits(0).says("waiting");
    world.ostler("resume @last").exits(3);
    world.file("result.json", r#"{"status": 0, "stdout": "", "stderr": ""}"#);
    world.ostler("resolve @last then --redo").exits(2).complains("nothing to resolve");
    world.ostler("resolve @last act --done missing.json").exits(2).complains("missing.json");
    world.ostler("resolve @last act --done result.json").exits(0).says("succeeded");
    assert_eq!(world.work("log"), "acted\nthen\n");
}

#[test]
fn an_attempt_in_doubt_can_count_as_failed() {
    let world = in_doubt();
    world.ostler("resolve @last act --fail").exits(1).says("failed");
    assert_eq!(world.work("log"), "acted\n");
}

#[test]
fn a_run_that_nobody_drives_can_be_cancelled() {
    let world = world();
    let mut run = world.start(RUN);
    run.until("first  executed");
    run.signal("KILL");
    run.end();
    world.ostler("cancel @last").exits(0).says("cancelled");
    world.ostler("ps --json").exits(0).says("\"outcome\":\"cancelled\"");
    assert_eq!(world.work("log"), "first\n");
}
