//! Approvals in repetitions of a run: kept for the same material, and asked about again with the difference otherwise.

use serde_json::{Value, json};

use super::approvals::{approve, question, world as approvals_world};
use super::world::World;

/// A review of a text that two other nodes give, an approved result, and a node below.
const REVIEW: &str = r#"
id: review
nodes:
  - {id: first, tool: text.render, params: {template: ONE, values: {}}}
  - {id: second, tool: text.render, params: {template: two, values: {}}}
  - id: review
    kind: human_approval
    human_timeout: 1h
    deps: [second]
    param_refs: {text: {from: first, path: text}}
  - {id: memo, tool: text.render, params: {template: memo, values: {}}, deps: [review], approval: after, human_timeout: 1h}
"#;

/// An effect that a person approves, and one below a review.
const EFFECTS: &str = r#"
id: effects
nodes:
  - {id: put, tool: fs.write, params: {path: log, mode: append, text: x}, approval: before, human_timeout: 1h}
  - {id: review, kind: human_approval, human_timeout: 1h, deps: [put]}
  - {id: more, tool: fs.write, params: {path: log, mode: append, text: "y"}, deps: [review]}
"#;

/// A payment whose amount another node gives, and what stands beside it, behind one answer.
const GUARDED: &str = r#"
id: guarded
nodes:
  - {id: amount, tool: text.render, params: {template: "50", values: {}}}
  - {id: guard, kind: human_approval, params: {question: Shall it be paid?}, human_timeout: 1h}
  - id: pay
    tool: fs.write
    params: {path: log, mode: append}
    param_refs: {text: {from: amount, path: text}}
    deps: [guard]
  - {id: note, tool: text.render, params: {template: noted, values: {}}, deps: [guard]}
"#;

fn world() -> World {
    let world = approvals_world();
    world.file("review.yaml", REVIEW).file("effects.yaml", EFFECTS).file("two.json", "{\"text\": \"2\"}");
    world.file("guarded.yaml", GUARDED).file("sixty.json", "{\"text\": \"60\"}");
    world
}

/// Runs a plan, and approves the two questions that it asks.
fn approved(plan: &str) -> World {
    let world = world();
    world.ostler(&format!("run {plan}.yaml --workspace work")).exits(3);
    approve(&world, "").exits(0);
    approve(&world, "").exits(0);
    world
}

