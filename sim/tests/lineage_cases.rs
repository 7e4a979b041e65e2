//! Every case of the conformance suite of lineage: revisions of a plan, and what is reused or executed.

mod cases;

const CASES: &str = include_str!("../../kernel/tests/data/lineage_cases.jsonl");

/// Guards, lists and undos, which the suite leaves to prose.
const OWN_CASES: &str = include_str!("../../kernel/tests/data/own_lineage_cases.jsonl");

#[test]
fn every_case_gives_what_it_expects() {
    for cases in [CASES, OWN_CASES] {
        cases::check(cases, ostler_sim::lineage::run_case);
    }
}

#[test]
fn the_cases_are_those_of_the_shared_folder() {
    cases::check_shared("lineage_cases.jsonl", CASES);
}
