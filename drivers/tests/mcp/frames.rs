//! Frames of a server with mutations from a fixed seed.

#[path = "../../../fuzz/entry/mcp.rs"]
mod entry;

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Mutations tried at least.
const ROUNDS: usize = 400;

/// Time for the mutations; without it, [`ROUNDS`] alone.
const SECONDS: &str = "OSTLER_FUZZ_SECONDS";

/// Time limit of a round, for an unoptimised build on a busy machine.
const HANG: Duration = Duration::from_secs(15);

/// Texts with a meaning in frames.
const PIECES: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\n",
    "null",
    "1e999",
    "-1",
    "99999999999999999999",
    "\u{0}",
    "\\ud800",
    "\"id\":2,",
    "\"method\":\"ping\",",
    "\"isError\":true,",
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\",\"params\":{}}\n",
];

/// The seeds of the fuzz target, by name.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/mcp");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let mut seeds: Vec<_> = files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect();
    seeds.sort();
    seeds
}

/// Numbers from a seed: splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % limit
    }
}

fn mutated(mut bytes: Vec<u8>, numbers: &mut Numbers) -> Vec<u8> {
    let at = numbers.below(bytes.len() + 1);
    let end = (at + numbers.below(40)).min(bytes.len());
    match numbers.below(6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.truncate(at),
        3 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece.repeat(1 + numbers.below(20)));
        }
        _ => {
            let piece = PIECES[numbers.below(PIECES.len())];
            bytes.splice(at..at, piece.bytes());
        }
    }
    bytes
}

#[test]
fn frames_of_a_server_as_they_should_be_give_a_list_and_a_result() {
    let judged: Vec<(String, (usize, bool))> =
        seeds().into_iter().map(|(name, frames)| (name, entry::mcp(&frames))).collect();
    let expected = [
        ("call.jsonl", (1, true)),
        ("error.jsonl", (1, false)),
        ("failed.jsonl", (1, false)),
        ("pages.jsonl", (1, true)),
        ("question.jsonl", (1, false)),
    ];
    assert_eq!(judged, expected.map(|(name, judged)| (name.to_owned(), judged)));
}

#[test]
fn no_mutation_of_the_frames_of_a_server_panics_or_hangs() {
    let seconds = std::env::var(SECONDS).map_or(0, |seconds| seconds.parse().expect("a number of seconds"));
    let (seeds, started) = (seeds(), Instant::now());
    let (mut numbers, mut whole, mut round) = (Numbers(7), 0, 0);
    while round < ROUNDS || started.elapsed().as_secs() < seconds {
        let mut bytes = seeds[round % seeds.len()].1.clone();
        for _ in 0..1 + numbers.below(4) {
            bytes = mutated(bytes, &mut numbers);
        }
        let begun = Instant::now();
        whole += usize::from(entry::mcp(&bytes).1);
        assert!(begun.elapsed() < HANG, "round {round}: {}", String::from_utf8_lossy(&bytes));
        round += 1;
    }
    let told = format!("{round} mutations, {whole} accepted, in {} ms", started.elapsed().as_millis());
    let _ = writeln!(std::io::stdout(), "{told}");
    assert!(whole > 0 && whole < round, "some mutations break something: {whole}");
}