fn run_of(world: &World) -> String {
    world.ostler("show @last --json").exits(0).lines()[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn an_approval_of_the_same_material_is_kept_and_every_command_says_of_which_run() {
    let world = approved("review");
    let first = run_of(&world);
    let short = first.rsplit('-').next().unwrap();
    // The edit reaches both nodes: an order without data changes nothing that they show.
    let edit = "edit @last second --file two.json";
    let invoice = world.ostler(&format!("{edit} --dry-run")).exits(0);
    invoice
        .says("approvals   review, memo")
        .says("kept        approvals of review, memo, if they show the same again");
    // Twice: a repetition hands on what it was given.
    for _ in 0..2 {
        world.ostler(edit).exits(0).says(&format!("in run {short}"));
        let shown: Value = serde_json::from_str(&world.ostler("show @last --json").exits(0).out).unwrap();
        let nodes: Vec<&Value> = shown["carried"].as_array().unwrap().iter().map(|it| &it["node"]).collect();
        assert_eq!(nodes, [&json!("memo"), &json!("review")]);
        assert!(shown["carried"].as_array().unwrap().iter().all(|it| it["run"] == first.as_str()), "{shown}");
        world.ostler("explain @last review").exits(0).says("approved by ").says(&format!("in run {short}"));
        world.ostler("audit @last").exits(0).says("approved by ").says(&format!("in run {short}"));
        world.ostler("events @last").exits(0).says("approval_carried");
        let answered_in = format!("\"ostler:answeredIn\": \"{first}\"");
        world.ostler("export @last --format prov-json").exits(0).says(&answered_in).says("ostler:answeredAt");
        let lineage = world.ostler("export @last --format openlineage").exits(0);
        lineage.says(&format!("\"answeredIn\":\"{first}\""));
    }
    world.ostler("doctor").exits(0).says("nothing is broken");
}

#[test]
fn another_material_is_asked_about_with_the_difference() {
    let world = approved("review");
    world.file("review.yaml", &REVIEW.replace("ONE", "UNO"));
    world.ostler("rerun @last --plan review.yaml").exits(3);
    let asked = question(&world);
    assert_eq!(
        asked["changes"][0],
        json!({"part": "params.text", "was": "ONE", "now": "UNO", "difference": ["-ONE", "+UNO"]})
    );
    let listed = world.ostler("approvals").exits(0);
    listed.says("asked again, because it shows something else").says("│ -ONE\n    │ +UNO");
    // The result below is the same, and so is its work.
    approve(&world, "").exits(0);
    // Another policy asks again, although nothing else has changed.
    world.file("o.toml", "[policy]\ntoken_max_intent = 1\n");
    let again = "rerun @last --config o.toml";
    world.ostler(&format!("{again} --dry-run")).exits(0).says("void        approvals of review, memo");
    world.ostler(again).exits(3);
    assert_eq!(question(&world)["changes"], json!([{"part": "policy"}]));
    let listed = world.ostler("approvals --config o.toml").exits(0);
    listed.says("asked again, because it shows something else").says("changed: policy");
}

#[test]
fn no_effect_is_made_again_by_an_earlier_approval() {
    let world = approved("effects");
    assert_eq!(world.work("log"), "xy");
    let invoice = world.ostler("rerun @last --dry-run").exits(0);
    invoice.says("void        approvals of put, review").says("effects     put, more");
    world.ostler("rerun @last").exits(3);
    assert_eq!(world.work("log"), "xy");
    world.ostler("approvals").exits(0).says("asked again, because it leads to an effect");
    approve(&world, "").exits(0);
    assert_eq!(world.work("log"), "xyx");
    // Approved, and not made: the run ends before the review.
    world.ostler("reject @last review").exits(1);
    world.ostler("rerun @last --from put").exits(3);
    assert_eq!(world.work("log"), "xyx");
}

#[test]
fn a_fork_keeps_what_was_approved_after_its_record() {
    let world = approved("review");
    let approved = world.ostler("fork @last --at 1").exits(0);
    approved.says("approved       memo, by ").says("approved       review, by ");
}

/// The person at the guard said yes to one payment; another amount is another payment.
#[test]
fn an_effect_behind_a_guard_that_keeps_its_answer_is_asked_about_with_the_difference() {
    let world = world();
    world.ostler("run guarded.yaml --workspace work").exits(3);
    approve(&world, "").exits(0);
    assert_eq!(world.work("log"), "50");
    // The answer stands for a node that changes nothing.
    world.ostler("rerun @last --from note").exits(0);
    assert_eq!(world.work("log"), "50");
    let edit = "edit @last amount --file sixty.json";
    let invoice = world.ostler(&format!("{edit} --dry-run")).exits(0);
    invoice.says("approvals   pay").says("void        approvals of pay");
    world.ostler(edit).exits(3);
    assert_eq!(world.work("log"), "50", "nobody has seen the other amount");
    let asked = question(&world);
    assert_eq!((asked["node"].as_str(), &asked["guards"]), (Some("pay"), &json!(["guard"])));
    assert_eq!(
        asked["changes"][0],
        json!({"part": "params.text", "was": "50", "now": "60", "difference": ["-50", "+60"]})
    );
    let listed = world.ostler("approvals").exits(0);
    listed
        .says("asked again, because it leads to an effect")
        .says("asked in place of guard, answered in another run")
        .says("│ -50\n    │ +60");
    approve(&world, "").exits(0);
    assert_eq!(world.work("log"), "5060");
    // The next one is asked about too, also if it shows the same; a no ends it.
    world.ostler("rerun @last --from pay").exits(3);
    assert_eq!(question(&world).get("changes"), None);
    world.ostler("reject @last pay").exits(1);
    assert_eq!(world.work("log"), "5060");
    world.ostler("doctor").exits(0).says("nothing is broken");
}

#[test]
fn a_fork_behind_the_answer_of_a_guard_asks_about_the_effect() {
    let world = world();
    world.ostler("run guarded.yaml --workspace work").exits(3);
    approve(&world, "").exits(0);
    let lines = world.ostler("events @last --json").exits(0).lines();
    let at = lines.iter().rev().find(|line| line["kind"] == "human_answer").unwrap()["seq"].clone();
    world.ostler(&format!("fork @last --at {at}")).exits(3);
    assert_eq!(world.work("log"), "50");
    assert_eq!(question(&world)["node"], "pay");
    approve(&world, "").exits(0);
    assert_eq!(world.work("log"), "5050");
}
