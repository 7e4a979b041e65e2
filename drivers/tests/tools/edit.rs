//! `fs.edit` on real files.

use std::os::unix::fs::{PermissionsExt, symlink};

use expect_test::{Expect, expect};
use ostler_drivers::tool::{EDIT_BYTES_MAX, EDIT_COUNT_MAX};
use serde_json::{Value, json};

use crate::world::World;

/// Edits a file with this text; shows the result or failure, and the text afterwards.
async fn check(text: &str, mut params: Value, expected: Expect) {
    let world = World::new();
    world.put("a.txt", text);
    params["path"] = "a.txt".into();
    let shown = match world.call("fs.edit", params).await {
        Ok(mut done) => {
            assert_eq!(done["bytes"], world.text("a.txt").len());
            let digest = blake3::hash(world.text("a.txt").as_bytes()).to_hex();
            assert_eq!(done["digest"], digest.as_str());
            for key in ["bytes", "digest", "path"] {
                done.as_object_mut().unwrap().remove(key);
            }
            done.to_string()
        }
        Err(failure) => format!("{}: {}", failure.category, failure.message),
    };
    expected.assert_eq(&format!("{shown}\n{:?}", world.text("a.txt")));
    let left = std::fs::read_dir(world.root()).unwrap().count();
    assert_eq!(left, 1, "a temporary file is left");
}

