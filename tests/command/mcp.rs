//! MCP servers, good and bad, through the command.

#[path = "../../drivers/tests/mcp/misbehaving.rs"]
mod misbehaving;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

use ostler_drivers::mcp::MCP_QUESTIONS_MAX;
use serde_json::json;

use super::approval_prompt::at_terminal;
use super::world::{World, ended, until};

/// A world with a server of [`misbehaving`] and a plan that calls one of its tools.
fn world(kind: &str, table: &str, tool: &str) -> World {
    let world = World::new();
    let command = misbehaving::command("mcp::misbehaving", kind);
    world.file("ostler.toml", &format!("[mcp.x]\nsandbox = false\ncommand = {command:?}\n{table}\n"));
    world.file(
        "plan.yaml",
        &format!("id: p\nnodes:\n  - {{id: n, tool: mcp.x.{tool}, params: {{text: hello}}, timeout: 20s}}\n"),
    );
    world
}

const RUN: &str = "run plan.yaml --config ostler.toml --workspace work";

fn notes(world: &World) -> String {
    std::fs::read_to_string(world.path().join("notes")).unwrap_or_default()
}

#[test]
fn a_plan_calls_a_tool_of_a_new_server_and_finds_it_accepted() {
    let world = world("well", "impact = {say = 0}", "say");
    let checked = world.ostler("check plan.yaml --config ostler.toml").exits(2);
    checked.complains("unknown tool mcp.x.say").complains("`ostler mcp accept x --config ostler.toml`");
    let ran = world.ostler(RUN).exits(0).says("succeeded");
    ran.complains("MCP server x (misbehaving 1) is new: accepted 2 tools");
    world.ostler("artifact @last/n --path text --config ostler.toml").exits(0).says("hello");
    assert_eq!(world.ostler(RUN).exits(0).err, "", "it is not new any more");
    world.ostler("mcp tools x --config ostler.toml").exits(0).says("mcp.x.note       2  Notes it");
    // The other tool was not accepted.
    world.file("plan.yaml", "id: p\nnodes:\n  - {id: n, tool: mcp.x.note, params: {text: hello}}\n");
    world.ostler(RUN).exits(1).says("IMPACT_OVER_INTENT");
    world.ostler(&format!("{RUN} --intent 2")).exits(0);
    assert_eq!(notes(&world), "hello\n");
}

#[test]
fn a_new_server_that_may_write_where_the_data_folder_comes_does_not_make_it_suspect() {
    let world = World::new();
    let command = misbehaving::command("mcp::misbehaving", "well");
    let table =
        format!("[mcp.x]\nsandbox = false\ncommand = {command:?}\nwrite = [\".\"]\nimpact = {{say = 0}}\n");
    world.file("work/ostler.toml", &table);
    world.file("work/plan.yaml", "id: p\nnodes:\n  - {id: n, tool: mcp.x.say, params: {text: hello}}\n");
    let work = world.path().join("work");
    for line in ["run plan.yaml", "ps --all"] {
        ended(world.command(line).current_dir(&work).env_remove("OSTLER_DATA")).exits(0).says("p ");
    }
}

#[test]
fn a_lost_answer_of_a_call_that_acts_is_in_doubt() {
    let world = world("dies_in_a_call", "impact = 1", "note");
    world.ostler(RUN).exits(3).says("in doubt");
    assert_eq!(notes(&world), "hello\n", "it was not repeated");
    world.ostler("resolve @last n --fail --config ostler.toml").exits(1);
}

#[test]
fn a_call_without_an_answer_times_out_and_one_that_acts_is_in_doubt() {
    for (impact, code, told) in [(0, 1, "timeout"), (1, 3, "in doubt")] {
        let world = world("never_answers_a_call", &format!("impact = {impact}"), "say");
        let node = "{id: n, tool: mcp.x.say, params: {text: hello}, timeout: 3s, retries: 0}";
        world.file("plan.yaml", &format!("id: p\nnodes:\n  - {node}\n"));
        world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
        world.ostler(RUN).exits(code).says(told);
    }
}

