//! State after SIGKILL, ^C and SIGTERM, and resuming it.

use serde_json::json;

use super::world::{World, until};

/// Appends a line per completed step, with a pause between two of them.
const STEPS: &str = r#"
id: steps
nodes:
  - {id: first, tool: shell.run, params: {argv: [sh, -c, "echo first >> log"]}, timeout: 20s}
  - {id: wait, tool: time.sleep, params: {ms: 700}, deps: [first]}
  - {id: last, tool: shell.run, params: {argv: [sh, -c, "echo last >> log"]}, deps: [wait], timeout: 20s}
"#;

/// Killed during the node.
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
    world.ostler("ps").exits(0).says("queued").says("1/3");
    world.ostler("show @last").exits(0).says("not executing: ostler resume ");
    world.ostler("resume").exits(0).says("succeeded  steps");
    assert_eq!(world.work("log"), "first\nlast\n");
    world.ostler("doctor").exits(0).says("runs           1 with ").says("nothing is broken");
}

#[test]
fn a_killed_doctor_leaves_a_folder_that_works() {
    for ms in (0..40).step_by(2) {
        let world = world();
        let doctor = world.start("doctor");
        let begun = std::time::Instant::now();
        until("it is time, or the doctor is done", || {
            begun.elapsed() >= std::time::Duration::from_millis(ms)
        });
        doctor.signal("KILL");
        doctor.end();
        world.ostler("doctor").exits(0).says("nothing is broken");
        world.ostler("ps").exits(0);
    }
}

#[test]
fn lines_of_several_runs_say_which_they_are_of() {
    let world = world();
    let killed = || {
        let mut run = world.start(RUN);
        let opened = run.until(" opened: steps");
        run.until("first  executed");
        run.signal("KILL");
        run.end();
        let id = opened.split_whitespace().nth(2).unwrap().to_owned();
        id.rsplit('-').next().unwrap().to_owned()
    };
    let runs = [killed(), killed()];
    let resumed = world.ostler("resume").exits(0);
    for run in &runs {
        for what in [" resumed", " last  executed"] {
            let is_told = |line: &str| line.starts_with(run) && line.contains(what);
            assert!(resumed.out.lines().any(is_told), "{run}: {what}: {}", resumed.out);
        }
    }
    // A single watched run has no label.
    let alone = killed();
    let resumed = world.ostler("resume").exits(0).says(" resumed");
    assert!(!resumed.out.lines().any(|line| line.starts_with(&alone)), "{}", resumed.out);
}

#[test]
fn an_interrupt_keeps_the_state_and_tells_how_to_go_on() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let world = world();
        let mut run = world.start(RUN);
        run.until("first  executed");
        run.signal(signal);
        run.end().exits(code).complains("continues");
        world.ostler("resume @last").exits(0).says("succeeded");
        assert_eq!(world.work("log"), "first\nlast\n", "{signal}");
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let world = world();
    let mut run = world.start("run doubt.yaml --workspace work --intent 2 --json");
    run.until("attempt_intent");
    until("it has begun", || !world.work("log").is_empty());
    while !run.has_ended() {
        run.signal("INT");
        std::thread::yield_now();
    }
    let ended = run
        .end()
        .exits(130)
        .complains("stopping")
        .complains("stopped at once, state is kept: `ostler resume ");
    assert!(!ended.err.contains("stopped,"), "it did not wait for the step: {}", ended.err);
    world.ostler("resume").exits(3).says("in doubt act");
}

/// Kills the process during the node.
fn in_doubt() -> World {
    let world = world();
    let mut run = world.start("run doubt.yaml --workspace work --intent 2 --json");
    assert!(run.until("attempt_intent").contains("\"act\""));
    // The record is printed before the node starts; the log proves that it started.
    until("it has begun", || world.work("log") == "acted\n");
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
    let listed = world.ostler("ps").exits(0).says("waiting").says("act is in doubt");
    let ways = ["--done FILE", "--redo", "--fail"];
    let told =
        |way: &str| listed.out.lines().any(|line| line.contains("ostler resolve ") && line.ends_with(way));
    assert!(ways.into_iter().all(told), "{}", listed.out);
    // No approval settles it, and the list of questions says what does.
    let asked = world.ostler("approvals").exits(0).says("in doubt act");
    assert!(asked.out.contains("ostler resolve "), "{}", asked.out);
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
    world.ostler("resolve @last act --fail").exits(1).says("failed act: a person settled it as failed");
    world.ostler("show @last").exits(0).says("act   failed").says("a person settled it as failed\n");
    assert_eq!(world.work("log"), "acted\n");
}

