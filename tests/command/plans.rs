//! `ostler run`, and commands that read a closed run.

use super::world::World;
use serde_json::Value;

const AUDIT: &str = r#"
id: audit
title: Audit a folder
nodes:
  - id: list
    tool: fs.list
    params: {path: ., glob: "**/*.txt"}
  - id: todos
    tool: text.search
    params: {pattern: "${what}"}
    param_refs: {files: {from: list, path: files}}
  - id: report
    tool: text.render
    params: {template: "{{ count }} points"}
    param_refs: {values: {from: todos, path: "0"}}
"#;

const REPORT: &str = r#"
id: report
nodes:
  - id: list
    tool: fs.list
    params: {path: .}
  - id: todos
    tool: text.search
    params: {pattern: TODO}
    param_refs: {files: {from: list, path: files}}
  - id: report
    kind: aggregator
    deps: [{n: todos, on: terminal}]
    params: {template: "{{ todos.result.count }} points"}
"#;

const FAILS: &str = r#"
id: fails
nodes:
  - id: read
    tool: fs.read
    params: {path: missing.txt}
  - id: count
    tool: json.query
    params: {query: "$"}
    param_refs: {value: {from: read, path: text}}
"#;

pub(super) fn world() -> World {
    let world = World::new();
    std::fs::write(world.path().join("work/a.txt"), "TODO one\nTODO two\n").unwrap();
    world.file("report.yaml", REPORT).file("fails.yaml", FAILS).file("audit.yaml", AUDIT);
    world
}

