//! Conformance vectors of canonical JSON.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may panic, say that it skips, and look for the shared cases"
)]

mod common;

use common::{cases, check_copy, text};
use ostler_kernel::json::parse;
use ostler_kernel::lineage;

const FILE: &str = "jcs_vectors.jsonl";

#[test]
fn every_vector_gives_its_text_or_its_refusal() {
    let cases = cases(FILE);
    assert_eq!(cases.len(), 90);
    for case in &cases {
        let id = text(case, "id");
        match (parse(text(case, "in")), case.get("error")) {
            (Ok(json), None) => {
                assert_eq!(json.as_str(), text(case, "out"), "{id}");
                assert_eq!(lineage::value(&json).to_string(), text(case, "value"), "{id}");
                assert_eq!(parse(json.as_str()).as_ref(), Ok(&json), "{id}: its own canonical text");
            }
            (Err(error), Some(expected)) => {
                assert_eq!(error.code(), expected.as_str().unwrap(), "{id}: {error}")
            }
            (found, expected) => panic!("{id}: {found:?}, expected error {expected:?}"),
        }
    }
}

#[test]
fn the_copy_is_the_original() {
    check_copy(FILE);
}
