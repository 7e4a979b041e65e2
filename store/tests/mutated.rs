//! Opening and reading mutated segments, with a fixed seed.
#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use common::{batch, numbered, on, opened, result, small, stream, wait};
use entry::{Came, journal};
use ostler_kernel::port::Journal;
use ostler_store::disk::{Disk, FaultyDisk};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[path = "../../fuzz/entry/journal.rs"]
mod entry;

const SEED: u64 = 7;

const ROUNDS: usize = 1_500;

/// A segment with records of two streams, one compressed, and the number of records.
fn segment() -> (Vec<u8>, usize) {
    let disk = FaultyDisk::new();
    let open = on(&disk);
    let mut records = 0;
    for at in 0..12 {
        let first = if at == 0 { opened(1) } else { numbered(at) };
        let other = if at == 0 { opened(2) } else { result(if at == 6 { 6_000 } else { 40 }) };
        let batches = vec![batch(stream(1), at, vec![first]), batch(stream(2), at, vec![other])];
        wait(&open, open.append(batches).unwrap()).unwrap();
        records += 2;
    }
    drop(open);
    let mut bytes = vec![0; small().segment_bytes as usize];
    let read = disk.open("0000000001.seg", false).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes.truncate(read);
    (bytes, records)
}

fn mutated(mut bytes: Vec<u8>, used: usize, random: &mut StdRng) -> Vec<u8> {
    let at = random.random_range(0..used);
    let end = (at + random.random_range(1..80)).min(used);
    match random.random_range(0..6) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at..end].fill(if random.random() { 0 } else { 0xff }),
        2 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.random()),
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        _ => {
            let piece = bytes[at..end].to_vec();
            let to = random.random_range(0..used - piece.len());
            bytes[to..to + piece.len()].copy_from_slice(&piece);
        }
    }
    bytes
}

#[test]
fn each_record_of_a_changed_segment_is_read_or_refused_with_its_place() {
    let (whole, records) = segment();
    let streams = [stream(1), stream(2)];
    assert_eq!(journal(&whole, small(), &streams), Came::Read(records));
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        match journal(&mutated(whole.clone(), used, &mut random), small(), &streams) {
            Came::Read(_) => read += 1,
            Came::Refused => refused += 1,
        }
    }
    assert!(read > 0 && refused > ROUNDS / 2, "{read} read, {refused} refused");
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
        journal(&bytes, small(), &streams);
    }
}
