//! Frames of a server with mutations from a fixed seed.

#[path = "../../../fuzz/entry/mcp.rs"]
mod entry;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Mutations tried.
const ROUNDS: u64 = 400;

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

fn frames() -> Vec<u8> {
    let answers = [
        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}),
        json!({"tools": [{"name": "say", "description": "Says it", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}, "outputSchema": {"type": "object"}}]}),
        json!({"content": [{"type": "text", "text": "hello"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
            "structuredContent": {"n": 1}}),
    ];
    let frame =
        |(id, result): (usize, &Value)| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let frames: Vec<String> = answers.iter().enumerate().map(frame).collect();
    frames.join("\n").into_bytes()
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
    assert_eq!(entry::mcp(&frames()), (1, true));
}

#[test]
fn no_mutation_of_the_frames_of_a_server_panics_or_hangs() {
    let (mut numbers, mut whole) = (Numbers(7), 0);
    for round in 0..ROUNDS {
        let mut bytes = frames();
        for _ in 0..1 + numbers.below(4) {
            bytes = mutated(bytes, &mut numbers);
        }
        let begun = Instant::now();
        whole += u64::from(entry::mcp(&bytes).1);
        assert!(begun.elapsed() < HANG, "round {round}: {}", String::from_utf8_lossy(&bytes));
    }
    assert!(whole > 0 && whole < ROUNDS, "some mutations break something: {whole}");
}
