//! Properties of every run: random plans, random outcomes, people and operators.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

/// A random case. Edges lead from lower to higher numbers, so most plans are acyclic.
fn case(failures: bool) -> impl Strategy<Value = Value> {
    let node = (
        prop::collection::vec((any::<prop::sample::Index>(), 0..10u8), 0..4),
        0..3i64,                                         // retries
        0..2i64,                                         // patches
        0..10u8,                                         // write? join? approval?
        prop::collection::vec((0..12u8, 0..6i64), 0..4), // outcomes
    );
    (prop::collection::vec(node, 1..12), 0..4u32, 0..3u32, prop::collection::vec((0..25i64, 0..4u8, any::<prop::sample::Index>()), 0..3)).prop_map(
        move |(nodes, slots, replans, control)| {
            let (mut script, mut patch, mut human) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            let described: Vec<Value> = nodes
                .iter()
                .enumerate()
                .map(|(at, (deps, retries, patches, kind, outcomes))| {
                    let id = format!("n{at:02}");
                    let mut sources: BTreeMap<String, &str> = BTreeMap::new();
                    for (index, on) in deps {
                        if at > 0 {
                            let on = if failures && *on == 0 { "terminal" } else { "success" };
                            sources.insert(format!("n{:02}", index.index(at)), on);
                        }
                    }
                    let any_of = failures && *kind < 3 && sources.len() > 1;
                    let deps: Vec<Value> = sources
                        .iter()
                        .map(|(n, on)| json!({"n": n, "on": if any_of { "success" } else { on }}))
                        .collect();
                    let mut node = json!({"id": id, "deps": deps, "contract": [{"method": "schema"}], "timeout": 5});
                    if any_of {
                        node["join"] = json!("any_of");
                        node["dispatch"] = json!(if *kind == 0 { "parallel" } else { "ordered" });
                    }
                    if failures {
                        node["retries"] = json!(retries);
                        node["patches"] = json!(patches);
                        if *kind == 4 {
                            (node["effect"], node["impact"]) = (json!("write"), json!(1));
                            node["idem"] = json!(if *retries > 0 { "keyed" } else { "none" });
                        }
                        if *kind > 7 {
                            node["approval"] = json!(if *kind == 8 { "before" } else { "after" });
                            node["human_timeout"] = json!(4);
                            human.insert(id.clone(), json!([{"approve": retries}, {"reject": 1}]));
                        }
                        patch.insert(id.clone(), json!([[{"ok": 1}]]));
                    }
                    let outcomes: Vec<Value> = outcomes
                        .iter()
                        .map(|(what, dur)| match what {
                            0 if failures => json!({"fail": "transient", "dur": dur}),
                            1 if failures => json!({"fail": "structural", "dur": dur}),
                            2 if failures => json!({"fail": "crash", "dur": dur}),
                            3 if failures => json!({"invalid": true, "dur": dur}),
                            4 if failures => json!({"ok": null, "dur": 9}),
                            _ => json!({"ok": 1, "dur": dur}),
                        })
                        .collect();
                    script.insert(id, json!(outcomes));
                    node
                })
                .collect();
            let control: Vec<Value> = control
                .iter()
                .filter(|_| failures)
                .map(|(at, what, node)| {
                    let node = format!("n{:02}", node.index(nodes.len()));
                    match what {
                        0 => json!({"at": at, "op": "cancel", "node": node}),
                        1 => json!({"at": at, "op": "skip", "node": node}),
                        2 => json!({"at": at, "op": "interject", "node": "stop", "outcome": {"ok": 1, "dur": 2}}),
                        _ => json!({"at": at, "op": "cancel_plan"}),
                    }
                })
                .collect();
            json!({"id": "random", "plan": {"id": "p", "version": 1, "nodes": described},
                   "policy": {"slots": slots, "max_replans": if failures { replans } else { 0 }},
                   "script": script, "patch": patch, "human": human, "control": control,
                   "replans": [{"refuse": true, "dur": 2}, null]})
        },
    )
}

