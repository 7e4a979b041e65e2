//! Properties of every run of plans with guards, lists, waits and undo.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Shape of a node in the random plans.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Plain,
    Guarded(i64),
    List { max: u64, collect: bool },
    Wait(i64),
    Effect { undo: bool },
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        2 => Just(Shape::Plain),
        2 => (0..4i64).prop_map(Shape::Guarded),
        2 => (1..5u64, any::<bool>()).prop_map(|(max, collect)| Shape::List { max, collect }),
        1 => (1..6i64).prop_map(Shape::Wait),
        3 => any::<bool>().prop_map(|undo| Shape::Effect { undo }),
    ]
}

/// Per node: shape, edges to earlier nodes, outcome, patches.
type NodeSeed = (Shape, Vec<(prop::sample::Index, bool)>, (u8, i64), i64);

fn case() -> impl Strategy<Value = Value> {
    let node = (
        shape(),
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..3),
        (0..10u8, 0..4i64),
        0..2i64,
    );
    let nodes = prop::collection::vec(node, 2..12);
    let answers = prop::collection::vec((0..9i64, any::<prop::sample::Index>(), any::<bool>(), 0..3u8), 0..6);
    let control = prop::collection::vec((0..9i64, 0..6u8, any::<prop::sample::Index>()), 0..3);
    (nodes, answers, control, 0..3u32, 0..2u32, any::<bool>()).prop_map(
        |(nodes, answers, control, slots, replans, undo)| {
            let name = |at: &prop::sample::Index| format!("n{:02}", at.index(nodes.len()));
            let mut script = Map::new();
            let described: Vec<Value> = nodes.iter().enumerate().map(|(at, node)| describe(at, node, &mut script)).collect();
            let answers: Vec<Value> = answers
                .iter()
                .map(|(tick, node, invalid, id)| match invalid {
                    true => json!({"at": tick, "node": name(node), "invalid": true}),
                    false => json!({"at": tick, "node": name(node), "value": {"v": 1, "l": [1]}, "id": format!("a{id}")}),
                })
                .collect();
            let control: Vec<Value> = control
                .iter()
                .map(|(tick, what, node)| match what {
                    0 => json!({"at": tick, "op": "cancel", "node": name(node)}),
                    1 => json!({"at": tick, "op": "skip", "node": name(node)}),
                    2 => json!({"at": tick, "op": "interject", "node": "stop", "outcome": {"ok": 1, "dur": 2}}),
                    3 => json!({"at": tick, "op": "cancel_plan"}),
                    _ => json!({"at": tick + 20, "op": "undo"}),
                })
                .collect();
            json!({"id": "random", "plan": {"id": "p", "version": 1, "nodes": described},
                   "policy": {"slots": slots, "max_replans": replans, "on_failure": if undo { "undo" } else { "keep" }},
                   "script": script, "answers": answers, "control": control, "replans": [{"refuse": true, "dur": 1}]})
        },
    )
}

fn describe(
    at: usize,
    (shape, edges, (what, dur), patches): &NodeSeed,
    script: &mut Map<String, Value>,
) -> Value {
    let id = format!("n{at:02}");
    let mut deps: Vec<(String, bool)> = edges
        .iter()
        .filter(|_| at > 0)
        .map(|(to, terminal)| (format!("n{:02}", to.index(at)), *terminal))
        .collect();
    deps.sort();
    deps.dedup_by(|a, b| a.0 == b.0);
    let before =
        (at > 0).then(|| format!("n{:02}", at - 1)).filter(|before| !deps.iter().any(|dep| dep.0 == *before));
    let listed: Vec<Value> = deps
        .iter()
        .map(|(n, terminal)| json!({"n": n, "on": if *terminal { "terminal" } else { "success" }}))
        .collect();
    let mut node = json!({"id": id, "deps": listed, "contract": [{"method": "schema"}], "timeout": 5, "patches": patches});
    match (shape, before) {
        (Shape::Guarded(least), Some(before)) => {
            node["when"] = json!([{"from": before, "path": "v", "op": "ge", "value": least}]);
        }
        (Shape::List { max, collect }, Some(before)) => {
            let on_child = if *collect { "collect" } else { "all" };
            node["for_each"] =
                json!({"from": before, "path": "l", "as": "e", "max": max, "on_child": on_child});
        }
        (Shape::Wait(deadline), _) => {
            node["kind"] = json!("wait");
            node["deadline"] = json!(deadline);
        }
        (Shape::Effect { undo }, _) => {
            (node["effect"], node["impact"]) = (json!("write"), json!(1));
            if *undo {
                node["undo"] = json!({"tool": "un", "param_refs": {"it": {"from": "$self", "path": "v"}}});
            }
        }
        _ => {}
    }
    let outcome = match what {
        0 => json!({"fail": "structural", "dur": dur}),
        1 => json!({"fail": "crash", "dur": dur}),
        2 => json!({"ok": {"l": []}, "dur": dur}),
        _ => json!({"ok": {"v": 2, "l": [1, {"v": 2}, 3]}, "dur": dur}),
    };
    script.insert(id, json!([outcome]));
    node
}