#[test]
fn a_run_in_a_pipe_tells_each_node_and_what_came_of_it() {
    let world = world();
    let ended = world.ostler("run report.yaml --workspace work").exits(0);
    let ended = ended.says("todos   executed").says("succeeded  report").says("│ 2 points");
    assert!(!ended.out.contains('\u{1b}'), "no colour in a pipe: {}", ended.out);
    assert_eq!(ended.err, "");
    world.ostler("artifact @last/report --path text").exits(0).says("2 points");
    assert_eq!(world.ostler("artifact @last/report").exits(0).out, r#"{"text":"2 points"}"#);
    world.ostler("artifact @last/nothing").exits(2).complains("no node nothing");
    world.ostler("ps").exits(0).says("succeeded");
    world.ostler("show @last").exits(0).says("succeeded  report").says("todos   executed");
    world.ostler("show @last --format dot").exits(0).says("digraph");
    world.ostler("show @last --format mermaid").exits(0).says("flowchart TD");
    let told = world.ostler("events @last").exits(0).says("run_closed").out;
    let begun: Vec<&str> = told.lines().filter(|line| line.contains("attempt_intent")).collect();
    assert!(begun.iter().any(|line| line.ends_with(" attempt 1, fs.list")), "{told}");
    assert!(begun.iter().all(|line| !line.contains('{')), "{told}");
    world.ostler("events @last --json").exits(0).says("\"idempotency_key\":");
    world.ostler("resume").exits(0).complains("no run is open");
    world.ostler("resume @last").exits(0).says("succeeded");
    world.ostler("cancel @last").exits(2).complains("over");
    world.ostler("resolve @last todos --redo").exits(2).complains("over");
    world.ostler("doctor").exits(0).says("all digests correct");
}

#[test]
fn a_plan_from_stdin_is_checked_and_run() {
    let world = World::new();
    let plan =
        "id: piped\nnodes:\n  - {id: say, tool: text.render, params: {template: \"${word}\", values: {}}}\n";
    let json = r#"{"id": "piped", "nodes": [{"id": "say", "tool": "text.rendr"}]}"#;
    world.file("plan", plan).file("json", json).file("latin", "");
    std::fs::write(world.path().join("latin"), b"id: caf\xe9\n").unwrap();
    for (from, line, code, told) in [
        ("plan", "check - --param word=hello", 0, "valid piped"),
        ("plan", "run - --param word=hello --workspace work", 0, "│ hello"),
        ("plan", "check -", 2, "stdin:3"),
        ("json", "run - --workspace work", 2, "did you mean \"text.render\"?"),
        ("latin", "check -", 2, "the plan from stdin: it is not text: byte 7 is not UTF-8"),
    ] {
        let mut command = world.command(line);
        let output = command.stdin(std::fs::File::open(world.path().join(from)).unwrap()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(told), "{line}: {said}");
    }
}

#[test]
fn runs_are_listed_by_how_they_stand() {
    let world = world();
    for _ in 0..3 {
        world.ostler("run report.yaml --workspace work").exits(0);
    }
    world.ostler("run fails.yaml --workspace work").exits(1);
    let listed = |line: &str| world.ostler(line).exits(0).lines().len();
    assert_eq!(listed("ps --state succeeded --json"), 3);
    assert_eq!(listed("ps --state succeeded -n 2 --json"), 2);
    assert_eq!(listed("ps --state failed --json"), 1);
    world.ostler("ps --state cancelled").exits(0).complains("no run is cancelled");
    let table = world.ostler("ps --state failed").exits(0);
    assert!(table.out.lines().skip(1).all(|line| line.contains("failed")), "{}", table.out);
}

#[test]
fn what_help_says_of_simulations_is_what_they_take() {
    let world = World::new();
    world.file(
        "trace.jsonl",
        "{\"op\": \"client\", \"id\": \"ada\", \"weight\": 200}\n\
         {\"op\": \"enqueue\", \"id\": \"j\", \"client\": \"ada\", \"est\": 5}\n{\"op\": \"dispatch\"}\n\
         {\"op\": \"settle\", \"id\": \"j\", \"actual\": 7}\nxx\n",
    );
    let traced = world.ostler("simulate queue trace.jsonl").exits(0).lines();
    assert_eq!((&traced[0]["d"], &traced.last().unwrap()["error"]), (&"j".into(), &"bad_op".into()));
    let help = world.ostler("simulate queue --help").exits(0);
    let help: String = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in ["{\"op\": \"client\", \"id\": \"ada\", \"weight\": 200}", "{\"error\": CODE, \"op\": OP}"] {
        assert!(help.contains(line), "{help}");
    }
    world.file(
        "cases.jsonl",
        "{\"id\": \"c\", \"plan\": {\"id\": \"p\", \"nodes\": [{\"id\": \"a\", \"retries\": 1, \"contract\": [{\"method\": \"schema\"}]}]}, \
         \"script\": {\"a\": [{\"fail\": \"timeout\", \"dur\": 5}, {\"ok\": 1}]}}\n",
    );
    let lived = &world.ostler("simulate graph cases.jsonl").exits(0).lines()[0];
    assert_eq!((&lived["id"], &lived["expect"]["valid"]), (&"c".into(), &true.into()), "{lived}");
}

#[test]
fn a_run_that_fails_names_the_first_culprit() {
    let world = world();
    let ended = world.ostler("run fails.yaml --workspace work").exits(1);
    ended.says("failed read: ").says("missing.txt").says("(lost with it: count)");
}

#[test]
fn the_last_line_for_machines_is_the_summary() {
    let world = world();
    let lines = world.ostler("run report.yaml --workspace work --json").exits(0).lines();
    let (summary, events) = lines.split_last().unwrap();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(
            (&event["type"], event["seq"].as_u64()),
            (&"event".into(), Some(at as u64 + 1)),
            "{event}"
        );
    }
    assert_eq!(events.last().unwrap()["kind"], "run_closed");
    let keys = [
        "type",
        "run",
        "plan",
        "version",
        "outcome",
        "nodes",
        "dispatches",
        "rounds",
        "peak_ready",
        "mean_ready",
        "makespan_ms",
        "critical_path_ms",
        "parallelism",
        "overhead_us_per_node",
        "attempts",
        "reused",
        "cost",
        "culprits",
        "outputs",
    ];
    let missing: Vec<&str> = keys.into_iter().filter(|key| summary.get(key).is_none()).collect();
    assert_eq!(missing, Vec::<&str>::new(), "{summary}");
    assert_eq!((&summary["type"], &summary["outcome"]), (&"summary".into(), &"succeeded".into()));
    assert_eq!(summary["nodes"]["todos"], "executed");
    let shown: Value = serde_json::from_str(&world.ostler("show @last --format json").exits(0).out).unwrap();
    assert_eq!(&shown, summary);
    let earlier: Value =
        serde_json::from_str(&world.ostler("show @last --json --at 3").exits(0).out).unwrap();
    assert_eq!((&earlier["outcome"], &earlier["seq"]), (&Value::Null, &3.into()));
    let later = world.ostler("events @last --json --from 5").exits(0).lines();
    assert_eq!(later, events[4..]);
}

