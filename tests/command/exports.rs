//! Runs exported for other programs.

use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

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

#[test]
fn a_verdict_names_its_model_and_its_call() {
    let world = World::new();
    let plan = JUDGED.replace(
        "method: model, spec: {ask: \"Is it loud?\"}",
        "method: model, p: 0.8, spec: {ask: \"Is it loud?\"}",
    );
    world.file("plan.yaml", &plan).file("script.yaml", JUDGED_SCRIPT);
    world.file("ostler.toml", "[models.default]\nprovider = \"scripted\"\nfile = \"script.yaml\"\n");
    world.ostler("run plan.yaml --config ostler.toml").exits(0);
    let shown = world.ostler("show @last").exits(0);
    shown
        .says("judged         first holds: contract[0], by model default (")
        .says("judged         second holds: contract[0], p 0.8, by model default (");
    let summary = world.ostler("show @last --json").lines()[0].clone();
    let verdict = &summary["verdicts"][2];
    assert_eq!(
        (&verdict["node"], &verdict["method"], &verdict["precision"], &verdict["holds"], &verdict["why"]),
        (&"second".into(), &"model".into(), &0.8.into(), &true.into(), &"it is".into()),
        "{summary}"
    );
    assert_eq!(verdict["call"]["model"], "default");
    let explained = world.ostler("explain @last second --json").exits(0).lines()[0].clone();
    assert_eq!(&explained["verdicts"][0], verdict, "one place decides which call gave a verdict");
    let record = verdict["call"]["record"].as_u64().unwrap();
    let called = world.ostler("events @last --json").exits(0).lines();
    let called = called.iter().find(|line| line["seq"] == record).unwrap();
    assert_eq!((&called["kind"], &called["body"]["node"]), (&"model_called".into(), &"second".into()));
    world
        .ostler("explain @last second")
        .exits(0)
        .says(&format!("contract[0], p 0.8 holds, judged by model default: it is (attempt 1; call: record {record}, scripted, "));
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

fn validator(file: &str) -> Validator {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

#[track_caller]
fn check(validator: &Validator, document: &Value) {
    let faults: Vec<String> =
        validator.iter_errors(document).map(|fault| format!("{} {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{document:#}");
}

/// Own facets against the definitions that their `_schemaURL` names.
fn check_facets(event: &Value) {
    let text = include_str!("../../docs/openlineage-facets.json");
    let facets = |of: &Value| of["facets"].as_object().cloned().unwrap_or_default();
    let datasets = [&event["inputs"], &event["outputs"]].map(|all| all.as_array().unwrap().clone()).concat();
    let all = datasets.iter().map(facets).chain([facets(&event["run"])]).flatten();
    for (name, facet) in all.filter(|(name, _)| name.starts_with("ostler_")) {
        let url = facet["_schemaURL"].as_str().unwrap();
        let mut schema: Value = serde_json::from_str(text).unwrap();
        assert!(schema["$defs"][url.rsplit('/').next().unwrap()].is_object(), "{name}: {url}");
        schema["$ref"] = format!("#{}", url.split_once('#').unwrap().1).into();
        check(&jsonschema::options().should_validate_formats(true).build(&schema).unwrap(), &facet);
    }
}

/// A model, a reader of its answer, and an attempt that fails.
const TRACED: &str = r#"
id: "the plan"
nodes:
  - {id: first, model: default, params: {prompt: "Say one word. s3cret"}}
  - {id: second, tool: text.render, params: {values: {}}, param_refs: {template: {from: first, path: text}}}
  - {id: missing, tool: fs.read, params: {path: gone.txt}}
outputs: [first, second, missing]
"#;

#[test]
fn provenance_follows_its_schemas_and_is_the_same_twice() {
    let world = World::new();
    world.file("plan.yaml", TRACED).file("script.yaml", PLAN_SCRIPT);
    world.file("ostler.toml", "[models.default]\nprovider = \"scripted\"\nfile = \"script.yaml\"\n");
    world.ostler("run plan.yaml --config ostler.toml").exits(1);
    world.ostler("run plan.yaml --config ostler.toml --fresh=second").exits(1);
    let prov = world.ostler("export @last --format prov-json").exits(0).out;
    let lineage = world.ostler("export @last --format openlineage").exits(0);
    assert_eq!(prov, world.ostler("export @last --format prov-json").exits(0).out);
    assert_eq!(lineage.out, world.ostler("export @last --format openlineage").exits(0).out);
    for text in [&prov, &lineage.out] {
        assert!(!text.contains("s3cret") && !text.contains("hello"), "contents are no provenance: {text}");
    }

    let document: Value = serde_json::from_str(&prov).unwrap();
    check(&validator("tests/data/provenance/prov-json.schema.json"), &document);
    let count = |section: &str| document[section].as_object().map_or(0, serde_json::Map::len);
    assert_eq!(count("wasGeneratedBy"), 1, "of `second`; `first` is reused: {prov}");
    assert!(document["wasDerivedFrom"].to_string().contains("record:"), "{prov}");
    assert_eq!(count("used"), 1, "{prov}");
    // Both ends of a relation are declared.
    let declared =
        |name: &str| ["entity", "activity", "agent"].iter().any(|kind| document[*kind].get(name).is_some());
    for section in
        ["used", "wasGeneratedBy", "wasInformedBy", "wasAssociatedWith", "wasDerivedFrom", "wasAttributedTo"]
    {
        for relation in document[section].as_object().into_iter().flat_map(|all| all.values()) {
            let ends = relation.as_object().unwrap().iter().filter(|(key, _)| *key != "prov:time");
            ends.for_each(|(_, end)| assert!(declared(end.as_str().unwrap()), "{section}: {end}"));
        }
    }

    let events = lineage.lines();
    let event = validator("tests/data/provenance/openlineage-run-event.schema.json");
    events.iter().for_each(|one| check(&event, one));
    events.iter().for_each(check_facets);
    let ends: Vec<String> = events
        .iter()
        .map(|one| format!("{} {}", one["eventType"].as_str().unwrap(), one["job"]["name"].as_str().unwrap()))
        .collect();
    for job in ["the plan.first", "the plan.second"] {
        assert_eq!(ends.iter().filter(|end| end.ends_with(job)).count(), 2, "{ends:?}");
    }
    assert_eq!((ends.first().unwrap().as_str(), ends.len()), ("START the plan", 8), "{ends:?}");
    assert!(ends.contains(&"FAIL the plan.missing".to_owned()), "{ends:?}");
    world
        .ostler("export @last --format openlineage --cassette x")
        .exits(2)
        .complains("redirect standard output");
}
