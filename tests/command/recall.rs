//! `ostler retract`, and a run as of an earlier record.

use serde_json::{Value, json};

use super::approvals::{question, world as approvals_world};
use super::world::World;

const CHAIN: &str = r#"
id: chain
nodes:
  - {id: one, tool: text.render, params: {template: "one {{ n }}", values: {n: 1}}}
  - {id: two, tool: text.render, params: {values: {}}, param_refs: {template: {from: one, path: text}}}
  - {id: apart, tool: text.render, params: {template: "apart", values: {}}}
"#;

/// A chain whose end a person approves.
const ASKS: &str = r#"
id: asks
nodes:
  - {id: text, tool: text.render, params: {template: "hello", values: {}}}
  - id: put
    tool: fs.write
    params: {path: out.txt, mode: create}
    param_refs: {text: {from: text, path: text}}
    approval: before
    human_timeout: 1h
"#;

const RUN: &str = "run chain.yaml --workspace work";

fn world() -> World {
    let world = approvals_world();
    world.file("chain.yaml", CHAIN).file("asks.yaml", ASKS);
    world
}

/// The word of each node in `ostler explain`, by node.
fn explained(world: &World) -> Vec<(String, String, Value)> {
    let mut lines = world.ostler("explain @last --json").exits(0).lines();
    lines.retain(|line| line["type"] == "explanation");
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    lines.iter().map(|line| (text(line, "node"), text(line, "state"), line["code"].clone())).collect()
}

fn recalled(world: &World, line: &str) -> Value {
    world.ostler(&format!("retract {line} --json")).exits(0).lines().remove(0)
}

fn of_node(node: &str) -> impl Fn(&&Value) -> bool {
    move |row: &&Value| row["node"] == node
}

#[test]
fn a_withdrawn_result_is_never_served_again_and_its_recomputation_is() {
    let world = world();
    world.ostler(RUN).exits(0);
    let found = recalled(&world, "@last one");
    assert_eq!((&found["type"], &found["records"]), (&json!("recalled"), &json!(1)), "{found}");
    assert_eq!(found["reached"].as_array().unwrap().len(), 2, "{found}");
    world.ostler(RUN).exits(0);
    let one = ("one".to_owned(), "recomputed".to_owned(), json!("retracted"));
    // The new result has the same bytes, so what reads it is cut off.
    let two = ("two".to_owned(), "cut off".to_owned(), Value::Null);
    assert_eq!(explained(&world), [("apart".to_owned(), "reused".to_owned(), Value::Null), one, two]);
    world.ostler(RUN).exits(0);
    assert!(explained(&world).iter().all(|(_, state, _)| state == "reused"));
    world.ostler("doctor").exits(0);
}

#[test]
fn a_withdrawn_result_is_shown_as_such_in_the_run_that_made_it_and_in_those_that_used_it() {
    let world = world();
    world.ostler(RUN).exits(0);
    world.ostler(RUN).exits(0);
    let words = |run: &str| {
        let graph = world.ostler(&format!("show {run} --format mermaid")).exits(0).out;
        let shown = world.ostler(&format!("show {run}")).exits(0).out;
        let has = |node: &str| {
            let row = shown.lines().find(|line| line.split_whitespace().next() == Some(node));
            row.is_some_and(|row| row.contains("withdrawn"))
        };
        (["one", "two", "apart"].map(has), graph.contains("withdrawn"))
    };
    let runs = world.ostler("ps --all --json").exits(0).lines();
    let first = runs.iter().filter_map(|row| row["run"].as_str()).min().unwrap().to_owned();
    assert_eq!((words(&first), words("@last")), (([false; 3], false), ([false; 3], false)));
    recalled(&world, "@last one");
    let expected = ([true, false, false], true);
    assert_eq!((words(&first), words("@last")), (expected, expected));
}

