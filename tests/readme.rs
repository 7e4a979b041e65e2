//! What the README says must be so.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed, and says where")]

use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../README.md");
const EXAMPLE: &str = include_str!("../examples/spawn_agents.rs");

/// The fenced block of a language.
fn block(language: &str) -> &'static str {
    let (_, after) = README.split_once(&format!("```{language}\n")).expect("the README has such a block");
    after.split_once("```").expect("a block ends").0
}

#[test]
fn its_plan_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.yaml");
    std::fs::write(&plan, block("yaml")).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_ostler"))
        .arg("check")
        .arg(&plan)
        .env("OSTLER_DATA", folder.path().join("data"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn its_commands_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_ostler")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let said = README.match_indices("ostler ").filter(|(at, _)| README[..*at].ends_with(['`', ' ']));
    let words = said.filter_map(|(at, ostler)| README[at + ostler.len()..].split_whitespace().next());
    let commands: Vec<&str> = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
    assert!(commands.contains(&"resume"), "{commands:?}");
    for command in commands {
        let listed = help.lines().any(|line| line.split_whitespace().next() == Some(command));
        assert!(listed, "the README speaks of `ostler {command}`, which --help does not list:\n{help}");
    }
}

#[test]
fn its_library_is_that_of_the_example() {
    let example: Vec<&str> = EXAMPLE.lines().map(str::trim).collect();
    for line in block("rust").lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(example.contains(&line), "the README has this line, and the example does not: {line}");
    }
}

#[test]
fn its_links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (at, _) in README.match_indices("](") {
        let target = README[at + 2..].split_once(')').expect("a link ends").0;
        assert!(target.starts_with("https://") || root.join(target).exists(), "no {target}");
    }
}