#[test]
fn a_server_that_is_down_is_a_typed_failure_at_once() {
    let world = world("well", "impact = 0", "say");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let command = misbehaving::command("mcp::misbehaving", "dies_at_once");
    world.file("ostler.toml", &format!("[mcp.x]\nsandbox = false\ncommand = {command:?}\nimpact = 0\n"));
    world.ostler(RUN).exits(1).says("server x is down").says("no licence");
    world.ostler("mcp probe x --config ostler.toml").exits(1).says("no licence");
    // Another command is another program.
    let held = "changed since its program was accepted";
    world.file("ostler.toml", "[mcp.x]\nsandbox = false\ncommand = [\"no-such-server\"]\nimpact = 0\n");
    world.ostler("mcp probe x --config ostler.toml").exits(1).says(held);
    std::fs::remove_file(world.path().join("data/mcp/x.json")).unwrap();
    world.ostler("mcp probe x --config ostler.toml").exits(1).says("there is no program no-such-server");
}

#[test]
fn a_changed_tool_is_held_until_its_difference_is_accepted() {
    let world = world("well", "impact = 0", "say");
    world.ostler(RUN).exits(0);
    world.file("changed", "");
    let answered = |answer: &str| {
        let run = world.start(RUN);
        until("the difference is shown", || world.ostler("approvals").out.contains("and tells others"));
        let approvals = world.ostler("approvals").exits(0).out;
        let line = approvals.lines().find(|line| line.contains(answer)).unwrap();
        world.ostler(line.split_once("ostler ").unwrap().1).exits(0);
        run.end()
    };
    answered("ostler reject ").exits(1).says("is held: it is described differently by its server");
    let asked = world.ostler("mcp accept x --config ostler.toml").exits(3);
    asked.says("say (changed)\n  - description: Says it\n  + description: Says it, and tells others");
    // Acceptance needs the operator key, as approvals do.
    let mut eve = world.command("mcp accept x --yes --config ostler.toml");
    let eve = eve.env("XDG_CONFIG_HOME", world.path().join("eve")).output().unwrap();
    assert_eq!(eve.status.code(), Some(6), "{eve:?}");
    answered("ostler reject ").exits(1).says("is held");
    world.ostler("mcp accept x note --yes --config ostler.toml").exits(2).complains("does not differ");
    world.ostler("mcp accept x say --yes --config ostler.toml").exits(0).says("accepted: 1 tool");
    world.ostler(RUN).exits(0);
    world.ostler("mcp accept x --config ostler.toml").exits(0).says("nothing differs");
    world.ostler("mcp ls --json --config ostler.toml").exits(0).says(r#""by":""#);
    // An approval during the call accepts a changed tool too.
    std::fs::remove_file(world.path().join("data/mcp/x.json")).unwrap();
    std::fs::remove_file(world.path().join("changed")).unwrap();
    world.ostler(RUN).exits(0);
    world.file("changed", "");
    answered("ostler approve ").exits(0);
    world.ostler("mcp accept x --config ostler.toml").exits(0).says("nothing differs");
}

#[test]
fn each_of_equal_questions_is_asked_and_no_more_than_a_person_can_answer() {
    let world = world("asks_ten_times", "impact = 1", "say");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let run = world.start(RUN);
    let listed = || world.ostler("approvals --json").lines();
    until("the questions are shown", || listed().len() >= MCP_QUESTIONS_MAX);
    for question in listed() {
        let (run, node) = (question["run"].as_str().unwrap(), question["node"].as_str().unwrap());
        let digest = question["digest"].as_str().unwrap();
        world.ostler(&format!("approve {run} {node} --digest {digest}")).exits(0);
    }
    run.end().exits(0);
    let counted = world.ostler("artifact @last/n --path text --config ostler.toml").exits(0);
    assert_eq!(counted.out.trim(), MCP_QUESTIONS_MAX.to_string());
}

#[test]
fn each_attempt_of_a_call_asks_anew() {
    let world = world("asks_and_ends", "impact = 0", "say");
    let node = "{id: n, tool: mcp.x.say, params: {text: hello}, timeout: 20s, retries: 2}";
    world.file("plan.yaml", &format!("id: p\nnodes:\n  - {node}\n"));
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let run = world.start(RUN);
    let listed = || world.ostler("approvals --json").lines();
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..3 {
        until("a question is shown", || listed().len() == 1);
        let question = listed().remove(0);
        let [run, node, digest] = ["run", "node", "digest"].map(|name| question[name].as_str().unwrap());
        world.ostler(&format!("approve {run} {node} --digest {digest}")).exits(0);
        asked.insert(run.to_owned());
    }
    run.end().exits(1).says("the answer to mcp.x.say is lost");
    assert_eq!(asked.len(), 3, "a yes counts for one attempt");
}

#[test]
fn a_question_ends_with_its_call() {
    let world = world("asks_and_goes", "impact = 1", "say");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let run = world.start(RUN);
    let listed = || world.ostler("approvals --json").lines().len();
    until("the question is shown", || listed() == 1);
    world.file("changed", "");
    run.end().exits(0);
    until("the question is gone", || listed() == 0);
}

#[test]
fn a_question_amid_a_call_is_asked_at_the_terminal_and_shown_elsewhere() {
    let world = world("well", "impact = 0", "say");
    world.ostler(RUN).exits(0);
    world.file("changed", "");
    let Some((code, said)) = at_terminal(&world, RUN, &[(" > ", "n\n")]) else {
        println!("skipped: script is not installed");
        return;
    };
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is described differently by its server"), "{said}");
    let run = world.start(RUN);
    until("the question is shown", || world.ostler("show @last").out.contains("waits for a person in run"));
    run.signal("INT");
    run.end().exits(130);
    let (code, said) = at_terminal(&world, RUN, &[(" > ", "y\n")]).unwrap();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_question_of_a_server_waits_for_a_person() {
    let world = world("asks", "impact = 1", "say");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let mut run = world.start(RUN);
    // The node runs meanwhile, so only this line says what it waits for.
    run.until("n  waits for a person: The server of mcp.x.say asks amid a call: Really?");
    let approvals = world.ostler("approvals").exits(0).out;
    let approve = approvals.lines().find(|line| line.contains("ostler approve ")).unwrap();
    world.ostler(approve.split_once("ostler ").unwrap().1).exits(0);
    run.end().exits(0);
    let answered = world.ostler("artifact @last/n --path text --config ostler.toml").exits(0);
    answered.says(r#"{"action":"accept","content":{"sure":true}}"#);
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_ends_with_its_run_also_after_a_kill() {
    let world = world("never_answers_a_call", "impact = 0", "say");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let folder = world.path().canonicalize().unwrap();
    let servers = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter(|process| lives_in(&process.path(), &folder)).count()
    };
    let run = world.start(RUN);
    until("the server runs", || servers() == 1);
    run.signal("KILL");
    run.end();
    world.ostler("ps").exits(0);
    until("the next command has ended it", || servers() == 0);
}

/// True for a server process with the working directory `folder`.
fn lives_in(process: &Path, folder: &Path) -> bool {
    let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("misbehaving")
        && std::fs::read_link(process.join("cwd")).is_ok_and(|place| place == folder)
}

#[test]
fn rules_for_tools_of_servers_that_may_be_misspelt_are_warned_of() {
    let table = "impact = {say = 0, sya = 0}\nsensitive = [\"text\", \"say.txt\"]";
    let policy = "[policy.sensitive]\n\"mcp.x.say\" = [\"txt\"]\n\"mcp.x.tell\" = [\"text\"]";
    let world = world("well", &format!("{table}\n{policy}"), "say");
    // Nothing is known of a server that was never started.
    let checked = world.ostler("policy check --config ostler.toml").exits(0).says("valid");
    checked
        .says("warning  policy.sensitive.\"mcp.x.say\": mcp.x.say is no accepted tool; `ostler mcp tools`");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let checked = world.ostler("policy check --config ostler.toml").exits(0);
    let warnings = [
        "policy.sensitive.\"mcp.x.say\": mcp.x.say has no parameter \"txt\"; did you mean \"text\"?",
        "policy.sensitive.\"mcp.x.tell\": mcp.x.tell is no accepted tool",
        "mcp.x.impact: mcp.x.sya is no accepted tool; did you mean \"mcp.x.say\"?",
        "mcp.x.sensitive: no accepted tool of x has the parameter \"say.txt\"",
    ];
    let checked = warnings.into_iter().fold(checked, |checked, warning| checked.says(warning));
    assert!(!checked.out.contains("parameter \"text\""), "{}", checked.out);
}

#[test]
fn a_faulty_table_is_refused_with_its_place() {
    let world = World::new();
    world.file("ostler.toml", "[mcp.x]\ncommand = [\"a\"]\nurl = \"http://127.0.0.1/\"\nimpact = 7\n");
    let refused = world.ostler("mcp ls --config ostler.toml").exits(2);
    assert!(
        refused.err.contains("ostler.toml has 2 faults") || refused.out.contains("impact is above 2"),
        "{refused:?}"
    );
}

/// Ostler as a server of Ostler.
#[test]
fn the_server_runs_plans_of_its_clients() {
    let world = World::new();
    let inner = format!("[{:?}, \"mcp\", \"serve\", \"--data\", \"inner\"]", env!("CARGO_BIN_EXE_ostler"));
    // Trusted results: otherwise the id of the run, from a server, would need an approval in the next call.
    let policy = "[policy]\ntrusted = [\"mcp.inner.submit_plan\"]\n";
    let server = format!("[mcp.inner]\nsandbox = false\ncommand = {inner}\nimpact = 1\n");
    world.file("ostler.toml", &(server + policy));
    world.file(
        "plan.yaml",
        "id: p\nnodes:\n\
         - {id: submit, tool: mcp.inner.submit_plan, params: {plan: {id: q, nodes: [{id: m, tool: text.render, params: {template: 'six', values: {}}}]}}}\n\
         - {id: wait, tool: mcp.inner.wait_for_run, param_refs: {run: {from: submit, path: structured.run}}}\n\
         - {id: read, tool: mcp.inner.read_artifact, params: {node: m}, param_refs: {run: {from: submit, path: structured.run}}, deps: [wait]}\n",
    );
    world.ostler(RUN).exits(0);
    world.ostler("artifact @last/read --path structured.text --config ostler.toml").exits(0).says("six");
    world.ostler("show @last --data inner").exits(0).says("succeeded");
    // Without --approvals, clients cannot answer approvals.
    assert!(!world.ostler("mcp tools inner --config ostler.toml").exits(0).out.contains("answer_approval"));
}

/// A server over HTTP, and a request as `curl` would send. Returns the status and the body.
fn requested(address: &str, token: Option<&str>, more: &str, message: &serde_json::Value) -> (u16, String) {
    let body = message.to_string();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{token}{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn over_http_the_server_answers_who_has_the_token() {
    let world = World::new();
    let mut command = world.command("mcp serve --http 127.0.0.1:0 --token-env MCP_TOKEN");
    command.env("MCP_TOKEN", "s3cret").stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut told = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut told).unwrap();
    let address = told.trim().strip_prefix("MCP at http://").unwrap().strip_suffix("/mcp").unwrap();
    let call = |name: &str, arguments| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    };
    let runs = call("list_runs", json!({}));
    for wrong in [None, Some("s3cre"), Some("")] {
        assert_eq!(requested(address, wrong, "", &runs).0, 401);
    }
    let (status, body) = requested(address, Some("s3cret"), "", &runs);
    assert!(status == 200 && body.contains(r#""structuredContent":{"runs":[]}"#), "{status} {body}");
    let evil = requested(address, Some("s3cret"), "Origin: http://evil.example\r\n", &runs);
    assert_eq!(evil.0, 403, "a web page of another origin");
    let plan = json!({"id": "q", "nodes": [{"id": "m", "tool": "text.render", "params": {"template": "six", "values": {}}}]});
    let submitted = requested(address, Some("s3cret"), "", &call("submit_plan", json!({"plan": plan})));
    assert!(submitted.1.contains(r#""run":""#), "{submitted:?}");
    let waited = requested(address, Some("s3cret"), "", &call("wait_for_run", json!({"run": "@last"})));
    assert!(waited.1.contains("succeeded"), "{waited:?}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn over_http_without_a_token_nobody_gets_more_than_any_program() {
    let world = World::new();
    for more in ["--http 0.0.0.0:0", "--http 127.0.0.1:0 --intent 2", "--http 127.0.0.1:0 --approvals"] {
        world
            .ostler(&format!("mcp serve {more}"))
            .exits(2)
            .complains("name the variable with one in --token-env");
    }
    world.ostler("mcp serve --http 127.0.0.1:0 --token-env NO_SUCH").exits(2).complains("NO_SUCH is not set");
    world.ostler("mcp serve --token-env HOME").exits(2);
}

#[test]
fn calls_that_wait_for_a_run_keep_no_other_call_waiting() {
    let world = World::new();
    let mut server = world.command("mcp serve --workspace work");
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut answers) =
        (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()).lines());
    let mut send = |message: serde_json::Value| writeln!(input, "{message}").unwrap();
    let client = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}));
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = |id: u32, name: &str, arguments: serde_json::Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let mut answer = |is: &dyn Fn(&serde_json::Value) -> bool| {
        let of = |line: std::io::Result<String>| {
            serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap()
        };
        answers.by_ref().map(of).find(|line| is(line)).unwrap().to_string()
    };
    let nodes = json!([{"id": "s", "tool": "time.sleep", "params": {"ms": 600_000}}]);
    send(call(1, "submit_plan", json!({"plan": {"id": "q", "nodes": nodes}})));
    answer(&|line| line["id"] == 1);
    for id in 2..67 {
        send(call(id, "wait_for_run", json!({"run": "@last", "seconds": 300})));
    }
    // The answers have no order: only a refusal comes now.
    let refused = answer(&|line| line["id"].is_u64());
    assert!(refused.contains("64 calls wait for runs already"), "{refused}");
    send(call(67, "cancel_run", json!({"run": "@last"})));
    let cancelled = answer(&|line| line["id"] == 67);
    assert!(!cancelled.contains("isError\":true"), "{cancelled}");
    drop(input);
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Finds the one tool of a server that no prompt lists.
const FINDS: &str = r#"
latency: 1s
rules:
  - when: {role: planner, contains: "Tools found for \"reserve a table\":\n- mcp.x.book("}
    answer: {answer: null, missing: null, search: null, steps: [{id: table, tool: mcp.x.book, params: {text: booked}, refs: [], after: [], why: null}]}
  - when: {role: planner}
    answer: {answer: null, missing: null, search: "reserve a table", steps: []}
  - when: {role: reflect}
    answer: {decision: conclude, verdict: "a table is booked", next: null, cancel: []}
"#;

#[test]
fn a_goal_searches_among_many_tools_and_a_killed_process_searches_no_second_time() {
    let world = world("has_many_tools", "impact = 0", "book");
    world.file("finds.yaml", FINDS);
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let ask = "ask count-the-notes --model scripted:finds.yaml --mode reflect --yes --answer off --workspace work --config ostler.toml";
    let mut run = world.start(ask);
    run.until("plan version 2");
    run.signal("KILL");
    run.end();
    let resume = "resume @last --model scripted:finds.yaml --config ostler.toml";
    world.ostler(resume).exits(0).says("a table is booked");
    let events = world.ostler("events @last --json --config ostler.toml").exits(0).lines();
    let of = |kind: &str, node: &str| {
        let is_it = |line: &&serde_json::Value| line["kind"] == kind && line["body"]["node"] == node;
        events.iter().filter(is_it).count()
    };
    assert_eq!(
        (of("attempt_intent", "plan.1"), of("attempt_result", "plan.1")),
        (1, 1),
        "the search was recorded"
    );
    assert_eq!(of("attempt_result", "table"), 1);
    world.ostler("show @last --config ostler.toml").exits(0).says("plan.1").says("plan.2").says("table");
    let why = world.ostler("explain @last plan.1 --config ostler.toml").exits(0);
    why.says("searched for tools: reserve a table");
}
