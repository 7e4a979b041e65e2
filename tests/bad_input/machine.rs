//! Signals, closed pipes, wrong clocks, missing records and files.

use std::process::{Command, Output, Stdio};

use super::is_well;
use super::world::{Ended, World, until};

const SHORT: &str = "id: short\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n  - {id: b, tool: fs.list, params: {path: .}, deps: [a]}\n";
const RUN: &str = "run short.yaml --workspace work";

fn world() -> World {
    let world = World::new();
    world.file("short.yaml", SHORT);
    world
}

#[test]
fn interrupts_and_terminations_keep_the_store_in_order() {
    let acts = "id: acts\nnodes:\n  - {id: act, tool: shell.run, params: {argv: [sh, -c, 'echo x >> log; exec sleep 5']}, timeout: 20s}\n";
    for (signals, code) in [(&["TERM"][..], 143), (&["INT", "INT"], 130), (&["TERM", "INT"], 130)] {
        let world = world();
        world.file("acts.yaml", acts);
        let mut run = world.start("run acts.yaml --workspace work --intent 2 --json");
        run.until("attempt_intent");
        until("it has begun", || !world.work("log").is_empty());
        run.signal(signals[0]);
        if signals.len() > 1 {
            // A second signal counts only after the first was handled.
            while !run.has_ended() {
                run.signal(signals[1]);
                std::thread::yield_now();
            }
        }
        let ended = run.end();
        assert!([Some(code), Some(130)].contains(&ended.code), "{signals:?}: {ended:?}");
        // The second signal may arrive before the first message.
        assert!(signals.len() > 1 || ended.err.contains("stopping"), "{signals:?}: {ended:?}");
        assert!(ended.err.contains("state is kept"), "{signals:?}: {ended:?}");
        is_well(&world);
        assert_eq!(world.work("log"), "x\n");
    }
}

#[test]
fn what_acts_for_longer_than_a_shutdown_waits_is_killed_told_and_in_doubt() {
    let acts = "id: acts\nnodes:\n  - {id: act, tool: shell.run, params: {argv: [sh, -c, 'echo x >> log; sleep 20; echo y >> log']}, timeout: 60s}\n";
    let world = world();
    world.file("acts.yaml", acts);
    std::fs::create_dir(world.data()).unwrap();
    world.file("data/ostler.toml", "[shutdown]\nwait = '100ms'\n");
    let run = world.start("run acts.yaml --workspace work --intent 2");
    until("it has begun", || world.work("log") == "x\n");
    run.signal("TERM");
    let ended = run.end();
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert!(ended.err.contains("act of run") && ended.err.contains("it is in doubt"), "{ended:?}");
    // `end` has read the pipe to its end, which the process held unless it was killed.
    assert_eq!(world.work("log"), "x\n");
    let resumed = world.ostler("resume");
    assert!(resumed.out.contains("resolve"), "{resumed:?}");
    is_well(&world);
}

/// A run whose terminal closes during its node; `before` runs in the shell first.
fn hung_up(before: &str) -> (World, Ended) {
    let world = world();
    world.file(
        "acts.yaml",
        "id: acts\nnodes:\n  - {id: act, tool: shell.run, params: {argv: [sh, -c, 'echo x >> log; sleep 1; echo y >> log']}, timeout: 20s}\n",
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before}; exec \"$0\" run acts.yaml --workspace work --intent 2")]);
    shell
        .arg(env!("CARGO_BIN_EXE_ostler"))
        .current_dir(world.path())
        .env("OSTLER_DATA", world.data())
        .env("XDG_CONFIG_HOME", world.config());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it has begun", || !world.work("log").is_empty());
    // Both the shell and the kernel send SIGHUP.
    for _ in 0..2 {
        Command::new("kill").args(["-s", "HUP", &child.id().to_string()]).status().unwrap();
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(world.work("log"), "x\ny\n", "the step was let end");
    is_well(&world);
    (world, Ended { code: status.code(), out: text(stdout), err: text(stderr) })
}

#[test]
fn a_terminal_that_goes_away_is_a_termination_unless_that_was_ignored() {
    let (world, ended) = hung_up("true");
    ended.exits(143);
    world.ostler("resume @last").exits(0);
    assert_eq!(world.work("log"), "x\ny\n", "it was done once");
    let (_, ended) = hung_up("trap '' HUP");
    ended.exits(0);
}

