//! Recorded responses of model providers: each decodes as expected, in one piece and split at every byte.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed unwrap fails the test, and a skip says why"
)]

use std::path::Path;

use ostler_drivers::model::decode::decode_case;
use serde_json::{Value, json};

/// Longest body that is split at every byte, in bytes.
const SPLIT_MAX: usize = 600;

#[test]
fn every_recorded_response_decodes_as_expected() {
    let shared = std::env::var("OSTLER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    let file = Path::new(&shared).join("conformance/model_cases.jsonl");
    let cases = match std::fs::read_to_string(&file) {
        Ok(cases) => cases,
        Err(error) => return println!("skipped: no recorded responses at {} ({error})", file.display()),
    };
    let mut failed = Vec::new();
    for line in cases.lines() {
        failed.extend(differences(line));
    }
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}

fn differences(line: &str) -> Vec<String> {
    let whole = decode_case(line).unwrap();
    let mut case: Value = serde_json::from_str(line).unwrap();
    let body = case["response"]["body"].as_str().map_or(0, str::len);
    let mut found: Vec<String> = whole.difference().into_iter().collect();
    if (1..=SPLIT_MAX).contains(&body) {
        for chunks in [(1..body).collect::<Vec<_>>()].into_iter().chain((1..body).map(|at| vec![at])) {
            case["chunks"] = json!(chunks);
            found.extend(decode_case(&case.to_string()).unwrap().difference());
        }
    }
    found.into_iter().map(|difference| format!("{}: {difference}", whole.id)).collect()
}