#[test]
fn every_node_that_rests_on_it_is_found_in_all_runs_and_the_newest_is_to_be_run_again() {
    let world = world();
    world.ostler(RUN).exits(0);
    world.ostler(RUN).exits(0);
    let newest = world.ostler("show @last --json").exits(0).lines()[0]["run"].as_str().unwrap().to_owned();
    // Also if the result was reused, not made, in the named run.
    let found = recalled(&world, "@last one --dry-run");
    let rows = found["reached"].as_array().unwrap();
    let runs: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row["run"].as_str().unwrap()).collect();
    assert_eq!((rows.len(), runs.len()), (4, 2), "{found}");
    assert!(rows.iter().filter(of_node("one")).all(|row| row["withdrawn"] == true), "{found}");
    assert!(rows.iter().filter(of_node("two")).all(|row| row["withdrawn"] == false), "{found}");
    assert_eq!(found["again"], json!([newest]));
    // A dry run changes nothing.
    assert_eq!((&found["type"], &found["retraction"]), (&json!("recall_preview"), &Value::Null));
    world.ostler("retract --list").exits(0).complains("no retraction is in force");
    let told = world.ostler("retract @last one").exits(0).says("w1 ").says("withdrew 1 recorded result");
    assert!(told.out.contains(&format!("ostler rerun {newest}")), "{}", told.out);
    // Twice is once.
    world.ostler("retract @last one").exits(0).says("w1 ");
    assert_eq!(world.ostler("retract --list --json").exits(0).lines().len(), 1);
}

