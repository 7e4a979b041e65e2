//! `shell.run` with real processes.

use std::time::Duration;

use crate::world::World;
use expect_test::{Expect, expect};
use ostler_drivers::tool::{OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES};
use ostler_kernel::gate::OBSERVING_ENVIRONMENT;
use serde_json::{Value, json};

async fn check(params: Value, expected: Expect) {
    let world = World::new();
    world.put("sub/file", "x");
    expected.assert_eq(&world.shown("shell.run", params).await);
}

fn script(text: &str) -> Value {
    json!({"argv": ["sh", "-c", text]})
}

/// Waits for a fact; a fact that does not come to pass within a minute is a failure of the test.
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

fn pid_in(world: &World, file: &str) -> Option<i32> {
    std::fs::read_to_string(world.root().join(file)).ok()?.trim().parse().ok()
}

#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    check(
        json!({"argv": ["printf", "%s|", "$HOME", "*", "a b", ""]}),
        expect![[r#"{"status":0,"stderr":"","stdout":"$HOME|*|a b||"}"#]],
    )
    .await;
    check(json!({"argv": ["ls"], "cwd": "sub"}), expect![[r#"{"status":0,"stderr":"","stdout":"file\n"}"#]])
        .await;
    check(
        json!({"argv": ["pwd"], "cwd": "sub/.."}),
        expect![[r#"{"status":0,"stderr":"","stdout":"ROOT\n"}"#]],
    )
    .await;
    check(
        json!({"argv": ["cat"], "stdin": "given"}),
        expect![[r#"{"status":0,"stderr":"","stdout":"given"}"#]],
    )
    .await;
    check(json!({"argv": ["cat"]}), expect![[r#"{"status":0,"stderr":"","stdout":""}"#]]).await;
    check(json!({"argv": ["printf", "\\377"]}), expect![[r#"{"status":0,"stderr":"","stdout":"�"}"#]]).await;
}

#[tokio::test]
async fn a_status_that_was_not_allowed_is_a_failure_with_the_last_words() {
    check(script("echo out; echo oh no >&2; exit 3"), expect!["structural: sh ended with status 3: oh no"])
        .await;
    check(
        json!({"argv": ["sh", "-c", "echo no >&2; exit 3"], "allow_status": [0, 3]}),
        expect![[r#"{"status":3,"stderr":"no\n","stdout":""}"#]],
    )
    .await;
    check(json!({"argv": ["true"], "allow_status": [1]}), expect!["structural: true ended with status 0"])
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
    let allowed =
        ["PATH", "HOME", "LANG", "LANGUAGE", "LOGNAME", "TMPDIR", "TZ", "USER", "PWD", "SHLVL", "_"];
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
    let value = world.call("shell.run", script("sleep 1000 & echo $!")).await.unwrap();
    let left: i32 = value["stdout"].as_str().unwrap().trim().parse().unwrap();
    until(|| (!is_alive(left)).then_some(())).await;
}

#[tokio::test]
async fn who_leaves_the_group_does_not_hold_the_call_up() {
    let world = World::new();
    let away = "setsid sh -c 'echo $$ > away.new && mv away.new away && exec sleep 1000' &";
    let value =
        world.call("shell.run", script(&format!("{away} until test -s away; do :; done; echo done"))).await;
    let pid = rustix::process::Pid::from_raw(pid_in(&world, "away").unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(value.unwrap()["stdout"], "done\n");
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
