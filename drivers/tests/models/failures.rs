//! Every way in which a server can fail a call, over real HTTP.

use std::sync::atomic::Ordering;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::server::{Reply, Server, response, stream};
use crate::world::World;

const SECRET: &str = "sk-canary-0123456789";

const HELLO: &str =
    r#"{"id":"r1","model":"m-1","choices":[{"delta":{"content":"hello"},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#;

async fn world(reply: Reply, more: &str) -> (Server, World) {
    let server = Server::start(vec![reply]).await;
    let world = World::new(&server.config("openai", more), &[], SECRET);
    (server, world)
}

/// The result, and the reported call.
async fn check_with(reply: Reply, more: &str, params: Value, expected: Expect) {
    let (server, world) = world(reply, more).await;
    let shown = world.shown("default", params).await.replace(&server.port.to_string(), "PORT");
    let calls = world.calls();
    let call = &calls[0];
    let counts = format!(
        "{} in {} out {} nano-USD {}",
        call.finish,
        call.input_tokens,
        call.output_tokens,
        call.nano_usd.unwrap()
    );
    expected.assert_eq(&format!("{shown}\n{counts}"));
}

async fn check(reply: Vec<u8>, expected: Expect) {
    check_with(Reply::Bytes(reply), "", json!({"prompt": "12345678"}), expected).await;
}

fn error(kind: &str, message: &str) -> String {
    json!({"error": {"type": kind, "message": message}}).to_string()
}

