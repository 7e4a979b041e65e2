//! The `fs.*` tools on real files.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::world::World;
use expect_test::{Expect, expect};
use ostler_drivers::tool::{GITIGNORE_BYTES_MAX, GITIGNORE_LINES_MAX, WALK_DEPTH_MAX, WRITE_BYTES_MAX};
use ostler_kernel::run::FailureCategory;
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};
use serde_json::{Value, json};

fn tree() -> World {
    let world = World::new();
    for (path, text) in [
        (".gitignore", "*.log\n/target/\n!keep.log\n"),
        (".hidden", "h"),
        (".git/config", "git"),
        ("a.rs", "aaa"),
        ("keep.log", "k"),
        ("lost.log", "l"),
        ("src/.gitignore", "gen/\n*.tmp\n"),
        ("src/b.rs", "bb"),
        ("src/deep/c.rs", "c"),
        ("src/deep/d.tmp", "d"),
        ("src/gen/e.rs", "e"),
        ("target/f.rs", "f"),
        ("with space/ü.txt", "ü"),
    ] {
        world.put(path, text);
    }
    symlink("/etc", world.root().join("etc")).unwrap();
    symlink("a.rs", world.root().join("alias.rs")).unwrap();
    world
}

async fn check(world: &World, tool: &str, params: Value, expected: Expect) {
    expected.assert_eq(&world.shown(tool, params).await);
}