#[test]
fn what_an_attempt_met_that_is_in_doubt_is_told_with_it() {
    let world = world();
    world.file("late.yaml", &DOUBT.replace("timeout: 20s", "timeout: 200ms"));
    let told = "in doubt act: not done within 200 ms; outcome unknown";
    world.ostler("run late.yaml --workspace work --intent 2").exits(3).says(told);
    world.ostler("show @last").exits(0).says(told);
    world.ostler("resolve @last act --fail").exits(1).says("failed act: a person settled it as failed");
    world.ostler("evaluate @last").exits(0).says("on its own  no, 1 act by a person\n");
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

#[test]
fn a_run_that_ends_its_process_again_and_again_is_set_aside_until_it_is_named() {
    let world = world();
    world.file("dies.yaml", &DOUBT.replace("timeout: 20s", "timeout: 20s, idem: natural"));
    let mut run = world.start("run dies.yaml --workspace work --intent 2 --json");
    run.until("attempt_intent");
    run.signal("KILL");
    run.end();
    for _ in 0..3 {
        let mut resume = world.start("resume --json");
        resume.until("run_recovered");
        resume.signal("KILL");
        resume.end();
    }
    let why = "suspended: the process died 3 times in a row without progress";
    world.ostler("resume").exits(5).says(why).says("ostler resume ");
    world.ostler("ps").exits(0).says("suspended").says(why);
    let way = |out: &str| out.lines().any(|line| line.trim().starts_with("ostler resume "));
    let listed = world.ostler("ps").exits(0);
    assert!(way(&listed.out), "{}", listed.out);
    let told = world
        .ostler("resume")
        .exits(0)
        .complains("nothing resumes without its name: one run is suspended")
        .complains("(doubt) is suspended: the process died 3 times");
    assert!(told.err.contains("`ostler resume "), "{}", told.err);
    world
        .ostler("doctor")
        .exits(0)
        .says("! suspended")
        .says("the process died 3 times in a row")
        .says("`ostler resume ");
    world.ostler("resume @last").exits(0).says("succeeded  doubt");
    world.ostler("run steps.yaml --workspace work --intent 2").exits(0);
    world.ostler("resume").exits(0).complains("nothing to resume: no run is open\n");
}

#[test]
fn doctor_counts_runs_by_what_they_wait_for() {
    let world = in_doubt();
    world.file(
        "ask.yaml",
        "id: ask\nnodes:\n  - {id: ok, kind: human_approval, params: {question: \"?\"}, human_timeout: 1h}\n",
    );
    world.ostler("run ask.yaml --workspace work").exits(3);
    let told = world.ostler("doctor").exits(0);
    let told = told
        .says("1 run is queued")
        .says("1 run waits for a person")
        .says("`ostler approvals` lists the requests");
    told.says("1 attempt whose effect is unknown");
}

#[test]
fn what_a_kill_left_in_doubt_is_listed_before_anybody_takes_it_up() {
    let world = in_doubt();
    for _ in 0..2 {
        let listed =
            world.ostler("ps").exits(0).says("  queued ").says("  act is in doubt; then depends on it\n");
        for way in ["--done FILE", "--redo", "--fail"] {
            let is_way = |line: &str| line.contains("ostler resolve ") && line.ends_with(way);
            assert!(listed.out.lines().any(is_way), "{}", listed.out);
        }
        listed.says("no process executes queued runs; ostler resume resumes them");
        let shown =
            world.ostler("show @last").exits(0).says("act   waiting").says("in doubt act: ").says("--redo");
        assert!(!shown.out.contains("running"), "{}", shown.out);
    }
    let seq = |world: &World| world.ostler("events @last --json").exits(0).lines().len();
    let before = seq(&world);
    world.ostler("ps").exits(0);
    assert_eq!(seq(&world), before, "looking wrote something down");
    world.ostler("resolve @last act --fail").exits(1).says("failed act: a person settled it as failed");
}

#[test]
fn what_a_kill_cut_off_and_is_done_again_does_not_run_meanwhile() {
    let world = world();
    world.file("again.yaml", &DOUBT.replace("timeout: 20s", "timeout: 20s, idem: natural"));
    let mut run = world.start("run again.yaml --workspace work --intent 2 --json");
    run.until("attempt_intent");
    until("it has begun", || world.work("log") == "acted\n");
    run.signal("KILL");
    run.end();
    let shown =
        world.ostler("show @last").exits(0).says("act   interrupted").says("repeated when the run resumes");
    shown.says("1 interrupted, 1 pending");
    let summary: serde_json::Value =
        serde_json::from_str(&world.ostler("show @last --json").exits(0).out).unwrap();
    assert_eq!(summary["cut_off"], serde_json::json!(["act"]));
    world.ostler("ps").exits(0).says("no process executes queued runs");
}

#[test]
fn who_stops_a_node_in_doubt_hears_that_it_was() {
    let world = in_doubt();
    let was = "act was in doubt: its effect is unknown";
    world.ostler("cancel @last act").exits(1).complains(was).says("failed act: outcome unknown");
    let world = in_doubt();
    world.ostler("resume").exits(3);
    world.ostler("skip @last act").complains(was);
}

/// Child processes that outlive their node: in its group, in a session of their own, and without the mark.
const LEFT: &str = r#"
id: left
nodes:
  - id: act
    tool: shell.run
    params: {argv: [sh, -c, "echo $$ >> pids; (setsid sh -c 'echo $$ >> pids; exec sleep 1000' &); sleep 1000 & echo $! >> pids; wait"]}
    timeout: 1h
  - id: bare
    tool: shell.run
    params: {argv: [env, -i, PATH=/usr/bin:/bin, sh, -c, "echo $$ >> pids; sleep 1000 & echo $! >> pids; wait"]}
    timeout: 1h
"#;

/// A world with the plan `left.yaml`, and `RUN_LEFT`: on the rung where a program has the process id that others see.
fn with_left() -> World {
    let world = World::new();
    world.file("left.yaml", LEFT).file("uncaged.toml", "[tools.shell]\nsandbox = false\n");
    world.file("landlock.toml", "[sandbox]\nbubblewrap = \"/nonexistent\"\n");
    world
}

/// True if a process has this word among its arguments. Process ids differ in a cage.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut arguments = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    arguments.any(|arguments| String::from_utf8_lossy(&arguments).contains(word))
}

