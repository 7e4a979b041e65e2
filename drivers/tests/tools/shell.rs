//! `shell.run` with real processes.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::world::{HELPER, World};
use expect_test::{Expect, expect};
use ostler_drivers::cage::{SandboxConfig, reached};
use ostler_drivers::tool::{OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES};
use ostler_kernel::gate::OBSERVING_ENVIRONMENT;
use ostler_kernel::port::CageRung;
use serde_json::{Value, json};

async fn check(params: Value, expected: Expect) {
    let world = World::new();
    world.put("sub/file", "x");
    expected.assert_eq(&world.shown("shell.run", params).await);
}

fn script(text: &str) -> Value {
    json!({"argv": ["sh", "-c", text]})
}

async fn until<T>(mut fact: impl FnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = fact() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it never came to pass")
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The process whose id in its own namespace a file has.
fn pid_in(world: &World, file: &str) -> Option<i32> {
    let told = std::fs::read_to_string(world.root().join(file)).ok()?;
    living_in(world).into_iter().find(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        ids.and_then(|ids| ids.split_whitespace().next_back()) == Some(told.trim())
    })
}

/// The processes whose folder is the workspace.
fn living_in(world: &World) -> Vec<i32> {
    let root = world.root().canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|it| it == root)).collect()
}

