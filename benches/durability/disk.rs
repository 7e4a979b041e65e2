//! Durable steps on this disk, in turns with the probe.

use crate::probe::Probe;
use crate::steps::{self, Kind};
use crate::table::{Must, Row, median, range};

/// Samples of each.
const ROUNDS: usize = 25;

/// Syncs of a sample of the probe.
const SYNCS: u32 = 40;

/// Workflows at once, and how often in a sample.
const AT_ONCE: [(usize, usize); 3] = [(1, 3), (16, 2), (256, 1)];

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let folder = steps::folder();
        let os = steps::start(folder.path()).await;
        let mut probe = Probe::new(folder.path());
        let plans = [Kind::Effectful, Kind::Pure].map(|kind| steps::plan(&os, kind));
        let mut syncs = Vec::new();
        // Per kind and concurrency: steps per second, of each round.
        let mut measured: [[Vec<f64>; 3]; 2] = Default::default();
        for round in 0..=ROUNDS {
            let mut of_round = Vec::new();
            for (kind, plan) in plans.iter().enumerate() {
                for (at, (at_once, times)) in AT_ONCE.into_iter().enumerate() {
                    of_round.push(probe.syncs_per_s(SYNCS));
                    let steps = steps::steps_per_s(&os, plan, at_once, times).await;
                    if round > 0 {
                        measured[kind][at].push(steps);
                    }
                }
            }
            if round > 0 {
                syncs.push(median(of_round));
            }
        }
        os.shutdown().await;
        told(&measured, &syncs)
    })
}

fn told(measured: &[[Vec<f64>; 3]; 2], syncs: &[f64]) -> Vec<Row> {
    let over = |ours: &[f64], theirs: &[f64]| median(ours.iter().zip(theirs).map(|(one, other)| one / other));
    let middle = |numbers: &[f64]| median(numbers.iter().copied());
    let (low, high) = range(syncs.iter().copied());
    let mut rows = vec![
        Row::new("fdatasync of 300 bytes, one at a time", Must::Nothing, None, middle(syncs))
            .unit("/s")
            .note(format!("{low:.0} to {high:.0}")),
    ];
    let alone = [("effectful", 0.45, 0.5), ("pure", 0.8, 0.95)];
    for ((kind, must, aim), steps) in alone.into_iter().zip(measured) {
        rows.push(
            Row::new(
                format!("ten {kind} steps, 1 at a time: steps/s ÷ fdatasync/s"),
                Must::Least(must),
                aim,
                over(&steps[0], syncs),
            )
            .note(format!("{:.0} steps/s", middle(&steps[0]))),
        );
    }
    for ((kind, ..), steps) in alone.into_iter().zip(measured) {
        for (at, at_once, must, aim) in [(1, 16, 6.0, 8.0), (2, 256, 60.0, 100.0)] {
            rows.push(
                Row::new(
                    format!("{kind}, {at_once} at a time ÷ 1 at a time"),
                    Must::Least(must),
                    aim,
                    over(&steps[at], &steps[0]),
                )
                .note(format!(
                    "{:.0} steps/s, {:.2} × fdatasync/s",
                    middle(&steps[at]),
                    over(&steps[at], syncs)
                )),
            );
        }
    }
    rows
}
