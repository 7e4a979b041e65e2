//! Every case of the graph conformance suite, events and their order included.

use std::path::Path;

const CASES: &str = include_str!("../../kernel/tests/data/graph_cases.jsonl");

#[test]
fn every_case_gives_what_it_expects() {
    let mut failed = Vec::new();
    for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
        match ostler_sim::graph::live(line) {
            Ok(lived) => {
                failed.extend(lived.difference().map(|difference| format!("{}: {difference}", lived.id)))
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn the_cases_are_those_of_the_shared_folder() {
    let shared = std::env::var("OSTLER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    match std::fs::read_to_string(Path::new(&shared).join("conformance/graph_cases.jsonl")) {
        Ok(theirs) => assert!(theirs == CASES, "kernel/tests/data/graph_cases.jsonl is not the shared file"),
        Err(error) => println!("skipped: no shared folder at {shared} ({error})"),
    }
}

#[test]
fn times_end_with_the_clock_and_none_is_before_the_beginning() {
    let case = |dur: i64| {
        let node = serde_json::json!({"id": "n", "contract": [{"method": "schema"}], "retries": 1, "timeout": i64::MAX});
        let plan = serde_json::json!({"id": "p", "version": 1, "nodes": [node]});
        let script = serde_json::json!({"n": [{"fail": "transient", "dur": dur}, {"ok": 1, "dur": dur}]});
        serde_json::json!({"id": "c", "plan": plan, "script": script}).to_string()
    };
    let lived = ostler_sim::graph::live(&case(i64::MAX - 1)).expect("it comes to its end");
    let times = lived.actual["events"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", lived.actual))
        .iter()
        .map(|event| event[0].as_i64());
    let times: Vec<i64> = times.map(|time| time.expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let refused = ostler_sim::graph::live(&case(-1)).expect_err("it is refused").to_string();
    assert!(refused.contains("-1 is before the beginning"), "{refused}");
}
