//! Latency percentiles of single turns. Reported without a limit: the tail depends on the machine.

use std::time::Instant;

use crate::contenders::{Contender, Ours, Tree};
use crate::table::Row;
use crate::workload::{Draws, Size};

const SIZE: Size = Size { jobs: 1_000_000, clients: 1_000 };
const TURNS: usize = 1_000_000;

pub(crate) fn rows() -> Vec<Row> {
    let (ours, tree) = (percentiles(&mut Ours::new(SIZE)), percentiles(&mut Tree::new(SIZE)));
    ["p50", "p99", "p99.9"]
        .iter()
        .zip(ours.into_iter().zip(tree))
        .map(|(name, (ours, tree))| {
            Row::ratio(format!("{SIZE}: {name} of one turn"), None, ours)
                .unit("ns")
                .note(format!("a BTreeMap: {tree:.0} ns"))
        })
        .collect()
}

fn percentiles(contender: &mut dyn Contender) -> [f64; 3] {
    let mut draws = Draws::new(SIZE);
    let mut times: Vec<u64> = (0..TURNS)
        .map(|_| {
            let draw = draws.draw();
            let start = Instant::now();
            contender.turn(draw);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    [0.5, 0.99, 0.999].map(|share| times[(share * TURNS as f64) as usize] as f64)
}
