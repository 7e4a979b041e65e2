//! Enqueue, dispatch and settle, relative to insert and remove of bare structures with as many jobs.

use crate::contenders::{Contender, Heap, Locked, Ours, Paper, Tree, sample};
use crate::table::{Row, ratios};
use crate::workload::{Draws, Size};

/// Turns per sample, and samples per side.
const TURNS: u32 = 20_000;
const SAMPLES: usize = 31;

/// Jobs, clients, and the limits of the ratio to a `BTreeMap` and to a `BinaryHeap`.
const SIZES: [(u64, u64, f64, Option<f64>); 5] = [
    (1_000, 10, 1.6, None),
    (100_000, 1_000, 2.0, None),
    (1_000_000, 1_000, 1.0, Some(0.6)),
    (10_000_000, 1_000, 0.8, None),
    (1_000_000, 100_000, 2.2, None),
];

pub(crate) fn rows() -> Vec<Row> {
    let plain = SIZES
        .iter()
        .flat_map(|&(jobs, clients, must, must_heap)| of_size(Size { jobs, clients }, must, must_heap));
    plain.chain(SIZES.iter().map(|&(jobs, clients, ..)| of_ranked(Size { jobs, clients }))).collect()
}

/// Jobs with deadlines and ranks, relative to a `BTreeMap` with keys without either.
fn of_ranked(size: Size) -> Row {
    let (mut ours, mut other, mut draws) = (Ours::ranked(size), Tree::new(size), Draws::new(size));
    let pairs: Vec<(f64, f64)> =
        (0..SAMPLES).map(|_| (warm(&mut ours, &mut draws), warm(&mut other, &mut draws))).collect();
    let [ratio, of_ours, of_other] = ratios(&pairs);
    Row::ratio(format!("{size}, jobs with deadlines and ranks: three operations ÷ a BTreeMap"), None, ratio)
        .note(format!("{of_ours:.0} ns ÷ {of_other:.0} ns"))
}

/// Name and constructor of a compared structure.
type Other = (&'static str, fn(Size) -> Box<dyn Contender>);

const OTHERS: [Other; 4] = [
    ("a BTreeMap", |size| Box::new(Tree::new(size))),
    ("a BinaryHeap", |size| Box::new(Heap::new(size))),
    ("the paper's algorithm", |size| Box::new(Paper::new(size))),
    ("a BTreeMap in a Mutex", |size| Box::new(Locked::new(size))),
];

/// Compares with one structure at a time, so both sides share the caches equally.
fn of_size(size: Size, must: f64, must_heap: Option<f64>) -> Vec<Row> {
    let mut ours = Ours::new(size);
    let mut draws = Draws::new(size);
    let musts = [Some(must), must_heap, None, None];
    OTHERS
        .iter()
        .zip(musts)
        .map(|((name, filled), must)| {
            let mut other = filled(size);
            let pairs: Vec<(f64, f64)> =
                (0..SAMPLES).map(|_| (warm(&mut ours, &mut draws), warm(&mut *other, &mut draws))).collect();
            let [ratio, of_ours, of_other] = ratios(&pairs);
            Row::ratio(format!("{size}: three operations ÷ {name}"), must, ratio)
                .note(format!("{of_ours:.0} ns ÷ {of_other:.0} ns"))
        })
        .collect()
}

/// A sample after an untimed one, which refills the caches.
fn warm(contender: &mut dyn Contender, draws: &mut Draws) -> f64 {
    sample(contender, draws, TURNS);
    sample(contender, draws, TURNS)
}
