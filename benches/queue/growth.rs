//! Growth of the cost of a turn with the number of jobs and of clients, as exponents of a power law.

use crate::contenders::{Ours, sample};
use crate::table::{Row, median};
use crate::workload::{Draws, Size};

const TURNS: u32 = 10_000;
const SAMPLES: usize = 31;

const JOBS: [u64; 3] = [10_000, 100_000, 1_000_000];
const CLIENTS: [u64; 4] = [100, 1_000, 10_000, 100_000];

pub(crate) fn rows() -> Vec<Row> {
    let by_jobs: Vec<Size> = JOBS.iter().map(|&jobs| Size { jobs, clients: 1_000 }).collect();
    let by_clients: Vec<Size> = CLIENTS.iter().map(|&clients| Size { jobs: 1_000_000, clients }).collect();
    vec![
        row("growth exponent in n, k=1k, n=10k to 1M", 0.20, &by_jobs, |size| size.jobs),
        row("growth exponent in k, n=1M, k=100 to 100k", 0.30, &by_clients, |size| size.clients),
    ]
}

/// Measures all sizes alternately.
fn row(figure: &str, must: f64, sizes: &[Size], grown: fn(&Size) -> u64) -> Row {
    let mut queues: Vec<(Ours, Draws)> =
        sizes.iter().map(|&size| (Ours::new(size), Draws::new(size))).collect();
    let mut slopes = Vec::new();
    let mut times = vec![Vec::new(); sizes.len()];
    for round in 0..=SAMPLES {
        let points: Vec<(f64, f64)> = queues
            .iter_mut()
            .zip(sizes)
            .map(|((queue, draws), size)| {
                // Warms the caches, which the other sizes have filled.
                sample(queue, draws, TURNS);
                (grown(size) as f64, sample(queue, draws, TURNS))
            })
            .collect();
        if round > 0 {
            slopes.push(slope(&points));
            times.iter_mut().zip(&points).for_each(|(times, point)| times.push(point.1));
        }
    }
    let times: Vec<String> = times.into_iter().map(|times| format!("{:.0}", median(times))).collect();
    Row::ratio(figure, must, median(slopes)).note(format!("{} ns", times.join(", ")))
}

/// Exponent of the least-squares fit through the logarithms.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = (
        logs.iter().map(|point| point.0).sum::<f64>() / count,
        logs.iter().map(|point| point.1).sum::<f64>() / count,
    );
    logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>()
        / logs.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}
