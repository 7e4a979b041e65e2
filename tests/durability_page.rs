//! `docs/durability.md`: the tests that it names exist. The code that `tests/mutants.sh` removes exists
//! too.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::{Path, PathBuf};

/// A row of the table: a fault, and its tests with their files.
struct Row {
    fault: String,
    tests: Vec<(PathBuf, String)>,
}

fn rows(page: &str) -> Vec<Row> {
    let table = page.split_once("## Faults\n").unwrap().1.split("\n## ").next().unwrap();
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [fault, _, shown_by] = cells[..] else { panic!("three columns: {line}") };
            Row { fault: fault.to_owned(), tests: tests(shown_by) }
        })
        .collect()
}

/// Parses `[name](../path) `test`, `test`, …`: tests follow the file that contains them.
fn tests(cell: &str) -> Vec<(PathBuf, String)> {
    let (mut tests, mut file) = (Vec::new(), None);
    for part in cell.split(", ") {
        let mut rest = part.trim();
        if let Some((link, behind)) = rest.strip_prefix('[').and_then(|link| link.split_once(") ")) {
            let path = link.split_once("](../").unwrap_or_else(|| panic!("a link to a file: {part}")).1;
            file = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
            rest = behind;
        }
        let test = rest.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
        let test = test.unwrap_or_else(|| panic!("a test in backticks: {part}"));
        let file = file.clone().unwrap_or_else(|| panic!("no file before {test}"));
        tests.push((file, test.to_owned()));
    }
    tests
}

/// Returns whether a file has a test of this name.
fn has_test(file: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let of_name = |line: &str| {
        line.strip_prefix("async ")
            .unwrap_or(line)
            .strip_prefix("fn ")
            .is_some_and(|rest| rest.strip_prefix(name).is_some_and(|behind| behind.starts_with('(')))
    };
    let Some(at) = lines.iter().position(|line| of_name(line)) else { return false };
    let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    attributes.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

#[test]
fn every_fault_is_shown_by_tests_that_exist() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/durability.md");
    let rows = rows(&std::fs::read_to_string(page).unwrap());
    assert!(rows.len() >= 17, "only {} faults", rows.len());
    for Row { fault, tests } in rows {
        assert!(!tests.is_empty(), "{fault} is shown by nothing");
        for (file, test) in tests {
            assert!(has_test(&file, &test), "{fault}: {} has no test {test}", file.display());
        }
    }
}

#[test]
fn every_mutation_still_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(root.join("tests/mutants.sh")).unwrap();
    let mutants: Vec<&str> = script.split("\nmutant ").skip(1).collect();
    assert!(mutants.len() >= 14, "{}", mutants.len());
    for mutant in mutants {
        let file = mutant.split_whitespace().nth(1).unwrap().trim_matches('"');
        let old = mutant.split('\'').nth(1).unwrap();
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(old), "{file} holds no more: {old}");
    }
}
