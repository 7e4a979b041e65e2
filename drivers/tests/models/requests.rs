//! The bytes that providers get.

use expect_test::{Expect, expect};
use ostler_kernel::port::{Completion, Message, ModelRequest, ToolCall};
use serde_json::{Value, json};

use crate::server::{Reply, Server, response, stream};
use crate::world::World;

const STOP: &str = r#"{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}"#;

fn lines(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let hidden = |line: &&str| !line.starts_with("host") && !line.starts_with("content-length");
    let head: Vec<&str> = head.lines().filter(hidden).collect();
    let body: Value = serde_json::from_str(body).unwrap();
    format!("{}\n\n{body}\n", head.join("\n"))
}

/// The request for these parameters, and the result of an answer.
async fn check(provider: &str, more: &str, reply: Vec<u8>, params: Value, expected: Expect) -> String {
    let mut server = Server::start(vec![Reply::Bytes(reply)]).await;
    let world = World::new(&server.config(provider, more), &[], "a-key");
    let shown = world.shown("default", params).await;
    expected.assert_eq(&lines(&server.asked.recv().await.unwrap()));
    shown
}

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!([
        {"name": "fs.read", "description": "Reads.", "params": schema},
        {"name": "fs_read", "description": "Another.", "params": schema},
    ])
}

fn schema() -> Value {
    json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}})
}