type Row = (i64, String, String, String, String);

fn rows(actual: &Value) -> Vec<Row> {
    serde_json::from_value(actual["events"].clone()).unwrap()
}

fn is_terminal(state: &str) -> bool {
    ["executed", "failed", "cancelled", "skipped"].contains(&state)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_node_ends_once_and_a_crash_anywhere_changes_nothing(case in case()) {
        let lived = ostler_sim::graph::run_case(&case.to_string()).unwrap();
        prop_assume!(lived.actual["valid"] == true);
        prop_assert_eq!(&lived.replay, &None, "applying the records again gives the same state");
        let mut crashing = case.clone();
        crashing["crash"] = json!(true);
        let crashed = ostler_sim::graph::run_case(&crashing.to_string()).unwrap();
        prop_assert_eq!(&crashed.actual, &lived.actual, "a process that dies at every place comes to the same");
        let last = lived.actual["final"].as_object().unwrap();
        for (id, state) in last {
            prop_assert!(is_terminal(state.as_str().unwrap()), "{} ends as {}", id, state);
            let moves: Vec<Row> = rows(&lived.actual).into_iter().filter(|row| row.1 == *id).collect();
            prop_assert_eq!(moves.iter().filter(|row| is_terminal(&row.3)).count(), 1, "{} ends once", id);
            for (before, after) in moves.iter().zip(moves.iter().skip(1)) {
                prop_assert_eq!(&before.3, &after.2, "{} moves on from where it stands", id);
            }
        }
    }

    #[test]
    fn effects_are_undone_at_most_once_and_newest_first(case in case()) {
        let lived = ostler_sim::graph::run_case(&case.to_string()).unwrap();
        prop_assume!(lived.actual["valid"] == true);
        let moves = rows(&lived.actual);
        let executed = |id: &str| moves.iter().position(|row| row.1 == id && row.3 == "executed");
        let begun = |id: &str| moves.iter().position(|row| row.1 == id && row.3 == "running");
        let of = |id: &str| id.strip_prefix("undo").and_then(|rest| rest.split_once('.')).map(|(_, of)| of.to_owned());
        let undos: Vec<&str> = lived.actual["undo"]["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (at, undo) in undos.iter().enumerate() {
            let of = of(undo).unwrap();
            prop_assert!(executed(&of).is_some(), "{} undoes what was done", undo);
            let twice = undos.iter().filter(|other| self::of_name(other) == of && executed(other).is_some()).count();
            prop_assert!(twice <= 1, "{} is undone {} times", of, twice);
            let round = |id: &str| id.split_once('.').map(|(round, _)| round.to_owned());
            for later in &undos[at + 1..] {
                if round(undo) == round(later) {
                    prop_assert!(executed(&of) > executed(&self::of_name(later)), "{} comes before {}", undo, later);
                    if let (Some(first), Some(second)) = (begun(undo), begun(later)) {
                        prop_assert!(first < second, "{} begins before {}", undo, later);
                    }
                }
            }
        }
        // A node ruled out by a guard never ran.
        for row in moves.iter().filter(|row| row.4 == "guard_false" && row.2 == "pending") {
            prop_assert!(lived.actual["final"][&row.1] == "skipped");
        }
    }
}

/// Node undone by an undo node.
fn of_name(undo: &str) -> String {
    undo.split_once('.').map(|(_, of)| of.to_owned()).unwrap_or_default()
}