fn rows(actual: &Value) -> Vec<(i64, String, String, String, String)> {
    serde_json::from_value(actual["events"].clone()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn terminal_states_absorb_and_bounds_hold(case in case(true)) {
        let lived = ostler_sim::graph::run_case(&case.to_string()).unwrap();
        prop_assume!(lived.actual["valid"] == true);
        prop_assert_eq!(&lived.replay, &None, "applying the records again gives the same state");
        let again = ostler_sim::graph::run_case(&case.to_string()).unwrap();
        prop_assert_eq!(&again.actual, &lived.actual, "two runs are identical");
        let versions = lived.actual["version"].as_i64().unwrap();
        for node in case["plan"]["nodes"].as_array().unwrap() {
            let id = node["id"].as_str().unwrap();
            let attempts_max = (node["retries"].as_i64().unwrap() + 1) * (node["patches"].as_i64().unwrap() + 1);
            let moves: Vec<_> = rows(&lived.actual).into_iter().filter(|row| row.1 == id).collect();
            let ended = moves.iter().filter(|row| ["executed", "failed", "cancelled", "skipped"].contains(&row.3.as_str()));
            prop_assert_eq!(ended.count(), 1, "{} ends once: {:?}", id, moves);
            let last = &moves.last().unwrap().3;
            prop_assert!(["executed", "failed", "cancelled", "skipped"].contains(&last.as_str()));
            let attempts = moves.iter().filter(|row| row.3 == "running").count() as i64;
            prop_assert!(attempts <= attempts_max, "{} had {} attempts", id, attempts);
            let bound = 6 * attempts_max + 5 * versions + 1;
            prop_assert!(moves.len() as i64 <= bound, "{} moved {} times", id, moves.len());
            for (before, after) in moves.iter().zip(moves.iter().skip(1)) {
                prop_assert_eq!(&before.3, &after.2, "{} moves on from where it stands", id);
            }
        }
    }

    #[test]
    fn recovery_tries_every_level_that_is_left(case in case(true)) {
        let lived = ostler_sim::graph::run_case(&case.to_string()).unwrap();
        prop_assume!(lived.actual["valid"] == true && lived.actual["version"].as_i64().unwrap() < 16);
        let moves = rows(&lived.actual);
        for node in case["plan"]["nodes"].as_array().unwrap() {
            let id = node["id"].as_str().unwrap();
            let retryable = ["transient", "timeout", "crash", "invalid_output"];
            for (at, row) in moves.iter().enumerate().filter(|(_, row)| row.1 == id && row.3 == "failed") {
                let stopped = moves[..at].iter().any(|row| row.4 == "plan_cancelled" || row.4 == "sibling_won");
                if stopped || row.4 == "in_doubt" || row.4 == "join_exhausted" || node["impact"] == 1 {
                    continue; // it may have been draining, or nothing could be repeated
                }
                let patched = moves[..at].iter().filter(|row| row.1 == id && row.4 == "patched").count() as i64;
                prop_assert!(patched >= node["patches"].as_i64().unwrap().min(1), "{} failed unpatched", id);
                let since = moves[..at].iter().rposition(|row| row.1 == id && row.4 == "patched").unwrap_or(0);
                let retried = moves[since..at].iter().filter(|row| row.1 == id && row.4 == "retry").count() as i64;
                if retryable.contains(&row.4.as_str()) {
                    prop_assert_eq!(retried, node["retries"].as_i64().unwrap(), "{} has retries left", id);
                }
            }
        }
    }

    #[test]
    fn list_scheduling_keeps_its_bound(case in case(false)) {
        let lived = ostler_sim::graph::run_case(&case.to_string()).unwrap();
        prop_assume!(lived.actual["valid"] == true);
        let slots = case["policy"]["slots"].as_i64().unwrap();
        let (mut work, mut path) = (0, BTreeMap::new());
        for node in case["plan"]["nodes"].as_array().unwrap() {
            let id = node["id"].as_str().unwrap();
            let first = case["script"][id].get(0);
            let dur = first.map_or(1, |outcome| outcome["dur"].as_i64().unwrap());
            let before = node["deps"].as_array().unwrap().iter().map(|dep| path[dep["n"].as_str().unwrap()]);
            path.insert(id.to_owned(), before.max().unwrap_or(0) + dur);
            work += dur;
        }
        let critical = path.values().copied().max().unwrap_or(0);
        let makespan = lived.actual["makespan"].as_i64().unwrap();
        prop_assert_eq!(&lived.actual["outcome"], "succeeded");
        if slots == 0 {
            prop_assert_eq!(makespan, critical);
        } else {
            // Graham's bound: makespan <= work/m + (1 - 1/m) * critical path
            prop_assert!(makespan * slots <= work + (slots - 1) * critical, "{} with {} slots", makespan, slots);
        }
    }
}
