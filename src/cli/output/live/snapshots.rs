//! Snapshots of the tree in windows of several sizes.

use std::fmt::Write;

use expect_test::{ExpectFile, expect_file};
use serde_json::json;

use crate::cli::output::cells::{visible, width};
use crate::cli::output::live::draw::{Viewport, tree};
use crate::cli::output::live::model::RunModel;
use crate::cli::output::live::model::tests::{line, model, move_to};

const WIDTHS: [usize; 4] = [20, 40, 80, 200];

const HEIGHTS: [usize; 3] = [5, 24, 60];

/// Draws in every size, and compares with the snapshot. A frame equal to an earlier one is listed by its
/// size only.
fn check(model: &mut RunModel, now_ms: i64, expected: &ExpectFile) {
    model.update_levels();
    let mut told = String::new();
    let mut seen: Vec<(Vec<String>, String)> = Vec::new();
    for columns in WIDTHS {
        for rows in HEIGHTS {
            let size = format!("{columns}x{rows}");
            let viewport = Viewport { columns, rows, colour: false, now_ms, frame: 0 };
            let lines = tree(model, &viewport);
            assert!(lines.len() <= rows, "{size}: {lines:#?}");
            for line in &lines {
                assert!(width(line) <= columns, "{size}: {line:?}");
                assert!(!line.chars().any(char::is_control), "{size}: {line:?}");
            }
            let coloured = tree(model, &Viewport { colour: true, ..viewport });
            let widths = |lines: &[String]| lines.iter().map(|line| visible(line)).collect::<Vec<_>>();
            assert_eq!(widths(&coloured), widths(&lines), "{size}");
            match seen.iter().find(|(known, _)| *known == lines) {
                Some((_, at)) => writeln!(told, "== {size}: as {at}\n").unwrap(),
                None => {
                    writeln!(told, "== {size}\n{}\n", lines.join("\n")).unwrap();
                    seen.push((lines, size));
                }
            }
        }
    }
    expected.assert_eq(&told);
}

/// Moves a node to a state, through `running` where needed.
fn bring(model: &mut RunModel, at_ms: i64, node: &str, to: &str, reason: &str) {
    if matches!(to, "executed" | "failed" | "failed_retryable" | "waiting_human") {
        move_to(model, at_ms - 40, node, "running", "attempt:1");
    }
    move_to(model, at_ms, node, to, reason);
}

fn fail(model: &mut RunModel, at_ms: i64, node: &str, to: &str, message: &str) {
    let outcome = json!({"failed": {"message": message}});
    model.record(&line(at_ms, "attempt_result", json!({"node": node, "outcome": outcome, "cost": 2})));
    bring(model, at_ms, node, to, "transient");
}

/// Waves of nodes; each node depends on the one with its number in the wave before.
fn waves(waves: usize, nodes: usize) -> RunModel {
    let name = |wave: usize, node: usize| format!("w{wave}-{node:04}");
    let names: Vec<(String, Option<String>)> = (1..=waves)
        .flat_map(|wave| {
            (0..nodes).map(move |node| (name(wave, node), (wave > 1).then(|| name(wave - 1, node))))
        })
        .collect();
    let deps: Vec<Vec<&str>> = names.iter().map(|(_, dep)| dep.as_deref().into_iter().collect()).collect();
    let plan: Vec<(&str, &[&str])> =
        names.iter().zip(&deps).map(|((name, _), deps)| (name.as_str(), deps.as_slice())).collect();
    model(&plan)
}

#[test]
fn one_node() {
    let mut model = model(&[("fetch", &[])]);
    bring(&mut model, 10, "fetch", "running", "attempt:1");
    check(&mut model, 2_340, &expect_file!["snapshots/1.txt"]);
}

fn five() -> RunModel {
    let mut model = model(&[
        ("list", &[]),
        ("todos", &["list"]),
        ("stats", &["list"]),
        ("summary", &["todos"]),
        ("report", &["todos", "stats", "summary"]),
    ]);
    bring(&mut model, 60, "list", "executed", "ok");
    bring(&mut model, 110, "todos", "executed", "ok");
    fail(&mut model, 130, "stats", "failed", "docs/日本語.md: not UTF-8 at byte 17 🦀\nand more");
    move_to(&mut model, 140, "summary", "running", "attempt:1");
    model
}