/// Three entries hide no folder without a word: a list names the folder, and a refused read names the entries.
#[tokio::test]
async fn what_looks_like_a_data_folder_is_left_out_and_named() {
    let world = World::new();
    for path in ["src/in.rs", "src/journal/x", "src/format", "src/lock", "other.rs"] {
        world.put(path, "fn");
    }
    check(
        &world,
        "fs.list",
        json!({"path": "."}),
        expect![[r#"{"bytes":2,"count":1,"data_folders":["src"],"files":["other.rs"]}"#]],
    )
    .await;
    check(
        &world,
        "text.search",
        json!({"pattern": "fn"}),
        expect![[
            r#"{"count":1,"data_folders":["src"],"matches":[{"line":1,"path":"other.rs","text":"fn"}]}"#
        ]],
    )
    .await;
    check(&world, "fs.read", json!({"path": "src/in.rs"}), expect!["structural: src/in.rs in ROOT: it or a folder around it looks like a data folder of ostler, which no tool may touch: it holds journal, format and lock; if it is none, rename one of them"]).await;
}

#[tokio::test]
async fn a_list_has_what_a_person_would_list() {
    let world = tree();
    check(&world, "fs.list", json!({"path": "."}), expect![[r#"{"bytes":9,"count":5,"files":["a.rs","keep.log","src/b.rs","src/deep/c.rs","with space/ü.txt"]}"#]]).await;
    check(
        &world,
        "fs.list",
        json!({"path": ".", "glob": "**/*.rs"}),
        expect![[r#"{"bytes":6,"count":3,"files":["a.rs","src/b.rs","src/deep/c.rs"]}"#]],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": ".", "glob": "*.rs"}),
        expect![[r#"{"bytes":3,"count":1,"files":["a.rs"]}"#]],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": "src", "glob": "*/*.rs"}),
        expect![[r#"{"bytes":1,"count":1,"files":["src/deep/c.rs"]}"#]],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": ".", "hidden": true, "glob": ".*"}),
        expect![[r#"{"bytes":26,"count":2,"files":[".gitignore",".hidden"]}"#]],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": "target"}),
        expect![[r#"{"bytes":1,"count":1,"files":["target/f.rs"]}"#]],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": "src/deep"}),
        expect![[r#"{"bytes":1,"count":1,"files":["src/deep/c.rs"]}"#]],
    )
    .await;
}

#[tokio::test]
async fn a_list_that_cannot_be_whole_is_a_failure() {
    let world = tree();
    check(&world, "fs.list", json!({"path": ".", "max": 5}), expect![[r#"{"bytes":9,"count":5,"files":["a.rs","keep.log","src/b.rs","src/deep/c.rs","with space/ü.txt"]}"#]]).await;
    check(
        &world,
        "fs.list",
        json!({"path": ".", "max": 4}),
        expect!["resource_exhaustion: more than 4 files beneath .: raise max, or ask for fewer with glob"],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": "missing"}),
        expect!["structural: missing in ROOT: No such file or directory (os error 2)"],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": "a.rs"}),
        expect!["structural: a.rs in ROOT: Not a directory (os error 20)"],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": "etc"}),
        expect!["structural: etc leads out of the workspace ROOT: only paths beneath it can be used"],
    )
    .await;
    check(
        &world,
        "fs.list",
        json!({"path": ".", "glob": "[z"}),
        expect![[r#"structural: no glob: unclosed character class; missing ']'"#]],
    )
    .await;
    std::fs::write(world.root().join(std::ffi::OsStr::from_bytes(b"bad\xff.rs")), "").unwrap();
    check(
        &world,
        "fs.list",
        json!({"path": "."}),
        expect!["structural: the name bad�.rs is not UTF-8: rename the file, or leave it out by a glob or .gitignore"],
    )
    .await;
    world.put(".gitignore", "bad*");
    check(
        &world,
        "fs.list",
        json!({"path": ".", "glob": "a.rs"}),
        expect![[r#"{"bytes":3,"count":1,"files":["a.rs"]}"#]],
    )
    .await;
    let nested = |levels: usize| format!("{}a{}", "{".repeat(levels), "}".repeat(levels));
    let deep = "structural: no glob: braces lie deeper than 16 levels";
    for levels in [17, 490] {
        let glob = json!({"path": ".", "glob": nested(levels)});
        assert_eq!(world.shown("fs.list", glob).await, deep);
    }
    world.put(".gitignore", format!("bad*\n{}\n", nested(490)));
    assert_eq!(world.call("fs.list", json!({"path": ".", "glob": "*.rs"})).await.unwrap()["count"], 1);
}

#[tokio::test]
async fn folders_are_listed_down_to_the_limit() {
    let deepest = "d/".repeat(WALK_DEPTH_MAX);
    let world = World::new();
    world.put(&format!("{deepest}file"), "x");
    assert_eq!(world.call("fs.list", json!({"path": "."})).await.unwrap()["count"], 1);
    world.put(&format!("{deepest}d/file"), "x");
    let shown = world.shown("fs.list", json!({"path": "."})).await;
    assert!(shown.ends_with("d lies deeper than 256 folders"), "{shown}");
}

#[tokio::test]
async fn a_gitignore_that_is_none_is_a_failure_only_if_it_is_too_large() {
    let world = World::new();
    world.put("a", "x");
    symlink("/etc/passwd", world.root().join(".gitignore")).unwrap();
    assert_eq!(world.call("fs.list", json!({"path": "."})).await.unwrap()["count"], 1);
    std::fs::remove_file(world.root().join(".gitignore")).unwrap();
    world.put(".gitignore", "#".repeat(GITIGNORE_BYTES_MAX as usize));
    assert_eq!(world.call("fs.list", json!({"path": "."})).await.unwrap()["count"], 1);
    world.put(".gitignore", "#".repeat(GITIGNORE_BYTES_MAX as usize + 1));
    check(
        &world,
        "fs.list",
        json!({"path": "."}),
        expect![
            "resource_exhaustion: .gitignore has more than 1048576 bytes: that is too much for a .gitignore and those above it"
        ],
    )
    .await;
    world.put(".gitignore", "b\n".repeat(GITIGNORE_LINES_MAX - 1));
    world.put("sub/.gitignore", "b\n");
    assert_eq!(world.call("fs.list", json!({"path": "."})).await.unwrap()["count"], 1);
    world.put("sub/.gitignore", "b\nb\n");
    let shown = world.shown("fs.list", json!({"path": "."})).await;
    assert!(shown.starts_with("resource_exhaustion: sub/.gitignore has more than 1 lines"), "{shown}");
}

#[tokio::test]
async fn a_text_is_written_up_to_the_limit() {
    let world = World::new();
    let write = |length: usize| json!({"path": "a", "text": "x".repeat(length), "mode": "replace"});
    world.call("fs.write", write(WRITE_BYTES_MAX)).await.unwrap();
    let shown = world.shown("fs.write", write(WRITE_BYTES_MAX + 1)).await;
    assert!(shown.starts_with("resource_exhaustion") || shown.starts_with("gate_denied"), "{shown}");
    assert_eq!(world.root().join("a").metadata().unwrap().len(), WRITE_BYTES_MAX as u64);
}

#[tokio::test]
async fn a_file_reads_as_it_is_or_not_at_all() {
    let world = tree();
    world.put("latin1", b"caf\xe9");
    check(&world, "fs.read", json!({"path": "./with space/../a.rs"}), expect![[r#"{"bytes":3,"digest":"30c0f9c6a167fc2a91285c85be7ea341569b3b39fcc5f77fd34534cade971d20","path":"a.rs","text":"aaa"}"#]]).await;
    check(&world, "fs.read", json!({"path": "a.rs", "max_bytes": 3}), expect![[r#"{"bytes":3,"digest":"30c0f9c6a167fc2a91285c85be7ea341569b3b39fcc5f77fd34534cade971d20","path":"a.rs","text":"aaa"}"#]]).await;
    check(
        &world,
        "fs.read",
        json!({"path": "a.rs", "max_bytes": 2}),
        expect!["resource_exhaustion: a.rs has more than 2 bytes: raise max_bytes (at most 16777216)"],
    )
    .await;
    check(
        &world,
        "fs.read",
        json!({"path": "latin1"}),
        expect!["structural: latin1 is not UTF-8 text: byte 3 of 4 does not fit"],
    )
    .await;
    check(
        &world,
        "fs.read",
        json!({"path": "etc/passwd"}),
        expect!["structural: etc/passwd leads out of the workspace ROOT: only paths beneath it can be used"],
    )
    .await;
    check(&world, "fs.read", json!({"path": "src"}), expect!["structural: src in ROOT is a folder"]).await;
}

#[tokio::test]
async fn no_call_leaves_the_workspace_by_its_path_or_through_a_link() {
    let world = tree();
    let outside = world.root().parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    symlink("../outside", world.root().join("door")).unwrap();
    symlink("../outside/new", world.root().join("dangling")).unwrap();
    for path in [
        "../outside/secret",
        "door/secret",
        outside.join("secret").to_str().unwrap(),
        "src/../../outside/secret",
    ] {
        for (tool, params) in [
            ("fs.read", json!({"path": path})),
            ("fs.list", json!({"path": path})),
            ("fs.write", json!({"path": path, "text": "", "mode": "replace"})),
            ("fs.write", json!({"path": path, "text": "", "mode": "append"})),
            ("fs.write", json!({"path": format!("{path}2"), "text": "", "mode": "create"})),
            ("text.search", json!({"path": path, "pattern": "."})),
            ("text.search", json!({"files": [path], "pattern": "."})),
            ("text.stats", json!({"files": [path]})),
            ("shell.run", json!({"argv": ["pwd"], "cwd": path})),
        ] {
            let shown = world.shown(tool, params).await;
            let stopped = if path.starts_with("door") { "leads out of the workspace" } else { "PATH_ESCAPE" };
            assert!(shown.contains(stopped), "{tool} {path}: {shown}");
        }
    }
    let _ = world.call("fs.write", json!({"path": "dangling", "text": "x", "mode": "create"})).await;
    let _ = world.call("fs.write", json!({"path": "dangling", "text": "x", "mode": "append"})).await;
    let left: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["secret"]);
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "secret");
}

/// A thread that swaps a folder with a link leading out, over and over.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Swapper {
    fn start(folder: PathBuf, link: PathBuf) -> Swapper {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut swaps = 0;
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        });
        Swapper { stop, thread: Some(thread) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_swapped_for_a_link_meanwhile_leads_nowhere() {
    let world = World::new();
    world.put("sub/file", "inside");
    let outside = world.root().parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "secret").unwrap();
    std::fs::write(outside.join("only-outside"), "secret").unwrap();
    symlink(&outside, world.root().join("door")).unwrap();
    let swapper = Swapper::start(world.root().join("sub"), world.root().join("door"));
    let mut read = 0;
    for _ in 0..100 {
        if let Ok(value) = world.call("fs.read", json!({"path": "sub/file"})).await {
            assert_eq!(value["text"], "inside");
            read += 1;
        }
        let listed = world.shown("fs.list", json!({"path": "."})).await;
        assert!(!listed.contains("only-outside"), "{listed}");
        let written = json!({"path": "sub/new", "text": "x", "mode": "replace"});
        let _ = world.call("fs.write", written).await;
        if let Ok(value) = world.call("shell.run", json!({"argv": ["ls"], "cwd": "sub"})).await {
            assert!(!value["stdout"].as_str().unwrap().contains("only-outside"), "{value}");
        }
    }
    assert!(swapper.end() > 0 && read > 0, "nothing raced");
    let mut left: Vec<_> =
        std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["file", "only-outside"]);
}

#[tokio::test]
async fn writing_is_all_or_nothing_and_repeatable() {
    let world = World::new();
    let write = |path: &str, text: &str, mode: &str| json!({"path": path, "text": text, "mode": mode});
    check(
        &world,
        "fs.write",
        write("out/new.md", "one", "create"),
        expect![[r#"{"bytes":3,"digest":"d33fb48ab5adff269ae172b29a6913ff04f6f266207a7a8e976f2ecd571d4492","path":"out/new.md"}"#]],
    )
    .await;
    check(&world, "fs.write", write("out/new.md", "one", "create"), expect![[r#"{"bytes":3,"digest":"d33fb48ab5adff269ae172b29a6913ff04f6f266207a7a8e976f2ecd571d4492","path":"out/new.md"}"#]]).await;
    check(
        &world,
        "fs.write",
        write("out/new.md", "two", "create"),
        expect![
            "structural: out/new.md exists already with another content: use mode replace to overwrite it"
        ],
    )
    .await;
    assert_eq!(world.text("out/new.md"), "one");
    check(
        &world,
        "fs.write",
        write("out/new.md", "two", "replace"),
        expect![[r#"{"bytes":3,"digest":"dc770fff53f50835f8cc957e01c0d5731d3c2ed544c375493a28c09be5e09763","path":"out/new.md"}"#]],
    )
    .await;
    check(&world, "fs.write", write("out/new.md", "!", "append"), expect![[r#"{"bytes":1,"digest":"c8d11b9f7237e4034adbcd2005735f9bc4c597c75ad89f4492bec8f77d15f7eb","path":"out/new.md"}"#]]).await;
    assert_eq!(world.text("out/new.md"), "two!");
    check(&world, "fs.write", write("out/log", "x", "append"), expect![[r#"{"bytes":1,"digest":"3ae7d805f6789a6402acb70ad4096a85a56bf6804eaf25c0493ac697548d30b5","path":"out/log"}"#]]).await;
    check(
        &world,
        "fs.write",
        write("out/log/x", "x", "create"),
        expect!["structural: out/log/x in ROOT: Not a directory (os error 20)"],
    )
    .await;
    let mut left: Vec<_> = std::fs::read_dir(world.root().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["log", "new.md"], "nothing temporary stays");
}

#[tokio::test]
async fn what_is_no_file_is_told_in_the_same_words_whoever_reads_or_writes_it() {
    let world = World::new();
    std::fs::create_dir(world.root().join("d")).unwrap();
    symlink("d", world.root().join("link")).unwrap();
    mkfifoat(CWD, world.root().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    for (path, what) in
        [("d", "a folder"), (".", "a folder"), ("link", "a folder"), ("pipe", "no regular file")]
    {
        let expected = format!("structural: {path} in ROOT is {what}");
        assert_eq!(world.shown("fs.read", json!({"path": path})).await, expected);
        for mode in ["create", "replace", "append"] {
            let params = json!({"path": path, "text": "x", "mode": mode});
            assert_eq!(world.shown("fs.write", params).await, expected, "{mode}");
        }
    }
}

#[tokio::test]
async fn replacing_keeps_the_mode_and_goes_through_links_within() {
    let world = World::new();
    world.put("real.sh", "old");
    std::fs::set_permissions(world.root().join("real.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("real.sh", world.root().join("link.sh")).unwrap();
    world.call("fs.write", json!({"path": "link.sh", "text": "new", "mode": "replace"})).await.unwrap();
    assert_eq!(world.text("real.sh"), "new");
    assert!(world.root().join("link.sh").is_symlink());
    let mode = world.root().join("real.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

#[tokio::test]
async fn what_is_written_runs_as_nobody_else() {
    let world = World::new();
    for mode in ["replace", "append"] {
        world.put("tool", "old");
        let file = world.root().join("tool");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o7755)).unwrap();
        world.call("fs.write", json!({"path": "tool", "text": "new", "mode": mode})).await.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o755, "{mode}");
    }
}

#[tokio::test]
async fn nothing_is_made_through_a_link_that_leads_nowhere() {
    let world = World::new();
    for folder in [".git/hooks", "data"] {
        std::fs::create_dir_all(world.root().join(folder)).unwrap();
    }
    for target in [".git/hooks/pre-commit", "ostler.toml", "data/ostler.toml", "other.txt"] {
        let link = world.root().join("notes.txt");
        symlink(target, &link).unwrap();
        for mode in ["append", "create"] {
            let refused =
                world.call("fs.write", json!({"path": "notes.txt", "text": "x", "mode": mode})).await;
            assert_eq!(refused.unwrap_err().category, FailureCategory::Structural, "{mode} {target}");
        }
        assert!(!world.root().join(target).exists(), "{target}");
        // The link itself may be replaced.
        world.call("fs.write", json!({"path": "notes.txt", "text": "x", "mode": "replace"})).await.unwrap();
        assert!(!world.root().join(target).exists() && world.text("notes.txt") == "x", "{target}");
        std::fs::remove_file(link).unwrap();
    }
}

#[tokio::test]
async fn a_file_with_a_name_outside_is_not_written() {
    let world = World::new();
    let outside = world.root().parent().unwrap().join("outside");
    std::fs::write(&outside, "old").unwrap();
    std::fs::hard_link(&outside, world.root().join("linked")).unwrap();
    for (tool, params) in [
        ("fs.write", json!({"path": "linked", "text": "new", "mode": "append"})),
        ("fs.write", json!({"path": "linked", "text": "new", "mode": "replace"})),
        ("fs.edit", json!({"path": "linked", "old": "old", "new": "new"})),
    ] {
        let shown = world.shown(tool, params).await;
        assert!(shown.contains("the file has other names (hard links)"), "{shown}");
        assert_eq!(
            (std::fs::read_to_string(&outside).unwrap().as_str(), world.text("linked").as_str()),
            ("old", "old")
        );
    }
}
