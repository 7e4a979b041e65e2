//! Errors of `ostler simulate`.

use crate::world::{Ended, World};

/// A case with one node `a`, and further keys.
fn case(id: &str, rest: &str) -> String {
    let plan = r#"{"id": "p", "nodes": [{"id": "a", "contract": [{"method": "schema"}]}]}"#;
    format!("{{\"id\": \"{id}\", \"plan\": {plan}{rest}}}")
}

#[test]
fn cases_that_cannot_be_gone_by_are_told_with_their_line_and_their_name() {
    let world = World::new();
    for (lines, told) in [
        (
            vec![case("one", ""), case("two", r#", "replans": [{"ad": []}]"#)],
            "cases.jsonl:2: case \"two\": column ",
        ),
        (
            vec![case("one", r#", "script": {"a": [], "a": []}"#)],
            "duplicate key \"a\" in one object: give it once",
        ),
        (
            vec![case("one", ""), String::new(), case("one", "")],
            "cases.jsonl:3: case \"one\" is already in line 1; give each case its own id",
        ),
        (vec![case("one", r#", "policy": {"backoff_cap": 1.5}"#)], "times are whole numbers of ticks"),
    ] {
        world.file("cases.jsonl", &lines.join("\n"));
        world.ostler("simulate graph cases.jsonl").exits(2).complains(told);
    }
}

#[test]
fn an_input_without_end_is_refused() {
    let world = World::new();
    for what in ["graph", "model", "modes"] {
        let told = "/dev/zero: cannot read: a line has more than 16777216 bytes";
        world.ostler(&format!("simulate {what} /dev/zero")).exits(2).complains(told);
    }
    world.ostler("simulate queue /dev/zero").exits(2).complains("has more than 67108864 bytes");
}

#[test]
fn a_check_of_nothing_does_not_pass() {
    let world = World::new();
    world.file("none.jsonl", "\n\n").file("none.expected.jsonl", "");
    let graph = world.ostler("simulate graph none.jsonl --check").exits(2);
    graph.complains("none.jsonl: contains no case; nothing was checked");
    let queue = world.ostler("simulate queue none.jsonl --check").exits(2);
    queue.complains("none.jsonl: contains no operation; nothing was checked");
    world.ostler("simulate graph none.jsonl").exits(0);
}

#[test]
fn cases_and_traces_come_from_stdin_as_plans_do() {
    let world = World::new();
    let trace = [
        r#"{"op": "client", "id": "ada", "weight": 200}"#,
        r#"{"op": "enqueue", "id": "j", "client": "ada", "est": 5}"#,
        r#"{"op": "dispatch"}"#,
    ];
    world
        .file("cases.jsonl", &case("one", ""))
        .file("trace.jsonl", &trace.join("\n"))
        .file("wrong.jsonl", "\n{}\n");
    let piped = |file: &str, line: &str| {
        let mut command = world.command(line);
        command.stdin(std::fs::File::open(world.path().join(file)).unwrap());
        let output = command.output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        Ended { code: output.status.code(), out, err }
    };
    for (file, kind) in [("cases.jsonl", "graph"), ("trace.jsonl", "queue")] {
        let named = world.ostler(&format!("simulate {kind} {file}")).exits(0).says("{");
        assert_eq!(piped(file, &format!("simulate {kind} -")).exits(0).out, named.out, "{kind}");
    }
    piped("wrong.jsonl", "simulate graph -").exits(2).complains("stdin:2: not a case");
    let expects_nothing = piped("cases.jsonl", "simulate graph - --check").exits(2);
    expects_nothing.complains("stdin:1: case \"one\" has no `expect`");
    let beside = piped("trace.jsonl", "simulate queue - --check").exits(2);
    beside.complains("--check: needs a file, not stdin");
}

#[test]
fn responses_of_models_are_decoded_and_compared() {
    let world = World::new();
    let usage = r#"{"input": 3, "output": 1, "cache_read": null, "cache_write": null, "reasoning": null}"#;
    let expect = |text: &str| {
        format!(
            r#"{{"text": "{text}", "reasoning": "", "tool_calls": [], "finish": "stop", "usage": {usage}, "model": "m", "response_id": "r"}}"#
        )
    };
    let stream = [
        r#"data: {"id":"r","model":"m","choices":[{"delta":{"content":"h\u00e9"}}]}"#,
        r#"data: {"id":"r","choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#,
        "data: [DONE]",
        "",
    ]
    .join("\n\n");
    let case = |id: &str, text: &str| {
        let body = serde_json::Value::from(stream.as_str());
        let response = format!(
            r#"{{"status": 200, "headers": {{"content-type": "text/event-stream"}}, "body": {body}}}"#
        );
        let expect = expect(text);
        format!(
            r#"{{"id": "{id}", "protocol": "openai", "response": {response}, "chunks": [1, 50, 51], "expect": {expect}}}"#
        )
    };
    let refused = r#"{"id": "no key", "protocol": "anthropic", "response": {"status": 401, "body": "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"no such key\"}}"},
        "expect": {"error": {"class": "auth", "status": 401, "message_contains": "such key", "retry_after_s": null}}}"#
        .replace('\n', "");
    world.file("good.jsonl", &[case("streamed", "hé"), refused].join("\n"));
    world.ostler("simulate model good.jsonl --check").exits(0).says("2 passed, 0 failed");
    let decoded = world.ostler("simulate model good.jsonl").exits(0).lines();
    assert!(decoded[0].to_string().contains(r#""text":"hé""#), "{}", decoded[0]);
    world.file("bad.jsonl", &case("streamed", "ho"));
    let differs = world.ostler("simulate model bad.jsonl --check").exits(1);
    differs.says("streamed: expect.text: expected \"ho\", got \"hé\"").says("0 passed, 1 failed");
    world.file("wrong.jsonl", r#"{"id": "x", "protocol": "smtp", "response": {"status": 200, "body": ""}}"#);
    world.ostler("simulate model wrong.jsonl").exits(2).complains("wrong.jsonl:1: protocol \"smtp\"");
}
