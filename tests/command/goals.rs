//! Goals: limits of time, and operators who decide in place of a model.

use serde_json::Value;

use super::approvals::question;
use super::world::{Ended, World, until};

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
    let ended =
        ended.says("nap        skipped").says("answer (grounded, incomplete, unreviewed; rests on files):");
    ended.says("incomplete: the time is up (--wall 1s)");
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
    // The process that held the run may end before this command has looked: then this one shows the end.
    world.ostler("interject @last all-is-seen --answer conclude").exits(0).says("interject.3");
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

/// A plan of one step, and the verdict on the plan.
const LOOK: &str = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps: [{id: files, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}]
  reflect:
    - answer: {decision: conclude, verdict: all-is-seen, next: null, cancel: []}
";

#[test]
fn what_is_printed_about_a_goal_names_its_script_and_nothing_changes_without_it() {
    let world = World::new();
    world.file("look.yaml", LOOK);
    let asked = "ask look --model scripted:look.yaml --mode reflect --workspace work --answer off";
    world.ostler(asked).exits(3).says("waits plan.1: approval of the plan");
    let listed = world.ostler("approvals").exits(0);
    let digest =
        listed.out.split("--digest ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&listed.out);
    let approve = format!("approve @last plan.1 --digest {digest}");
    for command in ["ps", "show @last", "approvals"] {
        world.ostler(command).exits(0).says(" --model scripted:look.yaml");
    }
    let missing = "its model \"scripted\" is not configured here";
    let again = "or repeat this command with `--model scripted:";
    world.ostler(&approve).exits(2).complains(missing).complains(again);
    world.ostler("resume @last").exits(2).complains(missing);
    world.ostler("resume").exits(5).complains("not resumed: its model \"scripted\"");
    world.ostler("ps --state suspended").exits(0).complains("no run is suspended");
    world.ostler(&format!("{approve} --model scripted:look.yaml")).exits(0).says("all-is-seen");
}

#[test]
fn a_budget_that_ends_a_goal_says_what_it_needs() {
    let world = World::new();
    world.file("look.yaml", LOOK);
    let ask = "ask look --model scripted:look.yaml --mode reflect --workspace work --yes";
    let short = world.ostler(&format!("{ask} --budget 100tokens")).exits(1);
    short.says("; 100 of 100 are left; ask again with more, such as --budget ");
    let quiet = world.ostler(&format!("{ask} -q --answer off")).exits(0);
    assert_eq!(quiet.out, "all-is-seen\n");
    let few = world.ostler(&format!("{ask} --calls 1")).exits(0);
    few.says("incomplete: the model calls of the run are used up (--calls 1)");
}

#[test]
fn ps_prints_what_answers_a_question_about_the_budget() {
    let world = World::new();
    world.file("look.yaml", LOOK);
    let ask = "ask look --model scripted:look.yaml --mode reflect --workspace work --budget 100tokens";
    world.ostler(ask).exits(3);
    let listed = world.ostler("ps").exits(0).says("    raise:    ostler approve ").says(" --budget +");
    assert!(!listed.out.contains("--digest"), "{}", listed.out);
}

/// Approves the only open question.
fn approve(world: &World, node: &str, script: &str) -> Ended {
    let digest = question(world)["digest"].as_str().unwrap().to_owned();
    world.ostler(&format!("approve @last {node} --digest {digest} --model scripted:{script}"))
}

/// Sleeps; the reflection concludes. No model considers the wishes of operators.
const DEAF: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [{id: nap, tool: time.sleep, params: {ms: 2000}, refs: [], after: [], why: null}]}
  interject:
    - {fail: invalid_request, repeat: true}
  reflect:
    - answer: {decision: conclude, verdict: "slept", next: null, cancel: []}
  answer:
    - answer: {answer: "It slept.", citations: [nap]}
"#;

#[test]
fn a_wish_that_no_model_considers_is_a_question_to_the_operator() {
    let world = World::new();
    world.file("deaf.yaml", DEAF);
    let line = "ask look --model scripted:deaf.yaml --mode reflect --workspace work --yes";
    let mut run = world.start(line);
    run.until("version 2");
    world.ostler("interject @last stop-deleting").exits(0).says("interject.1");
    run.end().exits(3).says("interject.1").says("failed").says("waits interject.2");
    let asked = world.ostler("approvals").exits(0);
    asked.says("stop-deleting").says("no model could consider the message: ").says("interject.2");
    approve(&world, "interject.2", "deaf.yaml").exits(0).says("It slept.");
    // The count includes nodes of later plan versions.
    world.ostler("ps").exits(0).says("6/6, 1 failed");
}

/// Plans the step that the operator's note asks for.
const LISTENS: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [{id: wrong, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}]}
  reflect:
    - answer: {decision: conclude, verdict: "listed", next: null, cancel: []}
  answer:
    - answer: {answer: "Listed.", citations: [right]}
rules:
  - when: {role: planner, contains: "wants others: not that one"}
    answer: {answer: null, missing: null, steps: [{id: right, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}]}
"#;

#[test]
fn a_no_with_a_note_has_the_goal_planned_again() {
    let world = World::new();
    world.file("listens.yaml", LISTENS);
    let ask = "ask look --model scripted:listens.yaml --mode reflect --workspace work";
    world.ostler(ask).exits(3).says("waits plan.1");
    world.ostler("approvals").exits(0).says("wrong: fs.list");
    let reject = "reject @last plan.1 --model scripted:listens.yaml";
    let again = world.command(&format!("{reject} --note")).arg("not that one").output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    world.ostler("approvals").exits(0).says("right: fs.list");
    approve(&world, "plan.1", "listens.yaml").exits(0).says("Listed.");
    // A no without a note ends the run before any step; nothing is evaluated.
    world.ostler(ask).exits(3);
    world.ostler(reject).exits(1);
    world.ostler("evaluate @last").exits(0).says("has no evaluation");
}

