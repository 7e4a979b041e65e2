//! Every case of the conformance suite of execution modes, with the exact order of its events.

mod cases;

const CASES: &str = include_str!("../../kernel/tests/data/mode_cases.jsonl");

#[test]
fn every_case_gives_what_it_expects() {
    cases::check(CASES, ostler_sim::modes::run_case);
}

#[test]
fn the_cases_are_those_of_the_shared_folder() {
    cases::check_shared("mode_cases.jsonl", CASES);
}
