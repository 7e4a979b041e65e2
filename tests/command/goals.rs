//! Goals: limits of time, and operators who decide in place of a model.

use serde_json::Value;

use super::world::World;

/// A planner whose second step outlasts every test; no other model answers.
const SLOW: &str = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - {id: files, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}
          - {id: nap, tool: time.sleep, params: {ms: 600000}, refs: [], after: [], why: null}
          - {id: later, tool: fs.list, params: {path: .}, refs: [], after: [nap], why: null}
";

fn ask(more: &str) -> String {
    format!("ask look --model scripted:slow.yaml --mode reflect --workspace work --yes {more}")
}

#[test]
fn when_the_time_is_up_what_is_there_is_the_answer() {
    let world = World::new();
    world.file("slow.yaml", SLOW);
    let ended = world.ostler(&ask("--wall 1s")).exits(0);
    ended.says("nap        skipped").says("answer (grounded, incomplete, unreviewed; rests on files):");
    world.ostler(&ask("--wall 0s")).exits(2).complains("must be above 0; give a time such as 10m");
    let terms = world.ostler("events @last --json").exits(0).lines();
    let of = |line: &Value| line["type"] == "event" && line["body"]["budgets"]["wall"] == 1_000;
    assert!(terms.iter().any(of), "the time is in the records: {terms:?}");
}

#[test]
fn an_operator_decides_about_a_goal_in_place_of_its_model() {
    let world = World::new();
    world.file("slow.yaml", SLOW);
    let mut run = world.start(&ask("--answer off"));
    run.until("files");
    let given_up = world.ostler("interject @last go-on --answer continue --cancel files").exits(2);
    given_up.complains("F07 cancel:files").complains("only steps that have not started");
    world.ostler("interject @last go-on --answer continue --cancel later").exits(0).says("interject.1");
    world.ostler("interject @last wait --hold").exits(0).says("is held by node interject.2");
    world.ostler("approvals").exits(0).says("interject.2").says("message: \"wait\"");
    world
        .ostler("interject @last all-is-seen --answer conclude")
        .exits(0)
        .says("decided in node interject.3");
    run.end().exits(0).says("all-is-seen");
    let shown = world.ostler("show @last").exits(0);
    shown.says("later").says("cancelled");
    let plain = "id: plain\nnodes: [{id: n, tool: time.sleep, params: {ms: 600000}}]\n";
    world.file("plain.yaml", plain);
    let mut other = world.start("run plain.yaml");
    other.until("opened");
    world.ostler("interject @last x --answer conclude").exits(1).complains("the run has no goal");
    world.ostler("cancel @last").exits(0);
}
