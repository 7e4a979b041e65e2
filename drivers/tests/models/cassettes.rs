//! Recording and playing real HTTP exchanges.

use expect_test::expect;
use serde_json::json;

use crate::server::{Reply, Server, response, stream};
use crate::world::World;

const SECRET: &str = "sk-canary-0123456789";
const CHUNK: &str = r#"{"id":"r1","choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}"#;

/// Records these replies, one call each, and returns the cassette.
async fn record(replies: Vec<Reply>, prompts: &[&str]) -> String {
    let server = Server::start(replies).await;
    let config = server.config("cassette", "dialect = \"openai\"\nmode = \"record\"\nfile = \"tape.jsonl\"");
    let world = World::new(&config, &[], SECRET);
    for prompt in prompts {
        let _ = world.call("default", json!({"prompt": prompt})).await;
    }
    std::fs::read_to_string(world.folder.path().join("tape.jsonl")).unwrap_or_default()
}

#[tokio::test]
async fn nothing_is_recorded_through_a_link_that_a_step_made() {
    let server = Server::start(vec![Reply::Bytes(stream(&[CHUNK, "[DONE]"])); 3]).await;
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("tape.jsonl");
    for file in ["tape.jsonl", "tapes/tape.jsonl"] {
        let keys = format!("dialect = \"openai\"\nmode = \"record\"\nfile = {file:?}");
        let world = World::new(&server.config("cassette", &keys), &[], SECRET);
        let folder = world.folder.path();
        match file.split_once('/') {
            Some((inner, _)) => std::os::unix::fs::symlink(outside.path(), folder.join(inner)).unwrap(),
            None => std::os::unix::fs::symlink(&target, folder.join(file)).unwrap(),
        }
        let _ = world.call("default", json!({"prompt": "a"})).await;
        assert!(!target.exists(), "{file}");
    }
    let world = World::new(
        &server.config("cassette", "dialect = \"openai\"\nmode = \"record\"\nfile = \"tape.jsonl\""),
        &[],
        SECRET,
    );
    std::fs::write(&target, "").unwrap();
    std::fs::hard_link(&target, world.folder.path().join("tape.jsonl")).unwrap();
    let _ = world.call("default", json!({"prompt": "a"})).await;
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
}

fn player(tape: &str) -> World {
    World::new(
        "[models.default]\nprovider = \"cassette\"\nfile = \"tape.jsonl\"\n",
        &[("tape.jsonl", tape)],
        "",
    )
}

#[tokio::test]
async fn a_recorded_exchange_plays_without_a_network_or_a_key() {
    let headers =
        format!("content-type: text/event-stream\r\nset-cookie: session={SECRET}\r\nx-key: {SECRET}\r\n");
    let body = format!("data: {CHUNK}\n\n: {SECRET}\n\ndata: [DONE]\n\n");
    let echo = Reply::Echoes("401 No".to_owned());
    let tape = record(vec![Reply::Bytes(response("200 OK", &headers, &body)), echo], &["a", SECRET]).await;
    assert!(!tape.contains("canary") && !tape.contains("cookie") && !tape.contains("x-key"), "{tape}");
    assert_eq!(tape.lines().count(), 3, "{tape}");
    let world = player(&tape);
    assert_eq!(world.shown("default", json!({"prompt": "a"})).await, r#"{"text":"hello"}"#);
    assert_eq!(world.text(), "hello");
    assert_eq!(world.calls()[0].nano_usd, Some(0));
    let again = world.shown("default", json!({"prompt": "a"})).await;
    assert_eq!(again, r#"{"text":"hello"}"#, "the last equal exchange answers again");
    let failed = world.shown("default", json!({"prompt": "[key removed]"})).await;
    assert!(
        failed.starts_with("structural: model default: auth (status 401): bad request: POST"),
        "{failed}"
    );
}

#[tokio::test]
async fn an_answer_that_spells_the_key_is_not_recorded() {
    let letter = |at| CHUNK.replace("hello", at).replace("\"stop\"", "null");
    let mut pieces: Vec<String> = SECRET.split_inclusive(|_: char| true).map(letter).collect();
    pieces.extend([CHUNK.replace("hello", "!"), "[DONE]".to_owned()]);
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let tape = record(vec![Reply::Bytes(stream(&pieces))], &["a"]).await;
    assert_eq!(tape, "");
}

#[tokio::test]
async fn equal_requests_play_in_their_order() {
    let answer = |text: &str| Reply::Bytes(stream(&[&CHUNK.replace("hello", text), "[DONE]"]));
    let tape = record(vec![answer("one"), answer("two")], &["a", "a"]).await;
    let world = player(&tape);
    for expected in ["one", "two", "two"] {
        assert_eq!(world.call("default", json!({"prompt": "a"})).await.unwrap()["text"], expected);
    }
}

#[tokio::test]
async fn a_broken_exchange_is_not_recorded() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\ndata: ".to_vec();
    assert_eq!(record(vec![Reply::Bytes(cut)], &["a"]).await, "");
}

#[tokio::test]
async fn a_miss_shows_the_difference() {
    let tape =
        record(vec![Reply::Bytes(stream(&[CHUNK, "[DONE]"]))], &["Tell me about the weather in Oslo"]).await;
    let world = player(&tape);
    let params = json!({"prompt": "Tell me about the weather in Rome", "temperature": 0.5});
    let shown = world.shown("default", params).await.replace(world.folder.path().to_str().unwrap(), "FOLDER");
    expect![[r#"structural: model default: invalid_request: cassette FOLDER/tape.jsonl: no recorded request equals this one; the nearest, exchange 1, differs in body.messages[0].content from character 30: recorded "bout the weather in Oslo", now "bout the weather in Rome", body.temperature: not recorded, now 0.5; repeat the recorded goal with its options over the same files, or record this one: --cassette with a new file, or mode = "record""#]].assert_eq(&shown);
}

#[test]
fn a_file_that_is_no_cassette_is_refused() {
    for (tape, told) in [
        ("", "an empty file"),
        ("{}", "line 1: no header"),
        ("{\"cassette\":9,\"dialect\":\"openai\",\"profile\":\"generic\",\"model\":\"m\"}", "version 9"),
        (
            "{\"cassette\":1,\"dialect\":\"openai\",\"profile\":\"generic\",\"model\":\"m\"}\n{}",
            "line 2: column 2: missing field",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t"), tape).unwrap();
        let config = toml::from_str("[models.default]\nprovider = \"cassette\"\nfile = \"t\"").unwrap();
        let faults = ostler_drivers::model::Models::new(&config, folder.path(), &|_| None).unwrap_err();
        assert!(faults[0].to_string().contains(told), "{}", faults[0]);
    }
}

#[test]
fn a_cassette_of_another_model_is_not_recorded_over() {
    let folder = tempfile::tempdir().unwrap();
    let tape = "{\"cassette\":1,\"dialect\":\"openai\",\"profile\":\"generic\",\"model\":\"other\"}\n";
    std::fs::write(folder.path().join("t"), tape).unwrap();
    let config = "[models.default]\nprovider = \"cassette\"\nmode = \"record\"\nfile = \"t\"\nmodel = \"mine\"\n\
        base_url = \"https://example.com\"\n";
    let config = toml::from_str(config).unwrap();
    let faults = ostler_drivers::model::Models::new(&config, folder.path(), &|_| None).unwrap_err();
    let shown = faults[0].to_string();
    assert!(shown.contains("a cassette of model \"other\"; remove it to record \"mine\""), "{shown}");
    assert_eq!(std::fs::read_to_string(folder.path().join("t")).unwrap(), tape);
}
