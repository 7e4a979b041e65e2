//! How a real server treats calls: keys, slots, cut and dropped calls, counts. See [`crate::real`] for the server.

use std::time::Duration;

use ostler_kernel::port::{Delta, ModelCall, ToolResult};
use serde_json::{Value, json};

use crate::real::real;
use crate::world::{World, shown};

/// Longest wait for what the server does after a call; much more than it takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_wrong_key_is_told_and_never_shown() {
    let Some(real) = real() else { return };
    if real.key.is_empty() {
        println!("skipped: OSTLER_TEST_MODEL_KEY names no key of the server");
        return;
    }
    let prompt = || json!({"prompt": "Hi", "max_output_tokens": 2});
    let wrong = "sk-canary-of-nobody";
    let world = World::new(&real.table("default", ""), &[], wrong);
    let told = world.shown("default", prompt()).await;
    assert!(told.starts_with("structural: model default: auth (status 401)"), "{told}");
    assert!(told.contains("check the key in KEY"), "{told}");
    assert!(!told.contains(wrong), "{told}");
    let call = world.calls().remove(0);
    assert_eq!((call.input_tokens, call.output_tokens), (0, 0), "a refused call costs nothing");
    // A key is known to the server, so the same call has an answer.
    real.world("").call("default", prompt()).await.unwrap();
}

#[tokio::test]
async fn more_calls_than_slots_wait_and_are_all_answered() {
    let Some(real) = real() else { return };
    let world = real.world("");
    let ask = |at: usize| {
        let schema = json!({"type": "object", "required": ["number"], "additionalProperties": false,
            "properties": {"number": {"type": "integer", "enum": [at, at + 100]}}});
        world.call("default", json!({"prompt": format!("Which number? {at}"), "schema": schema}))
    };
    // The server has four slots.
    let answers = tokio::join!(ask(0), ask(1), ask(2), ask(3), ask(4), ask(5));
    let answers: [ToolResult; 6] = answers.into();
    for (at, answer) in answers.into_iter().enumerate() {
        let number = answer.unwrap()["number"].as_u64().unwrap() as usize;
        assert!(number == at || number == at + 100, "call {at} has the answer of another: {number}");
    }
    let calls = world.calls();
    assert_eq!(calls.len(), 6);
    assert!(calls.iter().all(|call| call.finish == "stop" && call.output_tokens > 0), "{calls:?}");
}

