//! Checks shared by the conformance suites.

use std::fmt::Display;
use std::path::Path;

use ostler_sim::graph::CaseResult;

/// Runs every line of `cases` and reports all differences.
pub(crate) fn check<E: Display>(cases: &str, run: impl Fn(&str) -> Result<CaseResult, E>) {
    let mut failed = Vec::new();
    for line in cases.lines().filter(|line| !line.trim().is_empty()) {
        match run(line) {
            Ok(lived) => {
                assert!(lived.expected.is_some(), "{}: no `expect`", lived.id);
                failed.extend(lived.difference().map(|difference| format!("{}: {difference}", lived.id)))
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}

/// Compares the file `name` with its original in the shared folder; skipped without that folder.
#[allow(clippy::print_stdout, reason = "a skipped test says why")]
pub(crate) fn check_shared(name: &str, ours: &str) {
    let shared = std::env::var("OSTLER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    match std::fs::read_to_string(Path::new(&shared).join("conformance").join(name)) {
        Ok(theirs) => assert!(theirs == ours, "kernel/tests/data/{name} is not the shared file"),
        Err(error) => println!("skipped: no shared folder at {shared} ({error})"),
    }
}