#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    check(
        json!({"argv": ["printf", "%s|", "$HOME", "*", "a b", ""]}),
        expect![[r#"{"status":0,"stderr":"","stderr_bytes_left_out":0,"stdout":"$HOME|*|a b||","stdout_bytes_left_out":0}"#]],
    )
    .await;
    check(json!({"argv": ["ls"], "cwd": "sub"}), expect![[r#"{"status":0,"stderr":"","stderr_bytes_left_out":0,"stdout":"file\n","stdout_bytes_left_out":0}"#]])
        .await;
    check(
        json!({"argv": ["pwd"], "cwd": "sub/.."}),
        expect![[r#"{"status":0,"stderr":"","stderr_bytes_left_out":0,"stdout":"ROOT\n","stdout_bytes_left_out":0}"#]],
    )
    .await;
    check(
        json!({"argv": ["cat"], "stdin": "given"}),
        expect![[
            r#"{"status":0,"stderr":"","stderr_bytes_left_out":0,"stdout":"given","stdout_bytes_left_out":0}"#
        ]],
    )
    .await;
    check(
        json!({"argv": ["cat"]}),
        expect![[
            r#"{"status":0,"stderr":"","stderr_bytes_left_out":0,"stdout":"","stdout_bytes_left_out":0}"#
        ]],
    )
    .await;
    check(
        json!({"argv": ["printf", "\\377"]}),
        expect![[
            r#"{"status":0,"stderr":"","stderr_bytes_left_out":0,"stdout":"�","stdout_bytes_left_out":0}"#
        ]],
    )
    .await;
}

#[tokio::test]
async fn a_status_that_was_not_allowed_is_a_failure_with_the_last_words() {
    check(script("echo out; echo oh no >&2; exit 3"), expect!["structural: sh ended with status 3: oh no"])
        .await;
    check(
        json!({"argv": ["sh", "-c", "echo no >&2; exit 3"], "allow_status": [0, 3]}),
        expect![[
            r#"{"status":3,"stderr":"no\n","stderr_bytes_left_out":0,"stdout":"","stdout_bytes_left_out":0}"#
        ]],
    )
    .await;
    check(json!({"argv": ["true"], "allow_status": [1]}), expect!["structural: true ended with status 0"])
        .await;
    check(
        script("echo 3 of 4 tests failed; exit 1"),
        expect!["structural: sh ended with status 1: 3 of 4 tests failed"],
    )
    .await;
    check(script("kill -9 $$"), expect!["crash: sh was ended (signal: 9 (SIGKILL))"]).await;
    let shown = World::new().shown("shell.run", script("yes é | head -c 9000 >&2; exit 1")).await;
    assert!(shown.contains("…") && shown.len() < 3_000, "{shown}");
}

#[tokio::test]
async fn a_program_that_cannot_start_is_named() {
    check(
        json!({"argv": ["no-such-program"]}),
        expect!["structural: there is no program no-such-program (it, or what interprets it, is not found)"],
    )
    .await;
    check(
        json!({"argv": ["./sub/file"]}),
        expect!["structural: cannot start ./sub/file: Permission denied (os error 13)"],
    )
    .await;
    check(json!({"argv": ["/"]}), expect!["structural: cannot start /: Permission denied (os error 13)"])
        .await;
    check(
        json!({"argv": ["true", "a\u{1}b"], "cwd": "missing"}),
        expect!["structural: missing in ROOT: No such file or directory (os error 2)"],
    )
    .await;
}

#[tokio::test]
async fn a_program_sees_nothing_of_our_environment_that_may_be_secret() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to hide");
    let value = World::new().call("shell.run", json!({"argv": ["env"]})).await.unwrap();
    let allowed = [
        "PATH",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "TMPDIR",
        "TZ",
        "USER",
        "PWD",
        "SHLVL",
        "_",
        "OSTLER_CALL",
    ];
    for line in value["stdout"].as_str().unwrap().lines() {
        let (name, _) = line.split_once('=').unwrap();
        assert!(allowed.contains(&name) || name.starts_with("LC_"), "{line}");
    }
}

#[tokio::test]
async fn what_only_looks_gets_an_environment_that_keeps_it_so() {
    let world = World::with("[shell]\nallow = [{argv = [\"env\"], impact = 0, effect = \"read\"}]");
    let value = world.call("shell.run", json!({"argv": ["env"]})).await.unwrap();
    let lines: Vec<&str> = value["stdout"].as_str().unwrap().lines().collect();
    for (name, wanted) in OBSERVING_ENVIRONMENT {
        assert!(lines.contains(&&*format!("{name}={wanted}")), "{name} is missing in {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_a_call_up_kills_all_of_its_group() {
    let world = World::new();
    let inner = "sh -c 'echo $$ > inner.new && mv inner.new inner && exec sleep 1000' & wait";
    let argv = script(&format!("echo $$ > outer.new && mv outer.new outer; {inner}"));
    let call = tokio::time::timeout(Duration::from_secs(3_600), world.call("shell.run", argv));
    let pids = until(|| Some((pid_in(&world, "outer")?, pid_in(&world, "inner")?)));
    let (outer, inner) = tokio::select! {
        pids = pids => pids,
        result = call => panic!("it ended: {result:?}"),
    };
    until(|| (!is_alive(outer) && !is_alive(inner)).then_some(())).await;
    until(|| (!std::path::Path::new(&format!("/proc/{outer}")).exists()).then_some(())).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let world = World::new();
    world.call("shell.run", script("sleep 1000 &")).await.unwrap();
    until(|| living_in(&world).is_empty().then_some(())).await;
}

#[tokio::test]
async fn who_leaves_the_group_does_not_hold_the_call_up() {
    let world = World::new();
    let away = "setsid sh -c 'echo $$ > away.new && mv away.new away && exec sleep 1000' &";
    let value =
        world.call("shell.run", script(&format!("{away} until test -s away; do :; done; echo done"))).await;
    assert_eq!(value.unwrap()["stdout"], "done\n");
    until(|| living_in(&world).is_empty().then_some(())).await;
}

/// Drops a call once its program has written `away`; returns the process named there.
async fn given_up(world: &World, text: &str) -> i32 {
    let call = tokio::time::timeout(Duration::from_secs(3_600), world.call("shell.run", script(text)));
    tokio::select! {
        pid = until(|| pid_in(world, "away")) => pid,
        result = call => panic!("it ended: {result:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_a_call_up_kills_who_left_the_group_too() {
    let announce = "'echo $$ > away.new && mv away.new away && exec sleep 1000'";
    for (name, text) in [
        ("a session of its own", format!("setsid sh -c {announce} & wait")),
        ("without the mark", format!("env -i PATH=\"$PATH\" setsid sh -c {announce} & wait")),
        ("an orphan", format!("(setsid sh -c {announce} &) & wait; sleep 1000")),
    ] {
        let away = given_up(&World::new(), &text).await;
        assert!(
            tokio::time::timeout(Duration::from_secs(60), until(|| (!is_alive(away)).then_some(())))
                .await
                .is_ok(),
            "{name}"
        );
    }
}

/// A folder outside the workspace and the temporary folder.
fn elsewhere() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    assert!(!folder.path().starts_with(std::env::temp_dir()), "{}", folder.path().display());
    folder
}

fn is_confined() -> bool {
    let bubblewrap = Some("/nonexistent".into());
    let config = SandboxConfig { helper: Some(HELPER.into()), bubblewrap, ..SandboxConfig::default() };
    let reached = reached(&config);
    let is_confined = reached.rung > CageRung::None;
    if !is_confined {
        eprintln!("skipped: this machine confines no programs: {}", reached.missing);
    }
    is_confined
}

#[tokio::test]
async fn a_program_writes_in_the_workspace_and_for_a_while_and_nowhere_else() {
    if !is_confined() {
        return;
    }
    let outside = elsewhere();
    let place = outside.path().to_str().unwrap();
    std::fs::write(outside.path().join("old"), "old").unwrap();
    let attempts = "echo x > P/new || echo no; echo x >> P/old || echo no; rm P/old || echo no; mkdir P/d || echo no; \
                    mv P/old . || echo no; setsid sh -c 'echo x > P/new' || echo no; cat P/old || echo no";
    let refused = World::new().call("shell.run", script(&attempts.replace('P', place))).await.unwrap();
    assert_eq!(refused["stdout"], "no\n".repeat(7));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);

    let inside = "mkdir a && echo x > a/b && mv a/b c && t=$(mktemp) && mv $t d && echo > /dev/null && cat c";
    assert_eq!(World::new().call("shell.run", script(inside)).await.unwrap()["stdout"], "x\n");

    let write = script(&format!("echo x > {place}/new"));
    World::with(&format!("[shell]\nwrite = [{place:?}]")).call("shell.run", write.clone()).await.unwrap();
    std::fs::remove_file(outside.path().join("new")).unwrap();
    World::with("[shell]\nsandbox = false").call("shell.run", write).await.unwrap();
    assert!(outside.path().join("new").exists());
}

#[tokio::test]
async fn what_only_looks_writes_nowhere() {
    if !is_confined() {
        return;
    }
    let world = World::with("[shell]\nallow = [{argv = [\"sh\", \"*\"], impact = 0, effect = \"read\"}]");
    let shown = world.shown("shell.run", script("echo x > new")).await;
    assert!(shown.starts_with("structural: sh ended with status 2"), "{shown}");
    assert!(!world.root().join("new").exists());
}

fn git(world: &World, arguments: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.current_dir(world.root()).args(arguments);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.com"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.com"),
    ] {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with a submodule whose settings name a program in every possible place.
fn hostile() -> World {
    let world = World::with("[shell]\nsandbox = false");
    let trap = world.root().join("trap");
    let (trapped, trap) = (world.root().join("trapped"), trap.to_str().unwrap().to_owned());
    for repository in ["sub", "."] {
        git(&world, &["init", "-q", "-b", "main", repository]);
    }
    world.put("sub/b.txt", "b\n");
    git(&world, &["-C", "sub", "add", "b.txt"]);
    git(&world, &["-C", "sub", "commit", "-q", "-m", "sub"]);
    world.put(".gitattributes", "*.txt diff=own filter=own merge=own\n");
    for text in ["one\n", "two\n"] {
        world.put("a.txt", text);
        git(&world, &["add", "."]);
        git(&world, &["commit", "-q", "-m", text]);
    }
    world.put("a.txt", "six\n");
    world.put("sub/b.txt", "c\n");
    world.put("trap", format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", trapped.display()));
    std::fs::set_permissions(world.root().join("trap"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    for repository in [".", "sub"] {
        for key in [
            "core.fsmonitor",
            "core.pager",
            "core.sshCommand",
            "core.editor",
            "diff.external",
            "diff.own.command",
            "diff.own.textconv",
            "filter.own.clean",
            "filter.own.smudge",
            "filter.own.process",
            "gpg.program",
            "gpg.ssh.program",
            "merge.own.driver",
            "pager.log",
            "pager.diff",
            "alias.log",
            "alias.status",
            "credential.helper",
            "sequence.editor",
        ] {
            git(&world, &["-C", repository, "config", key, &trap]);
        }
        for (key, value) in [
            ("log.showSignature", "true"),
            ("log.diffMerges", "remerge"),
            ("filter.own.required", "true"),
            ("status.submoduleSummary", "true"),
            ("diff.submodule", "diff"),
            ("diff.ignoreSubmodules", "none"),
        ] {
            git(&world, &["-C", repository, "config", key, value]);
        }
    }
    world
}

#[tokio::test]
async fn a_hostile_repository_starts_no_program_when_git_only_looks() {
    let world = hostile();
    for line in [
        "git log -p",
        "git log --stat -3",
        "git show",
        "git show HEAD:a.txt",
        "git diff",
        "git diff --stat",
        "git diff --cached",
        "git status",
        "git status --porcelain",
        "git blame a.txt",
        "git ls-files",
        "git shortlog -sne HEAD",
        "git rev-parse HEAD",
        "git branch --show-current",
    ] {
        let argv: Vec<&str> = line.split(' ').collect();
        let tool = world.tool("shell.run");
        let params = json!({"argv": argv});
        assert_eq!(tool.class(params.as_object().unwrap()).impact, 0, "{line}");
        let shown = world.shown("shell.run", params).await;
        assert!(shown.starts_with("{"), "{line}: {shown}");
        let trapped = std::fs::read_to_string(world.root().join("trapped")).unwrap_or_default();
        assert_eq!(trapped, "", "{line}");
    }
    let diff = world.call("shell.run", json!({"argv": ["git", "diff"]})).await.unwrap();
    assert!(diff["stdout"].as_str().unwrap().contains("-two\n+six\n"), "{diff}");
    // The settings do start programs without the overrides.
    let acting = world.shown("shell.run", script("git status; git diff")).await;
    assert!(world.root().join("trapped").exists(), "{acting}");
}

#[tokio::test]
async fn a_flood_is_read_and_left_out() {
    let world = World::new();
    let both = "head -c 30000000 /dev/zero | tr '\\0' a; echo end; head -c 3000000 /dev/zero >&2";
    let value = world.call("shell.run", script(both)).await.unwrap();
    let stdout = value["stdout"].as_str().unwrap();
    let note = format!("\n[{} bytes left out]\n", 30_000_004 - OUTPUT_HEAD_BYTES - OUTPUT_TAIL_BYTES);
    assert_eq!(stdout.len(), OUTPUT_HEAD_BYTES + note.len() + OUTPUT_TAIL_BYTES);
    assert!(stdout.contains(&note) && stdout.ends_with("aend\n"));
    assert_eq!(value["stdout_bytes_left_out"], 30_000_004 - OUTPUT_HEAD_BYTES - OUTPUT_TAIL_BYTES);
    assert_eq!(value["stderr_bytes_left_out"], 3_000_000 - OUTPUT_HEAD_BYTES - OUTPUT_TAIL_BYTES);
    let whole = format!("head -c {} /dev/zero", OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES);
    let value = world.call("shell.run", script(&whole)).await.unwrap();
    assert_eq!(value["stdout"].as_str().unwrap().len(), OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES);
}

#[tokio::test]
async fn input_and_output_may_both_be_large() {
    let world = World::new();
    let text = "0123456789".repeat(50_000);
    let value = world.call("shell.run", json!({"argv": ["cat"], "stdin": text})).await.unwrap();
    assert_eq!(value["stdout"], text);
    let unread = world.call("shell.run", json!({"argv": ["true"], "stdin": text})).await.unwrap();
    assert_eq!(unread["status"], 0);
}

/// Runs in a process of its own, with a terminal of its own.
#[tokio::test]
async fn a_program_neither_types_at_the_terminal_of_its_holder_nor_asks_there() {
    const CHILD: &str = "OSTLER_TEST_AT_A_TERMINAL";
    if std::env::var_os(CHILD).is_none() {
        let name = "shell::a_program_neither_types_at_the_terminal_of_its_holder_nor_asks_there";
        let test = std::env::current_exe().unwrap();
        let again = format!("{} --exact {name} --nocapture", test.display());
        let at_terminal = std::process::Command::new("script")
            .args(["-qec", &again, "/dev/null"])
            .env(CHILD, "1")
            .stdin(std::process::Stdio::null())
            .output();
        let Ok(output) = at_terminal else {
            return eprintln!("skipped: no program `script` makes a terminal");
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    assert!(std::fs::File::open("/dev/tty").is_ok(), "there is a terminal");
    if !is_confined() {
        return;
    }
    let world = World::new();
    for (line, from) in [("echo y > /dev/tty", (5, 13)), ("stty -F /dev/tty -a", (6, 10))] {
        if kernel() < from {
            eprintln!("skipped: {line}: the kernel is older than {from:?}");
            continue;
        }
        let shown = world.shown("shell.run", script(line)).await;
        assert!(shown.contains("Permission denied"), "{line}: {shown}");
    }
    // Other devices remain writable.
    let shown = world.shown("shell.run", script("echo x > /dev/null")).await;
    assert!(shown.contains("\"status\":0"), "{shown}");
}

fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Tells when it is dropped whether a program still has the pipe open.
struct ClosedPipe {
    pipe: Mutex<Option<File>>,
    told: mpsc::Sender<bool>,
}

impl Drop for ClosedPipe {
    fn drop(&mut self) {
        let mut pipe = self.pipe.get_mut().unwrap().take().expect("the program has opened it");
        let _ = self.told.send(matches!(pipe.read(&mut [0; 8]), Ok(0)));
    }
}

#[tokio::test]
async fn what_a_call_holds_is_kept_until_all_that_a_dropped_call_started_has_ended() {
    let world = Arc::new(World::new());
    let path = world.root().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let (told, is_closed) = mpsc::channel();
    let held = Arc::new(ClosedPipe { pipe: Mutex::default(), told });
    let kept = held.clone();
    let within = world.clone();
    let call = tokio::spawn(async move {
        let script = "exec 9>pipe; echo begun >&9; setsid sleep 600 & sleep 600";
        within.call_holding("shell.run", json!({"argv": ["sh", "-c", script]}), kept).await
    });
    let begun = tokio::task::spawn_blocking(move || {
        let mut pipe = File::open(path).unwrap();
        pipe.read_exact(&mut [0; 6]).unwrap();
        rustix::io::ioctl_fionbio(&pipe, true).unwrap();
        pipe
    });
    *held.pipe.lock().unwrap() = Some(begun.await.unwrap());
    drop(held);
    call.abort();
    let is_closed = tokio::task::spawn_blocking(move || is_closed.recv().unwrap());
    assert!(is_closed.await.unwrap(), "a program goes on");
}
