//! A real model behind an OpenAI-compatible server, named by the environment variable `OSTLER_TEST_MODEL_URL`, such as
//! `http://127.0.0.1:8091/v1`. `OSTLER_TEST_MODEL_KEY` holds its key, if it wants one.

use ostler_drivers::model::{Probe, ProbeCheck, ProbeFailure, probe};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::World;

/// The server.
pub(crate) struct Real {
    /// Its base URL, with `/v1`.
    pub(crate) url: String,
    /// Its key; empty if it wants none.
    pub(crate) key: String,
}

pub(crate) fn real() -> Option<Real> {
    let Ok(url) = std::env::var("OSTLER_TEST_MODEL_URL") else {
        println!("skipped: OSTLER_TEST_MODEL_URL does not name a server");
        return None;
    };
    Some(Real { url, key: std::env::var("OSTLER_TEST_MODEL_KEY").unwrap_or_default() })
}

impl Real {
    /// The line of a table that names the variable with the key.
    pub(crate) fn key_line(&self) -> &'static str {
        if self.key.is_empty() { "" } else { "api_key_env = \"KEY\"\n" }
    }

    /// The table of a model of this server, with more lines.
    pub(crate) fn table(&self, name: &str, more: &str) -> String {
        let timeout = if more.contains("timeout") { "" } else { "timeout = \"300s\"\n" };
        format!(
            "[models.{name}]\nprovider = \"openai\"\nprofile = \"llamacpp\"\nmodel = \"any\"\nprice = \"free\"\n\
             base_url = \"{}\"\n{}{timeout}{more}",
            self.url,
            self.key_line()
        )
    }

    /// The model `default`, with more lines in its table.
    pub(crate) fn world(&self, more: &str) -> World {
        World::new(&self.table("default", more), &[], &self.key)
    }

    /// What the server says of itself.
    pub(crate) async fn get(&self, path: &str) -> String {
        let host = self.url.trim_start_matches("http://").trim_end_matches("/v1");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let key = &self.key;
        let request = format!("GET {path} HTTP/1.0\r\nauthorization: Bearer {key}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{head}");
        body.to_owned()
    }
}

/// The model `default`.
fn world() -> Option<World> {
    Some(real()?.world("max_output_tokens = 400\n"))
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
    let Some(real) = real() else { return };
    let nowhere = Real { url: format!("{}/nowhere", real.url), key: real.key.clone() };
    let tables = real.table("default", "") + &nowhere.table("wrong", "");
    let world = World::new(&tables, &[], &real.key);
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
    check(
        "default",
        cut,
        "invalid_output: cut at 2 tokens; raise max_output_tokens of the call, or of [models.default]",
    )
    .await;
    let unknown = json!({"prompt": "x", "schema": {"type": "no such type"}});
    check("default", unknown, "structural: schema: no JSON Schema at \"/type\"").await;
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
