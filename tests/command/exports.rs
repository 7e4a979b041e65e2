//! Runs exported for other programs.

use super::world::World;

/// The planner's first answer is faulty; a step fails and is patched.
const SCRIPT: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: read, tool: no.tool, params: {}, refs: [], after: [], why: null}]}
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: .}, refs: [], after: [], why: null},
        {id: read, tool: fs.read, params: {}, refs: [{param: path, from: list, path: files.0, template: null}], after: [], why: null}]}
  reflect:
    - answer: {decision: continue, verdict: null, next: null, cancel: []}
    - answer: {decision: conclude, verdict: "it was read", next: null, cancel: []}
  answer:
    - answer: {answer: "the note says buy milk", citations: [read]}
"#;

const PLAN: &str = r#"
id: two
nodes:
  - {id: first, model: default, params: {prompt: "Say one word."}}
  - id: second
    model: default
    deps: [first]
    params: {prompt: "Say more than {{ first.result.text }}.", schema: {type: object, properties: {said: {type: string}}}}
  - {id: third, kind: aggregator, deps: [second], params: {template: "{{ second.result.said }}"}}
"#;

const PLAN_SCRIPT: &str = r#"
rules:
  - {when: {node: first}, text: hello, tokens: {input: 9, output: 2}}
  - {when: {node: second, contains: hello}, answer: {said: "hello world"}}
"#;

#[test]
fn an_exported_goal_run_is_answered_again_without_its_model() {
    let world = World::new();
    world.file("script.yaml", SCRIPT).file("work/note.md", "buy milk");
    let ask = |model: &str| {
        let line = format!("ask read_the_note --mode reflect --workspace work --yes --model {model}");
        world.ostler(&line).exits(0).says("the note says buy milk")
    };
    ask("scripted:script.yaml");
    let exported = world.ostler("export @last --cassette tape.jsonl").exits(0);
    exported.says("5 calls of models written to tape.jsonl");
    std::fs::remove_file(world.path().join("script.yaml")).unwrap();
    ask("cassette:tape.jsonl");
    // An export of the replay answers as well.
    world.ostler("export @last --cassette again.jsonl").exits(0);
    ask("cassette:again.jsonl");
    let refused = world.ostler("export @last --cassette tape.jsonl").exits(2);
    refused.complains("tape.jsonl: exists; remove it, or name another file");
    world.ostler("export 0123456789 --format cassette").exits(2);
}

#[test]
fn an_exported_plan_is_answered_again_without_its_model() {
    let world = World::new();
    world.file("plan.yaml", PLAN).file("script.yaml", PLAN_SCRIPT);
    world.file("ostler.toml", "[models.default]\nprovider = \"scripted\"\nfile = \"script.yaml\"\n");
    world.ostler("run plan.yaml --config ostler.toml").exits(0);
    let exported = world.ostler("export @last").exits(0);
    assert_eq!(exported.lines().len(), 3, "a header and two calls: {}", exported.out);
    world.file("tape.jsonl", &exported.out);
    world.file("ostler.toml", "[models.default]\nprovider = \"cassette\"\nfile = \"tape.jsonl\"\n");
    std::fs::remove_file(world.path().join("script.yaml")).unwrap();
    world.ostler("run plan.yaml --config ostler.toml").exits(0);
    let said = world.ostler("artifact @last/third --path text").exits(0).out;
    assert_eq!(said, "hello world");
    // The records of the replay have the recorded counts of tokens.
    world.ostler("show @last --json").says(r#""input_tokens":"#);
}

/// A model judges the results of a model and of a tool.
const JUDGED: &str = r#"
id: judged
nodes:
  - id: first
    model: default
    params: {prompt: "Say one word."}
    contract: [{method: model, spec: {ask: "Is it a greeting?"}}, {method: model, spec: {ask: "Is it short?"}}]
  - id: second
    tool: text.render
    params: {template: "{{ word }}!", values: {word: hello}}
    contract: [{method: model, spec: {ask: "Is it loud?"}}]
"#;

const JUDGED_SCRIPT: &str = r#"
rules:
  - {when: {role: judge}, answer: {holds: true, why: "it is"}}
  - {when: {node: first}, text: hello}
"#;

#[test]
fn the_judges_of_an_exported_plan_answer_again() {
    let world = World::new();
    world.file("plan.yaml", JUDGED).file("script.yaml", JUDGED_SCRIPT);
    world.file("ostler.toml", "[models.default]\nprovider = \"scripted\"\nfile = \"script.yaml\"\n");
    world.ostler("run plan.yaml --config ostler.toml").exits(0);
    world.ostler("export @last --cassette tape.jsonl").exits(0).says("4 calls of models written");
    world.file("ostler.toml", "[models.default]\nprovider = \"cassette\"\nfile = \"tape.jsonl\"\n");
    std::fs::remove_file(world.path().join("script.yaml")).unwrap();
    // A reused result would need no approval.
    world.ostler("run plan.yaml --config ostler.toml --fresh").exits(0);
    let again = world.ostler("export @last --cassette again.jsonl").exits(0);
    again.says("4 calls of models written");
}

/// A step reads a file that is not there, and the micro-planner names another.
const PATCHED: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: read, tool: fs.read, params: {path: none.md}, refs: [], after: [], why: null}]}
  micro:
    - answer: {decision: retry, tool: null, params: {path: note.md}, refs: null}
  reflect:
    - answer: {decision: conclude, verdict: "it was read", next: null, cancel: []}
  answer:
    - answer: {answer: "the note says buy milk", citations: [read]}
"#;

#[test]
fn the_micro_planner_of_an_exported_goal_run_answers_again() {
    let world = World::new();
    world.file("script.yaml", PATCHED).file("work/note.md", "buy milk");
    let ask = |model: &str| {
        let line = format!("ask read_the_note --mode reflect --workspace work --yes --model {model}");
        world.ostler(&line).exits(0).says("the note says buy milk")
    };
    ask("scripted:script.yaml");
    world.ostler("export @last --cassette tape.jsonl").exits(0).says("4 calls of models written");
    std::fs::remove_file(world.path().join("script.yaml")).unwrap();
    ask("cassette:tape.jsonl");
}
