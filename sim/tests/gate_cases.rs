//! Every case of the conformance suite of the gate: a policy, tools, and calls with their verdicts.

mod cases;

const CASES: &str = include_str!("../../kernel/tests/data/gate_cases.jsonl");

#[test]
fn every_case_gives_what_it_expects() {
    cases::check(CASES, ostler_sim::gate::run_case);
}

#[test]
fn the_cases_are_those_of_the_shared_folder() {
    cases::check_shared("gate_cases.jsonl", CASES);
}
