//! The `text.*`, `json.*` and `time.*` tools.

use crate::world::World;
use expect_test::{Expect, expect};
use ostler_drivers::tool::{SEARCH_LINE_BYTES, TEXT_FILE_BYTES_MAX};
use serde_json::{Value, json};

fn tree() -> World {
    let world = World::new();
    world.put("a.rs", "one\n// TODO first\r\nthree\n");
    world.put("src/b.rs", "// FIXME second");
    world.put("binary", b"TODO\0");
    world.put("latin1", b"TODO \xff");
    world.put("empty", "");
    world
}

async fn check(tool: &str, params: Value, expected: Expect) {
    expected.assert_eq(&tree().shown(tool, params).await);
}

#[tokio::test]
async fn a_search_finds_the_lines_of_text_files() {
    check("text.search", json!({"pattern": "TODO|FIXME"}), expect![[r#"{"count":2,"matches":[{"line":2,"path":"a.rs","text":"// TODO first"},{"line":1,"path":"src/b.rs","text":"// FIXME second"}]}"#]]).await;
    check(
        "text.search",
        json!({"pattern": "TODO|FIXME", "path": "src"}),
        expect![[r#"{"count":1,"matches":[{"line":1,"path":"src/b.rs","text":"// FIXME second"}]}"#]],
    )
    .await;
    check(
        "text.search",
        json!({"pattern": "^three$", "path": "a.rs"}),
        expect![[r#"{"count":1,"matches":[{"line":3,"path":"a.rs","text":"three"}]}"#]],
    )
    .await;
    check("text.search", json!({"pattern": "o", "files": ["src/b.rs", "a.rs"]}), expect![[r#"{"count":2,"matches":[{"line":1,"path":"src/b.rs","text":"// FIXME second"},{"line":1,"path":"a.rs","text":"one"}]}"#]]).await;
    check("text.search", json!({"pattern": "x", "files": []}), expect![[r#"{"count":0,"matches":[]}"#]])
        .await;
}

#[tokio::test]
async fn a_search_that_cannot_be_whole_is_a_failure() {
    check(
        "text.search",
        json!({"pattern": "T|F", "max": 1}),
        expect![
            "resource_exhaustion: more than 1 lines match: raise max (at most 100000), or search for less"
        ],
    )
    .await;
    check(
        "text.search",
        json!({"pattern": "T", "files": ["missing"]}),
        expect!["structural: missing in ROOT: No such file or directory (os error 2)"],
    )
    .await;
    check(
        "text.search",
        json!({"pattern": "T", "files": ["a.rs"], "path": "."}),
        expect!["structural: give either files or path, not both"],
    )
    .await;
    check("text.search", json!({"pattern": "a{9}{9}{9}{9}{9}{9}"}), expect![[r#"structural: pattern "a{9}{9}{9}{9}{9}{9}": no regular expression: it compiles to more than 1048576 bytes"#]]).await;
    let unclosed = tree().shown("text.search", json!({"pattern": "("})).await;
    assert!(unclosed.starts_with("structural: pattern \"(\":"), "{unclosed}");
}

#[tokio::test]
async fn long_lines_are_shortened_and_long_files_refused() {
    let world = World::new();
    world.put("long", format!("é{}", "é".repeat(SEARCH_LINE_BYTES)));
    let found = world.call("text.search", json!({"pattern": "é$"})).await.unwrap();
    assert_eq!(found["matches"][0]["text"], format!("{}…", "é".repeat(SEARCH_LINE_BYTES / 2)));
    let huge = std::fs::File::create(world.root().join("huge")).unwrap();
    std::io::Write::write_all(&mut &huge, " ".repeat(16 << 10).as_bytes()).unwrap();
    huge.set_len(TEXT_FILE_BYTES_MAX + 1).unwrap();
    let shown = world.shown("text.stats", json!({"files": ["huge"]})).await;
    expect!["resource_exhaustion: huge has more than 67108864 bytes: leave it out, or split it"]
        .assert_eq(&shown);
}

#[tokio::test]
async fn statistics_count_text_only() {
    check(
        "text.stats",
        json!({"files": ["a.rs", "src/b.rs", "binary", "latin1", "empty"]}),
        expect![[r#"{"bytes":40,"files":3,"lines":4,"words":8}"#]],
    )
    .await;
    check("text.stats", json!({"files": []}), expect![[r#"{"bytes":0,"files":0,"lines":0,"words":0}"#]])
        .await;
    check(
        "text.stats",
        json!({"files": ["missing"]}),
        expect!["structural: missing in ROOT: No such file or directory (os error 2)"],
    )
    .await;
}

#[tokio::test]
async fn templates_and_queries_work_on_values() {
    check(
        "text.render",
        json!({"template": "Hi {{ who }}", "values": {"who": "you"}}),
        expect![[r#"{"text":"Hi you"}"#]],
    )
    .await;
    check("text.render", json!({"template": "Hi you"}), expect![[r#"{"text":"Hi you"}"#]]).await;
    check(
        "text.render",
        json!({"template": "Hi {{ who }}"}),
        expect!["structural: template, line 1: who does not exist"],
    )
    .await;
    check(
        "text.render",
        json!({"template": "{% if %}", "values": {}}),
        expect!["structural: template, line 1: syntax error: unexpected end of block at `%}`"],
    )
    .await;
    check("json.query", json!({"value": {"a": [1, 2]}, "query": "$.a[*]"}), expect![[r#"{"result":[1,2]}"#]])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_sleep_says_how_long_and_sleeps_as_long() {
    let world = World::new();
    let sleep = world.tool("time.sleep");
    let params = |ms: Value| json!({"ms": ms}).as_object().unwrap().clone();
    assert_eq!(sleep.timer_ms(&params(json!(1500))), Some(1500));
    assert_eq!(sleep.timer_ms(&params(json!("1500"))), None);
    let start = tokio::time::Instant::now();
    assert_eq!(world.call("time.sleep", json!({"ms": 1500})).await, Ok(json!({})));
    assert_eq!(start.elapsed().as_millis(), 1500);
}
