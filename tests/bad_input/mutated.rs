//! Plan files with mutations from a fixed seed.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[path = "../../fuzz/entry/plan.rs"]
mod entry;

const SEED: u64 = 7;

/// Mutations tried.
const ROUNDS: usize = 600;

/// Time limit per file, for an unoptimised build on a busy machine.
const HANG: Duration = Duration::from_secs(60);

/// Texts with a meaning in YAML, JSON, TOML or plans.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "\n",
    "  ",
    "\t",
    "\"",
    "'",
    "&a ",
    "*a ",
    "<<: ",
    "|",
    "#",
    "${",
    "}}",
    "{{",
    "99999999999999999999",
    "-1",
    "\u{0}",
    "\u{feff}",
    "deps: [list]",
];

/// Applies one mutation.
fn mutated(mut bytes: Vec<u8>, random: &mut StdRng) -> Vec<u8> {
    let at = random.random_range(0..=bytes.len());
    let end = (at + random.random_range(0..40)).min(bytes.len());
    match random.random_range(0..6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.truncate(at),
        3 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece.repeat(random.random_range(1..20)));
        }
        _ => {
            let piece = PIECES[random.random_range(0..PIECES.len())];
            bytes.splice(at..at, piece.repeat(random.random_range(1..4)).into_bytes());
        }
    }
    bytes
}

#[test]
fn no_mutation_of_a_plan_file_panics_or_hangs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/plans");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut plans: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    plans
        .push(br#"{"id": "a", "nodes": [{"id": "n", "tool": "fs.list", "params": {"path": "."}}]}"#.to_vec());
    plans.push(b"id = \"a\"\n[[nodes]]\nid = \"n\"\ntool = \"fs.list\"\nparams = {path = \".\"}\n".to_vec());
    let mut random = StdRng::seed_from_u64(SEED);
    let mut shown = 0;
    for round in 0..ROUNDS {
        let mut bytes = plans[round % plans.len()].clone();
        for _ in 0..random.random_range(1..5) {
            bytes = mutated(bytes, &mut random);
        }
        let begun = Instant::now();
        shown += entry::plan(&bytes);
        assert!(begun.elapsed() < HANG, "round {round}: {}", String::from_utf8_lossy(&bytes));
    }
    assert!(shown > ROUNDS, "the mutations break something: {shown}");
}
