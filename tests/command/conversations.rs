//! Goals on earlier runs, and chats.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::approval_prompt::at_terminal;
use super::world::{Ended, World, until};

/// Reads a note that is too large for a record.
const READS: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [{id: note, tool: fs.read, params: {path: today.md}, refs: [], after: [], why: null}]}
  reflect:
    - answer: {decision: conclude, verdict: "read", next: null, cancel: []}
  answer:
    - answer: {answer: "You wanted to call the bank.", citations: [note]}
"#;

/// Plans only if the prompt tells of the earlier run, and takes the earlier result by reference.
const GOES_ON: &str = r#"
roles:
  planner:
    - fail: invalid_request
  reflect:
    - answer: {decision: conclude, verdict: "found", next: null, cancel: []}
  answer:
    - answer: {answer: "Ten thousand.", citations: [whole, earlier.1.note]}
rules:
  - when: {role: planner, contains: '{"answered":"You wanted to call the bank.","asked":"What is to do?"}'}
    answer: {answer: null, missing: null, steps: [{id: whole, tool: json.query, params: {query: $},
      refs: [{param: value, from: earlier.1.note, path: text, template: null}], after: [], why: null}]}
"#;

fn world() -> World {
    let world = World::new();
    std::fs::write(world.path().join("work/today.md"), "call the bank\n".repeat(1_000)).unwrap();
    world.file("reads.yaml", READS).file("goes_on.yaml", GOES_ON);
    // Long enough to be killed in the call.
    let slow = GOES_ON.replacen("    answer: {answer: null", "    latency: 2s\n    answer: {answer: null", 1);
    world.file("slow.yaml", &slow);
    world
}

const FIRST: [&str; 3] =
    ["ask", "What is to do?", "--model=scripted:reads.yaml --mode reflect --yes --workspace work"];

