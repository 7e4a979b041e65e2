//! `ostler fork`.

use serde_json::Value;

use super::approvals::world as approvals_world;
use super::world::World;

/// A write, and what comes after it.
const PLAN: &str = r#"
id: forked
nodes:
  - {id: text, tool: text.render, params: {template: "hello", values: {}}}
  - {id: act, tool: shell.run, params: {argv: [sh, -c, "echo acted >> log"]}, deps: [text], timeout: 20s}
  - {id: then, tool: text.render, params: {template: "one", values: {}}, deps: [act]}
"#;

/// Killed during the node.
const DOUBT: &str = r#"
id: doubt
nodes:
  - {id: act, tool: shell.run, params: {argv: [sh, -c, "echo acted >> log; exec sleep 4"]}, timeout: 20s}
  - {id: then, tool: text.render, params: {template: "one", values: {}}, deps: [act]}
"#;

/// A write, and what comes after a person's yes.
const ASKS: &str = r#"
id: asked
nodes:
  - {id: act, tool: shell.run, params: {argv: [sh, -c, "echo acted >> log"]}, timeout: 20s}
  - {id: yes, kind: human_approval, deps: [act], human_timeout: 1h}
  - {id: then, tool: text.render, params: {template: "one", values: {}}, deps: ["yes"]}
"#;

fn world() -> World {
    let world = approvals_world();
    world.file("forked.yaml", PLAN).file("doubt.yaml", DOUBT).file("asked.yaml", ASKS);
    world
}

/// Number of the last record that satisfies `is`.
fn record(world: &World, is: impl Fn(&Value) -> bool) -> u64 {
    let lines = world.ostler("events @last --json").exits(0).lines();
    lines.iter().rev().find(|line| is(line)).unwrap()["seq"].as_u64().unwrap()
}

fn executed(node: &'static str) -> impl Fn(&Value) -> bool {
    move |line| line["body"]["node"] == node && line["body"]["to"] == "executed"
}

#[test]
fn what_was_done_by_then_is_not_done_again_and_the_rest_is() {
    let world = world();
    world.ostler("run asked.yaml --workspace work --intent 2").exits(3);
    let first = world.ostler("show @last --json").exits(0).lines()[0]["run"].as_str().unwrap().to_owned();
    let at = record(&world, executed("act"));
    let forked = world.ostler(&format!("fork @last --at {at} --set then.template=two")).exits(3);
    forked.says("kept      from run ");
    // The question is open in the fork too.
    let asked = world.ostler("approvals --json").exits(0).lines();
    let asked = asked.iter().find(|asked| asked["run"] != first.as_str()).unwrap();
    let digest = asked["digest"].as_str().unwrap();
    world.ostler(&format!("approve @last yes --digest {digest}")).exits(0);
    assert_eq!(world.work("log"), "acted\n", "the effect counts as done");
    world.ostler("artifact @last/then --path text").exits(0).says("two");
    world.ostler("explain @last act").exits(0).says("taken over from run");
    let audit = world.ostler("audit @last").exits(0).out;
    let inherited = |line: &&str| line.contains("inherited from run");
    assert!(audit.lines().filter(|line| line.contains(" act ")).all(|line| inherited(&line)), "{audit}");
    assert!(!audit.lines().filter(|line| line.contains(" then ")).any(|line| inherited(&line)), "{audit}");
    world.ostler("audit --verify").exits(0).says("0 broken");
    // Nothing is paid twice.
    world.ostler("doctor").exits(0);
    // At the first record, everything comes after.
    world.ostler(&format!("fork {first} --at 1")).exits(3);
    assert_eq!(world.work("log"), "acted\nacted\n");
}

