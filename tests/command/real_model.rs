//! Runs with a real model behind the server of `OSTLER_TEST_MODEL_URL`. It is small: what it says is never judged.

use std::path::Path;

use serde_json::Value;

use super::world::{World, until};

/// Name of the variable with the key of the server.
const KEY: &str = "OSTLER_TEST_MODEL_KEY";

/// A world whose model `default` is the real one; `None` without a server.
#[allow(clippy::print_stdout, reason = "a skip says why")]
fn world() -> Option<World> {
    let Ok(url) = std::env::var("OSTLER_TEST_MODEL_URL") else {
        println!("skipped: OSTLER_TEST_MODEL_URL does not name a server");
        return None;
    };
    let key = std::env::var(KEY).map(|_| format!("api_key_env = \"{KEY}\"\n")).unwrap_or_default();
    let world = World::new();
    world.file(
        "work/ostler.toml",
        &format!(
            "[models.default]\nprovider = \"openai\"\nprofile = \"llamacpp\"\nmodel = \"any\"\nbase_url = \"{url}\"\n{key}\
             price = {{input = 1, output = 2}}\nmax_output_tokens = 120\n"
        ),
    );
    Some(world)
}

fn shown(world: &World) -> Value {
    world.ostler("show @last --json").lines()[0].clone()
}

/// Fails if a file below the folder holds the text.
fn has_nowhere(folder: &Path, text: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            has_nowhere(&path, text);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!found, "the key is in {}", path.display());
        }
    }
}

#[test]
fn a_plan_asks_a_real_model_and_keeps_its_key() {
    let Some(world) = world() else { return };
    let plan = r#"
id: colours
nodes:
  - id: pick
    kind: model
    model: default
    params:
      prompt: Pick a colour.
      schema: {type: object, required: [colour], additionalProperties: false, properties: {colour: {enum: [red, green]}}}
  - id: say
    kind: model
    model: default
    deps: [pick]
    params: {prompt: "Say {{ pick.result.colour }}.", max_output_tokens: 8}
"#;
    world.file("colours.yaml", plan);
    world.ostler("run colours.yaml --workspace work").exits(0).says("2 calls, ");
    let models = &shown(&world)["models"];
    let tokens = |name: &str| models[name].as_u64().unwrap();
    assert_eq!(tokens("calls"), 2);
    assert!(tokens("nano_usd") >= 1_000 * 20, "each prompt has ten tokens at least: {models}");
    if let Ok(key) = std::env::var(KEY) {
        has_nowhere(&world.data(), &key);
    }
}

#[test]
fn a_goal_of_a_real_model_stays_within_its_budgets() {
    let Some(world) = world() else { return };
    std::fs::write(world.path().join("work/note.md"), "water the plants\n").unwrap();
    let ended = world.ostler(
        "ask list --workspace work --mode reflect --tools fs.list --answer off --yes --calls 2 --budget 4000tokens --wall 60s",
    );
    // A small model may write no plan that is one; the run then says so.
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let summary = shown(&world);
    assert!(summary["models"]["calls"].as_u64().unwrap() <= 2, "{summary}");
    let budget = &summary["call_budget"]["tokens"];
    assert!(budget["spent"].as_u64().unwrap() <= 4_000 && budget["reserved"] == 0, "{budget}");
    world.ostler("doctor").exits(0).says("nothing is broken");
}

#[test]
fn a_call_of_a_real_model_that_a_kill_cut_off_is_made_again() {
    let Some(world) = world() else { return };
    let plan = "id: story\nnodes:\n  - {id: tell, kind: model, model: default, params: {prompt: Tell a very long story.}}\n";
    world.file("story.yaml", plan);
    let mut run = world.start("run story.yaml --workspace work --budget 100000tokens");
    run.until("opened");
    until("the call is being made", || shown(&world)["call_budget"]["tokens"]["reserved"].as_u64() > Some(0));
    run.signal("KILL");
    run.end();
    // The configuration stands in the workspace, which nothing names here.
    world.ostler("resume @last").exits(2).complains("`--config FILE`");
    let resumed = world
        .ostler("resume @last --config work/ostler.toml")
        .exits(0)
        .says("lost call      tell of model default: ");
    resumed.says("tell  executed");
}