const RUN_LEFT: &str = "run left.yaml --workspace work --intent 2 --config uncaged.toml";

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a file of the workspace has this many lines.
fn until_lines(world: &World, file: &str, count: usize) -> Vec<String> {
    let begun = std::time::Instant::now();
    loop {
        let text = world.work(file);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() == count && text.ends_with('\n') {
            return lines;
        }
        assert!(begun.elapsed().as_secs() < 60, "{file} never had {count} lines: {text}");
        std::thread::yield_now();
    }
}

#[test]
fn programs_that_outlive_their_process_are_ended_by_the_next() {
    let world = with_left();
    let run = world.start(RUN_LEFT);
    let pids = until_lines(&world, "pids", 5);
    run.signal("KILL");
    run.end();
    assert!(pids.iter().any(|pid| is_alive(pid)), "it left nothing: {pids:?}");
    world.ostler("ps").exits(0).complains("child processes that it left were killed");
    let alive: Vec<&String> = pids.iter().filter(|pid| is_alive(pid)).collect();
    assert!(alive.is_empty(), "{alive:?} of {pids:?} live on");
    let again = world.ostler("ps").exits(0);
    assert!(!again.err.contains("was ended"), "{}", again.err);
}

#[test]
fn temporary_files_of_a_killed_process_are_removed_by_the_next() {
    let world = with_left();
    let script = "echo secret > $TMPDIR/file; echo $TMPDIR > new; dirname $OSTLER_PROGRESS >> new; mv new where; exec sleep 1000";
    let argv = serde_json::json!({"argv": ["sh", "-c", script]});
    let node = format!("{{id: act, tool: shell.run, heartbeat_timeout: 50s, timeout: 60s, params: {argv}}}");
    world.file("left.yaml", &format!("id: left\nnodes:\n  - {node}\n"));
    let run = world.start("run left.yaml --workspace work --intent 2 --config landlock.toml");
    let folders = until_lines(&world, "where", 2);
    run.signal("KILL");
    run.end();
    let path = |folder: &String, file: &str| std::path::Path::new(folder).join(file);
    assert!(path(&folders[0], "file").exists() && path(&folders[1], "progress").exists());
    world.ostler("ps --config landlock.toml").exits(0);
    for folder in folders {
        assert!(!path(&folder, "").exists(), "{folder} is still there");
    }
}

