//! Conformance cases of plans: an invalid plan has exactly the listed faults, a valid one is accepted.
//! `data/graph_cases.jsonl` is a copy of the shared cases, so the tests need no other files.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // tests print why they skip

use std::collections::BTreeSet;
use std::path::PathBuf;

use ostler_kernel::plan::{PlanDraft, PolicyDraft, Settings, Tools};
use serde_json::{Value, json};

const CASES: &str = include_str!("data/graph_cases.jsonl");

fn cases() -> impl Iterator<Item = Value> {
    CASES.lines().filter(|line| !line.trim().is_empty()).map(|line| serde_json::from_str(line).unwrap())
}

/// `null` for a valid plan, otherwise the pairs of code and node.
fn judged(case: &Value) -> Value {
    let draft: PlanDraft = serde_json::from_value(case["plan"].clone())
        .unwrap_or_else(|error| panic!("{}: {error}", case["id"]));
    let policy: PolicyDraft =
        case.get("policy").map(|policy| serde_json::from_value(policy.clone()).unwrap()).unwrap_or_default();
    let tools: Option<BTreeSet<String>> =
        case.get("tools").map(|tools| serde_json::from_value(tools.clone()).unwrap());
    let settings = Settings::simulation(policy, tools.as_ref().map(|tools| tools as &dyn Tools));
    match draft.validate(&settings) {
        Ok(plan) => {
            assert!(plan.nodes.is_sorted_by(|a, b| a.id < b.id), "{}", case["id"]);
            Value::Null
        }
        Err(faults) => {
            let mut pairs: Vec<Value> = faults.iter().map(|fault| json!([fault.code, fault.node])).collect();
            pairs.dedup();
            Value::Array(pairs)
        }
    }
}

#[test]
fn every_case_is_judged_as_it_says() {
    let (mut valid, mut invalid) = (0, 0);
    for case in cases() {
        let expected = match case["expect"]["valid"].as_bool().unwrap() {
            true => {
                valid += 1;
                Value::Null
            }
            false => {
                invalid += 1;
                case["expect"]["errors"].clone()
            }
        };
        assert_eq!(judged(&case), expected, "{}: {}", case["id"], case["title"]);
    }
    assert!(valid > 100 && invalid > 30, "{valid} valid, {invalid} invalid");
}

#[test]
fn the_copy_is_the_shared_one() {
    let shared = std::env::var_os("OSTLER_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").into());
    match std::fs::read_to_string(shared.join("conformance/graph_cases.jsonl")) {
        Ok(text) => assert!(text == CASES, "copy the shared graph_cases.jsonl to kernel/tests/data again"),
        Err(error) => println!("skipped: no shared cases in {}: {error}", shared.display()),
    }
}