#[test]
fn five_nodes() {
    check(&mut five(), 1_340, &expect_file!["snapshots/5.txt"]);
}

#[test]
fn five_nodes_after_a_new_version() {
    let mut model = five();
    model.record(&line(150, "replan_asked", json!({"for_contract": false})));
    let nodes = json!([
        {"id": "stats-2", "deps": [{"n": "clean"}]},
        {"id": "clean", "deps": [{"n": "list"}]},
        {"id": "report", "deps": [{"n": "todos"}, {"n": "stats-2"}, {"n": "summary"}]},
    ]);
    model.record(&line(160, "plan_version", json!({"version": 2, "revision": {"nodes": nodes}})));
    check(&mut model, 1_340, &expect_file!["snapshots/5_changed.txt"]);
}

#[test]
fn fourteen_nodes_in_every_state() {
    let mut model = model(&[
        ("executed", &[]),
        ("failed", &["executed"]),
        ("retrying", &["executed"]),
        ("mending", &["executed"]),
        ("doubtful", &["executed"]),
        ("asking", &["executed"]),
        ("running", &["executed"]),
        ("sleeping", &["executed"]),
        ("draining", &["executed"]),
        ("ready", &["executed"]),
        ("held", &["running"]),
        ("blocked", &["failed"]),
        ("skipped", &["running"]),
        ("cancelled", &["blocked"]),
    ]);
    bring(&mut model, 60, "executed", "executed", "ok");
    fail(&mut model, 200, "failed", "failed", "no such file: notes.md");
    fail(&mut model, 220, "retrying", "failed_retryable", "connection refused");
    model.record(&line(220, "timer_set", json!({"node": "retrying", "kind": "backoff", "at_ms": 6_000})));
    fail(&mut model, 230, "mending", "failed_retryable", "the template has no {{ title }}");
    bring(&mut model, 240, "doubtful", "waiting_human", "in_doubt");
    let body = json!({"node": "doubtful", "kind": "in_doubt", "deadline_ms": null});
    model.record(&line(240, "human_request", body));
    bring(&mut model, 250, "asking", "waiting_human", "approve_before");
    let body = json!({"node": "asking", "kind": "before", "deadline_ms": 300_250});
    model.record(&line(250, "human_request", body));
    for node in ["running", "sleeping", "draining"] {
        move_to(&mut model, 300, node, "running", "attempt:1");
    }
    model.record(&line(300, "timer_set", json!({"node": "sleeping", "kind": "sleep", "at_ms": 60_300})));
    model.record(&line(310, "draining", json!({"node": "draining"})));
    move_to(&mut model, 320, "ready", "ready", "all_of");
    move_to(&mut model, 320, "held", "blocked", "hold");
    move_to(&mut model, 320, "blocked", "blocked", "upstream:failed");
    move_to(&mut model, 320, "skipped", "skipped", "sibling_won");
    move_to(&mut model, 320, "cancelled", "cancelled", "upstream:blocked");
    check(&mut model, 2_000, &expect_file!["snapshots/14.txt"]);
}

#[test]
fn the_children_of_a_list_are_folded() {
    let mut model = model(&[("find", &[]), ("read", &["find"]), ("report", &["read"])]);
    bring(&mut model, 60, "find", "executed", "ok");
    let children = (0..50).map(|at| json!({"id": format!("read.{at}"), "deps": [{"n": "find"}]}));
    let deps: Vec<_> = (0..50).map(|at| json!({"n": format!("read.{at}")})).collect();
    let nodes: Vec<_> = children.chain([json!({"id": "read", "kind": "collector", "deps": deps})]).collect();
    let version = json!({"version": 2, "cause": "expand:read", "revision": {"nodes": nodes}});
    model.record(&line(70, "plan_version", version));
    (0..46).for_each(|at| bring(&mut model, 100 + at, &format!("read.{at}"), "executed", "ok"));
    fail(&mut model, 200, "read.46", "failed", "no such file");
    fail(&mut model, 210, "read.47", "failed", "no such file");
    move_to(&mut model, 220, "read.48", "running", "attempt:1");
    move_to(&mut model, 230, "read.49", "running", "attempt:1");
    check(&mut model, 500, &expect_file!["snapshots/50_list.txt"]);
}