#[test]
fn the_command_lets_itself_have_more_open_files() {
    let world = world();
    world.file(
        "files.yaml",
        "id: files\nnodes:\n  - {id: n, tool: shell.run, params: {argv: [sh, -c, 'ulimit -n']}}\n",
    );
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "ulimit -Hn 2000; ulimit -Sn 200; exec \"$0\" run files.yaml --workspace work --intent 2",
    ]);
    shell
        .arg(env!("CARGO_BIN_EXE_ostler"))
        .current_dir(world.path())
        .env("OSTLER_DATA", world.data())
        .env("XDG_CONFIG_HOME", world.config());
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    world.ostler("artifact @last/n --path stdout").exits(0).says("2000");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = world();
    world.ostler(RUN).exits(0);
    let program = env!("CARGO_BIN_EXE_ostler");
    for (line, code) in [
        ("events @last", 0),
        ("events @last --json", 0),
        ("show @last", 0),
        ("show @last --json", 0),
        ("ps", 0),
        (RUN, 0),
        ("run short.yaml --workspace work --json", 0),
    ] {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("\"$0\" {line} | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}"));
        shell
            .arg(program)
            .current_dir(world.path())
            .env("OSTLER_DATA", world.data())
            .env("XDG_CONFIG_HOME", world.config());
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(!said.contains("panicked") && !said.contains("error"), "{line}: {said}");
    }
    let lines = world.ostler("ps --json").exits(0).lines();
    assert!(lines.len() == 3 && lines.iter().all(|line| line["outcome"] == "succeeded"), "{lines:?}");
    is_well(&world);
}

#[test]
fn what_cannot_be_written_is_no_success() {
    let world = world();
    for line in [
        RUN,
        "ps",
        "show @last",
        "export @last --format prov-json",
        "diff @last @last",
        "explain @last",
        "policy check",
        "policy explain fs.list {\"path\":\".\"}",
        "gc",
        "evaluate @last",
        "agents",
        "rerun @last --dry-run",
        "operator ls",
        "operator key",
        "credit local",
        "artifact @last/a",
        "ps --json",
        "--version",
        "--help",
        "run --help",
        "help run",
        "help V04",
    ] {
        let mut command = world.command(line);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{line}: {said}");
        assert!(said.contains("standard output: cannot be written"), "{line}: {said}");
        assert!(!said.contains("changes were made") || line.starts_with("run "), "{line}: {said}");
    }
    is_well(&world);
}

#[test]
fn a_record_that_is_not_there_is_said_to_be_missing() {
    let world = world();
    world.ostler(RUN).exits(0);
    let summary = &world.ostler("show @last --json").exits(0).lines()[0];
    let last = summary["seq"].as_u64().unwrap();
    world.ostler(&format!("show @last --at {last}")).exits(0);
    world.ostler(&format!("events @last --from {last}")).exits(0).says("run_closed");
    for beyond in [last + 1, 9_999, u64::MAX] {
        for line in ["show @last --at", "show @last --json --at", "show @last --format dot --at"] {
            world.ostler(&format!("{line} {beyond}")).exits(2).complains(&format!("record {beyond}"));
        }
        for line in ["events @last --from", "events @last --follow --json --from"] {
            world.ostler(&format!("{line} {beyond}")).exits(2).complains(&format!("record {beyond}"));
        }
    }
    world.ostler("show @last --at 0").exits(2);
    world.ostler("events @last --from 0").exits(2);
}

#[test]
fn ps_counts_the_nodes_of_runs_that_are_over() {
    let world = world();
    world.ostler(RUN).exits(0);
    world.ostler("ps").exits(0).says("2/2");
    std::fs::remove_file(world.data().join("index.redb")).unwrap();
    let line = &world.ostler("ps --json").exits(0).lines()[0];
    assert_eq!((line["nodes"].as_u64(), line["nodes_over"].as_u64()), (Some(2), Some(2)));
}