/// Runs a command whose goal has blanks.
fn goal(world: &World, [command, goal, options]: [&str; 3]) -> Ended {
    let mut command = world.command(command);
    let output = command.arg(goal).args(options.split_whitespace()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn run_of(ended: &Ended) -> String {
    let opened = ended.out.lines().find(|line| line.contains(" opened: ")).unwrap();
    opened.split_whitespace().nth(2).unwrap().to_owned()
}

const ON_LAST: &str = "--model scripted:goes_on.yaml --mode reflect --yes --workspace work --on @last";

#[test]
fn a_goal_uses_the_answer_and_the_results_of_an_earlier_run() {
    let world = world();
    let first = run_of(&goal(&world, FIRST).exits(0));
    let second = goal(&world, ["ask", "How long is it?", ON_LAST]).exits(0);
    let second = second.says("earlier.1.note").says("grounded; rests on whole, earlier.1.note");
    second.says("Ten thousand.").says(&format!("on             {first}"));
    let whole = world.ostler("artifact @last/whole").exits(0);
    assert_eq!(whole.out.matches("call the bank").count(), 1_000);
    world.ostler("doctor").exits(0).says("nothing is broken");
}

#[test]
fn a_run_killed_goes_on_although_the_earlier_run_is_gone() {
    let world = world();
    goal(&world, FIRST).exits(0);
    let mut run = world.start(&format!("ask length? {}", ON_LAST.replace("goes_on", "slow")));
    run.until("opened: goal");
    run.signal("KILL");
    run.end();
    // The index keeps both runs apart: only the first one is closed.
    world.ostler("gc --older-than 1ms --apply").exits(0).says("1 run removed");
    world.ostler("resume --model scripted:slow.yaml").exits(0).says("Ten thousand.");
    let whole = world.ostler("artifact @last/whole").exits(0);
    assert_eq!(whole.out.matches("call the bank").count(), 1_000);
    world.ostler("doctor").exits(0).says("nothing is broken");
}

#[test]
fn only_finished_runs_of_the_client_can_be_used() {
    let world = world();
    let ask = |options: &str| {
        goal(&world, ["ask", "And then?", &format!("--yes --model scripted:goes_on.yaml {options}")])
    };
    ask("--on @last").exits(2).complains("no run yet");
    goal(&world, FIRST).exits(0);
    ask("--on 0123abcd")
        .exits(2)
        .complains("--on 0123abcd: no run has an id")
        .complains("`ostler ps` lists the runs");
    ask("--on @last --client acme").exits(2).complains("is of client local, and the goal of client acme");
    let many = "--on @last ".repeat(9);
    ask(&many).exits(2).complains("at most 8 earlier runs");
    let asked = FIRST[2].replace("--yes", "");
    goal(&world, ["ask", "What is to do?", &asked]).exits(3);
    ask("--on @last").exits(2).complains("is waiting, so its results are not final; `ostler resume ");
}

/// Says whether it was told what was said before.
const TALKS: &str = r#"
roles:
  think:
    - {text: "Who are you?", repeat: true}
rules:
  - when: {contains: '{"answered":"Hello Ann.","asked":"I am Ann"}'}
    text: "You are Ann."
  - when: {contains: "Goal:\nI am Ann"}
    text: "Hello Ann."
"#;

fn piped(world: &World, options: &str, lines: &str) -> Ended {
    let mut command = world.command(&format!("chat --model scripted:talks.yaml --workspace work {options}"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A chat that refuses a line reads no further.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_chat_from_a_pipe_has_a_turn_for_each_line() {
    let world = World::new();
    world.file("talks.yaml", TALKS);
    let told = piped(&world, "", "I am Ann\n\nWho am I?\n/quit\nNot read\n").exits(0);
    let answers: Vec<&str> = told.out.lines().filter(|line| line.ends_with('.')).collect();
    assert_eq!(answers, ["Hello Ann.", "You are Ann."], "{}", told.out);
    let line = told.out.lines().last().unwrap();
    let short = line.trim_start_matches('(').split(';').next().unwrap();
    // Another chat goes on where this one ended, with all turns of it.
    piped(&world, &format!("--on {short}"), "And now?").exits(0).says("You are Ann.");
    piped(&world, "", "And now?").exits(0).says("Who are you?");
    piped(&world, "--on nobody-knows", "And now?").exits(2).complains("`ostler ps` lists the runs");
    let long = "x".repeat(33 << 10);
    piped(&world, "", &long).exits(2).complains("a line of more than 32768 bytes");
}

#[test]
fn a_turn_that_fails_does_not_end_a_chat_and_is_told_to_scripts() {
    let world = World::new();
    world.file("talks.yaml", &TALKS.replace("text: \"Hello Ann.\"", "fail: auth"));
    let told = piped(&world, "", "I am Ann\nWho am I?\n").exits(1);
    told.says("failed  goal").says("Who are you?");
}

#[test]
fn a_plan_nobody_approves_ends_a_chat_from_a_pipe() {
    let world = world();
    world.file("talks.yaml", READS);
    piped(&world, "--mode reflect", "What is to do?\n").exits(3).complains("--yes starts plans without one");
}

#[test]
fn at_a_terminal_an_interrupt_cancels_the_turn_and_not_the_chat() {
    let world = World::new();
    let slow = TALKS.replace("text: \"Hello Ann.\"", "text: \"Hello Ann.\"\n    latency: 100s");
    world.file("talks.yaml", &slow);
    let typed = [
        ("> ", "I am Ann\n"),
        ("think.1", "\u{3}"),
        ("cancelled", "Who am I?\n"),
        ("Who are you?", "/quit\n"),
    ];
    let Some((code, said)) = at_terminal(&world, "chat --model scripted:talks.yaml --workspace work", &typed)
    else {
        return super::terminal::skipped("no `script` of util-linux, which makes a terminal");
    };
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Who are you?"), "{said}");
    world.ostler("ps").exits(0).says("cancelled").says("succeeded");
}

#[test]
fn an_interrupt_ends_the_wait_for_a_plan_and_cancels_the_run() {
    let world = World::new();
    let slow = TALKS.replace("text: \"Hello Ann.\"", "text: \"Hello Ann.\"\n    latency: 100s");
    world.file("talks.yaml", &slow.replace("I am Ann", "I-am-Ann"));
    let asked =
        world.start("ask I-am-Ann --plan-only --mode react --model scripted:talks.yaml --workspace work");
    until("a run is open", || world.ostler("ps --json").out.contains("running"));
    asked.signal("INT");
    asked.end().exits(130);
    world.ostler("ps").exits(0).says("cancelled");
}

#[test]
fn a_budget_without_room_for_a_plan_is_no_plan() {
    let world = world();
    world.file("talks.yaml", READS);
    let line = "ask Why? --plan-only --mode reflect --model scripted:talks.yaml --workspace work";
    world
        .ostler(&format!("{line} --budget 1tokens --over-budget ask"))
        .exits(3)
        .says("does not fit the budget");
    world.ostler("ps").exits(0).says("cancelled");
}

/// Answers each request with the same completion.
fn provider() -> (String, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let (asked, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut request, mut bytes) = (String::new(), [0; 4_096]);
            let is_whole = |request: &str| {
                let (head, body) = request.split_once("\r\n\r\n")?;
                let length = head.lines().find_map(|line| {
                    line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned)
                })?;
                (body.len() >= length.trim().parse().ok()?).then_some(())
            };
            while is_whole(&request).is_none() {
                let count = stream.read(&mut bytes).unwrap();
                request.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            let body = r#"{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Forty-two."},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all((head + body).as_bytes()).unwrap();
            let _ = asked.send(());
        }
    });
    (address, requests)
}

#[test]
fn a_cassette_records_an_ask_once_and_plays_it_then() {
    let world = World::new();
    let (address, requests) = provider();
    let config = format!(
        "[models.default]\nprovider = \"openai\"\nbase_url = \"{address}\"\nmodel = \"m\"\nmax_output_tokens = 99\n"
    );
    world.file("ostler.toml", &config);
    let ask =
        |options: &str| goal(&world, ["ask", "What is the answer?", &format!("--workspace work {options}")]);
    let with = "--config ostler.toml --cassette tape.jsonl";
    ask(with)
        .exits(0)
        .says("Forty-two.")
        .complains("recording the exchanges with model default in tape.jsonl");
    assert_eq!(requests.try_iter().count(), 1);
    ask(with).exits(0).says("Forty-two.");
    assert_eq!(requests.try_iter().count(), 0, "the file answers");
    world.file("script.yaml", TALKS);
    ask("--model scripted:script.yaml --cassette new.jsonl")
        .exits(2)
        .complains("names a file that answers already");
    ask("--cassette new.jsonl").exits(2).complains("no model is configured");
}

#[test]
fn names_of_tools_may_have_blanks_around_them() {
    let world = world();
    let mut command = world
        .command("ask length? --yes --mode reflect --model scripted:reads.yaml --workspace work --tools");
    let output = command.arg("fs.list, fs.read").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let refused: Command = world.command("ask length? --yes --model scripted:reads.yaml --tools fs.list,");
    let output = { refused }.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("a tool without a name"));
}