#[test]
fn the_provenance_of_a_fork_names_the_run_that_did_what_was_done() {
    let world = world();
    world.ostler("run forked.yaml --workspace work --intent 2").exits(0);
    let first = world.ostler("show @last --json").exits(0).lines()[0]["run"].as_str().unwrap().to_owned();
    let at = record(&world, executed("act"));
    world.ostler(&format!("fork @last --at {at}")).exits(0);
    let second = world.ostler("show @last --json").exits(0).lines()[0]["run"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    let exported = world.ostler("export @last --format prov-json").exits(0).out;
    assert_eq!(world.ostler("export @last --format prov-json").exits(0).out, exported, "the same twice");
    let document: Value = serde_json::from_str(&exported).unwrap();
    let made_in = |node: &str| {
        let mut entities = document["entity"].as_object().unwrap().iter();
        let (_, entity) = entities.find(|(name, _)| name.ends_with(&format!("/{node}"))).unwrap();
        entity["ostler:run"].as_str().map(str::to_owned)
    };
    assert_eq!(["text", "act"].map(made_in), [Some(first.clone()), Some(first)]);
}

#[test]
fn an_effect_under_way_at_that_record_is_in_doubt() {
    let world = world();
    let run = world.start("run doubt.yaml --workspace work --intent 2");
    super::world::until("the program acts", || world.work("log") == "acted\n");
    world.ostler("fork @last --at 1").exits(2).complains("is running");
    run.signal("KILL");
    assert_eq!(run.end().code, None);
    let at = record(&world, |line| line["kind"] == "attempt_intent");
    world.ostler(&format!("fork @last --at {at}")).exits(3).says("ostler resolve");
    assert_eq!(world.work("log"), "acted\n");
    world.file("done.json", r#"{"status": 0, "stderr": "", "stderr_bytes_left_out": 0, "stdout": "", "stdout_bytes_left_out": 0}"#);
    world.ostler("resolve @last act --done done.json").exits(0);
    assert_eq!(world.work("log"), "acted\n");
}

/// One yes allows one effect, in one run.
#[test]
fn a_fork_behind_a_yes_asks_again() {
    let world = world();
    world.file(
        "allowed.yaml",
        "id: allowed\nnodes:\n  - {id: act, tool: shell.run, params: {argv: [sh, -c, \"echo acted >> log\"]}, \
         approval: before, human_timeout: 1h, timeout: 20s}\n",
    );
    world.ostler("run allowed.yaml --workspace work --intent 2").exits(3);
    let approve = || {
        let asked = world.ostler("approvals --json").exits(0).lines();
        let digest = asked[0]["digest"].as_str().unwrap().to_owned();
        world.ostler(&format!("approve @last act --digest {digest}")).exits(0);
    };
    approve();
    assert_eq!(world.work("log"), "acted\n");
    let at = record(&world, |line| line["kind"] == "human_answer");
    world.ostler(&format!("fork @last --at {at}")).exits(3);
    assert_eq!(world.work("log"), "acted\n", "nobody has allowed the second effect");
    approve();
    assert_eq!(world.work("log"), "acted\nacted\n");
}

#[test]
fn a_result_that_came_after_the_record_of_the_fork_is_named() {
    let world = world();
    world.ostler("run forked.yaml --workspace work --intent 2").exits(0);
    let first = world.ostler("show @last --json").exits(0).lines()[0]["run"].as_str().unwrap().to_owned();
    let at = record(&world, |line| line["kind"] == "attempt_intent" && line["body"]["node"] == "act");
    world.ostler(&format!("fork @last --at {at}")).exits(3);
    let hint = format!("`ostler artifact {first}/act > FILE`");
    let told = world.ostler("events @last --json").exits(0).out;
    assert!(told.contains(&hint), "{told}");
    let result = world.ostler(&format!("artifact {first}/act")).exits(0).out;
    world.file("result.json", &result);
    world.ostler("resolve @last act --done result.json").exits(0);
    assert_eq!(world.work("log"), "acted\n");
}

#[test]
fn a_fork_that_cannot_be_made_is_told_and_opens_no_run() {
    let world = world();
    world.ostler("run forked.yaml --workspace work --intent 2").exits(0);
    let last = record(&world, |_| true);
    let runs = || world.ostler("ps --json").exits(0).lines().len();
    let before = runs();
    for (line, says) in [
        (format!("fork @last --at {}", last + 1), "the records 1 to "),
        ("fork @last --at 0".to_owned(), "1 or more"),
        (format!("fork @last --at {last} --set then.template=two"), "had started by then"),
        ("fork @last --at 1 --set nothing.n=1".to_owned(), "no node nothing"),
        ("fork @last --at 1 --set then=1".to_owned(), "NODE.PARAM=VALUE"),
    ] {
        world.ostler(&line).exits(2).complains(says);
    }
    assert_eq!(runs(), before);
}

#[test]
fn an_effect_that_was_undone_since_does_not_count_as_done() {
    let world = world();
    world.file(
        "undo.yaml",
        "id: undo\nnodes:\n  - {id: act, tool: fs.write, params: {path: out, text: x, mode: create}, \
         undo: {tool: fs.write, params: {path: out, text: gone, mode: replace}}}\n\
         \x20 - {id: then, tool: text.render, params: {template: one}, deps: [act]}\n",
    );
    world.ostler("run undo.yaml --workspace work").exits(0);
    let at = record(&world, executed("act"));
    world.ostler("undo @last").exits(0);
    world.ostler(&format!("fork @last --at {at}")).exits(2).complains("the effect of act was undone");
}

/// The other run has used the yes, whether its attempt failed, was lost, or is made again.
#[test]
fn a_fork_behind_a_redo_asks_again() {
    let world = world();
    let run = world.start("run doubt.yaml --workspace work --intent 2");
    super::world::until("the program acts", || world.work("log") == "acted\n");
    run.signal("KILL");
    assert_eq!(run.end().code, None);
    world.ostler("resume @last").exits(3);
    world.ostler("resolve @last act --redo").exits(0);
    assert_eq!(world.work("log"), "acted\nacted\n");
    let at = record(&world, |line| line["kind"] == "human_answer");
    world.ostler(&format!("fork @last --at {at}")).exits(3).says("approval to start");
    assert_eq!(world.work("log"), "acted\nacted\n", "nobody has allowed a third one");
    let asked = world.ostler("approvals").exits(0);
    asked.says("asked again, because it leads to an effect");
    world.ostler("reject @last act").exits(1);
    assert_eq!(world.work("log"), "acted\nacted\n");
}

/// A receiver that fails after it took the first request, and knows a repetition by its key: its address, and the keys that it saw.
fn receiver() -> (std::net::SocketAddr, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::sync::{Arc, Mutex};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&keys);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut key, mut bytes, mut line) = (String::new(), 0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let (name, value) = line.split_once(':').unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "idempotency-key" => key = value.trim().to_owned(),
                    "content-length" => bytes = value.trim().parse().unwrap(),
                    _ => {}
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; bytes]).unwrap();
            let mut seen = seen.lock().unwrap();
            let status = if seen.contains(&key) { "200 OK" } else { "503 Service Unavailable" };
            seen.push(key);
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, keys)
}