#[tokio::test]
async fn an_answer_is_streamed_counted_and_paid() {
    check(
        stream(&[HELLO, STOP, USAGE, "[DONE]"]),
        expect![[r#"
        {"text":"hello"}
        stop in 7 out 3 nano-USD 13000"#]],
    )
    .await;
}

#[tokio::test]
async fn a_missing_usage_is_estimated() {
    check(
        stream(&[HELLO, STOP, "[DONE]"]),
        expect![[r#"
        {"text":"hello"}
        stop in 2 out 2 nano-USD 6000"#]],
    )
    .await;
}

#[tokio::test]
async fn a_count_that_cannot_be_is_not_believed() {
    let none = USAGE.replace(['7', '3'], "0");
    check(
        stream(&[HELLO, STOP, &none, "[DONE]"]),
        expect![[r#"
        {"text":"hello"}
        stop in 2 out 2 nano-USD 6000"#]],
    )
    .await;
    let huge = USAGE.replace(['7', '3'], "1000000000000");
    check(
        stream(&[HELLO, STOP, &huge, "[DONE]"]),
        expect![[r#"
        {"text":"hello"}
        stop in 4120 out 2048 nano-USD 8216000"#]],
    )
    .await;
    // What is read from a cache or written to it is part of the prompt.
    let cached = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":1000000}}}"#;
    check(
        stream(&[HELLO, STOP, cached, "[DONE]"]),
        expect![[r#"
        {"text":"hello"}
        stop in 7 out 3 nano-USD 13000"#]],
    )
    .await;
}

#[tokio::test]
async fn a_status_decides_the_category() {
    let plain = |status: &str, headers: &str, body: &str| response(status, headers, body);
    check(plain("401 No", "", &error("invalid_request_error", "wrong key")), expect![[r#"
        structural: model default: auth (status 401): wrong key; check the key in KEY, its rights and its balance
        auth in 0 out 0 nano-USD 0"#]]).await;
    check(plain("404 No", "", &error("not_found_error", "no model m")), expect![[r#"
        structural: model default: not_found (status 404): no model m; check model and base_url in [models.default]
        not_found in 0 out 0 nano-USD 0"#]]).await;
    check(
        plain("429 Slow", "retry-after: 7\r\n", &error("rate_limit_error", "slow down")),
        expect![[r#"
        rate_limit: model default: rate_limited (status 429): slow down; the provider asks to wait 7 s
        rate_limited in 0 out 0 nano-USD 0"#]],
    )
    .await;
    check(plain("429 Slow", "", &error("insufficient_quota", "no money")), expect![[r#"
        structural: model default: auth (status 429): no money; check the key in KEY, its rights and its balance
        auth in 0 out 0 nano-USD 0"#]]).await;
    check(
        plain("500 Oops", "", "<html>oops</html>"),
        expect![[r#"
        transient: model default: server (status 500): <html>oops</html>
        server in 0 out 0 nano-USD 0"#]],
    )
    .await;
    check(
        plain("503 Busy", "", ""),
        expect![[r#"
        transient: model default: overloaded (status 503)
        overloaded in 0 out 0 nano-USD 0"#]],
    )
    .await;
    check(
        plain("529 Busy", "", &error("overloaded_error", "Overloaded")),
        expect![[r#"
        transient: model default: overloaded (status 529): Overloaded
        overloaded in 0 out 0 nano-USD 0"#]],
    )
    .await;
    check(plain("400 Bad", "", &error("exceed_context_size_error", "too long")), expect![[r#"
        resource_exhaustion: model default: context_too_long (status 400): too long; shorten the prompt, or name a model with a larger context in fallback
        context_too_long in 0 out 0 nano-USD 0"#]]).await;
    check(
        plain("400 Bad", "", &error("content_filter", "not this")),
        expect![[r#"
        invalid_output: model default: refused (status 400): not this
        refused in 0 out 0 nano-USD 0"#]],
    )
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_shows_no_target() {
    let mut target = Server::answering("200 OK", "", "").await;
    let location = format!("location: http://127.0.0.1:{}/?token=t\r\n", target.port);
    for status in ["301 Moved", "302 Found", "303 Other", "307 Temporary", "308 Permanent"] {
        let (mut server, world) = world(Reply::Bytes(response(status, &location, "moved")), "").await;
        let shown = world.shown("default", json!({"prompt": "x"})).await;
        let told = "the server redirects, which is not followed; set base_url of models.default";
        assert!(shown.starts_with("structural") && shown.contains(told), "{shown}");
        assert!(!shown.contains("token") && !shown.contains(&target.port.to_string()), "{shown}");
        let asked = server.asked.recv().await.unwrap();
        assert!(asked.contains(&format!("authorization: Bearer {SECRET}")), "{asked}");
    }
    assert!(target.asked.try_recv().is_err(), "it was followed");
}

#[tokio::test]
async fn a_stream_that_breaks_is_no_answer() {
    check(
        stream(&[HELLO, &error("overloaded_error", "no room")]),
        expect![[r#"
        transient: model default: overloaded: no room
        overloaded in 2 out 2 nano-USD 6000"#]],
    )
    .await;
    check(
        stream(&[HELLO]),
        expect![[r#"
        transient: model default: connection: the response ended too early
        connection in 2 out 2 nano-USD 6000"#]],
    )
    .await;
    check(
        stream(&[HELLO, r#"{"choices":[{"del"#]),
        expect![[r#"
        transient: model default: connection: the response ended too early
        connection in 2 out 2 nano-USD 6000"#]],
    )
    .await;
    check(stream(&[HELLO, "garbage"]), expect![[r#"
        invalid_output: model default: invalid_output: the response is no answer of such an API; check base_url
        invalid_output in 2 out 2 nano-USD 6000"#]]).await;
    let cut =
        "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"half";
    check(cut.into(), expect![[r#"
        transient: model default: connection: lost the response of http://127.0.0.1:PORT: end of file before message length reached
        connection in 2 out 0 nano-USD 2000"#]]).await;
    check(Vec::new(), expect![[r#"
        transient: model default: connection: no response from http://127.0.0.1:PORT: connection closed before message completed
        connection in 2 out 0 nano-USD 2000"#]]).await;
    check(b"SMTP\r\n\r\n".to_vec(), expect![[r#"
        transient: model default: connection: no response from http://127.0.0.1:PORT: invalid HTTP version parsed
        connection in 2 out 0 nano-USD 2000"#]]).await;
}

#[tokio::test]
async fn what_is_no_answer_says_so() {
    check(response("200 OK", "content-type: text/html\r\n", "<html>"), expect![[r#"
        invalid_output: model default: invalid_output: the response is no answer of such an API; check base_url
        invalid_output in 2 out 0 nano-USD 2000"#]]).await;
    check(response("200 OK", "", "{\"choices\": [}"), expect![[r#"
        invalid_output: model default: invalid_output: the response is no answer of such an API; check base_url
        invalid_output in 2 out 0 nano-USD 2000"#]]).await;
    check(response("200 OK", "", "{}"), expect![[r#"
        invalid_output: model default: invalid_output: the response is no answer of such an API; check base_url
        invalid_output in 2 out 0 nano-USD 2000"#]]).await;
    check(
        response("200 OK", "", ""),
        expect![[r#"
        transient: model default: connection: the response ended too early
        connection in 2 out 0 nano-USD 2000"#]],
    )
    .await;
}

#[tokio::test]
async fn content_types_are_not_believed() {
    let document = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    check(
        response("200 OK", "content-type: text/event-stream\r\n", document),
        expect![[r#"
        {"text":"hi"}
        stop in 2 out 1 nano-USD 4000"#]],
    )
    .await;
    let events = format!("data: {HELLO}\n\ndata: {STOP}\n\n");
    check(
        response("200 OK", "content-type: application/json\r\n", &events),
        expect![[r#"
        {"text":"hello"}
        stop in 2 out 2 nano-USD 6000"#]],
    )
    .await;
}

#[tokio::test]
async fn chunks_of_one_byte_give_the_same() {
    let reply = Reply::Slowly(stream(&[HELLO, STOP, USAGE, "[DONE]"]));
    check_with(
        reply,
        "",
        json!({"prompt": "x"}),
        expect![[r#"
        {"text":"hello"}
        stop in 7 out 3 nano-USD 13000"#]],
    )
    .await;
}

#[tokio::test]
async fn a_silent_server_runs_into_a_timeout_and_loses_the_connection() {
    let first = stream(&[HELLO]);
    for (reply, more, told) in [
        (
            Reply::Holds(first.clone()),
            "idle_timeout = \"50ms\"",
            "no bytes for 50ms; raise idle_timeout of models.default",
        ),
        (
            Reply::Holds(response("200 OK", "", "")),
            "timeout = \"80ms\"\nidle_timeout = \"1ms\"",
            "no complete answer within 80ms; raise timeout of models.default",
        ),
        (Reply::Holds(Vec::new()), "timeout = \"80ms\"", "no complete answer within 80ms"),
        (
            Reply::Drips(first.clone(), b": still here\n\n".to_vec()),
            "timeout = \"100ms\"",
            "no complete answer within 100ms",
        ),
    ] {
        let (mut server, world) = world(reply, more).await;
        let shown = world.shown("default", json!({"prompt": "x"})).await;
        assert!(shown.starts_with("transient") && shown.contains(told), "{shown}");
        server.closed.recv().await.expect("the client closes the connection");
        assert_eq!(world.calls()[0].input_tokens, 1, "the provider may have read all of it");
    }
}

#[tokio::test]
async fn an_answer_of_a_hundred_megabytes_is_cut_at_the_limit() {
    let megabyte = format!("data: {HELLO}\n\n").repeat(11_000);
    for (first, again, status, told) in [
        (
            response("200 OK", "content-length: 100000000\r\n", ""),
            megabyte.clone().into_bytes(),
            "invalid_output",
            "more than 36864 bytes although the request allows 2048 tokens",
        ),
        (response("200 OK", "", ""), vec![b' '; 1 << 20], "invalid_output", "more than 16777216 bytes"),
        (response("500 Oops", "", ""), vec![b'x'; 1 << 20], "transient", ""),
    ] {
        let (mut server, world) = world(Reply::Endless(first, again), "").await;
        let shown = world.shown("default", json!({"prompt": "x"})).await;
        assert!(shown.starts_with(status), "{shown}");
        assert!(shown.contains(told), "{shown}");
        assert!(shown.len() < 4_096, "{}", shown.len());
        server.closed.recv().await.expect("the client closes the connection");
        assert!(server.sent.load(Ordering::Relaxed) < 64 << 20);
    }
}

#[tokio::test]
async fn a_line_and_calls_have_limits() {
    let line = Reply::Endless(response("200 OK", "", "data: "), vec![b'x'; 1 << 20]);
    let (_server, world) = world(line, "").await;
    let shown = world.shown("default", json!({"prompt": "x"})).await;
    assert!(shown.contains("more than 4194304 bytes in a line or event"), "{shown}");
    let calls: Vec<Value> =
        (0..2_000).map(|at| json!({"index": at, "id": at.to_string(), "function": {"name": "f"}})).collect();
    let chunk =
        json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}).to_string();
    let (_server, world) = self::world(Reply::Bytes(stream(&[&chunk, "[DONE]"])), "").await;
    let shown = world.shown("default", json!({"prompt": "x"})).await;
    assert!(shown.contains("more than 1024 tool calls"), "{shown}");
}

#[tokio::test]
async fn no_server_says_where_it_was_sought() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let config = format!(
        "[models.default]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"m\"\n"
    );
    let world = World::new(&config, &[], "");
    let shown = world.shown("default", json!({"prompt": "x"})).await.replace(&port.to_string(), "PORT");
    expect!["transient: model default: connection: cannot connect to http://127.0.0.1:PORT: Connection refused (os error 111); start the server, or correct base_url of models.default"].assert_eq(&shown);
    assert_eq!(world.calls()[0].input_tokens, 0, "nothing was sent");
}

#[tokio::test]
async fn a_key_that_is_not_set_is_named() {
    let mut server = Server::answering("200 OK", "", "").await;
    let config = server.config("openai", "").replace("\"KEY\"", "\"OTHER_KEY\"");
    let world = World::new(&config, &[], SECRET);
    assert!(!world.models.get("default").unwrap().has_key);
    let shown = world.shown("default", json!({"prompt": "x"})).await;
    expect!["structural: model default: auth: environment variable OTHER_KEY is not set; set it to the provider's key and start again"].assert_eq(&shown);
    assert!(server.asked.try_recv().is_err(), "it was asked");
}

#[tokio::test]
async fn a_dropped_call_closes_the_connection_and_is_reported() {
    let (mut server, world) = world(Reply::Holds(stream(&[HELLO])), "").await;
    let shown = world.kept.shown.notified();
    tokio::select! {
        result = world.call("default", json!({"prompt": "12345678"})) => panic!("{result:?}"),
        () = shown => {}
    }
    server.closed.recv().await.expect("the client closes the connection");
    let call = world.calls().remove(0);
    assert_eq!((call.finish.as_str(), call.input_tokens, call.output_tokens), ("cancelled", 2, 2));
}

#[tokio::test]
async fn the_next_model_is_asked_where_that_helps() {
    for (status, fallback) in [("503 Busy", true), ("500 Oops", true), ("401 No", false), ("429 Slow", false)]
    {
        let broken = Server::answering(status, "", "").await;
        let works = Server::start(vec![Reply::Bytes(stream(&[HELLO, STOP, "[DONE]"]))]).await;
        let other = works.config("openai", "").replace("models.default", "models.small");
        let config = broken.config("openai", "fallback = [\"small\"]") + &other;
        let world = World::new(&config, &[], SECRET);
        let shown = world.shown("default", json!({"prompt": "x"})).await;
        assert_eq!(shown == r#"{"text":"hello"}"#, fallback, "{status}: {shown}");
        let models: Vec<String> = world.calls().into_iter().map(|call| call.model).collect();
        assert_eq!(models, if fallback { vec!["default", "small"] } else { vec!["default"] });
    }
}

#[tokio::test]
async fn the_key_is_in_no_message_and_no_record() {
    let echoing = format!(
        "{{\"id\":\"{SECRET}\",\"model\":\"{SECRET}\",\"choices\":[{{\"delta\":{{\"content\":\"hi\"}},\"finish_reason\":\"stop\"}}]}}"
    );
    let named = format!(
        "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"function\":{{\"name\":\"fs_list\",\
         \"arguments\":\"{{\\\"{SECRET}\\\":1}}\"}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}"
    );
    let padded = format!("HTTP/1.1 500 No\r\n\r\n{}{SECRET}", "x".repeat(2_040));
    for reply in [
        Reply::Echoes("401 No".to_owned()),
        Reply::Echoes("500 Oops".to_owned()),
        Reply::Bytes(stream(&[&echoing, "[DONE]"])),
        Reply::Bytes(stream(&[&named, "[DONE]"])),
        Reply::Bytes(stream(&[HELLO, &error("x", &format!("your key {SECRET} is bad"))])),
        Reply::Bytes(padded.into_bytes()),
    ] {
        let (mut server, world) = world(reply, "").await;
        let shown = world.shown("default", json!({"prompt": "x"})).await;
        assert!(server.asked.recv().await.unwrap().contains(SECRET), "the key was not sent");
        let model = world.models.get("default").unwrap();
        let all = format!("{shown}{:?}{:?}{:?}{:?}", world.calls(), world.models, model, model.config);
        assert!(!all.contains("canary"), "{all}");
    }
}

#[tokio::test]
async fn a_prompt_beyond_the_context_makes_no_call() {
    let reply = || Reply::Bytes(stream(&[HELLO, STOP, "[DONE]"]));
    let limits = "context_tokens = 10\nmax_output_tokens = 5";
    let (mut server, world) = self::world(reply(), limits).await;
    let shown = world.shown("default", json!({"prompt": "a".repeat(40)})).await;
    assert_eq!(shown, r#"{"text":"hello"}"#, "as many tokens as the limit");
    server.asked.recv().await.unwrap();
    let shown = world.shown("default", json!({"prompt": "a".repeat(41)})).await;
    let told = "resource_exhaustion: model default: context_too_long: the prompt has about 11 tokens, and context_tokens is 10; no \
                call was made; shorten the prompt, or name a model with a larger context in fallback";
    assert_eq!(shown, told);
    assert!(server.asked.try_recv().is_err(), "the provider was asked");
    assert_eq!(world.calls().len(), 1, "a call that was not made is no call");
}

#[tokio::test]
async fn a_prompt_beyond_the_context_goes_to_the_larger_fallback() {
    let reply = stream(&[HELLO, STOP, "[DONE]"]);
    let (mut small, large) = (
        Server::start(vec![Reply::Bytes(reply.clone())]).await,
        Server::start(vec![Reply::Bytes(reply)]).await,
    );
    let other = large.config("openai", "").replace("models.default", "models.large");
    let limits = "context_tokens = 10\nmax_output_tokens = 5\nfallback = [\"large\"]";
    let world = World::new(&(small.config("openai", limits) + &other), &[], SECRET);
    let shown = world.shown("default", json!({"prompt": "a".repeat(41)})).await;
    assert_eq!(shown, r#"{"text":"hello"}"#);
    assert!(small.asked.try_recv().is_err(), "the small model was asked");
    let models: Vec<String> = world.calls().into_iter().map(|call| call.model).collect();
    assert_eq!(models, ["large"]);
}