#[test]
fn two_hundred_nodes() {
    let mut model = waves(10, 20);
    for wave in 1..=3 {
        (0..20)
            .for_each(|node| bring(&mut model, 100 * wave, &format!("w{wave}-{node:04}"), "executed", "ok"));
    }
    (0..9).for_each(|node| bring(&mut model, 500, &format!("w4-{node:04}"), "executed", "ok"));
    fail(&mut model, 510, "w4-0009", "failed", "status 503");
    (10..14)
        .for_each(|node| move_to(&mut model, 520 + node, &format!("w4-{node:04}"), "running", "attempt:1"));
    move_to(&mut model, 530, "w5-0003", "running", "attempt:1");
    check(&mut model, 754_321, &expect_file!["snapshots/200.txt"]);
}

#[test]
fn five_thousand_nodes() {
    let mut model = waves(5, 1_000);
    (0..1_000).for_each(|node| bring(&mut model, 900, &format!("w1-{node:04}"), "executed", "ok"));
    (0..700).for_each(|node| bring(&mut model, 1_900, &format!("w2-{node:04}"), "executed", "ok"));
    for node in 700..1_000 {
        fail(&mut model, 1_000 + node, &format!("w2-{node:04}"), "failed", "no such file or directory");
    }
    (0..412).for_each(|node| bring(&mut model, 2_900, &format!("w3-{node:04}"), "executed", "ok"));
    (412..420).for_each(|node| move_to(&mut model, 3_000, &format!("w3-{node:04}"), "running", "attempt:1"));
    fail(&mut model, 3_000, "w3-0420", "failed_retryable", "rate limited");
    model.record(&line(3_000, "timer_set", json!({"node": "w3-0420", "kind": "backoff", "at_ms": 4_500})));
    bring(&mut model, 3_000, "w3-0421", "waiting_human", "in_doubt");
    model.record(&line(3_000, "human_request", json!({"node": "w3-0421", "kind": "in_doubt"})));
    (700..1_000)
        .for_each(|node| move_to(&mut model, 3_000, &format!("w3-{node:04}"), "blocked", "upstream:x"));
    check(&mut model, 3_600, &expect_file!["snapshots/5000.txt"]);
}

#[test]
fn a_chain_of_five_thousand_nodes() {
    let mut model = waves(5_000, 1);
    for wave in 1..=2_000 {
        bring(&mut model, 100 * wave, &format!("w{wave}-0000"), "executed", "ok");
    }
    move_to(&mut model, 200_100, "w2001-0000", "running", "attempt:1");
    check(&mut model, 200_400, &expect_file!["snapshots/5000_chain.txt"]);
}

#[test]
fn names_of_all_sorts() {
    let long = "build.x86_64-unknown-linux-gnu.release.artifacts.package-0001234";
    let nodes = [
        long,
        "日本語の名前を持つとても長いノードの名前です",
        "🦀👩‍👩‍👧❤️",
        "e\u{301}e\u{301}",
        "a\u{1b}[2Jb\tc\nd",
    ];
    let plan: Vec<(&str, &[&str])> = nodes.iter().map(|&node| (node, &[][..])).collect();
    let mut model = model(&plan);
    for node in nodes {
        fail(
            &mut model,
            100,
            node,
            "failed",
            "\u{1b}]0;owned\u{7} \u{202e}esrever\u{202c} はい🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀",
        );
    }
    check(&mut model, 400, &expect_file!["snapshots/names.txt"]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn no_window_is_too_small(columns in 1usize..30, rows in 1usize..12) {
        let mut model = five();
        model.update_levels();
        let viewport = Viewport { columns, rows, colour: false, now_ms: 2_000, frame: 3 };
        let lines = tree(&model, &viewport);
        assert!(lines.len() <= rows && lines.iter().all(|line| width(line) <= columns), "{lines:#?}");
    }
}
