//! Durable steps on disk, alternating with the fsync probe.

use crate::bare_log::BareLog;
use crate::probe::{self, Probe};
use crate::steps::{self, Kind};
use crate::table::{Must, Row, median, range};

/// Samples per figure.
const ROUNDS: usize = 25;

/// Syncs per sample of the probe.
const SYNCS: u32 = 40;

/// Concurrent workflows, and repetitions per sample.
const AT_ONCE: [(usize, usize); 3] = [(1, 3), (16, 4), (256, 4)];

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let folder = steps::folder();
        let os = steps::start(folder.path()).await;
        let mut probe = Probe::new(folder.path());
        let log = BareLog::open(folder.path());
        let plans = [Kind::Effectful, Kind::Pure].map(|kind| steps::plan(&os, kind));
        // By kind and concurrency, per round: steps per second, and the probe's syncs per second around them.
        let mut measured: [[Vec<(f64, f64)>; 3]; 2] = Default::default();
        let mut handed_over = Vec::new();
        for round in 0..=ROUNDS {
            probe::settle();
            let syncs = probe.syncs_per_s(SYNCS);
            let records = log.records_per_s(1, SYNCS as usize).await;
            if round > 0 {
                handed_over.push((records, syncs));
            }
            for (kind, plan) in plans.iter().enumerate() {
                for (at, (at_once, times)) in AT_ONCE.into_iter().enumerate() {
                    // Writes left over from one sample must not slow the next.
                    probe::settle();
                    let before = probe.syncs_per_s(SYNCS);
                    let steps = steps::steps_per_s(&os, plan, at_once, times).await;
                    probe::settle();
                    let after = probe.syncs_per_s(SYNCS);
                    if round > 0 {
                        measured[kind][at].push((steps, (before + after) / 2.0));
                    }
                }
            }
        }
        log.close();
        os.shutdown().await;
        let over_syncs = median(handed_over.iter().map(|(records, syncs)| records / syncs));
        let records = median(handed_over.iter().map(|(records, _)| *records));
        let mut rows = told(&measured);
        let figure = "a bare log on this disk, one task: records/s ÷ fdatasync/s";
        rows.insert(
            1,
            Row::new(figure, Must::Nothing, None, over_syncs).note(format!("{records:.0} records/s")),
        );
        rows
    })
}

fn told(measured: &[[Vec<(f64, f64)>; 3]; 2]) -> Vec<Row> {
    let steps = |sample: &[(f64, f64)]| median(sample.iter().map(|(steps, _)| *steps));
    let over_syncs = |sample: &[(f64, f64)]| median(sample.iter().map(|(steps, syncs)| steps / syncs));
    let over = |ours: &[(f64, f64)], alone: &[(f64, f64)]| {
        median(ours.iter().zip(alone).map(|((ours, _), (alone, _))| ours / alone))
    };
    let syncs = || measured.iter().flatten().flatten().map(|(_, syncs)| *syncs);
    let (low, high) = range(syncs());
    let mut rows = vec![
        Row::new("fdatasync of 300 bytes, one at a time", Must::Nothing, None, median(syncs()))
            .unit("/s")
            .note(format!("{low:.0} to {high:.0}")),
    ];
    let alone = [("effectful", 0.45, 0.5), ("pure", 0.8, 0.95)];
    for ((kind, must, aim), sample) in alone.into_iter().zip(measured) {
        let figure = format!("ten {kind} steps, 1 at a time: steps/s ÷ fdatasync/s");
        rows.push(
            Row::new(figure, Must::Least(must), aim, over_syncs(&sample[0]))
                .note(format!("{:.0} steps/s", steps(&sample[0]))),
        );
    }
    for ((kind, ..), sample) in alone.into_iter().zip(measured) {
        for (at, at_once, must, aim) in [(1, 16, 6.0, 8.0), (2, 256, 60.0, 100.0)] {
            let figure = format!("{kind}, {at_once} at a time ÷ 1 at a time");
            let note =
                format!("{:.0} steps/s, {:.1} × fdatasync/s", steps(&sample[at]), over_syncs(&sample[at]));
            rows.push(Row::new(figure, Must::Least(must), aim, over(&sample[at], &sample[0])).note(note));
        }
    }
    rows
}