#[test]
fn a_plan_is_shown_with_what_it_may_cost() {
    let world = World::new();
    let script = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - {id: files, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}
          - {id: again, tool: fs.list, params: {path: .}, refs: [], after: [files], why: null}
          - {id: facts, tool: host.facts, params: {}, refs: [], after: [], why: null}
  reflect:
    - answer: {decision: continue, verdict: null, next: null, cancel: []}
    - answer: {decision: conclude, verdict: seen, next: null, cancel: []}
  answer:
    - answer: {answer: seen, citations: []}
";
    world.file("model.yaml", script);
    let ask = |mode: &str, how: &str| {
        world
            .ostler(&format!("ask look --model scripted:model.yaml --mode {mode} --workspace work {how}"))
            .exits(0)
    };
    let first = ask("reflect", "--plan-only");
    let first =
        first.says("    models: 2 calls (reflect) of scripted, 1 call (answer) of scripted; at most ");
    let first = first.says(" tokens besides what results add to prompts; free\n");
    first.says("    time: 2 × fs.list unknown, host.facts unknown\n");
    ask("reflect", "--yes");
    ask("orchestrator", "--plan-only --answer off")
        .says("models: 3 calls (observe) of scripted, 1 call (reflect) of scripted; ")
        .says("    time: 2 × fs.list about ");
    ask("nreflect:2", "--plan-only")
        .says("models: 2 calls (reflect) of scripted, 1 call (answer) of scripted; ");
}

#[test]
fn a_plan_is_shown_with_the_lists_and_conditions_of_its_steps() {
    let world = World::new();
    let script = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - {id: files, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}
          - id: wipe
            tool: fs.write
            params: {mode: replace, text: gone}
            refs: []
            after: []
            why: null
            for_each: {from: files, path: files, as: path, max: 99, on_child: null}
            when:
              - {from: files, path: files, op: contains, value: a.txt}
              - {from: files, path: truncated, op: exists, value: null}
";
    world.file("model.yaml", script);
    world.ostler("ask x --model scripted:model.yaml --mode sgh --workspace work --plan-only").exits(0).says(
        "wipe: fs.write, impact 1  mode: \"replace\"  text: \"gone\"  for each of files.files as path, at most 99 times  if \
         files.files contains \"a.txt\" and files.truncated exists",
    );
}

#[test]
fn a_list_costs_the_reflection_on_its_children_too() {
    let world = World::new();
    world.file("work/one.md", "a").file("work/two.md", "b");
    let script = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - {id: files, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}
          - {id: each, tool: fs.read, params: {}, refs: [], after: [], why: null, for_each: {from: files, path: files, as: path, max: 9}, when: []}
  reflect: [{answer: {decision: continue, verdict: null, next: null, cancel: []}, repeat: true}]
  answer: [{answer: {answer: seen, citations: []}, repeat: true}]
";
    world.file("model.yaml", script);
    let ask = "ask look --model scripted:model.yaml --mode reflect --workspace work";
    world.ostler(&format!("{ask} --plan-only")).exits(0).says("models: 3 calls (reflect) of scripted, ");
    world.ostler(&format!("{ask} --yes")).exits(0);
    let shown = world.ostler("show @last --json").exits(0).lines().remove(0);
    let nodes = shown["nodes"].as_object().unwrap();
    assert_eq!(nodes.keys().filter(|node| node.starts_with("reflect.")).count(), 3, "{nodes:?}");
}

/// A step fails for good, and the model that is asked to repair it contradicts itself.
const UNREPAIRED: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [{id: read, tool: fs.read, params: {path: none.md}, refs: [], after: [], why: null}]}
  micro:
    - answer: {decision: retry, tool: fs.read, params: null, refs: null}
  reflect:
    - answer: {decision: conclude, verdict: "nothing was read", next: null, cancel: []}
"#;

#[test]
fn a_repair_that_was_refused_is_a_note_in_words() {
    let world = World::new();
    world.file("unrepaired.yaml", UNREPAIRED);
    let ask = "ask look --model scripted:unrepaired.yaml --mode reflect --workspace work --yes --answer off";
    let told = "the model was asked to repair read, and its answer was not usable: F03 tool: contradicts the decision";
    let ended =
        world.ostler(ask).exits(0).says("answer (partial, ungrounded):").says(&format!("note: {told}"));
    assert!(!ended.out.contains("incomplete"), "{}", ended.out);
    world.ostler(&format!("{ask} --quiet")).exits(0).complains(&format!("note: {told}"));
}

#[test]
fn a_script_that_cannot_be_used_is_told_once_and_by_its_option() {
    let world = World::new();
    world.file("bad.yaml", "roles: [");
    for (file, told) in [("none.yaml", "cannot read: No such file"), ("bad.yaml", "")] {
        let ended =
            world.ostler(&format!("ask look --model scripted:{file} --workspace work --yes")).exits(2);
        let ended = ended.complains("error: --model: ").complains(told);
        assert_eq!(ended.err.matches(file).count(), 1, "{}", ended.err);
        assert!(!ended.err.contains("models."), "{}", ended.err);
    }
}
