//! Output of programs, and the report about failed nodes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::world::{Watchdog, World, until};

const TALK: &str = r#"
id: talk
nodes:
  - id: good
    tool: shell.run
    params: {argv: [sh, -c, "echo out; echo err >&2; printf last"]}
  - id: bad
    tool: shell.run
    params: {argv: [sh, -c, "echo one >&2; echo two >&2; echo three >&2; exit 3"]}
  - id: tell
    kind: aggregator
    deps: [{n: good, on: terminal}, {n: bad, on: terminal}]
    params: {template: "good: {{ good.state }}; bad: {{ bad.error }}"}
outputs: [tell]
"#;

/// Fails twice, then succeeds.
const FLAKY: &str = r#"
id: flaky
nodes:
  - id: flaky
    tool: shell.run
    params: {argv: [sh, -c, "echo x >> tries; echo try $(wc -l < tries); test $(wc -l < tries) = 3"]}
    idem: IDEM
    retries: 2
"#;

fn world() -> World {
    let world = World::new();
    world.file("talk.yaml", TALK);
    world.file("flaky.yaml", &FLAKY.replace("IDEM", "natural"));
    world.file("once.yaml", &FLAKY.replace("IDEM", "none"));
    world
}

const RUN: &str = "run talk.yaml --workspace work --intent 2";

#[test]
fn the_output_of_failed_attempts_too_is_kept_and_shown() {
    let world = world();
    world.ostler(RUN).exits(0);
    // Two pipes: which of them is read first is up to the system.
    let good = world.ostler("logs @last good").exits(0).says("err\n").out.replace("err\n", "");
    assert_eq!(good, "out\nlast\n");
    assert_eq!(world.ostler("logs @last bad").exits(0).out, "one\ntwo\nthree\n");
    world.ostler("logs @last").exits(0).says("bad | three\n").says("good | out\n");
    let rows = world.ostler("logs @last good --json").exits(0).lines();
    assert!(rows.iter().any(|row| row["stream"] == "stderr" && row["text"] == "err"), "{rows:?}");
    world.ostler("logs @last tell").exits(0).complains("node tell printed nothing");
    world.ostler("logs @last nobody").exits(2).complains("no node nobody");
    world.ostler("logs @last --attempt 1").exits(2).complains("<NODE>");
    world.ostler("events @last").exits(0);
    world.ostler("doctor").exits(0);
}

#[test]
fn a_run_shows_what_its_programs_print_if_asked_to() {
    let world = world();
    world.ostler(&format!("{RUN} --logs")).exits(0).says("bad | three").says("good | last");
    let without = world.ostler(RUN).exits(0);
    assert!(!without.out.contains("bad | "), "{}", without.out);
    let rows = world.ostler(&format!("{RUN} --logs --json")).exits(0).lines();
    assert!(
        rows.iter().any(|row| row["type"] == "output" && row["text"].as_str().unwrap().ends_with("three"))
    );
}

#[test]
fn output_is_followed_while_the_run_executes() {
    let world = World::new();
    let wait = "echo begun; until test -e go; do sleep 0.01; done; echo ended";
    let plan =
        format!("id: p\nnodes:\n  - {{id: wait, tool: shell.run, params: {{argv: [sh, -c, {wait:?}]}}}}\n");
    world.file("wait.yaml", &plan);
    let run = world.start("run wait.yaml --workspace work --intent 2");
    let said = |text: &str| world.ostler("logs @last wait").out.contains(text);
    until("the program has begun", || said("begun"));
    let follower = world.start("logs @last wait --follow");
    std::fs::write(world.path().join("work/go"), "").unwrap();
    assert_eq!(follower.end().exits(0).out, "begun\nended\n");
    run.end().exits(0);
}

#[test]
fn each_attempt_has_its_own_output_and_a_program_is_retried_if_it_may_be() {
    let world = world();
    world.ostler("run flaky.yaml --workspace work --intent 2").exits(0).says("flaky  retrying");
    assert_eq!(world.ostler("logs @last flaky").exits(0).out, "try 1\ntry 2\ntry 3\n");
    assert_eq!(world.ostler("logs @last flaky --attempt 2").exits(0).out, "try 2\n");
    world.ostler("logs @last").exits(0).says("flaky | try 1\nflaky#2 | try 2\n");
    world.ostler("logs @last flaky --attempt 9").exits(2).complains("attempt 9: node flaky had 3 attempts");
    std::fs::remove_file(world.path().join("work/tries")).unwrap();
    world.ostler("check once.yaml").exits(0).says("retries: 2 has no effect");
    world.ostler("run once.yaml --workspace work --intent 2").exits(1);
    assert_eq!(world.work("tries"), "x\n");
}

#[test]
fn a_run_that_succeeded_beside_failed_nodes_says_so_everywhere() {
    let world = world();
    let run = world.ostler(RUN).exits(0).says("succeeded, 1 node failed");
    let at = |text: &str| run.out.find(text).unwrap_or_else(|| panic!("no {text:?} in {}", run.out));
    assert!(at("failed bad: sh ended with status 3: one") < at("output         tell"));
    assert!(run.out.contains("    │ three\n"), "{}", run.out);
    for figure in ["rounds", "parallelism", "reliability"] {
        assert!(!run.out.contains(figure), "{}", run.out);
    }
    world.ostler("ps").exits(0).says("3/3, 1 failed");
    world.ostler("show @last").exits(0).says("rounds").says("reliability");
    world
        .ostler("artifact @last/tell --path text")
        .exits(0)
        .says("good: executed; bad: sh ended with status 3");
    let strict = world.ostler(&format!("{RUN} --strict --verbose")).exits(1);
    strict.says("succeeded, 1 node failed").says("rounds").says("parallelism").says("reliability");
}

#[test]
fn gc_removes_the_output_of_the_runs_it_removes() {
    let world = world();
    world.ostler(RUN).exits(0);
    let files = || std::fs::read_dir(world.data().join("output")).unwrap().count();
    assert_eq!(files(), 1);
    world.ostler("gc --older-than 1ms --apply").exits(0).says("1 output of programs removed");
    assert_eq!(files(), 0);
}

#[test]
fn a_log_that_nobody_reads_any_more_stops_nothing() {
    let world = World::new();
    world.file(
        "plan.yaml",
        "id: p\nnodes:\n  - {id: a, tool: text.render, params: {template: hello, values: {}}}\n",
    );
    let mut command = world.command("run plan.yaml --workspace work");
    let mut child =
        command.env("OSTLER_LOG", "debug").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("DEBUG"), "{line}");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stdout));
}
