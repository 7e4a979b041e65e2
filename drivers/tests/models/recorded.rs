//! Exchanges with a real small model (llama.cpp with SmolLM2-135M), from a cassette. With `OSTLER_TEST_MODEL_RECORD` they are
//! recorded again, from the server of `OSTLER_TEST_MODEL_URL`; remove the cassette first.

use serde_json::{Value, json};

use crate::world::World;

const TAPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/data/llamacpp.jsonl");

fn world() -> World {
    let config = match std::env::var("OSTLER_TEST_MODEL_RECORD").and(std::env::var("OSTLER_TEST_MODEL_URL")) {
        Ok(url) => format!(
            "mode = \"record\"\nprofile = \"llamacpp\"\nmodel = \"smollm2-135m-instruct\"\nbase_url = \"{url}\""
        ),
        Err(_) => "mode = \"play\"".to_owned(),
    };
    let table = format!(
        "[models.default]\nprovider = \"cassette\"\nfile = \"{TAPE}\"\nprice = {{input = 1, output = 2}}\n"
    );
    World::new(&(table + &config), &[], "")
}

fn tool() -> Value {
    let text = json!({"type": "string", "maxLength": 40});
    json!({"name": "text.search", "description": "Search for text in a folder", "params": {
        "type": "object", "required": ["path", "pattern"], "additionalProperties": false,
        "properties": {"path": text, "pattern": text}}})
}

/// One test for all, so that a recording has one order.
#[tokio::test]
async fn a_recorded_model_answers_as_it_did() {
    let world = world();
    let ask = |prompt: &str| {
        json!({"prompt": prompt, "system": "You are a helpful AI assistant.",
        "temperature": 0, "seed": 1, "max_output_tokens": 100})
    };
    let with = |mut params: Value, name: &str, value: Value| {
        params[name] = value;
        params
    };
    let text =
        world.call("default", with(ask("Name a colour."), "max_output_tokens", json!(20))).await.unwrap();
    assert_eq!(world.text(), text["text"].as_str().unwrap());
    let call = world.calls().remove(0);
    assert!(call.input_tokens > 10 && call.output_tokens > 0 && call.response_id.is_some(), "{call:?}");
    assert_eq!(
        call.nano_usd,
        Some((call.input_tokens + 2 * call.output_tokens) * 1_000),
        "cached tokens cost as much as others here"
    );
    let schema = json!({"type": "object", "required": ["steps"], "additionalProperties": false, "properties": {
        "steps": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "maxLength": 30}}}});
    let value = world
        .call("default", with(ask("Plan how to make tea, in JSON."), "schema", schema.clone()))
        .await
        .unwrap();
    assert!(value["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{value}");
    let search = with(ask("Search for TODO in the folder src"), "tools", json!([tool()]));
    let value = world.call("default", with(search, "tool_choice", json!("required"))).await.unwrap();
    assert_eq!(value["calls"][0]["tool"], "text.search", "{value}");
    let cut =
        with(with(ask("Plan how to make tea, in JSON."), "schema", schema), "max_output_tokens", json!(3));
    let shown = world.shown("default", cut).await;
    assert_eq!(
        shown,
        "invalid_output: cut at 3 tokens; raise max_output_tokens of the call, or of [models.default]"
    );
    let long = world.shown("default", ask(&"word ".repeat(5_000))).await;
    assert!(long.starts_with("resource_exhaustion: model default: context_too_long (status 400)"), "{long}");
}