#[test]
fn a_reader_who_goes_away_ends_nothing() {
    let world = world();
    let mut child = world
        .command("run report.yaml --workspace work --json")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn help_shows_the_commands_that_work_each_with_an_example() {
    let world = world();
    let help = world.ostler("--help").exits(0).out;
    for command in [
        "run",
        "check",
        "resume",
        "ps",
        "show",
        "events",
        "artifact",
        "approvals",
        "approve",
        "reject",
        "skip",
        "cancel",
        "resolve",
        "simulate",
        "doctor",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        if command != "simulate" {
            world.ostler(&format!("{command} --help")).exits(0).says("Example").says("\n  ostler ");
        }
    }
    world.ostler("simulate graph --help").exits(0).says("\n  ostler simulate graph ");
}

#[test]
fn without_a_data_folder_looking_makes_none() {
    let world = World::new();
    world.ostler("ps").exits(0).complains("no run yet");
    world.ostler("show @last").exits(2).complains("no run yet");
    world.ostler("resume").exits(0).complains("no run yet");
    world.ostler("resume @last").exits(2).complains("no run yet");
    world.ostler("doctor").exits(0).says("does not exist yet");
    assert!(!world.data().exists());
}

#[test]
fn a_variable_that_is_set_to_nothing_is_as_if_it_were_not_set() {
    let world = world();
    world.file("p.yaml", "id: p\nnodes: [{id: a, tool: time.sleep, params: {ms: 1}}]\n");
    let output =
        world.command("run p.yaml").env("OSTLER_DATA", "").env("OSTLER_CONFIG", "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(world.path().join(".ostler/journal").is_dir() && !world.data().exists());
}

#[test]
fn who_resumes_a_run_that_is_over_is_told_so_and_how_it_ended() {
    for (call, outcome, code) in [
        ("tool: time.sleep, params: {ms: 1}", "succeeded", 0),
        ("tool: fs.read, params: {path: nowhere}", "failed", 1),
    ] {
        let world = World::new();
        world.file("p.yaml", &format!("id: p\nnodes: [{{id: a, {call}}}]\n"));
        world.ostler("run p.yaml --workspace work").exits(code);
        let told = world.ostler("resume @last").exits(code);
        told.complains("is closed, so nothing is resumed").says(&format!("{outcome}  p"));
        let told = world.ostler("resume @last --json").exits(code);
        assert_eq!((told.lines().len(), told.err.as_str()), (1, ""));
    }
}

#[test]
fn runs_in_memory_leave_nothing() {
    let world = world();
    world.file("o.toml", "[store]\nurl = \"memory:\"\n");
    let mut command = world.command("run report.yaml --workspace work --config o.toml");
    let output = command.env_remove("OSTLER_DATA").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!world.path().join(".ostler").exists() && !world.data().exists());
}

#[test]
fn a_data_folder_and_a_store_in_memory_contradict_each_other() {
    let world = world();
    world.file("o.toml", "[store]\nurl = \"memory:\"\n");
    let data = world.data();
    for (line, given, omit) in [
        (
            "run report.yaml --workspace work --config o.toml",
            format!("OSTLER_DATA={}", data.display()),
            "unset",
        ),
        ("run report.yaml --workspace work --config o.toml --data d", "--data d".to_owned(), "omit --data"),
        ("ps --config o.toml --data d", "--data d".to_owned(), "omit --data"),
    ] {
        let said = format!("{given} contradicts url = \"memory:\" in [store] of o.toml");
        world.ostler(line).exits(2).complains(&said).complains(omit);
    }
    assert!(!data.exists() && !world.path().join("d").exists());
}

#[test]
fn a_damaged_journal_is_refused_and_its_place_is_named() {
    let world = world();
    for _ in 0..2 {
        world.ostler("run report.yaml --workspace work").exits(0);
    }
    let journal = world.data().join("journal");
    let mut segments: Vec<_> =
        std::fs::read_dir(&journal).unwrap().map(|file| file.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[600] ^= 0x40;
    std::fs::write(&segments[0], bytes).unwrap();
    std::fs::remove_file(world.data().join("index.redb")).unwrap();
    world.ostler("ps").exits(4).complains("damaged");
    world.ostler("doctor").exits(4).says("✘ journal");
}

#[test]
fn a_store_that_is_held_by_who_does_not_answer_is_told_so() {
    let world = world();
    let held = ostler_store::Store::open(&world.data()).unwrap();
    let ended = world.ostler("run report.yaml --workspace work").exits(4);
    ended.complains(&format!("is held by process {}", std::process::id()));
    drop(held);
}

#[test]
fn cases_are_lived_through_and_compared() {
    for (kind, cases) in [("graph", "graph_cases.jsonl"), ("modes", "mode_cases.jsonl")] {
        check_cases(kind, &format!("{}/kernel/tests/data/{cases}", env!("CARGO_MANIFEST_DIR")));
    }
}

fn check_cases(kind: &str, cases: &str) {
    let world = World::new();
    let ended = world.ostler(&format!("simulate {kind} {cases} --check")).exits(0);
    assert!(ended.out.ends_with(" passed, 0 failed\n"), "{}", ended.out);
    let first = std::fs::read_to_string(cases)
        .unwrap()
        .lines()
        .find(|line| line.contains("\"makespan\":"))
        .unwrap()
        .to_owned();
    let wrong =
        first.replacen("\"makespan\":", "\"makespan\":9", 1).replacen("\"id\":\"", "\"id\":\"again-", 1);
    assert_ne!(first, wrong);
    world.file("wrong.jsonl", &format!("{first}\n{wrong}\n"));
    let compared = world.ostler(&format!("simulate {kind} wrong.jsonl --check")).exits(1);
    compared.says("1 passed, 1 failed").says("makespan");
    let lived = world.ostler(&format!("simulate {kind} wrong.jsonl")).exits(0).lines();
    let case: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(lived[0], serde_json::json!({"id": case["id"], "expect": case["expect"]}));
    world.file("none.jsonl", "{\"id\": 1}\n");
    world.ostler(&format!("simulate {kind} none.jsonl")).exits(2).complains("none.jsonl:1");
}

#[test]
fn every_command_that_is_printed_names_the_folder_that_was_asked_about() {
    let world = World::new();
    world.file(
        "asks.yaml",
        "id: asks\nnodes:\n  - {id: -ok, kind: human_approval, params: {question: \"Is it out?\"}, human_timeout: 1h}\n",
    );
    world.file("own.toml", "[tools.shell]\nenabled = false\n");
    let place = "--data 'a b' --config own.toml";
    let ostler = |words: &[&str]| {
        let mut command = world.command("");
        command.env_remove("OSTLER_DATA").args(["--data", "a b", "--config", "own.toml"]).args(words);
        let output = command.output().unwrap();
        let told = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        for (at, _) in told.match_indices("ostler ") {
            let line = told[at..].lines().next().unwrap();
            assert!(line.contains(place), "{words:?}: {line}\n{told}");
        }
        told
    };
    ostler(&["run", "asks.yaml", "--workspace", "work"]);
    let listed = ostler(&["approvals"]);
    let yes = listed.lines().find_map(|line| line.trim().strip_prefix("ostler approve ")).unwrap();
    assert!(yes.starts_with("--digest b3:") && yes.contains(&format!(" {place} -- ")), "{listed}");
    assert!(yes.ends_with(" -ok"), "{listed}");
    for words in [&["ps"][..], &["show", "@last"], &["doctor"], &["approve", "@last", "--", "-ok"]] {
        let told = ostler(words);
        assert!(told.contains(place), "{words:?}: {told}");
    }
    // The printed command is valid.
    let shell = format!("{} approve {yes}", env!("CARGO_BIN_EXE_ostler"));
    let mut pasted = std::process::Command::new("sh");
    pasted.args(["-c", &shell]).current_dir(world.path()).env_remove("OSTLER_DATA");
    pasted.env("XDG_CONFIG_HOME", world.config());
    let output = pasted.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{shell}: {output:?}");
    assert!(!world.data().exists());
}
