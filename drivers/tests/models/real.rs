//! A real model behind an OpenAI-compatible server, named by the environment variable `OSTLER_TEST_MODEL_URL`, such as
//! `http://127.0.0.1:8091/v1`.

use ostler_drivers::model::{Probe, ProbeCheck, ProbeFailure, probe};
use serde_json::{Value, json};

use crate::world::World;

/// The models `default`, and `wrong` with a wrong path.
fn world() -> Option<World> {
    let Ok(url) = std::env::var("OSTLER_TEST_MODEL_URL") else {
        println!("skipped: OSTLER_TEST_MODEL_URL does not name a server");
        return None;
    };
    let table = |name: &str, url: &str| {
        format!(
            "[models.{name}]\nprovider = \"openai\"\nprofile = \"llamacpp\"\nmodel = \"any\"\nprice = \"free\"\n\
             max_output_tokens = 400\ntimeout = \"300s\"\nbase_url = \"{url}\"\n"
        )
    };
    Some(World::new(&(table("default", &url) + &table("wrong", &format!("{url}/nowhere"))), &[], ""))
}

#[tokio::test]
async fn a_real_model_answers_and_is_counted() {
    let Some(world) = world() else { return };
    let params = json!({"prompt": "Name a colour.", "temperature": 0, "seed": 1, "max_output_tokens": 20});
    let result = world.call("default", params).await.unwrap();
    let text = result["text"].as_str().unwrap();
    assert!(!text.is_empty());
    assert_eq!(world.text(), text, "the pieces are the answer");
    let call = world.calls().remove(0);
    assert!(call.input_tokens > 5 && (1..=20).contains(&call.output_tokens), "{call:?}");
    assert_eq!(call.nano_usd, Some(0));
    assert!(call.first_piece_ms.is_some());
}

#[tokio::test]
async fn a_real_model_keeps_to_a_schema() {
    let Some(world) = world() else { return };
    let schema = json!({"type": "object", "required": ["steps"], "additionalProperties": false, "properties": {
        "steps": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "maxLength": 30}}}});
    let params = json!({"prompt": "Plan how to make tea. Answer in JSON.", "schema": schema, "temperature": 0, "seed": 1});
    let value = world.call("default", params).await.unwrap();
    assert!(value["steps"].as_array().is_some_and(|steps| (1..=3).contains(&steps.len())), "{value}");
}

#[tokio::test]
async fn a_real_model_calls_a_tool_by_its_own_name() {
    let Some(world) = world() else { return };
    let text = json!({"type": "string", "maxLength": 40});
    let tool = json!({"name": "text.search", "description": "Search for text in a folder", "params": {
        "type": "object", "required": ["path", "pattern"], "additionalProperties": false,
        "properties": {"path": text, "pattern": text}}});
    let params = json!({"prompt": "Search for TODO in the folder src", "system": "You are a helpful AI assistant.",
        "tools": [tool], "tool_choice": "required", "temperature": 0, "seed": 1, "max_output_tokens": 100});
    let value = world.call("default", params).await.unwrap();
    let call = &value["calls"][0];
    assert_eq!(call["tool"], "text.search", "{value}");
    assert!(call["params"]["path"].is_string() && call["params"]["pattern"].is_string(), "{value}");
}

#[tokio::test]
async fn a_real_server_reports_its_limits() {
    let Some(world) = world() else { return };
    let check = async |name: &str, params: Value, told: &str| {
        let shown = world.shown(name, params).await;
        assert!(shown.contains(told), "{shown}");
    };
    let long = "word ".repeat(20_000);
    check(
        "default",
        json!({"prompt": long}),
        "resource_exhaustion: model default: context_too_long (status 400)",
    )
    .await;
    check("wrong", json!({"prompt": "x"}), "structural: model wrong: not_found (status 404)").await;
    let cut = json!({"prompt": "Count to 100 in words, as a JSON list.", "max_output_tokens": 2,
        "schema": {"type": "object", "required": ["list"], "properties": {"list": {"type": "array", "items": {"type": "string"}, "minItems": 50}}}});
    check("default", cut, "invalid_output: cut at 2 tokens; raise max_output_tokens").await;
    let unknown = json!({"prompt": "x", "schema": {"type": "no such type"}});
    check("default", unknown, "structural: schema: no JSON Schema at \"/type\"").await;
}

#[tokio::test]
async fn a_real_model_stops_when_its_call_is_dropped() {
    let Some(world) = world() else { return };
    let params = json!({"prompt": "Tell a very long story.", "max_output_tokens": 400});
    tokio::select! {
        result = world.call("default", params) => panic!("{result:?}"),
        () = world.kept.shown.notified() => {}
    }
    assert_eq!(world.calls()[0].finish, "cancelled");
    // The slot is free: the next call is answered.
    world.call("default", json!({"prompt": "Hi", "max_output_tokens": 4})).await.unwrap();
}

#[tokio::test]
async fn a_real_model_is_probed() {
    let Some(world) = world() else { return };
    let Probe { is_reachable, checks, nano_usd } = probe(world.models.get("default").unwrap()).await;
    assert!(is_reachable && nano_usd == Some(0));
    let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
    assert_eq!(names, ["text", "stream", "schema", "tool"], "every call is made");
    for ProbeCheck { name, outcome, .. } in &checks {
        match outcome {
            // A small model misses a word or a call now and then.
            Ok(_) | Err(ProbeFailure::Answer(_)) if *name != "schema" => {}
            // The server writes only what the schema allows.
            Ok(_) => {}
            Err(failure) => panic!("{name}: {failure}"),
        }
    }
}
