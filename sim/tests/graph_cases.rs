//! Every case of the graph conformance suite, with the exact order of its events.

mod cases;

const CASES: &str = include_str!("../../kernel/tests/data/graph_cases.jsonl");

/// Guards, expansion, waits and undo.
const PLAN_CASES: &str = include_str!("../../kernel/tests/data/plan_cases.jsonl");

#[test]
fn every_case_gives_what_it_expects() {
    for cases in [CASES, PLAN_CASES] {
        cases::check(cases, ostler_sim::graph::run_case);
    }
}

#[test]
fn the_cases_are_those_of_the_shared_folder() {
    cases::check_shared("graph_cases.jsonl", CASES);
    cases::check_shared("plan_cases.jsonl", PLAN_CASES);
}

#[test]
fn times_end_with_the_clock_and_none_is_before_the_beginning() {
    let case = |dur: i64| {
        let node = serde_json::json!({"id": "n", "contract": [{"method": "schema"}], "retries": 1, "timeout": i64::MAX});
        let plan = serde_json::json!({"id": "p", "version": 1, "nodes": [node]});
        let script = serde_json::json!({"n": [{"fail": "transient", "dur": dur}, {"ok": 1, "dur": dur}]});
        serde_json::json!({"id": "c", "plan": plan, "script": script}).to_string()
    };
    let lived = ostler_sim::graph::run_case(&case(i64::MAX - 1)).expect("it comes to its end");
    let times = lived.actual["events"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", lived.actual))
        .iter()
        .map(|event| event[0].as_i64());
    let times: Vec<i64> = times.map(|time| time.expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let refused = ostler_sim::graph::run_case(&case(-1)).expect_err("it is refused").to_string();
    assert!(refused.contains("-1 ticks: a time is 0 or more"), "{refused}");
}

/// Checks the value at `place` of the parsed case. Adds id, version and contracts to `plan`.
fn check_given(mut case: serde_json::Value, place: &str, expected: serde_json::Value) {
    let contract = || serde_json::json!([{"method": "schema"}]);
    case["id"] = "c".into();
    case["plan"]["id"] = "p".into();
    case["plan"]["version"] = 1.into();
    for node in case["plan"]["nodes"].as_array_mut().unwrap_or_else(|| panic!("a plan has nodes")) {
        node["contract"] = contract();
    }
    let lived =
        ostler_sim::graph::run_case(&case.to_string()).unwrap_or_else(|error| panic!("{error}: {case}"));
    let found = lived.actual.pointer(place).cloned().unwrap_or_default();
    assert_eq!(found, expected, "{place} of {case} in {}", lived.actual);
}

#[test]
fn what_the_words_of_the_format_say_holds_in_corners() {
    use serde_json::json;
    // Scripted failures take time like other outcomes; unresolvable references fail at once.
    check_given(
        json!({"plan": {"nodes": [{"id": "a", "timeout": 1}]}, "script": {"a": [{"fail": "param_missing", "dur": 3}]}}),
        "/late",
        json!([[3, "a"]]),
    );
    // The latest attempt had no references to resolve.
    check_given(
        json!({
            "plan": {"nodes": [{"id": "a"}, {"id": "b", "deps": ["a"], "patches": 1, "param_refs": {"x": {"from": "a", "path": "v"}}}]},
            "script": {"a": [{"ok": {"v": 1}}], "b": [{"fail": "structural"}]},
            "patch": {"b": [{"set": {"param_refs": {}}, "outcomes": [{"ok": 2}]}]},
        }),
        "/inputs",
        json!(null),
    );
    // Outcomes of a delta belong to the nodes it adds.
    let contract = json!([{"method": "schema"}]);
    let delta =
        json!({"add": [{"id": "n", "contract": contract}], "script": {"a": [{"fail": "structural"}]}});
    check_given(
        json!({
            "plan": {"nodes": [{"id": "r", "kind": "reflection"}, {"id": "a", "deps": ["r"]}]},
            "script": {"r": [{"ok": null, "delta": delta}]},
        }),
        "/outcome",
        json!("succeeded"),
    );
    // Two references to missing nodes: no node waits for another.
    check_given(
        json!({"plan": {"outputs": ["a"], "nodes": [
            {"id": "a"}, {"id": "d"}, {"id": "j", "deps": ["x", "y", "x"], "join": "any_of", "dispatch": "ordered"},
        ]}}),
        "/errors",
        json!([["V03", "j"], ["V05", "d"], ["V05", "j"], ["V06", "j"]]),
    );
}

#[test]
fn a_simulation_is_not_cancelled_however_often_the_gate_refuses() {
    let denied = serde_json::json!([{"fail": "gate_denied"}]);
    let case = serde_json::json!({
        "plan": {"nodes": [{"id": "a", "patches": 25}]},
        "policy": {"max_versions": 64},
        "script": {"a": denied},
        "patch": {"a": vec![denied.clone(); 25]},
    });
    check_given(case.clone(), "/outcome", "failed".into());
    check_given(case, "/dispatches", 26.into());
}

#[test]
fn what_is_no_case_is_told_with_its_name_and_what_is_wrong() {
    let plan = r#""plan": {"id": "p", "nodes": [{"id": "a", "contract": [{"method": "schema"}]}]}"#;
    for (rest, wrong) in [
        (r#""replans": [{"ad": []}]"#, "a delta cannot be read: unknown field `ad`, expected one of "),
        (r#""replans": [{"refuse": true, "ad": []}]"#, "unknown field `ad`"),
        (r#""replans": [{"script": {"a": [{"okay": 1}]}}]"#, "unknown field `okay`"),
        (r#""replans": [{"dur": 1.5}]"#, "floating point `1.5`"),
        (r#""script": {"a": [{"ok": 1, "delta": {"cancel": "a"}}]}"#, "a delta cannot be read: invalid type"),
        (r#""script": {"a": [{"ok": 1, "delta": {"set": {"a": {"timout": 1}}}}]}"#, "unknown field `timout`"),
        (r#""script": {"a": [{"ok": 1}], "a": [{"fail": "crash"}]}"#, "duplicate key \"a\""),
        (r#""script": {"a": [{"ok": {"b": 1, "b": 2}}]}"#, "duplicate key \"b\""),
        (r#""replans": [{"add": [{"id": "b", "params": {"x": 1, "x": 2}}]}]"#, "duplicate key \"x\""),
        (r#""control": [{"at": 0.5, "op": "cancel_plan"}]"#, "floating point `0.5`"),
        (r#""control": [{"at": 1, "op": "delta"}]"#, "operator input: missing `delta`"),
        (
            r#""control": [{"at": 1, "op": "delta", "delta": {"add": [{"id": "b", "timeout": 1.5}]}}]"#,
            "the timeout of b is 1.5: times are whole numbers of ticks",
        ),
        (r#""replans": [{"set": {"a": {"human_timeout": 0.5}}}]"#, "the human_timeout of a is 0.5"),
        (r#""patch": {"a": [{"set": {"timeout": 2.5}}]}"#, "the timeout of a patch is 2.5"),
        (r#""policy": {"backoff_base": 0.5}"#, "the backoff_base of the policy is 0.5"),
    ] {
        let case = format!(r#"{{"id": "c", {plan}, {rest}}}"#);
        let told = ostler_sim::graph::run_case(&case).expect_err(rest).to_string();
        assert!(told.starts_with("case \"c\": ") && told.contains(wrong), "{rest}: {told}");
    }
    let plan = plan.replace(r#""id": "a""#, r#""id": "a", "timeout": 1.5"#);
    let told = ostler_sim::graph::run_case(&format!(r#"{{"id": "c", {plan}}}"#))
        .expect_err("a fraction")
        .to_string();
    assert!(told.contains("the timeout of a is 1.5"), "{told}");
    let told = ostler_sim::graph::run_case("{\"id\": 1}").expect_err("a number").to_string();
    assert!(told.starts_with("not a case: column "), "{told}");
}

#[test]
fn a_delta_that_the_plan_does_not_take_is_refused_and_the_case_goes_on() {
    use serde_json::json;
    check_given(
        json!({
            "plan": {"nodes": [{"id": "a"}]},
            "script": {"a": [{"ok": 1, "delta": {"cancel": ["zz"]}}]},
        }),
        "/events/3",
        json!([1, "*", "v1", "v1", "delta_rejected:D03"]),
    );
}
