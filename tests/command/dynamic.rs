//! Bad input for guards, lists and waits in real runs.

use std::time::{SystemTime, UNIX_EPOCH};

use super::web::Web;
use super::world::World;

#[test]
fn a_list_of_a_million_elements_is_refused_before_a_child_starts() {
    let numbers = Web::start(|_| (200, format!("[{}0]", "0,".repeat(999_999))));
    let address = numbers.address;
    let plan = format!(
        "id: many\nnodes:\n  - {{id: list, tool: http.request, params: {{method: GET, url: \"http://{address}/\"}}}}\n  - id: each\n    tool: fs.write\n    for_each: {{from: list, path: body, as: path, max: 1000}}\n    params: {{text: x, mode: replace}}\n"
    );
    let world = World::new();
    world.file("many.yaml", &plan);
    world.file("many.toml", &format!("[tools.http]\negress_allow = [\"{address}\"]\n"));
    let run = world.ostler("run many.yaml --workspace work --config many.toml").exits(1);
    run.says("failed each").says("1000000").says("1000");
    assert_eq!(std::fs::read_dir(world.path().join("work")).unwrap().count(), 0, "no child wrote a file");
}

/// Returns after the deadline of the wait in the last run.
fn after_deadline(world: &World) {
    let shown = world.ostler("show @last --json").exits(0).lines().remove(0);
    let deadline = shown["waits"][0]["deadline_ms"].as_u64().unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    super::world::until("the deadline has passed", || now() > u128::from(deadline));
}

#[test]
fn a_deadline_that_passes_without_a_process_fails_the_wait_and_not_the_run() {
    let world = World::new();
    let plan = "id: late\nnodes:\n  - {id: word, kind: wait, deadline: 200ms}\n  - {id: other, kind: aggregator, deps: [{n: word, on: terminal}], params: {template: \"{{ word.state }}\"}}\n";
    world.file("late.yaml", plan);
    world.ostler("run late.yaml --workspace work").exits(3);
    after_deadline(&world);
    world.ostler("resume @last").says("no answer came before the deadline");
    world.ostler("artifact @last/other --path text").exits(0).says("failed");
    world.ostler("answer @last word --value 1").exits(1).complains("late: word has ended");
    for deadline in ["0s", "-1s", "-1"] {
        world.file("late.yaml", &plan.replace("200ms", deadline));
        world.ostler("check late.yaml").exits(2);
        world.ostler("run late.yaml --workspace work").exits(2);
    }
}

const WORD: &str = r#"id: w
nodes:
  - {id: word, kind: wait, deadline: DEADLINE, contract: [{method: schema, spec: {type: object, required: [status]}}]}
  - {id: other, kind: aggregator, deps: [{n: word, on: terminal}], params: {template: "{{ word.state }}"}}
"#;

#[test]
fn an_answer_after_the_deadline_is_refused_though_no_process_has_ended_the_wait() {
    let world = World::new();
    world.file("w.yaml", &WORD.replace("DEADLINE", "1s"));
    world.ostler("run w.yaml --workspace work").exits(3);
    world.ostler("approvals").exits(0).says("word waits for an answer until ").says("ostler answer ");
    world.ostler("approve @last word").exits(2).complains("ostler answer ");
    after_deadline(&world);
    let late = world.ostler(r#"answer @last word --value {"status":1}"#).exits(1);
    late.complains("late: the deadline of word passed at ").complains("ostler resume");
    world.ostler("resume @last").says("no answer came before the deadline");
    world.ostler("artifact @last/other --path text").exits(0).says("failed");
}

#[test]
fn an_answer_says_what_became_of_it() {
    let world = World::new();
    world.file("w.yaml", &WORD.replace("DEADLINE", "1h"));
    world.ostler("run w.yaml --workspace work").exits(3).says("ostler answer ");
    let refused = world.ostler(r#"answer @last word --value {"state":1}"#).exits(1);
    refused
        .complains("invalid: the value breaks the contract")
        .complains("\"status\" is a required property");
    world.ostler("answer @last other --value 1").exits(1).complains("unknown: other is no node of kind wait");
    world.ostler(r#"answer @last word --value {"status":1}"#).exits(0).says("accepted: word has its answer");
}

#[test]
fn a_run_that_needs_values_alone_ends_the_command_that_watches_it() {
    let world = World::new();
    let plan = "id: two\nnodes:\n  - {id: a, kind: wait, deadline: 1h}\n  - {id: b, kind: wait, deadline: 1h, deps: [a]}\n";
    world.file("two.yaml", plan);
    world.ostler("run two.yaml --workspace work").exits(3).says("ostler answer ");
    world.ostler("ps").exits(0).says("waiting");
    world.ostler("resume @last").exits(3);
    world.ostler("answer @last b --value 2").exits(0).says("kept: b does not wait yet");
    world
        .ostler("answer @last a --value 1")
        .exits(0)
        .says("accepted: a has its answer")
        .says("succeeded  two");
    world.ostler("artifact @last/b").exits(0).says("2");
    // A timer goes on by itself.
    let race = "id: race\nnodes:\n  - {id: a, kind: wait, deadline: 1h}\n  - {id: t, tool: time.sleep, params: {ms: 50}}\n  - {id: first, kind: aggregator, join: any_of, deps: [a, t], params: {template: done}}\n";
    world.file("race.yaml", race);
    world.ostler("run race.yaml --workspace work").exits(0).says("succeeded  race");
}
