//! Answers from a script.

use expect_test::{Expect, expect};
use ostler_kernel::port::CallOrigin;
use serde_json::{Value, json};

use crate::world::{World, shown};

const CONFIG: &str =
    "[models.default]\nprovider = \"scripted\"\nfile = \"script.yaml\"\nmax_output_tokens = 50\n";

fn world(script: &str) -> World {
    World::new(CONFIG, &[("script.yaml", script)], "")
}

async fn check(script: &str, role: &str, ordinal: u32, params: Value, expected: Expect) {
    let origin = CallOrigin { role: role.to_owned(), node: None, ordinal, refusals: 0 };
    expected.assert_eq(&shown(world(script).call_as("default", params, origin).await));
}

#[tokio::test]
async fn a_template_makes_an_answer_of_the_request() {
    let script = "rules:\n  - when: {}\n    template: '{{ system }}: {{ prompt | lines | select(\"startingwith\", \"- \") | join(\" \") }}'\n";
    let asks = json!({"system": "Say", "prompt": "{{ what }}\nno\n- b", "values": {"what": "- a"}});
    check(script, "", 1, asks, expect![[r#"{"text":"Say: - a - b"}"#]]).await;
    let script = "rules: [{when: {}, template: '{{ prompt | int }}'}]";
    let failed =
        world(script).call_as("default", json!({"prompt": "no number"}), CallOrigin::default()).await;
    let failed = shown(failed);
    assert!(failed.contains("template, line 1"), "{failed}");
}

const SCRIPT: &str = r#"
roles:
  planner:
    - answer: {steps: [a, b]}
      tokens: {input: 100, output: 40}
    - text: "not JSON"
    - text: "{\"cut\":"
      finish: length
    - fail: rate_limited
      message: slow down
      retry_after: 3
  executor:
    - calls: [{tool: fs.read, params: {path: a.txt}}]
    - text: "hello   wide world"
      repeat: true
rules:
  - when: {role: executor, contains: "TODO"}
    text: "a rule"
"#;

#[tokio::test]
async fn answers_come_by_role_and_ordinal() {
    let asks = || json!({"prompt": "Do {{ what }}", "values": {"what": "it"}});
    let schema = || json!({"prompt": "Plan", "schema": {"type": "object"}});
    check(SCRIPT, "planner", 1, schema(), expect![[r#"{"steps":["a","b"]}"#]]).await;
    check(
        SCRIPT,
        "planner",
        2,
        schema(),
        expect![[
            r#"invalid_output: the answer is not JSON (expected ident at line 1 column 2): "not JSON""#
        ]],
    )
    .await;
    check(
        SCRIPT,
        "planner",
        3,
        schema(),
        expect![
            "invalid_output: cut at 50 tokens; raise max_output_tokens of the call, or of [models.default]"
        ],
    )
    .await;
    check(
        SCRIPT,
        "planner",
        4,
        asks(),
        expect!["rate_limit: model default: rate_limited: slow down; the provider asks to wait 3 s"],
    )
    .await;
    let offers = json!({"prompt": "Go", "tools": [{"name": "fs.read", "params": {"type": "object"}}]});
    check(
        SCRIPT,
        "executor",
        1,
        offers,
        expect![[r#"{"calls":[{"id":"call_0","params":{"path":"a.txt"},"tool":"fs.read"}],"text":null}"#]],
    )
    .await;
    check(SCRIPT, "executor", 9, asks(), expect![[r#"{"text":"hello   wide world"}"#]]).await;
    check(SCRIPT, "executor", 9, json!({"prompt": "find TODO"}), expect![[r#"{"text":"a rule"}"#]]).await;
}

#[tokio::test]
async fn a_call_beyond_the_script_says_so() {
    let world = world(SCRIPT);
    let params = json!({"prompt": "x", "role": "planner", "ordinal": 5});
    let shown = world.shown("default", params).await.replace(world.folder.path().to_str().unwrap(), "FOLDER");
    expect!["structural: model default: invalid_request: script FOLDER/script.yaml: no answer for call 5 of role planner; add one under roles.planner, or set `repeat: true`"].assert_eq(&shown);
}

#[tokio::test(start_paused = true)]
async fn pieces_take_the_latency_and_the_call_is_reported() {
    let world = world("latency: 900ms\nroles: {judge: [{text: \"one two three\"}]}");
    let before = tokio::time::Instant::now();
    world.call("default", json!({"prompt": "12345678", "role": "judge"})).await.unwrap();
    assert_eq!(before.elapsed().as_millis(), 900);
    assert_eq!(world.text(), "one two three");
    let call = world.kept.calls.lock().unwrap()[0].clone();
    assert_eq!((call.input_tokens, call.output_tokens), (2, 4));
    assert_eq!((call.first_piece_ms, call.nano_usd, call.finish.as_str()), (Some(300), Some(0), "stop"));
}

#[tokio::test]
async fn parameters_that_cannot_work_are_found_early() {
    let world = world(SCRIPT);
    let tool = world.models.tools().remove(0);
    let problems = |params: Value| {
        let problems = tool.check(params.as_object().unwrap());
        problems
            .iter()
            .map(|problem| format!("{}: {}", problem.name, problem.what))
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert!(problems(json!({"prompt": "{{ a"})).starts_with("prompt: line 1"));
    assert_eq!(problems(json!({"prompt": "a", "messages": []})), "messages: excluded by prompt");
    assert_eq!(
        problems(json!({"prompt": "a", "schema": {"type": "txt"}})),
        "schema: no JSON Schema at \"/type\""
    );
    assert_eq!(problems(json!({"prompt": "{{ a }}", "values": {"a": 1}})), "");
    expect!["structural: prompt: template, line 1: a does not exist"]
        .assert_eq(&world.shown("default", json!({"prompt": "{{ a }}"})).await);
}

#[tokio::test]
async fn random_failures_are_the_same_each_time() {
    let script = "failures: {percent: 30, fail: overloaded, seed: 7}\nroles: {a: [{text: ok, repeat: true}]}";
    let failures = async || {
        let world = world(script);
        let mut failed = Vec::new();
        for ordinal in 1..=50 {
            let params = json!({"prompt": "x", "role": "a", "ordinal": ordinal});
            if world.call("default", params).await.is_err() {
                failed.push(ordinal);
            }
        }
        failed
    };
    let first = failures().await;
    assert!((5..=25).contains(&first.len()), "{first:?}");
    assert_eq!(first, failures().await);
}

#[test]
fn a_broken_script_names_the_place() {
    for (script, told) in [
        (
            "roles: {a: [{text: x, answer: 1}]}",
            "roles.a[0]: `answer`, `text` and `template` exclude each other",
        ),
        ("roles: {a: [{}]}", "roles.a[0]: no answer"),
        ("roles: {a: [{fail: overloaded, text: x}]}", "roles.a[0]: `fail` stands alone"),
        ("roles: {a: [{fail: late}]}", "unknown class \"late\"; use one of rate_limited,"),
        ("roles: {a: [{text: x, finish: late}]}", "unknown reason \"late\"; use one of stop,"),
        ("roles: {a: [{text: x, repeat: true}, {text: y}]}", "roles.a[0]: `repeat` hides"),
        ("roles: {a: [{text: x, when: {}}]}", "roles.a[0]: `when` is for rules"),
        ("rules: [{text: x}]", "rules[0]: `when` is missing"),
        ("rules: [{when: {place: x}, text: x}]", "unknown field `place`"),
        ("failures: {percent: 101, fail: server}", "failures.percent: more than 100"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script.yaml"), script).unwrap();
        let config = toml::from_str(CONFIG).unwrap();
        let faults = ostler_drivers::model::Models::new(&config, folder.path(), &|_| None).unwrap_err();
        let shown = faults[0].to_string();
        assert!(shown.starts_with("models.default.file: ") && shown.contains(told), "{shown}");
    }
}

#[tokio::test]
async fn words_about_the_last_answer_are_told_to_the_model() {
    let script = "rules: [{when: {contains: \"not acceptable: too long\\nAnswer again\"}, text: short}]";
    let params = json!({"prompt": "Write.", "feedback": "too long"});
    check(script, "", 1, params, expect!["{\"text\":\"short\"}"]).await;
}