#[tokio::test]
async fn openai_gets_strict_schemas() {
    let reply = stream(&[&STOP.replace("\"ok\"", r#""{\"b\":\"x\",\"a\":null}""#), "[DONE]"]);
    let params = json!({"prompt": "Hi {{ n }}", "values": {"n": 1}, "system": "Be brief.", "schema": schema(),
        "temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END"], "max_output_tokens": 9_999_999,
        "feedback": [{"answer": {"a": 1}, "faults": ["b is missing"]}]});
    let shown = check("openai", "profile = \"openai\"", reply, params, expect![[r#"
        POST /v1/chat/completions HTTP/1.1
        authorization: Bearer a-key
        content-type: application/json
        accept: */*
        user-agent: ostler/0.1.0

        {"max_completion_tokens":2048,"messages":[{"content":"Be brief.","role":"system"},{"content":"Hi 1","role":"user"},{"content":"{\"a\":1}","role":"assistant"},{"content":"This answer is not acceptable:\n- b is missing\nAnswer again, in full, without these faults.","role":"user"}],"model":"m","response_format":{"json_schema":{"name":"answer","schema":{"additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]},"b":{"type":"string"}},"required":["a","b"],"type":"object"},"strict":true},"type":"json_schema"},"seed":7,"stop":["END"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9}
    "#]]).await;
    assert_eq!(shown, r#"{"b":"x"}"#, "the null that strict mode needs is dropped");
}

#[tokio::test]
async fn tools_have_names_that_providers_accept() {
    let call = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "fs_read_2", "arguments": "{\"path\":\"a\"}"}}]},
        "finish_reason": "tool_calls"}]});
    let params = json!({"prompt": "Hi", "tools": tools(), "tool_choice": "required"});
    let shown = check(
        "openai",
        "profile = \"mistral\"",
        stream(&[&call.to_string()]),
        params,
        expect![[r#"
            POST /v1/chat/completions HTTP/1.1
            authorization: Bearer a-key
            content-type: application/json
            accept: */*
            user-agent: ostler/0.1.0

            {"max_tokens":2048,"messages":[{"content":"Hi","role":"user"}],"model":"m","stream":true,"tool_choice":"any","tools":[{"function":{"description":"Reads.","name":"fs_read","parameters":{"properties":{"path":{"type":"string"}},"type":"object"}},"type":"function"},{"function":{"description":"Another.","name":"fs_read_2","parameters":{"properties":{"path":{"type":"string"}},"type":"object"}},"type":"function"}]}
        "#]],
    )
    .await;
    assert_eq!(shown, r#"{"calls":[{"id":"c","params":{"path":"a"},"tool":"fs_read"}],"text":null}"#);
}

#[tokio::test]
async fn strict_tools_lose_the_nulls_of_optional_parameters() {
    let call = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "fs_read", "arguments": "{\"path\":null}"}}]},
        "finish_reason": "tool_calls"}]});
    let params = json!({"prompt": "Hi", "tools": tools()});
    let shown =
        check("openai", "profile = \"azure\"", stream(&[&call.to_string()]), params, expect![[r#"
            POST /v1/chat/completions HTTP/1.1
            api-key: a-key
            content-type: application/json
            accept: */*
            user-agent: ostler/0.1.0

            {"max_completion_tokens":2048,"messages":[{"content":"Hi","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true},"tool_choice":"auto","tools":[{"function":{"description":"Reads.","name":"fs_read","parameters":{"additionalProperties":false,"properties":{"path":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["path"],"type":"object"},"strict":true},"type":"function"},{"function":{"description":"Another.","name":"fs_read_2","parameters":{"additionalProperties":false,"properties":{"path":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["path"],"type":"object"},"strict":true},"type":"function"}]}
        "#]]).await;
    assert_eq!(shown, r#"{"calls":[{"id":"c","params":{},"tool":"fs.read"}],"text":null}"#);
}

#[tokio::test]
async fn what_a_server_cannot_enforce_is_said_in_words() {
    let reply = stream(&[&STOP.replace("\"ok\"", r#""```json\n{\"b\":\"x\"}\n```""#), "[DONE]"]);
    let params = json!({"prompt": "Hi", "schema": schema()});
    let shown = check("openai", "profile = \"deepseek\"", reply, params, expect![[r#"
        POST /v1/chat/completions HTTP/1.1
        authorization: Bearer a-key
        content-type: application/json
        accept: */*
        user-agent: ostler/0.1.0

        {"max_tokens":2048,"messages":[{"content":"Answer with one JSON value that this JSON Schema describes, and with nothing else, no Markdown:\n{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},\"required\":[\"b\"],\"type\":\"object\"}","role":"system"},{"content":"Hi","role":"user"}],"model":"m","response_format":{"type":"json_object"},"stream":true,"stream_options":{"include_usage":true}}
    "#]]).await;
    assert_eq!(shown, r#"{"b":"x"}"#);
}

#[tokio::test]
async fn anthropic_answers_with_a_tool() {
    let body = json!({"id": "m1", "model": "claude", "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "content": [{"type": "tool_use", "id": "t", "name": "answer", "input": {"b": "x"}}]});
    let params = json!({"schema": schema(), "temperature": 1.5, "stop": ["END"], "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "calls": [{"id": "c1", "tool": "fs.read", "params": {"path": "a"}}]},
        {"role": "tool", "tool": "fs.read", "call": "c1", "content": "text of a"},
        {"role": "user", "content": "Go on"},
    ]});
    let shown = check(
        "anthropic",
        "",
        response("200 OK", "", &body.to_string()),
        params,
        expect![[r#"
            POST /v1/messages HTTP/1.1
            x-api-key: a-key
            content-type: application/json
            anthropic-version: 2023-06-01
            accept: */*
            user-agent: ostler/0.1.0

            {"max_tokens":2048,"messages":[{"content":[{"text":"Hi","type":"text"}],"role":"user"},{"content":[{"id":"c1","input":{"path":"a"},"name":"fs_read","type":"tool_use"}],"role":"assistant"},{"content":[{"content":"text of a","tool_use_id":"c1","type":"tool_result"},{"text":"Go on","type":"text"}],"role":"user"}],"model":"m","stop_sequences":["END"],"stream":true,"system":[{"cache_control":{"type":"ephemeral"},"text":"Be brief.","type":"text"}],"temperature":1.0,"tool_choice":{"name":"answer","type":"tool"},"tools":[{"description":"Gives the final answer.","input_schema":{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["b"],"type":"object"},"name":"answer"}]}
        "#]],
    )
    .await;
    assert_eq!(shown, r#"{"b":"x"}"#);
}

#[tokio::test]
async fn anthropic_offers_tools() {
    let body = json!({"stop_reason": "tool_use", "content": [
        {"type": "text", "text": "I read."},
        {"type": "tool_use", "id": "t", "name": "fs_read", "input": {"path": "a"}}]});
    let params = json!({"prompt": "Hi", "tools": tools()});
    let shown = check(
        "anthropic",
        "",
        response("200 OK", "", &body.to_string()),
        params,
        expect![[r#"
            POST /v1/messages HTTP/1.1
            x-api-key: a-key
            content-type: application/json
            anthropic-version: 2023-06-01
            accept: */*
            user-agent: ostler/0.1.0

            {"max_tokens":2048,"messages":[{"content":[{"text":"Hi","type":"text"}],"role":"user"}],"model":"m","stream":true,"tool_choice":{"type":"auto"},"tools":[{"description":"Reads.","input_schema":{"properties":{"path":{"type":"string"}},"type":"object"},"name":"fs_read"},{"cache_control":{"type":"ephemeral"},"description":"Another.","input_schema":{"properties":{"path":{"type":"string"}},"type":"object"},"name":"fs_read_2"}]}
        "#]],
    )
    .await;
    assert_eq!(shown, r#"{"calls":[{"id":"t","params":{"path":"a"},"tool":"fs.read"}],"text":"I read."}"#);
}

/// Answers with this document, then asks again with the completion in the conversation; returns the second request.
async fn second_turn(provider: &str, body: Value) -> Value {
    let reply = Reply::Bytes(response("200 OK", "", &body.to_string()));
    let mut server = Server::start(vec![reply]).await;
    let world = World::new(&server.config(provider, ""), &[], "a-key");
    let model = world.models.get("default").unwrap().model.clone();
    let ask = |messages: Vec<Message>| ModelRequest { messages, ..ModelRequest::default() };
    let first = vec![Message::User("Hi".to_owned())];
    let Completion { text, tool_calls, provider_data, .. } =
        model.call(ask(first.clone()), &mut |_| {}).await.unwrap();
    let results = tool_calls.iter().map(|ToolCall { id, name, .. }| Message::Tool {
        call: id.clone(),
        name: name.clone(),
        content: "done".to_owned(),
    });
    let results: Vec<Message> = results.collect();
    let answer = Message::Assistant { text, calls: tool_calls, provider_data };
    model.call(ask([first, vec![answer], results].concat()), &mut |_| {}).await.unwrap();
    server.asked.recv().await.unwrap();
    let request = server.asked.recv().await.unwrap();
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn opaque_data_comes_back_with_the_next_turn() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ]);
    let sent = second_turn("anthropic", json!({"content": content, "stop_reason": "tool_use"})).await;
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": content}));
    let details = json!([{"type": "reasoning.encrypted", "data": "x"}]);
    let extra = json!({"google": {"thought_signature": "s"}});
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra});
    let message =
        json!({"role": "assistant", "content": null, "reasoning_details": details, "tool_calls": [call]});
    let sent =
        second_turn("openai", json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
            .await;
    assert_eq!(sent["messages"][1], message);
    assert_eq!(sent["messages"][2], json!({"role": "tool", "tool_call_id": "c", "content": "done"}));
}

#[tokio::test]
async fn calls_without_ids_get_their_results_in_order() {
    let call = |name: &str| json!({"function": {"name": name, "arguments": "{}"}});
    let message = json!({"content": "", "tool_calls": [call("f"), call("g"), call("f")]});
    let sent =
        second_turn("openai", json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
            .await;
    let ids = |at: usize| sent["messages"][at]["tool_call_id"].clone();
    let calls = sent["messages"][1]["tool_calls"].as_array().unwrap();
    let sent_ids: Vec<Value> = calls.iter().map(|call| call["id"].clone()).collect();
    assert_eq!(sent_ids, [ids(2), ids(3), ids(4)]);
    assert_ne!(sent_ids[0], sent_ids[2]);
}