#[test]
fn a_plan_file_that_cannot_be_read_is_named() {
    let world = world();
    std::fs::create_dir(world.path().join("folder.yaml")).unwrap();
    std::fs::write(world.path().join("latin.yaml"), b"id: caf\xe9\n").unwrap();
    for (file, says) in [
        ("missing.yaml", "missing.yaml"),
        ("folder.yaml", "folder.yaml"),
        ("latin.yaml", "byte 7 is not UTF-8"),
        ("short.txt", "ends in .yaml, .yml, .json or .toml"),
    ] {
        for command in ["run", "check"] {
            world.ostler(&format!("{command} {file}")).exits(2).complains(says);
        }
    }
    assert!(!world.data().exists(), "nothing was made for nothing");
}

/// Runs the command with a different clock; `None`, with the reason printed, without a tool for that.
fn by_clock(world: &World, time: &str, line: &str) -> Option<Command> {
    let found = Command::new("faketime").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no faketime to set the clock with");
        return None;
    }
    let mut command = Command::new("faketime");
    let own = world.command(line);
    command.args(["-f", time]).arg(own.get_program()).args(own.get_args());
    command
        .current_dir(world.path())
        .env("OSTLER_DATA", world.data())
        .env("XDG_CONFIG_HOME", world.config())
        .env("TZ", "UTC");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").stdin(std::process::Stdio::null());
    Some(command)
}

fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn timers_fire_once_and_order_is_by_number_however_the_clock_jumps() {
    let world = World::new();
    world.file(
        "naps.yaml",
        "id: naps\nnodes:\n  - {id: first, tool: shell.run, params: {argv: [sh, -c, 'echo first >> log']}, timeout: 20s}\n  - {id: nap, tool: time.sleep, params: {ms: 600000}, deps: [first]}\n  - {id: last, tool: shell.run, params: {argv: [sh, -c, 'echo last >> log']}, deps: [nap], timeout: 20s}\n",
    );
    let mut run = world.start("run naps.yaml --workspace work --intent 2 --json");
    run.until("timer_set");
    run.signal("KILL");
    run.end();
    // One hour ahead, the sleep has ended; with the right clock it stays ended.
    let Some(ahead) = by_clock(&world, "+1h", "resume") else { return };
    ended(ahead).exits(0).says("succeeded  naps");
    world.ostler("resume @last").exits(0).complains("is closed, so nothing is resumed");
    assert_eq!(world.work("log"), "first\nlast\n");
    let records = world.ostler("events @last --json").exits(0).lines();
    let results = records.iter().filter(|record| record["kind"] == "attempt_result").count();
    assert_eq!(results, 3, "each node has one result: {records:?}");

    // Opened with a clock that is ahead, and resumed with the right one.
    let asks = "id: asks\nnodes:\n  - {id: ok, kind: human_approval, human_timeout: 1h}\n  - {id: a, tool: fs.list, params: {path: .}, deps: [ok]}\n";
    world.file("asks.yaml", asks);
    let Some(ahead) = by_clock(&world, "+1h", "run asks.yaml --workspace work") else { return };
    ended(ahead).exits(3);
    let asked = world.ostler("approvals --json").exits(0).lines().remove(0);
    let digest = asked["digest"].as_str().unwrap();
    world.ostler(&format!("approve @last ok --digest {digest}")).exits(0).says("succeeded  asks");
    let numbers: Vec<u64> = world
        .ostler("events @last --json")
        .exits(0)
        .lines()
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|one, next| next == &(one + 1)), "{numbers:?}");
    is_well(&world);
}

#[test]
fn a_clock_before_1970_is_no_reason_to_stop() {
    let world = world();
    let faked = |line: &str| by_clock(&world, "@1960-05-05 12:00:00", line).map(ended);
    let Some(run) = faked(RUN) else { return };
    run.exits(0).says("succeeded  short");
    faked("ps").unwrap().exits(0).says("succeeded");
    faked("events @last").unwrap().exits(0).says("run_closed");
    faked("doctor").unwrap().exits(0);
    // With the file restored, all records are still there.
    world.ostler(RUN).exits(0);
    assert_eq!(world.ostler("ps --json").exits(0).lines().len(), 2);
    world.ostler("show @last").exits(0).says("succeeded");
    is_well(&world);
}