/// A request to a receiver, and the record behind its first try.
fn tried_twice(world: &World, address: std::net::SocketAddr, more: &str) {
    world.file(
        "ostler.toml",
        &format!(
            "[tools.http]\negress_allow = [\"{address}\"]\n[tools.http.hosts.\"{address}\"]\nidempotency = true\n"
        ),
    );
    world.file(
        "pay.yaml",
        &format!(
            "id: pay\nnodes:\n  - {{id: pay, tool: http.request, params: {{method: POST, url: 'http://{address}/', body: {{a: 1}}}}, \
             retries: 3, timeout: 9s{more}}}\n"
        ),
    );
}

fn after_first_try(world: &World) -> u64 {
    let lines = world.ostler("events @last --json").exits(0).lines();
    let is_failed = |line: &&Value| line["body"]["to"] == "failed_retryable";
    lines.iter().find(is_failed).unwrap()["seq"].as_u64().unwrap()
}

#[test]
fn a_fork_between_two_tries_of_a_keyed_effect_uses_the_key_of_the_first() {
    let ((address, keys), world) = (receiver(), World::new());
    tried_twice(&world, address, "");
    world.ostler("run pay.yaml --workspace work --intent 2 --config ostler.toml").exits(0);
    let at = after_first_try(&world);
    world.ostler(&format!("fork @last --at {at} --config ostler.toml")).exits(0);
    let keys = keys.lock().unwrap();
    assert!(keys.len() > 2 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn a_fork_between_two_tries_of_an_approved_effect_asks_again() {
    let ((address, keys), world) = (receiver(), World::new());
    tried_twice(&world, address, ", approval: before, human_timeout: 1h");
    world.ostler("run pay.yaml --workspace work --intent 2 --config ostler.toml").exits(3);
    let digest = || {
        let asked = world.ostler("approvals --json --config ostler.toml").exits(0).lines();
        asked[0]["digest"].as_str().unwrap().to_owned()
    };
    world.ostler(&format!("approve @last pay --digest {} --config ostler.toml", digest())).exits(0);
    let (at, tries) = (after_first_try(&world), keys.lock().unwrap().len());
    world.ostler(&format!("fork @last --at {at} --config ostler.toml")).exits(3);
    assert_eq!(keys.lock().unwrap().len(), tries, "the yes was for the other run");
    world.ostler(&format!("approve @last pay --digest {} --config ostler.toml", digest())).exits(0);
    assert!(keys.lock().unwrap().len() > tries);
}
