//! Files and texts with mutations from a fixed seed, through the entries of the fuzz targets. `OSTLER_FUZZ_SECONDS` has each
//! entry tried for that long.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[path = "../../fuzz/entry/place.rs"]
mod place;
#[path = "../../fuzz/entry/plan.rs"]
mod plan;
#[path = "../../fuzz/entry/policy.rs"]
mod policy;
#[path = "../../fuzz/entry/stream.rs"]
mod stream;

const SEED: u64 = 7;

/// Mutations tried at least.
const ROUNDS: usize = 600;

/// Time for each entry; without it, [`ROUNDS`] alone.
const SECONDS: &str = "OSTLER_FUZZ_SECONDS";

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

/// Judges mutations of the inputs; returns the share that `judge` accepts.
fn tried(inputs: &[Vec<u8>], judge: impl Fn(&[u8]) -> bool) -> f64 {
    let seconds = std::env::var(SECONDS).map_or(0, |seconds| seconds.parse().expect("a number of seconds"));
    let started = Instant::now();
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut taken, mut round) = (0_u32, 0);
    while round < ROUNDS || started.elapsed().as_secs() < seconds {
        let mut bytes = inputs[round % inputs.len()].clone();
        for _ in 0..random.random_range(1..5) {
            bytes = mutated(bytes, &mut random);
        }
        let begun = Instant::now();
        taken += u32::from(judge(&bytes));
        assert!(begun.elapsed() < HANG, "round {round}: {}", String::from_utf8_lossy(&bytes));
        round += 1;
    }
    let told = format!("{round} mutations, {taken} accepted, in {} ms", started.elapsed().as_millis());
    let _ = writeln!(std::io::stdout(), "{told}");
    f64::from(taken) / round as f64
}

fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn no_mutation_of_a_plan_file_panics_or_hangs() {
    let plans = [files("examples/plans"), files("fuzz/seeds/plan")].concat();
    let sound = tried(&plans, |bytes| plan::plan(bytes) == 0);
    assert!(sound < 0.5, "the mutations break something: {sound}");
}

#[test]
fn no_mutation_of_a_policy_panics_or_hangs() {
    let corpus = files("fuzz/seeds/policy");
    assert!(corpus.iter().any(|bytes| policy::policy(bytes)), "one of the corpus is sound");
    let sound = tried(&corpus, policy::policy);
    assert!(sound < 0.5, "the mutations break something: {sound}");
}

#[test]
fn no_mutation_of_a_path_or_a_url_leads_out() {
    for (folder, judge) in [("path", place::path as fn(&[u8]) -> bool), ("url", place::url)] {
        let corpus = files(&format!("fuzz/seeds/{folder}"));
        assert!(corpus.iter().any(|bytes| judge(bytes)) && !corpus.iter().all(|bytes| judge(bytes)));
        let taken = tried(&corpus, judge);
        assert!(taken > 0.0 && taken < 1.0, "{folder}: {taken}");
    }
}

#[test]
fn no_mutation_of_a_response_panics_or_hangs_and_pieces_change_nothing() {
    let corpus = files("fuzz/seeds/stream");
    assert!(corpus.iter().all(|bytes| stream::stream(bytes)), "the corpus is sound");
    let taken = tried(&corpus, stream::stream);
    assert!(taken < 1.0, "the mutations break something: {taken}");
}
