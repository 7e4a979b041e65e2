//! Goals: limits of time, and operators who decide in place of a model.

use serde_json::Value;

use super::world::{World, until};

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
    world.ostler("interject @last x --answer conclude").exits(2).complains("the run has no goal");
    world.ostler("cancel @last").exits(0);
}

/// A plan with a step whose repetition would do harm, and the verdict on it.
const ACT: &str = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - {id: act, tool: shell.run, params: {argv: [sh, -c, 'touch begun; until test -e go; do sleep 0.01; done']}, refs: [], after: [], why: null}
  reflect:
    - answer: {decision: conclude, verdict: it-was-done, next: null, cancel: []}
";

#[test]
fn the_printed_answer_to_a_doubt_continues_a_goal_that_was_asked_with_a_script() {
    let world = World::new();
    world.file("act.yaml", ACT);
    let run =
        world.start("ask act --model scripted:act.yaml --mode reflect --workspace work --yes --intent 2");
    until("it has begun", || world.path().join("work/begun").exists());
    run.signal("KILL");
    run.end();
    world.file("work/go", "");
    let told = world.ostler("resume @last --model scripted:act.yaml").exits(3);
    let printed = format!("{}{}", told.out, told.err);
    let redo = printed.split('`').flat_map(str::lines).find(|line| line.contains("--redo")).expect(&printed);
    let redo = redo.trim().strip_prefix("ostler ").expect(redo);
    assert!(redo.contains(" --model scripted:act.yaml"), "{redo}");
    world.ostler(redo).exits(0).says("it-was-done");
}