#[test]
fn an_approval_that_rests_on_it_is_void() {
    let world = world();
    world.ostler("run asks.yaml --workspace work").exits(3);
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    let found = recalled(&world, "@last text");
    assert_eq!(found["voided"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["voided"][0]["node"], "put");
    assert_eq!(world.ostler("approvals --json").exits(0).lines(), Vec::<Value>::new());
    world.ostler(&format!("approve @last put --digest {digest}")).exits(2);
    assert_eq!(world.work("out.txt"), "");
    // Run again, the question is asked anew.
    world.ostler("rerun @last").exits(3);
    assert_eq!(explained(&world)[1], ("text".to_owned(), "recomputed".to_owned(), json!("retracted")));
    world.ostler("doctor").exits(0);
}

#[test]
fn a_grant_that_approved_what_rests_on_it_is_revoked_and_the_effect_is_listed() {
    let world = world();
    let touching = |plan: &str, more: &str| {
        let nodes = format!(
            "id: {plan}\nnodes:\n  - {{id: name, tool: text.render, params: {{template: one, values: {{}}}}}}\n  - {{id: go, tool: shell.run, params: {{argv: [touch, one]}}, deps: [name], approval: before, human_timeout: 1h}}\n{more}"
        );
        world.file(&format!("{plan}.yaml"), &nodes);
    };
    touching("first", "");
    touching(
        "second",
        "  - {id: later, kind: human_approval, params: {question: ok}, deps: [go], human_timeout: 1h}\n",
    );
    world.ostler("run first.yaml --workspace work --intent 2").exits(3);
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    let mut approve = world.command("approve @last go --for 1h --digest");
    assert_eq!(approve.arg(digest).args(["--also", "touch *"]).status().unwrap().code(), Some(0));
    world.ostler("run second.yaml --workspace work --intent 2").exits(3);
    let found = recalled(&world, "@last name");
    assert_eq!(found["grants"], json!(["g1"]), "{found}");
    let acted = found["reached"].as_array().unwrap().iter().filter(|row| row["effect"] == true).count();
    assert_eq!(acted, 2, "both runs touched the file: {found}");
    world.ostler("approvals --grants").exits(0).complains("no grant is in force");
}

#[test]
fn all_results_of_a_tool_are_withdrawn_until_that_is_lifted() {
    let world = world();
    world.ostler(RUN).exits(0);
    assert_eq!(recalled(&world, "--tool text.render --version 77")["records"], 0);
    assert_eq!(recalled(&world, "--tool text.render")["records"], 3);
    for _ in 0..2 {
        // Later results are withdrawn too, also those of another client.
        world.ostler(RUN).exits(0);
        world.ostler(&format!("{RUN} --client acme")).exits(0);
    }
    assert!(explained(&world).iter().all(|(_, _, code)| code == "retracted"), "{:?}", explained(&world));
    world.ostler("retract --list").exits(0).says("w2 text.render  by ");
    world.ostler("retract --lift w2").exits(0).says("lifted");
    world.ostler("retract --lift w2").exits(2).complains("no retraction w2 is in force");
    world.ostler(RUN).exits(0);
    assert!(explained(&world).iter().all(|(_, state, _)| state == "reused"));
}

#[test]
fn what_cannot_be_withdrawn_is_told_and_nothing_changes() {
    let world = world();
    world.file("bad.yaml", "id: bad\nnodes:\n  - {id: read, tool: fs.read, params: {path: none.txt}}\n");
    world.ostler("run bad.yaml --workspace work").exits(1);
    world.ostler("retract @last read").exits(2).complains("has no result");
    world.ostler("retract @last nothing").exits(2).complains("no node nothing");
    world.ostler("retract 0198f3c2-0000-7000-8000-000000000001 read").exits(2).complains("no run ");
    world.ostler("retract @last").exits(2);
    world.ostler("retract").exits(2);
    for line in ["retract --tool nosuch", "retract --tool nosuch --dry-run"] {
        world.ostler(line).exits(2).complains("nosuch");
    }
    world.ostler("retract --tool a --model b").exits(2);
    world.ostler("retract @last read --version 3").exits(2);
    world.ostler(&format!("retract --tool {}", "x".repeat(257))).exits(2).complains("no name of a tool");
    world.ostler("retract --list").exits(0).complains("no retraction is in force");
}

#[test]
fn the_answer_to_a_wait_is_withdrawn_although_nothing_could_reuse_it() {
    let world = world();
    world.file("waits.yaml", "id: waits\nnodes:\n  - {id: w, kind: wait, deadline: 1h}\n");
    world.ostler("run waits.yaml --workspace work").exits(3);
    world.ostler("answer @last w --value 1").exits(0);
    let told = world.ostler("retract @last w --dry-run").exits(0).says("would withdraw 1 result");
    assert!(!told.out.contains("recorded result"), "{}", told.out);
}

#[test]
fn a_run_is_shown_as_of_any_of_its_records_and_of_no_other() {
    let world = world();
    world.ostler(RUN).exits(0);
    let all = world.ostler("events @last --json").exits(0).lines().len();
    let at = |seq: usize| {
        let shown = world.ostler(&format!("show @last --json --at {seq}")).exits(0).lines().remove(0);
        shown["nodes"]["two"].as_str().unwrap().to_owned()
    };
    assert_eq!((at(1).as_str(), at(all).as_str()), ("pending", "executed"));
    world
        .ostler(&format!("show @last --at {}", all + 1))
        .exits(2)
        .complains(&format!("the records 1 to {all}"));
    world.ostler("show @last --at 0").exits(2);
}

#[test]
fn gc_keeps_what_reuse_may_need_if_the_configuration_says_so() {
    let world = world();
    world.file("keep.toml", "[retention]\nkeep = '1ms'\nreuse = 'keep'\n");
    world.file("short.toml", "[retention]\nkeep = '1ms'\nreuse = '1ms'\n");
    world.file("wrong.toml", "[retention]\nreuse = 'always'\n");
    world.ostler(RUN).exits(0);
    world.ostler(&format!("{RUN} --fresh")).exits(0);
    // The newer run has all newest results; what only it reads goes.
    let kept = world.ostler("--config keep.toml gc --apply --json").exits(0).lines().remove(0);
    assert_eq!((kept["runs"].as_array().unwrap().len(), &kept["kept_for_reuse"]), (1, &json!(1)), "{kept}");
    world.ostler(RUN).exits(0);
    assert!(explained(&world).iter().all(|(_, state, _)| state == "reused"));
    world.ostler("--config keep.toml gc --apply").exits(0).complains("kept, because reuse may need");
    world.ostler("--config wrong.toml gc").exits(2).complains("expected \"keep\", or ");
    world.ostler("--config short.toml gc --apply").exits(0).says("removed");
    world.ostler(RUN).exits(0);
    assert!(explained(&world).iter().all(|(_, _, code)| code == "no_record"), "{:?}", explained(&world));
    world.ostler("doctor").exits(0);
}
