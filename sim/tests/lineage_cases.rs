//! Every case of the conformance suite of lineage: revisions of a plan, and what is reused or executed.

use std::path::Path;

const CASES: &str = include_str!("../../kernel/tests/data/lineage_cases.jsonl");

#[test]
fn every_case_gives_what_it_expects() {
    let mut failed = Vec::new();
    for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
        match ostler_sim::lineage::run_case(line) {
            Ok(lived) => {
                assert!(lived.expected.is_some(), "{}: no `expect`", lived.id);
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
    match std::fs::read_to_string(Path::new(&shared).join("conformance/lineage_cases.jsonl")) {
        Ok(theirs) => {
            assert!(theirs == CASES, "kernel/tests/data/lineage_cases.jsonl is not the shared file")
        }
        Err(error) => println!("skipped: no shared folder at {shared} ({error})"),
    }
}