#[test]
fn a_second_interrupt_leaves_no_program_running() {
    let world = with_left();
    let mut run = world.start(RUN_LEFT);
    let pids = until_lines(&world, "pids", 5);
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    while !run.has_ended() {
        run.signal("INT");
        std::thread::yield_now();
    }
    run.end()
        .exits(130)
        .complains("for act and bare, which change the world; ^C again kills them at once")
        .complains("stopped at once, state is kept");
    until("its programs have ended", || !pids.iter().any(|pid| is_alive(pid)));
    world.ostler("resume").exits(3).says("in doubt act");
}

#[test]
fn what_somebody_put_in_the_place_of_notes_holds_nothing_up() {
    let world = world();
    world.ostler("run steps.yaml --workspace work --intent 2").exits(0);
    let programs = world.data().join("programs");
    world.file("target", "kept");
    // The process of this id is alive, so its note is checked.
    let note = programs.join(std::process::id().to_string());
    for make in [&["mkfifo"][..], &["ln", "-s", "/dev/zero"]] {
        std::fs::create_dir_all(&programs).unwrap();
        let made = std::process::Command::new(make[0]).args(&make[1..]).arg(&note).status();
        assert!(made.unwrap().success());
        world.ostler("ps").exits(0).says("succeeded");
        assert!(!programs.exists(), "{make:?}");
    }
    std::os::unix::fs::symlink(world.path().join("target"), &programs).unwrap();
    world.ostler("run steps.yaml --workspace work --intent 2").exits(0);
    assert_eq!(std::fs::read_to_string(world.path().join("target")).unwrap(), "kept");
}

#[test]
fn a_copy_of_a_data_folder_ends_nothing_of_the_original() {
    let world = with_left();
    let run = world.start(RUN_LEFT);
    let pids = until_lines(&world, "pids", 5);
    let copied =
        std::process::Command::new("cp").arg("-a").arg(world.data()).arg(world.path().join("copy")).status();
    assert!(copied.unwrap().success());
    world.ostler("ps --data copy").exits(0).says("queued");
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    run.signal("KILL");
    run.end();
    world.ostler("ps").exits(0);
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");
}

/// A double fork leaves its group, its parents and its environment.
#[test]
fn a_step_that_is_done_again_runs_alone() {
    let world = with_left();
    // Nothing else on the machine sleeps for this time.
    let nap = format!("1000.{}", std::process::id());
    let away =
        format!("env -i PATH=/usr/bin:/bin setsid sh -c 'echo > new; mv new first; exec sleep {nap}' &");
    let script = format!("test -e first && exit 0; ({away}); exec sleep 1000");
    let node = json!({"id": "act", "tool": "shell.run", "idem": "natural", "params": {"argv": ["sh", "-c", script]}, "timeout": "1h"});
    world.file("again.yaml", &json!({"id": "again", "nodes": [node]}).to_string());
    let run = world.start("run again.yaml --workspace work --intent 2 --config landlock.toml");
    until("it runs", || world.path().join("work/first").exists() && runs(&nap));
    run.signal("KILL");
    run.end();
    world.ostler("resume --config landlock.toml").exits(0).says("succeeded");
    assert!(!runs(&nap), "two copies ran beside each other");
}

#[test]
fn what_a_step_left_may_not_take_its_data_folder_up() {
    let world = World::new();
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let ps = format!("env -u OSTLER_CALL {ostler} ps --data {}", world.data().display());
    let script = format!(
        "echo $$ > new; mv new first; while kill -0 $PPID 2> /dev/null; do :; done; {ps} > said 2>&1; mv said told; exec sleep 1000"
    );
    world.file(
        "within.yaml",
        &format!("id: within\nnodes:\n  - {{id: act, tool: shell.run, params: {{argv: [sh, -c, {script:?}]}}, timeout: 1h}}\n"),
    );
    // In a cage it would not find the command.
    world.file("uncaged.toml", "[tools.shell]\nsandbox = false\n");
    let run = world.start("run within.yaml --workspace work --intent 2 --config uncaged.toml");
    let first = until_lines(&world, "first", 1);
    run.signal("KILL");
    run.end();
    let told = until_lines(&world, "told", 1);
    assert!(told[0].contains("this process was started by a step of a run of"), "{told:?}");
    assert!(is_alive(&first[0]));
    world.ostler("ps").exits(0).complains("were killed");
    assert!(!is_alive(&first[0]));
}
