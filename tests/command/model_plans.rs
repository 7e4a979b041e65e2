//! Plans that models write: they may carry guards and lists, never waits and undos.

use super::world::World;

const GUARDED: &str = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - {id: files, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}
          - id: read
            tool: fs.read
            params: {path: null}
            refs: []
            after: []
            why: null
            when: [{from: files, path: count, op: gt, value: 0}]
            for_each: {from: files, path: files, as: path, max: 9, on_child: collect}
          - id: none
            tool: fs.list
            params: {path: .}
            refs: []
            after: []
            why: null
            when: [{from: files, path: count, op: eq, value: 0}]
  reflect:
    - answer: {decision: continue, verdict: null, next: null, cancel: []}
    - answer: {decision: conclude, verdict: all were read, next: null, cancel: []}
";

fn ask(script: &str) -> String {
    format!("ask look --model scripted:{script} --mode reflect --workspace work --yes --answer off")
}

#[test]
fn a_model_writes_steps_with_guards_and_lists() {
    let world = World::new();
    world.file("guarded.yaml", GUARDED);
    for name in ["a.md", "b.md"] {
        std::fs::write(world.path().join("work").join(name), "x\n").unwrap();
    }
    world.ostler(&ask("guarded.yaml")).exits(0).says("all were read");
    let shown = world.ostler("show @last --json").exits(0).lines()[0].clone();
    assert_eq!(shown["lists"]["read"]["executed"], 2, "{shown}");
    assert_eq!((&shown["nodes"]["read.1"], &shown["nodes"]["none"]), (&"executed".into(), &"skipped".into()));
}

#[test]
fn a_model_writes_neither_undos_nor_waits() {
    let world = World::new();
    let step = |more: &str| {
        format!(
            "roles:\n  planner:\n    - answer:\n        answer: null\n        missing: null\n        steps:\n          - {{id: a, tool: fs.list, params: {{path: .}}, refs: [], after: [], why: null, {more}}}\n"
        )
    };
    for (name, more, fault) in [
        ("undo", "undo: {tool: fs.list, params: {path: .}}", "F02 steps.0.undo"),
        ("wait", "kind: wait, deadline: 60", "F02 steps.0.kind"),
        ("guard", "when: [{from: b, path: x, op: exists, value: null}]", "F07 a:b"),
        ("list", "for_each: {from: a, path: x, as: path, max: 2, on_child: null}", "F06 a.path"),
    ] {
        let script = format!("{name}.yaml");
        world.file(&script, &step(more));
        let ended = world.ostler(&ask(&script));
        assert!(ended.out.contains(fault) || ended.err.contains(fault), "{name}: {}{}", ended.out, ended.err);
    }
}

#[test]
fn a_model_gives_a_sub_agent_no_plan_with_a_wait() {
    let world = World::new();
    let script = "roles:
  planner:
    - answer:
        answer: null
        missing: null
        steps:
          - id: agent
            tool: agent.ask
            params: {goal: null, plan: {id: p, nodes: [{id: w, kind: wait, deadline: 1h}]}, mode: null, model: null, tools: null, answer: null, budget: null, calls: null, tokens: null, wall: null}
            refs: []
            after: []
            why: null
  reflect:
    - answer: {decision: conclude, verdict: nothing, next: null, cancel: []}
";
    world.file("sub.yaml", script);
    let ended = world.ostler(&(ask("sub.yaml") + " --tools agent.ask,fs.read"));
    let told = ended.out + &ended.err + &world.ostler("events @last --json").out;
    assert!(told.contains("neither `undo` nor nodes of kind wait"), "{told}");
}