#[tokio::test]
async fn a_dropped_call_frees_its_slot() {
    let Some(real) = real() else { return };
    // The server shows the limit of each call, by which this one is known.
    let limit = 3_791;
    let world = real.world("");
    let params = json!({"prompt": "Tell a very long story.", "max_output_tokens": limit});
    tokio::select! {
        result = world.call("default", params) => panic!("{result:?}"),
        () = world.kept.shown.notified() => {}
    }
    assert_eq!(world.calls()[0].finish, ModelCall::CANCELLED);
    // Left alone, the call would have its slot for minutes.
    let is_free = async || {
        let slots = real.get("/slots").await;
        let slots: Value = serde_json::from_str(&slots).unwrap();
        !slots
            .as_array()
            .unwrap()
            .iter()
            .any(|slot| slot["is_processing"] == true && slot["params"]["max_tokens"] == limit)
    };
    tokio::time::timeout(PATIENCE, async {
        while !is_free().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the slot is free");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended() {
    let Some(real) = real() else { return };
    let world = real.world("timeout = \"300ms\"\n");
    let told =
        world.shown("default", json!({"prompt": "Tell a very long story.", "max_output_tokens": 400})).await;
    assert_eq!(
        told,
        "transient: model default: connection: no complete answer within 300ms; raise timeout of models.default, or ask for less"
    );
}

#[tokio::test]
async fn a_text_is_cut_at_its_limit() {
    let Some(real) = real() else { return };
    let world = real.world("");
    let cut =
        json!({"prompt": "Tell a very long story.", "max_output_tokens": 3, "temperature": 0, "seed": 1});
    world.call("default", cut).await.unwrap();
    let call = world.calls().remove(0);
    assert_eq!((call.finish.as_str(), call.output_tokens), ("length", 3), "{call:?}");
}

#[tokio::test]
async fn a_call_of_a_tool_comes_in_pieces() {
    let Some(real) = real() else { return };
    let world = real.world("");
    let digit = json!({"type": "integer", "enum": [1, 2, 3, 4, 5]});
    let tool = json!({"name": "math.add", "description": "Adds two digits", "params": {"type": "object",
        "required": ["a", "b"], "additionalProperties": false, "properties": {"a": digit, "b": digit}}});
    let ask = json!({"prompt": "Add 2 and 3.", "tools": [tool], "tool_choice": "required", "temperature": 0, "seed": 1});
    let value = world.call("default", ask).await.unwrap();
    let deltas = std::mem::take(&mut *world.kept.deltas.lock().unwrap());
    let (mut names, mut pieces) = (Vec::new(), vec![String::new(); 8]);
    for delta in deltas {
        match delta {
            Delta::Call { at, name } => names.push((at, name)),
            Delta::Arguments { at, text } => pieces[at].push_str(&text),
            Delta::Text(_) | Delta::Reasoning(_) => {}
        }
    }
    let calls = value["calls"].as_array().unwrap();
    assert!(!calls.is_empty(), "{value}");
    assert_eq!(names.len(), calls.len(), "each name comes once");
    for ((at, name), call) in names.into_iter().zip(calls) {
        assert_eq!((name.as_str(), &call["tool"]), ("math.add", &json!("math.add")));
        assert_eq!(serde_json::from_str::<Value>(&pieces[at]).unwrap(), call["params"]);
    }
}

#[tokio::test]
async fn a_conversation_with_the_result_of_a_tool_goes_on() {
    let Some(real) = real() else { return };
    let world = real.world("");
    let messages = json!([
        {"role": "user", "content": "How many files are there?"},
        {"role": "assistant", "calls": [{"id": "c1", "tool": "fs.count", "params": {"path": "."}}]},
        {"role": "tool", "tool": "fs.count", "call": "c1", "content": "{\"count\":3}"},
    ]);
    let result = world.call("default", json!({"messages": messages, "max_output_tokens": 20})).await;
    assert!(result.as_ref().is_ok_and(|value| value["text"].is_string()), "{}", shown(result));
}

#[tokio::test]
async fn what_is_counted_is_what_the_server_counts() {
    let Some(real) = real() else { return };
    let world = real.world("");
    let total = async |name: &str| {
        let metrics = real.get("/metrics").await;
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{metrics}"));
        line.trim().parse::<f64>().unwrap() as u64
    };
    let [read, cached, written] = [
        "llamacpp:prompt_tokens_total ",
        "llamacpp:prompt_tokens_cached_total ",
        "llamacpp:tokens_predicted_total ",
    ];
    let before = (total(read).await + total(cached).await, total(written).await);
    world.call("default", json!({"prompt": "Name two colours.", "max_output_tokens": 8})).await.unwrap();
    let call = world.calls().remove(0);
    // Other tests call the same server meanwhile.
    let after = (total(read).await + total(cached).await, total(written).await);
    assert!(after.0 - before.0 >= call.input_tokens, "{before:?} {after:?} {call:?}");
    assert!(after.1 - before.1 >= call.output_tokens, "{before:?} {after:?} {call:?}");
    assert!(call.cached_tokens <= call.input_tokens, "{call:?}");
}

#[tokio::test]
async fn a_priced_call_costs_its_tokens() {
    let Some(real) = real() else { return };
    let table = real.table("default", "").replace("\"free\"", "{input = 1, output = 2}");
    let world = World::new(&table, &[], &real.key);
    world.call("default", json!({"prompt": "Hi", "max_output_tokens": 4})).await.unwrap();
    let call = world.calls().remove(0);
    assert_eq!(call.nano_usd, Some((call.input_tokens + 2 * call.output_tokens) * 1_000), "{call:?}");
}

#[tokio::test]
async fn a_recorded_exchange_is_played_without_the_server() {
    let Some(real) = real() else { return };
    let table = |mode: &str, more: &str| {
        format!(
            "[models.default]\nprovider = \"cassette\"\nfile = \"tape\"\nmode = \"{mode}\"\nprice = \"free\"\n{more}"
        )
    };
    let at =
        format!("profile = \"llamacpp\"\nmodel = \"any\"\nbase_url = \"{}\"\n{}", real.url, real.key_line());
    let ask = || json!({"prompt": "Name a colour.", "max_output_tokens": 8});
    let recording = World::new(&table("record", &at), &[], &real.key);
    let answer = recording.call("default", ask()).await.unwrap();
    let tape = std::fs::read_to_string(recording.folder.path().join("tape")).unwrap();
    assert!(real.key.is_empty() || !tape.contains(&real.key), "a cassette holds no key");
    let playing = World::new(&table("play", ""), &[("tape", &tape)], "");
    assert_eq!(playing.call("default", ask()).await.unwrap(), answer);
}