#[tokio::test]
async fn what_occurs_as_often_as_expected_is_replaced() {
    check(
        "one two\n",
        json!({"old": "two", "new": "three"}),
        expect![[r#"
        {"lines":[1],"replaced":1}
        "one three\n""#]],
    )
    .await;
    check(
        "a\nb\na\n",
        json!({"old": "a", "new": "c", "count": 2}),
        expect![[r#"
        {"lines":[1,3],"replaced":2}
        "c\nb\nc\n""#]],
    )
    .await;
    check(
        "a\nb\n",
        json!({"old": "a", "new": "c", "count": 5}),
        expect![[r#"
        {"lines":[1],"replaced":1}
        "c\nb\n""#]],
    )
    .await;
    check(
        "aaa",
        json!({"old": "aa", "new": "b"}),
        expect![[r#"
        {"lines":[1],"replaced":1}
        "ba""#]],
    )
    .await;
    check(
        "ü\n- ö\n",
        json!({"old": "ü\n- ", "new": ""}),
        expect![[r#"
        {"lines":[1],"replaced":1}
        "ö\n""#]],
    )
    .await;
}

#[tokio::test]
async fn what_does_not_occur_or_too_often_changes_nothing() {
    check("one\n", json!({"old": "two", "new": "three"}), expect![[r#"
        structural: a.txt does not contain `old`: read the file with fs.read and copy the text exactly, spaces too
        "one\n""#]]).await;
    check("a\nb a\na\n", json!({"old": "a", "new": "c"}), expect![[r#"
        structural: a.txt contains `old` 3 times, expected at most once, on lines 1, 2, 3: give more of the text around the one you mean, or `count: 3`
        "a\nb a\na\n""#]]).await;
    check("a a\n", json!({"old": "a", "new": "c"}), expect![[r#"
        structural: a.txt contains `old` 2 times, expected at most once, on line 1: give more of the text around the one you mean, or `count: 2`
        "a a\n""#]]).await;
    check(&"a\n".repeat(30), json!({"old": "a", "new": "c", "count": 29}), expect![[r#"
        structural: a.txt contains `old` 30 times, expected at most 29 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and more: give more of the text around the one you mean, or `count: 30`
        "a\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\n""#]]).await;
    check(
        "a\r\nb\r\n",
        json!({"old": "a\nb", "new": "c"}),
        expect![[r#"
        structural: a.txt does not contain `old`: its lines end with \r\n; write \r\n in `old` and `new`
        "a\r\nb\r\n""#]],
    )
    .await;
    check("a", json!({"old": "b", "new": ""}), expect![[r#"
        structural: a.txt does not contain `old`: read the file with fs.read and copy the text exactly, spaces too
        "a""#]]).await;
    check(
        "a",
        json!({"old": "a", "new": "a"}),
        expect![[r#"
        structural: `old` and `new` are the same text, so nothing would change
        "a""#]],
    )
    .await;
    check(
        "a",
        json!({"old": "", "new": "a"}),
        expect![[r#"
        gate_denied: PARAM_SCHEMA: value is shorter than 1 character at /old
        "a""#]],
    )
    .await;
}

#[tokio::test]
async fn an_edit_that_was_made_already_is_recognised_and_still_a_failure() {
    let world = World::new();
    world.put("a.txt", "one\ntwo\n");
    let edit = json!({"path": "a.txt", "old": "two", "new": "three"});
    world.call("fs.edit", edit.clone()).await.unwrap();
    expect!["structural: a.txt does not contain `old`, and contains `new` once, on line 2: the edit may be made already; read the file before you go on"].assert_eq(&world.shown("fs.edit", edit).await);
    check("c\nb\nc\n", json!({"old": "a", "new": "c", "count": 2}), expect![[r#"
        structural: a.txt does not contain `old`, and contains `new` 2 times, on lines 1, 3: the edit may be made already; read the file before you go on
        "c\nb\nc\n""#]]).await;
    check("c\nb\nc\n", json!({"old": "a", "new": "c"}), expect![[r#"
        structural: a.txt does not contain `old`: read the file with fs.read and copy the text exactly, spaces too
        "c\nb\nc\n""#]]).await;
}

#[tokio::test]
async fn only_text_files_of_the_workspace_are_edited() {
    let world = World::new();
    world.put("../outside.txt", "a");
    world.put("binary", b"a\xff");
    world.put("dir/in.txt", "a");
    world.put(".git/hooks/x", "a");
    world.put("ostler.toml", "a");
    symlink("../outside.txt", world.root().join("out")).unwrap();
    symlink("..", world.root().join("up")).unwrap();
    let mut shown = String::new();
    for path in [
        "none",
        "none/x",
        "dir",
        "binary",
        "out",
        "up/outside.txt",
        "../outside.txt",
        ".git/hooks/x",
        "ostler.toml",
    ] {
        let told = world.shown("fs.edit", json!({"path": path, "old": "a", "new": "b"})).await;
        shown.push_str(&format!("{path}: {told}\n"));
    }
    expect![[r#"
        none: structural: none does not exist: use fs.write with mode create to make it
        none/x: structural: none/x does not exist: use fs.write with mode create to make it
        dir: structural: dir in ROOT is a folder
        binary: structural: binary is not UTF-8 text from byte 1: only text can be edited
        out: structural: out leads out of the workspace ROOT: only paths beneath it can be used
        up/outside.txt: structural: up/outside.txt leads out of the workspace ROOT: only paths beneath it can be used
        ../outside.txt: gate_denied: PATH_ESCAPE: path "../outside.txt": it can lead out of the workspace
        .git/hooks/x: structural: .git/hooks/x in ROOT is not written by a plan: .git is guarded
        ostler.toml: structural: ostler.toml in ROOT is not written by a plan: ostler.toml is guarded
    "#]].assert_eq(&shown);
    assert_eq!(std::fs::read_to_string(world.root().join("../outside.txt")).unwrap(), "a");
    assert!(!world.root().join("none").exists(), "a folder was made");
}

#[tokio::test]
async fn a_link_is_followed_within_the_workspace_and_permissions_stay() {
    let world = World::new();
    world.put("dir/in.txt", "a");
    let file = world.root().join("dir/in.txt");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o6750)).unwrap();
    symlink("dir/in.txt", world.root().join("link")).unwrap();
    world.call("fs.edit", json!({"path": "link", "old": "a", "new": "b"})).await.unwrap();
    assert_eq!(world.text("dir/in.txt"), "b");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o750);
    assert!(world.root().join("link").symlink_metadata().unwrap().is_symlink());
}

#[tokio::test]
async fn a_file_is_edited_up_to_the_limits() {
    let world = World::new();
    let edit =
        |old: &str, new: &str, count: usize| json!({"path": "a", "old": old, "new": new, "count": count});
    world.put("a", "x".repeat(EDIT_BYTES_MAX - 1) + "a");
    world.call("fs.edit", edit("a", "b", 1)).await.unwrap();
    expect!["resource_exhaustion: a would have 16777217 bytes, more than 16777216"]
        .assert_eq(&world.shown("fs.edit", edit("b", "bb", 1)).await);
    expect!["structural: a contains `old` 16777215 times, expected at most once, on line 1: give more of the text around the one you mean"].assert_eq(&world.shown("fs.edit", edit("x", "y", 1)).await);
    world.put("a", "x".repeat(EDIT_BYTES_MAX + 1));
    expect!["resource_exhaustion: a has more than 16777216 bytes: split it"]
        .assert_eq(&world.shown("fs.edit", edit("x", "y", 1)).await);
    world.put("a", "x".repeat(EDIT_COUNT_MAX));
    world.call("fs.edit", edit("x", "y", EDIT_COUNT_MAX)).await.unwrap();
    assert_eq!(world.text("a"), "y".repeat(EDIT_COUNT_MAX));
    let shown = world.shown("fs.edit", edit("y", "x", EDIT_COUNT_MAX + 1)).await;
    assert!(shown.starts_with("gate_denied: PARAM_SCHEMA"), "{shown}");
}
